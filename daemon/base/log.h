/*
 * log.h -- one line per event on stderr: `level room event key=value ...`.
 *
 * Under systemd (JOURNAL_STREAM set) a line starts with its `<N>` priority.
 * Foreign bytes are escaped, values are capped, so a client cannot forge a line.
 */
#ifndef RLOCKD_BASE_LOG_H
#define RLOCKD_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/slice.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_LEVELS };

struct log {
    enum log_level level; /* lines above it are dropped */
    bool priorities;      /* start each line with <N> */
    int fd;               /* borrowed, usually 2 */
};

/* Level info, stderr; priorities when JOURNAL_STREAM is in the environment. */
void log_init(struct log *lg);

bool log_level_parse(struct slice word, enum log_level *out);
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

void log_event(const struct log *lg, enum log_level level, const char *room, const char *event, ...);

#endif
