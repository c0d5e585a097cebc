/*
 * reader.h -- bytes in, requests out. Fed bytes; never reads by itself.
 *
 * The first byte of a request decides its framing: `*` is a RESP array of bulk strings, anything else a text line (see
 * PROTOCOL.md). Lengths are bounded before any arithmetic. Any chunking of the same bytes gives the same requests.
 * By hand, because hiredis reads replies alone: it knows no text lines and no limits of a request.
 */
#ifndef RLOCKD_PROTO_READER_H
#define RLOCKD_PROTO_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/buf.h"
#include "daemon/base/slice.h"

#define READER_WORDS_MAX 64

struct reader_limits {
    size_t line_bytes;  /* a text line without its end; also the sum of a RESP request's words */
    size_t word_bytes;  /* one RESP bulk string */
    unsigned words;     /* at most READER_WORDS_MAX */
};

struct reader {
    struct buf in;               /* bytes that came; those before `at` are consumed */
    bool lent;                   /* ... in memory that is not ours */
    size_t at;                   /* start of the current request in `in` */
    size_t scanned;              /* looked at so far, so that 1 byte at a time stays linear */
    const struct reader_limits *limits; /* borrowed; may be exchanged between requests */
    const char *error;           /* BAD: text for `-ERR Protocol error: …`, printable; static or `got` */
    /* progress inside a RESP request, private */
    unsigned words_left; /* 0 = its header is not read yet */
    int64_t bulk_left;   /* -1 = a word's header is next */
    size_t bytes_left;   /* that its words may still take */
    char got[32];        /* an error that quotes a byte */
};

struct words {
    struct slice word[READER_WORDS_MAX]; /* into the reader's buffer */
    unsigned n;                          /* >= 1 */
    bool inline_form;                    /* came as a text line */
    size_t bytes;                        /* on the wire, framing included */
};

enum reader_result {
    READER_MORE,  /* no whole request yet */
    READER_READY, /* `words` filled; its slices live until the next reader_ call */
    READER_BAD,   /* framing is lost: error says why; the reader stays bad */
};

void reader_init(struct reader *r, const struct reader_limits *limits);
void reader_fini(struct reader *r);

/* Takes n more bytes. */
void reader_feed(struct reader *r, const void *p, size_t n);

/*
 * The same without a copy, between requests: reads in p itself, and may change its bytes. To be followed by
 * reader_keep() before p is used again: it copies the bytes that are not consumed, if any are lent.
 */
void reader_lend(struct reader *r, char *p, size_t n);
void reader_keep(struct reader *r);

/* The next whole request. Blank lines and empty arrays are skipped. */
enum reader_result reader_next(struct reader *r, struct words *out);

/* Bytes that are not consumed. 0 = between requests: then, after a MORE, no memory is held. */
size_t reader_pending(const struct reader *r);

#endif
