/*
 * log.h -- one line per event on stderr: `level room event key=value ...`.
 *
 * Under systemd (JOURNAL_STREAM set) a line starts with its `<N>` priority. Values are cut, and bytes in them that are
 * not printable ASCII are escaped, so no client can forge a line. The rate of lines of one sort is limited, so no
 * client can fill the disk. syslog(3) does neither.
 */
#ifndef RLOCKD_BASE_LOG_H
#define RLOCKD_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/slice.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_LEVELS };

/* A sort is a level, a room and an event. It may have a burst of lines, and then one a second; debug has no limit. */
enum { LOG_BURST = 200, LOG_SORTS_MAX = 64 };

struct log_sort {
    enum log_level level;
    const char *room, *event; /* literals */
    int64_t used_until_us;    /* each line adds 1 s to it, or to now if that is later; LOG_BURST s ahead at most */
    uint64_t left_out;        /* lines that were left out and not reported yet */
};

struct log_cap {
    int64_t (*now_us)(void);
    struct log_sort sort[LOG_SORTS_MAX]; /* the last one stands for all further sorts */
    unsigned sorts_n;
    uint64_t left_out; /* the sum of `left_out` of all sorts */
};

struct log {
    enum log_level level; /* less severe lines are dropped */
    bool priorities;      /* start each line with <N> */
    int fd;               /* borrowed, usually 2 */
    struct log_cap *cap;  /* borrowed; NULL: every line is written */
};

/* Level info, stderr; priorities when JOURNAL_STREAM is in the environment. */
void log_init(struct log *lg);

const char *log_level_name(enum log_level level);

/*
 * log_event(lg, LOG_WARN, "link", "down", "redis", LOG_S("unix:/x"), "in_ms", LOG_N(250), NULL);
 * Keys and values alternate; a NULL key ends the list.
 */
struct log_value {
    enum { LOG_VALUE_NUMBER, LOG_VALUE_TEXT } type;
    int64_t number;
    struct slice text; /* borrowed for the call */
};

#define LOG_N(x) ((struct log_value){.type = LOG_VALUE_NUMBER, .number = (int64_t)(x)})
#define LOG_S(x) ((struct log_value){.type = LOG_VALUE_TEXT, .text = slice_of(x)})
#define LOG_B(s) ((struct log_value){.type = LOG_VALUE_TEXT, .text = (s)})

/* Writes a line, unless its sort has too many. If lines of the sort were left out before it, left_out=N comes first. */
void log_event(const struct log *lg, enum log_level level, const char *room, const char *event, ...);

/*
 * Writes `level room event left_out=N` for sorts with lines that were left out and not reported yet: as soon as the
 * sort may have a line again, or, with `all` (at the end of the process), at once. Cheap when there is nothing to
 * report.
 */
void log_report_left_out(const struct log *lg, bool all);

#endif
