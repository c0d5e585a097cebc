/*
 * fuzz_options.c -- the words of a request into a request to the core: LOCK and its like, and the commands of lock
 * libraries (SET, EVAL, EVALSHA). Accepted requests keep the bounds that the core relies on; a refusal gives the reason
 * in a text that ends.
 *
 * Input: the command, the longest name, the words as a text line.
 */
#include "daemon/base/units.h"
#include "daemon/serve/front.h"
#include "proto/options.h"
#include "tests/fuzz/fuzz.h"

#define YEAR_US (INT64_C(365) * 24 * 3600 * 1000 * 1000)

static void
check_names(const struct slice *name, unsigned n, size_t bytes_max, const struct words *w)
{
    CHECK(n >= 1 && n <= CORE_MULTILOCK_MAX);
    CHECK(name >= w->word && name + n <= w->word + w->n);
    for (unsigned i = 0; i < n; i++) {
        CHECK(name[i].n >= 1 && name[i].n <= bytes_max);
        for (unsigned j = 0; j < i; j++) {
            CHECK(!slice_eq(name[i], name[j]), "a name twice");
        }
    }
}

static void
check_error(const char *error, size_t room)
{
    CHECK(memchr(error, '\0', room) != NULL && error[0] != '\0');
}

static void
check_options(enum command_id cmd, const struct words *w, size_t bytes_max)
{
    char error[OPTIONS_ERROR_BYTES];
    struct lock_options o;

    memset(error, '#', sizeof(error));
    if (!options_parse(cmd, w, bytes_max, &o, error)) {
        check_error(error, sizeof(error));
        return;
    }
    check_names(o.name, o.names, bytes_max, w);
    CHECK(o.owner.n <= OPTIONS_OWNER_BYTES_MAX);
    CHECK(!o.has_wait || (o.wait_us >= 0 && (o.wait_us <= YEAR_US || o.wait_us == DURATION_FOREVER)));
    CHECK(o.lease_us >= 0 && o.lease_us <= YEAR_US && (!o.has_lease || o.lease_us > 0));
    CHECK(!o.has_kind || (unsigned)o.kind < KINDS);
    CHECK(o.limit <= OPTIONS_LIMIT_MAX);
}

static void
check_call(bool ok, const struct front_call *f, const struct words *w, size_t bytes_max, const char *error)
{
    if (!ok) {
        check_error(error, FRONT_ERROR_BYTES);
        return;
    }
    check_names(f->name, f->names, bytes_max, w);
    CHECK(f->event == CORE_LOCK || f->event == CORE_UNLOCK || f->event == CORE_RENEW);
    CHECK((unsigned)f->form < REPLY_FORMS);
    CHECK(f->owner.n >= 1 && f->owner.n <= OPTIONS_OWNER_BYTES_MAX);
    CHECK(f->lease_us >= 0 && f->lease_us <= YEAR_US);
}

static void
check_front(enum command_id cmd, const struct words *w, size_t bytes_max)
{
    char error[FRONT_ERROR_BYTES];
    const struct front_script *sc;
    struct front_call f = {0};

    memset(error, '#', sizeof(error));
    if (cmd == CMD_SET) {
        check_call(front_read_set(w, bytes_max, &f, error), &f, w, bytes_max, error);
        return;
    }
    sc = cmd == CMD_EVAL ? front_by_text(w->word[1]) : front_by_sha(w->word[1]);
    if (sc != NULL) {
        check_call(front_read_script(sc, w, bytes_max, &f, error), &f, w, bytes_max, error);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct reader_limits limits = {16384, 16384, READER_WORDS_MAX};
    static const enum command_id of[] = {CMD_LOCK, CMD_UNLOCK, CMD_RENEW, CMD_MLOCK, CMD_MUNLOCK,
                                         CMD_SET,  CMD_EVAL,   CMD_EVALSHA};
    struct choices c = {data, size};
    enum command_id cmd = of[take_below(&c, sizeof(of) / sizeof(of[0]))];
    const struct command_row *row = &command_rows[cmd];
    size_t bytes_max = 1 + take_byte(&c);
    struct slice rest = take_rest(&c);
    struct reader r;
    struct words w;

    reader_init(&r, &limits);
    reader_feed(&r, rest.p, rest.n);
    reader_feed(&r, "\n", 1);
    /* The bounds that commands.c has checked before. */
    if (reader_next(&r, &w) == READER_READY && w.n >= row->words_min &&
        (row->words_max == 0 || w.n <= row->words_max)) {
        (void)front_in_turn(cmd, &w);
        if (cmd <= CMD_MUNLOCK) {
            check_options(cmd, &w, bytes_max);
        } else {
            check_front(cmd, &w, bytes_max);
        }
    }
    reader_fini(&r);
    return 0;
}
