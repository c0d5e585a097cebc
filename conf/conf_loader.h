/*
 * conf_loader.h -- one load in progress: the conf that is being filled, and the complaints. Private to conf/.
 */
#ifndef RLOCKD_CONF_CONF_LOADER_H
#define RLOCKD_CONF_CONF_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "conf/conf.h"
#include "daemon/base/buf.h"

/* A line and column of the file, counted from 1; line 0 = none. */
struct line_col {
    size_t line, col;
};

struct complaint {
    struct line_col at;
    size_t order;        /* of arrival: ties keep it */
    size_t begin, bytes; /* in loader.texts */
};

struct loader {
    const char *path;
    mode_t file_mode;
    struct conf *cf;              /* owned until it is handed out */
    struct line_col *seen;        /* owned, by row of conf_keys: where the file sets it */
    struct complaint *complaints; /* owned */
    size_t complaints_n, complaints_room;
    struct buf texts;
};

/* Complains about the text of the file at that line and column. */
void loader_complain(struct loader *ld, struct line_col at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Complains with the text that was appended to ld->texts since `begin`. */
void loader_complain_since(struct loader *ld, struct line_col at, size_t begin);

/* Reads n bytes of YAML into ld->cf (conf_yaml.c). Whatever is wrong has become a complaint. */
void loader_read_yaml(struct loader *ld, const char *p, size_t n);

#endif
