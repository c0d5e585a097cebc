/*
 * options.c -- the words of LOCK, UNLOCK, RENEW, CANCEL, MLOCK and MUNLOCK as a struct.
 *
 * Owns the table of options: which commands take a word, whether a value follows, and what it means. Refuses words that
 * are not in the table, and an option that is given twice; ignores none. The struct is whole only when options_parse
 * returns true.
 *
 * The first words of a command are positional: the name, then (RENEW) a duration; those of an M command are a count and
 * that many names.
 */
#include "proto/options.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/units.h"

#define LEASE_LEAST_US (10 * 1000) /* a shorter lease may be over when it is granted */
#define GRACE_MOST_US (3600 * INT64_C(1000000)) /* as of locks.owner_grace */
#define SHOWN_BYTES 32 /* of a wrong word */

#define FOR(cmd) (1u << CMD_##cmd)
#define LOCKING (FOR(LOCK) | FOR(MLOCK))
#define UNLOCKING (FOR(UNLOCK) | FOR(MUNLOCK))
#define MULTILOCK (FOR(MLOCK) | FOR(MUNLOCK)) /* several names */

_Static_assert(CMD_LOCK < 32 && CMD_UNLOCK < 32 && CMD_RENEW < 32 && CMD_CANCEL < 32 && CMD_MLOCK < 32 &&
                   CMD_MUNLOCK < 32,
               "commands about locks are bits of an unsigned");

/* Reads a value into the struct; false when it does not make sense. */
typedef bool take_fn(struct lock_options *o, struct slice value);

struct option_row {
    const char *word;
    unsigned commands; /* FOR bits */
    unsigned group;    /* at most one option of a group may be given */
    take_fn *take;
    const char *takes; /* what the value is, for errors; NULL = no value follows */
};

static bool
take_wait(struct lock_options *o, struct slice value)
{
    o->has_wait = true;
    if (slice_is(value, "forever")) {
        o->wait_us = DURATION_FOREVER;
        return true;
    }
    return duration_parse(value, &o->wait_us);
}

static bool
take_nowait(struct lock_options *o, struct slice value)
{
    (void)value;
    o->has_wait = true;
    o->wait_us = 0;
    return true;
}

static bool
take_lease(struct lock_options *o, struct slice value)
{
    o->has_lease = true;
    return duration_parse(value, &o->lease_us) && o->lease_us >= LEASE_LEAST_US && o->lease_us < DURATION_FOREVER;
}

static bool
take_kind(struct lock_options *o, struct slice value)
{
    o->has_kind = true;
    return kind_parse(value, &o->kind);
}

static bool
take_shared(struct lock_options *o, struct slice value)
{
    (void)value;
    o->shared = true;
    return true;
}

static bool
take_limit(struct lock_options *o, struct slice value)
{
    int64_t n = 0;

    if (!number_parse(value, &n) || n < 1 || n > OPTIONS_LIMIT_MAX) {
        return false;
    }
    o->limit = (uint32_t)n;
    return true;
}

static bool
take_owner(struct lock_options *o, struct slice value)
{
    o->owner = value;
    return value.n >= 1 && value.n <= OPTIONS_OWNER_BYTES_MAX;
}

static bool
take_grace(struct lock_options *o, struct slice value)
{
    return duration_parse(value, &o->grace_us) && o->grace_us <= GRACE_MOST_US;
}

static bool
take_token(struct lock_options *o, struct slice value)
{
    int64_t n = 0;

    if (!number_parse(value, &n) || n <= 0) {
        return false;
    }
    o->token = (uint64_t)n;
    return true;
}

static bool
take_once(struct lock_options *o, struct slice value)
{
    (void)value;
    o->once = true;
    return true;
}

static bool
take_full(struct lock_options *o, struct slice value)
{
    (void)value;
    o->full = true;
    return true;
}

static const char takes_kind[] = "one of:"
#define KIND(id, name, flags, help) " " name
#include "daemon/base/kinds.def"
#undef KIND
    ;

#define TAKES_LEASE "a duration of 10ms to 8760h such as 1500 (ms), 250ms, 5s, 2m or 1h"

enum {
    GROUP_WAIT,
    GROUP_LEASE,
    GROUP_KIND,
    GROUP_SHARED,
    GROUP_LIMIT,
    GROUP_OWNER,
    GROUP_GRACE,
    GROUP_TOKEN,
    GROUP_ONCE,
    GROUP_FULL,
    GROUPS
};

static const struct option_row option_rows[] = {
    {"WAIT", LOCKING, GROUP_WAIT, take_wait,
     "a duration of up to 8760h such as 1500 (ms), 250ms, 5s, 2m or 1h, or forever"},
    {"NOWAIT", LOCKING, GROUP_WAIT, take_nowait, NULL},
    {"LEASE", LOCKING, GROUP_LEASE, take_lease, TAKES_LEASE},
    {"KIND", LOCKING, GROUP_KIND, take_kind, takes_kind},
    {"SHARED", LOCKING | FOR(UNLOCK), GROUP_SHARED, take_shared, NULL},
    {"LIMIT", LOCKING, GROUP_LIMIT, take_limit, "a whole number from 1 to 1000000"},
    {"OWNER", LOCKING | UNLOCKING | FOR(RENEW) | FOR(CANCEL), GROUP_OWNER, take_owner, "1 to 128 bytes"},
    {"GRACE", LOCKING, GROUP_GRACE, take_grace, "a duration of up to 1h such as 1500 (ms), 250ms, 5s or 2m"},
    {"TOKEN", FOR(UNLOCK) | FOR(RENEW), GROUP_TOKEN, take_token, "a whole number above 0"},
    {"ONCE", LOCKING, GROUP_ONCE, take_once, NULL},
    {"FULL", LOCKING, GROUP_FULL, take_full, NULL},
};

#define OPTION_ROWS (sizeof(option_rows) / sizeof(option_rows[0]))

static const struct option_row renew_duration = {"the new lease", FOR(RENEW), 0, take_lease, TAKES_LEASE};

/* A word of the client as an error may show it: escaped, and cut when it is long. */
struct shown {
    char text[SHOWN_BYTES + 8];
};

static struct shown
show(struct slice word)
{
    struct shown s = {""};
    size_t i, n = 0;

    for (i = 0; i < word.n && n < SHOWN_BYTES; i++) {
        unsigned char c = (unsigned char)word.p[i];

        n += (size_t)snprintf(s.text + n, sizeof(s.text) - n, c >= 0x20 && c <= 0x7e ? "%c" : "\\x%02x", c);
    }
    if (i < word.n) {
        snprintf(s.text + n, sizeof(s.text) - n, "...");
    }
    return s;
}

/* Writes the sentence and the usage line, and cuts the sentence when both do not fit. */
static bool __attribute__((format(printf, 3, 4)))
fail(char error[OPTIONS_ERROR_BYTES], enum command_id cmd, const char *fmt, ...)
{
    char usage[OPTIONS_ERROR_BYTES];
    va_list args;
    int n = snprintf(usage, sizeof(usage), "; usage: %s %s", command_rows[cmd].name, command_rows[cmd].usage);

    assert(n > 0 && n < OPTIONS_ERROR_BYTES - 32);
    va_start(args, fmt);
    vsnprintf(error, (size_t)(OPTIONS_ERROR_BYTES - n), fmt, args);
    va_end(args);
    strcat(error, usage);
    return false;
}

/* One value that has to be there. */
static bool
take_value(enum command_id cmd, const struct option_row *row, struct slice value, struct lock_options *out,
           char error[OPTIONS_ERROR_BYTES])
{
    return row->take(out, value) ||
           fail(error, cmd, "%s must be %s, not '%s'", row->word, row->takes, show(value).text);
}

static bool
check_name(enum command_id cmd, struct slice name, size_t name_bytes_max, char error[OPTIONS_ERROR_BYTES])
{
    if (name.n == 0) {
        return fail(error, cmd, "the name is empty");
    }
    if (name.n > name_bytes_max) {
        return fail(error, cmd, "the name '%s' has %zu bytes, at most %zu are allowed", show(name).text, name.n,
                    name_bytes_max);
    }
    return true;
}

/* Each is a name, and no name comes twice: there are few, so each is compared with those before it. */
static bool
check_names(enum command_id cmd, const struct lock_options *o, size_t name_bytes_max, char error[OPTIONS_ERROR_BYTES])
{
    for (unsigned i = 0; i < o->names; i++) {
        if (!check_name(cmd, o->name[i], name_bytes_max, error)) {
            return false;
        }
        for (unsigned k = 0; k < i; k++) {
            if (slice_eq(o->name[k], o->name[i])) {
                return fail(error, cmd, "the name '%s' is given twice", show(o->name[i]).text);
            }
        }
    }
    return true;
}

/* The words up to the options; *at is behind them. */
static bool
take_names(enum command_id cmd, const struct words *w, size_t name_bytes_max, struct lock_options *out, unsigned *at,
           char error[OPTIONS_ERROR_BYTES])
{
    bool many = (MULTILOCK & 1u << cmd) != 0;
    unsigned from = many ? 2 : 1;
    int64_t n = 1;

    if (w->n < 2) {
        return fail(error, cmd, "%s lacks its name%s", command_rows[cmd].name, many ? "s" : "");
    }
    if (many && (!number_parse(w->word[1], &n) || n < 1)) {
        return fail(error, cmd, "the number of names must be a whole number above 0, not '%s'", show(w->word[1]).text);
    }
    if (n > (int64_t)w->n - from) {
        return fail(error, cmd, "%" PRId64 " names are announced, %u are given", n, w->n - from);
    }
    out->name = &w->word[from];
    out->names = (unsigned)n;
    *at = from + out->names;
    return check_names(cmd, out, name_bytes_max, error);
}

static const struct option_row *
find_option(enum command_id cmd, struct slice word)
{
    size_t i;

    for (i = 0; i < OPTION_ROWS; i++) {
        if ((option_rows[i].commands & 1u << cmd) != 0 && slice_is(word, option_rows[i].word)) {
            return &option_rows[i];
        }
    }
    return NULL;
}

/* Words that clients may take for options of ours, from Redis and its lock libraries: the error names the right one. */
static const struct {
    const char *word, *ours;
} elsewhere[] = {
    {"TTL", "LEASE"}, {"EX", "LEASE"},  {"PX", "LEASE"},      {"EXPIRE", "LEASE"}, {"TIMEOUT", "WAIT"},
    {"BLOCK", "WAIT"}, {"NX", "NOWAIT"}, {"NONBLOCK", "NOWAIT"}, {"ID", "OWNER"},   {"TYPE", "KIND"},
};

/* A duration with a blank in it: "5 s". */
static bool
is_parted(struct slice number, struct slice unit)
{
    static const char *const units[] = {"us", "ms", "s", "m", "h"};
    int64_t n;

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (slice_is(unit, units[i])) {
            return number_parse(number, &n);
        }
    }
    return false;
}

/* The word at `at` is no option; options begin at `first`. */
static bool
refuse_word(enum command_id cmd, const struct words *w, unsigned first, unsigned at, char error[OPTIONS_ERROR_BYTES])
{
    const char *name = command_rows[cmd].name;
    struct slice word = w->word[at];

    if ((at > first || cmd == CMD_RENEW) && is_parted(w->word[at - 1], word)) {
        return fail(error, cmd, "%s has no option '%s': write %s%s without a blank", name, show(word).text,
                    show(w->word[at - 1]).text, show(word).text);
    }
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
        if (slice_is(word, elsewhere[i].word) && find_option(cmd, slice_of(elsewhere[i].ours)) != NULL) {
            return fail(error, cmd, "%s has no option '%s': write %s", name, show(word).text, elsewhere[i].ours);
        }
    }
    return fail(error, cmd, "%s has no option '%s'", name, show(word).text);
}

/* The words from the first option on. */
static bool
take_options(enum command_id cmd, const struct words *w, unsigned at, struct lock_options *out,
             char error[OPTIONS_ERROR_BYTES])
{
    const struct option_row *seen[GROUPS] = {NULL};
    unsigned first = at;

    while (at < w->n) {
        const struct option_row *row = find_option(cmd, w->word[at]);
        struct slice value = {NULL, 0};

        if (row == NULL) {
            return refuse_word(cmd, w, first, at, error);
        }
        if (seen[row->group] == row) {
            return fail(error, cmd, "%s is given twice", row->word);
        }
        if (seen[row->group] != NULL) {
            return fail(error, cmd, "%s cannot be given with %s", row->word, seen[row->group]->word);
        }
        seen[row->group] = row;
        at++;
        if (row->takes != NULL && at == w->n) {
            return fail(error, cmd, "%s lacks its value, %s", row->word, row->takes);
        }
        if (row->takes != NULL) {
            value = w->word[at++];
        }
        if (!take_value(cmd, row, value, out, error)) {
            return false;
        }
    }
    if (seen[GROUP_GRACE] != NULL && out->owner.n == 0) {
        return fail(error, cmd, "GRACE is for an OWNER: what a session holds is freed when the session ends");
    }
    return true;
}

bool
options_parse(enum command_id cmd, const struct words *w, size_t name_bytes_max, struct lock_options *out,
              char error[OPTIONS_ERROR_BYTES])
{
    unsigned at = 0;

    assert(cmd == CMD_LOCK || cmd == CMD_UNLOCK || cmd == CMD_RENEW || cmd == CMD_CANCEL || cmd == CMD_MLOCK ||
           cmd == CMD_MUNLOCK);
    *out = (struct lock_options){.kind = KIND_REENTRANT};
    if (!take_names(cmd, w, name_bytes_max, out, &at, error)) {
        return false;
    }
    if (cmd == CMD_RENEW && at == w->n) {
        return fail(error, cmd, "RENEW lacks %s", renew_duration.word);
    }
    if (cmd == CMD_RENEW && !take_value(cmd, &renew_duration, w->word[at++], out, error)) {
        return false;
    }
    return take_options(cmd, w, at, out, error);
}
