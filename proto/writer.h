/*
 * writer.h -- values out: RESP2, or RESP3 after HELLO 3; and requests.
 *
 * A writer is a view: it appends to a buf that its caller owns. By hand, because hiredis encodes commands alone, and
 * into memory of its own.
 */
#ifndef RLOCKD_PROTO_WRITER_H
#define RLOCKD_PROTO_WRITER_H

#include <stdint.h>

#include "daemon/base/buf.h"
#include "proto/errors.h"

struct writer {
    struct buf *out; /* borrowed */
    int proto;       /* 2 or 3 */
};

void writer_simple(struct writer *w, const char *text);      /* +OK; text has no CR LF */
void writer_int(struct writer *w, int64_t n);                /* :n */
void writer_bulk(struct writer *w, struct slice s);          /* $n */
void writer_text(struct writer *w, const char *text);        /* $n of a C string */
void writer_null(struct writer *w);                          /* $-1, or _ */
void writer_array(struct writer *w, size_t n);               /* *n, n values follow */
void writer_map(struct writer *w, size_t pairs);             /* *2n, or %n; 2n values follow */
void writer_set(struct writer *w, size_t n);                 /* *n, or ~n */
void writer_push(struct writer *w, size_t n);                /* *n, or >n */
void writer_verbatim(struct writer *w, struct slice s);      /* $n, or =n txt: */

/* A request, whole; false: out->failed, and nothing was appended. */
bool writer_request(struct buf *out, size_t words, const struct slice *word);

/* -PREFIX text; any CR, LF or byte outside 0x20..0x7e in what was formatted is escaped. */
void writer_error(struct writer *w, enum error_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The row's own text. */
void writer_error_plain(struct writer *w, enum error_code code);

#endif
