/*
 * log.h -- one line per event on stderr: `level room event key=value ...`.
 *
 * Under systemd (JOURNAL_STREAM set) a line starts with its `<N>` priority.
 * Foreign bytes are escaped, values are capped, so a client cannot forge a line;
 * and lines of one sort are counted, so that it cannot fill the disk with them.
 */
#ifndef RLOCKD_BASE_LOG_H
#define RLOCKD_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/slice.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_LEVELS };

/* Lines of one level, room and event: a burst, and then one in each second. Debug lines are not counted. */
enum { LOG_BURST = 200, LOG_SORTS_MAX = 64 };

struct log_sort {
    enum log_level level;
    const char *room, *event; /* literals */
    int64_t paid_us;          /* each line pays a second; it may be LOG_BURST of them ahead of the clock */
    uint64_t left_out;        /* lines that were left out, and not reported yet */
};

struct log_cap {
    int64_t (*now_us)(void);
    struct log_sort sort[LOG_SORTS_MAX]; /* the last one takes all that find no place */
    unsigned sorts_n;
    uint64_t left_out; /* sum of those of `sort` */
};

struct log {
    enum log_level level; /* lines above it are dropped */
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

/* A sort of which lines were left out says how many: left_out=N, before the other pairs. */
void log_event(const struct log *lg, enum log_level level, const char *room, const char *event, ...);

/*
 * Reports lines that were left out, and that no later line of their sort has reported: `level room event left_out=N`.
 * Once a line of the sort may be written again; `all`: at once, for the end. Cheap when there is nothing to report.
 */
void log_left_out(const struct log *lg, bool all);

#endif
