/*
 * log.c -- one event, one line, one write(2).
 *
 * A line is built in a fixed buffer, so logging allocates nothing. A text value is cut at VALUE_BYTES_MAX; a pair that
 * does not fit is left out as a whole, and the line ends in "...". A text that is not plain is in quotes, with \xHH
 * escapes, so that no byte of a client can end the value, the pair or the line. Clients can provoke lines at any rate:
 * lines of a sort beyond its limit are counted instead of written, and the count is reported.
 */
#include "daemon/base/log.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LINE_BYTES_MAX 2048
#define VALUE_BYTES_MAX 256
#define CUT_MARK "..."
#define LINE_US INT64_C(1000000) /* added to log_sort.used_until_us for a line */

static const struct {
    const char *name;
    char priority; /* of syslog */
} levels[LOG_LEVELS] = {
    [LOG_ERROR] = {"error", '3'},
    [LOG_WARN] = {"warn", '4'},
    [LOG_INFO] = {"info", '6'},
    [LOG_DEBUG] = {"debug", '7'},
};

/* A line. LINE_ROOM leaves room for " ...\n", so that every line can be ended. */
struct line {
    char p[LINE_BYTES_MAX];
    size_t n;
    bool full; /* sticky: something was left out */
};

#define LINE_ROOM (LINE_BYTES_MAX - sizeof(" " CUT_MARK "\n"))

static void
line_add(struct line *l, const char *p, size_t n)
{
    if (l->full || n > LINE_ROOM - l->n) {
        l->full = true;
        return;
    }
    memcpy(l->p + l->n, p, n);
    l->n += n;
}

static void
line_adds(struct line *l, const char *text)
{
    line_add(l, text, strlen(text));
}

static bool
is_plain(unsigned char c)
{
    return c > 0x20 && c < 0x7f && c != '=' && c != '"' && c != '\\';
}

static void
line_add_escaped(struct line *l, struct slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (is_plain(c) || c == ' ' || c == '=') {
            line_add(l, &s.p[i], 1);
        } else {
            char hex[5];

            snprintf(hex, sizeof(hex), "\\x%02x", c);
            line_add(l, hex, 4);
        }
    }
}

static void
line_add_text(struct line *l, struct slice s)
{
    bool quoted = s.n == 0, cut = s.n > VALUE_BYTES_MAX;

    if (cut) {
        s.n = VALUE_BYTES_MAX;
    }
    for (size_t i = 0; i < s.n && !quoted; i++) {
        quoted = !is_plain((unsigned char)s.p[i]);
    }
    line_adds(l, quoted ? "\"" : "");
    line_add_escaped(l, s);
    line_adds(l, cut ? CUT_MARK : "");
    line_adds(l, quoted ? "\"" : "");
}

static void
line_add_pair(struct line *l, const char *key, struct log_value v)
{
    size_t before = l->n;

    line_adds(l, " ");
    line_adds(l, key);
    line_adds(l, "=");
    if (v.type == LOG_VALUE_NUMBER) {
        char digits[24];

        snprintf(digits, sizeof(digits), "%" PRId64, v.number);
        line_adds(l, digits);
    } else {
        line_add_text(l, v.text);
    }
    if (l->full) {
        l->n = before;
    }
}

/* Ends and writes the line. Ignores errors: a log that cannot be written is no reason to stop. */
static void
line_write(struct line *l, int fd)
{
    const char *end = l->full ? " " CUT_MARK "\n" : "\n";
    ssize_t rc;

    memcpy(l->p + l->n, end, strlen(end));
    l->n += strlen(end);
    do {
        rc = write(fd, l->p, l->n);
    } while (rc < 0 && errno == EINTR);
}

void
log_init(struct log *lg)
{
    lg->level = LOG_INFO;
    lg->priorities = getenv("JOURNAL_STREAM") != NULL;
    lg->fd = STDERR_FILENO;
    lg->cap = NULL;
}

const char *
log_level_name(enum log_level level)
{
    assert((unsigned)level < LOG_LEVELS);
    return levels[level].name;
}

/* ---- limits ---- */

static struct log_sort *
sort_of(struct log_cap *cap, enum log_level level, const char *room, const char *event)
{
    unsigned i;

    for (i = 0; i < cap->sorts_n; i++) {
        struct log_sort *sort = &cap->sort[i];

        if (sort->level == level && strcmp(sort->event, event) == 0 && strcmp(sort->room, room) == 0) {
            return sort;
        }
    }
    if (i == LOG_SORTS_MAX) {
        return &cap->sort[LOG_SORTS_MAX - 1];
    }
    cap->sorts_n++;
    cap->sort[i] = (struct log_sort){.level = level, .room = room, .event = event};
    return &cap->sort[i];
}

/* True: a line of this sort may be written now, and is counted. */
static bool
line_allowed(struct log_sort *sort, int64_t now_us)
{
    int64_t used_until_us = sort->used_until_us > now_us ? sort->used_until_us : now_us;

    if (used_until_us - now_us > (LOG_BURST - 1) * LINE_US) {
        return false;
    }
    sort->used_until_us = used_until_us + LINE_US;
    return true;
}

/* Begins a line, with the number of lines of this sort that were left out before it. sort NULL: no limits. */
static void
line_begin(struct line *l, const struct log *lg, enum log_level level, const char *room, const char *event,
           struct log_sort *sort)
{
    *l = (struct line){.n = 0, .full = false};
    if (lg->priorities) {
        const char start[3] = {'<', levels[level].priority, '>'};

        line_add(l, start, sizeof(start));
    }
    line_adds(l, levels[level].name);
    line_adds(l, " ");
    line_adds(l, room);
    line_adds(l, " ");
    line_adds(l, event);
    if (sort != NULL && sort->left_out > 0) {
        line_add_pair(l, "left_out", LOG_N(sort->left_out));
        lg->cap->left_out -= sort->left_out;
        sort->left_out = 0;
    }
}

void
log_report_left_out(const struct log *lg, bool all)
{
    struct line l;
    int64_t now_us;

    if (lg->cap == NULL || lg->cap->left_out == 0) {
        return;
    }
    now_us = lg->cap->now_us();
    for (unsigned i = 0; i < lg->cap->sorts_n; i++) {
        struct log_sort *sort = &lg->cap->sort[i];

        if (sort->left_out > 0 && (line_allowed(sort, now_us) || all)) {
            line_begin(&l, lg, sort->level, sort->room, sort->event, sort);
            line_write(&l, lg->fd);
        }
    }
}

/* ---- lines ---- */

void
log_event(const struct log *lg, enum log_level level, const char *room, const char *event, ...)
{
    struct log_sort *sort = NULL;
    struct line l;
    const char *key;
    va_list args;
    int saved_errno = errno;

    assert((unsigned)level < LOG_LEVELS);
    if (level > lg->level) {
        return;
    }
    if (lg->cap != NULL && level != LOG_DEBUG) {
        sort = sort_of(lg->cap, level, room, event);
        if (!line_allowed(sort, lg->cap->now_us())) {
            sort->left_out++;
            lg->cap->left_out++;
            return;
        }
    }
    line_begin(&l, lg, level, room, event, sort);
    va_start(args, event);
    while ((key = va_arg(args, const char *)) != NULL) {
        line_add_pair(&l, key, va_arg(args, struct log_value));
    }
    va_end(args);
    line_write(&l, lg->fd);
    errno = saved_errno;
}
