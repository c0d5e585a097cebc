/*
 * fuzz_escape.c -- foreign bytes in lines for readers: each line of the log and of MONITOR stays one printable line,
 * errors too, and the words of a MONITOR line, read back, are the words of the request (except passwords).
 *
 * Input: the sort of line, then its bytes.
 */
#include <fcntl.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/serve/cmd.h"
#include "daemon/serve/commands.h"
#include "daemon/serve/session_record.h"
#include "tests/fuzz/fuzz.h"

/* Exactly one line, with its end. */
static void
check_line(const char *p, size_t n, const char *end)
{
    size_t end_n = strlen(end);

    CHECK(n > end_n && memcmp(p + n - end_n, end, end_n) == 0);
    CHECK(is_printable_line((struct slice){p, n - end_n}), "%.*s", (int)n, p);
}

/* Blanks and = only inside quotes, so that `forged=yes` of a client can never look like a pair of its own. */
static size_t
count_pairs(const char *p, size_t n)
{
    bool quoted = false;
    size_t pairs = 0;

    for (size_t i = 0; i < n; i++) {
        quoted ^= p[i] == '"';
        pairs += !quoted && p[i] == '=';
    }
    CHECK(!quoted);
    return pairs;
}

static void
log_line(struct choices *c)
{
    int ends[2];
    struct log lg;
    struct slice a = take_bytes(c, 255), b = take_bytes(c, 255), rest = take_rest(c);
    char line[4096];
    ssize_t n;

    CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    log_init(&lg);
    lg.fd = ends[1];
    log_event(&lg, LOG_WARN, "room", "event", "a", LOG_B(a), "b", LOG_B(b), "n", LOG_N(take_number(c)), "rest",
              LOG_B(rest), "again", LOG_B(rest), NULL);
    n = read(ends[0], line, sizeof(line));
    CHECK(n > 0 && n <= 2048);
    check_line(line, (size_t)n, "\n");
    CHECK(count_pairs(line, (size_t)n) <= 5);
    close(ends[0]);
    close(ends[1]);
}

/* Secret words: those of AUTH, and the two after each AUTH of a HELLO, parsed as HELLO parses them. */
static bool
is_secret(enum command_id id, const struct words *w, unsigned at)
{
    if (id == CMD_AUTH) {
        return at > 0;
    }
    for (unsigned i = 2; id == CMD_HELLO && i + 2 < w->n && i < at; i++) {
        if (slice_is(w->word[i], "AUTH")) {
            if (at <= i + 2) {
                return true;
            }
            i += 2;
        } else if (slice_is(w->word[i], "SETNAME")) {
            i++;
        }
    }
    return false;
}

/* The words after "[0 peer]", as our own reader parses them. More words may be hidden than must be. */
static void
check_monitored(const struct buf *out, const struct words *sent, enum command_id id)
{
    static const struct reader_limits wide = {1 << 20, 1 << 20, READER_WORDS_MAX};
    const char *from = memmem(out->p, out->n, "] ", 2);
    struct reader r;
    struct words w;

    check_line(out->p, out->n, "\r\n");
    CHECK(out->p[0] == '+' && from != NULL);
    reader_init(&r, &wide);
    from += 2;
    reader_feed(&r, from, (size_t)(out->p + out->n - from));
    CHECK(reader_next(&r, &w) == READER_READY && w.n == sent->n);
    for (unsigned i = 0; i < w.n; i++) {
        bool hidden = slice_eq(w.word[i], SLICE_LIT("(redacted)"));

        CHECK(hidden || !is_secret(id, sent, i), "word %u is secret", i);
        CHECK(hidden || slice_eq(w.word[i], sent->word[i]));
        CHECK(!hidden || id == CMD_AUTH || id == CMD_HELLO || slice_eq(w.word[i], sent->word[i]));
    }
    reader_fini(&r);
}

static void
monitor_line(struct choices *c)
{
    static const struct reader_limits limits = {16384, 16384, READER_WORDS_MAX};
    struct conf conf = {.limit_output_bytes = 1 << 20};
    struct engine e = {.conf = &conf};
    struct session talks = {.engine = &e, .peer = "unix:pid=1,uid=2,gid=3"}, monitor = {.engine = &e};
    struct slice in = take_rest(c);
    struct reader r;
    struct words w;

    list_init(&e.monitors);
    list_init(&e.ready);
    list_init(&e.writing_events);
    list_init(&monitor.ready_node);
    list_init(&monitor.write_node);
    chunks_init(&monitor.later, 0);
    list_push_back(&e.monitors, &monitor.monitor_node);
    outbox_init(&monitor.out);
    reader_init(&r, &limits);
    reader_feed(&r, in.p, in.n);
    reader_feed(&r, "\n", 1);
    while (reader_next(&r, &w) == READER_READY) {
        int id = command_find(w.word[0]);
        struct cmd cmd = {.session = &talks, .words = &w, .id = id < 0 ? CMD_PING : (enum command_id)id};

        buf_clear(&monitor.out.bytes, SIZE_MAX);
        monitor_feed(&cmd);
        check_monitored(&monitor.out.bytes, &w, cmd.id);
    }
    reader_fini(&r);
    outbox_fini(&monitor.out);
}

static void
error_line(struct choices *c)
{
    enum error_code code = (enum error_code)take_below(c, ERRORS);
    int proto = 2 + (int)take_below(c, 2);
    struct slice in = take_rest(c);
    struct buf out;
    struct writer w = {.out = &out, .proto = proto};

    buf_init(&out, 0);
    writer_error(&w, code, "a '%.*s' and \"%.*s\"", (int)in.n, in.p, (int)in.n / 2, in.p);
    check_line(out.p, out.n, "\r\n");
    CHECK(out.p[0] == '-' && memcmp(out.p + 1, error_rows[code].prefix, strlen(error_rows[code].prefix)) == 0);
    buf_clear(&out, 0);
    buf_add_escaped(&out, in);
    CHECK(!out.failed && is_printable_line(buf_slice(&out)) && (out.n == 0 || memchr(out.p, '"', out.n) == NULL));
    CHECK(out.n >= in.n && out.n <= 4 * in.n);
    buf_fini(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const of[])(struct choices *c) = {log_line, monitor_line, error_line};
    struct choices c = {data, size};

    if (size > 0) {
        of[take_below(&c, sizeof(of) / sizeof(of[0]))](&c);
    }
    return 0;
}
