/*
 * chunks.h -- the bytes of a long reply, in chunks: none but the first is copied on its way out (commands_list.c), and
 * each is freed when it has left.
 *
 * A chunk is an outbox of about 256 KiB, the first one of 64 KiB. Where a reply is made, values are written to
 * chunks_end() one by one; the session then takes the chunks as they are, behind what it has to send.
 */
#ifndef RLOCKD_SERVE_CHUNKS_H
#define RLOCKD_SERVE_CHUNKS_H

#include "daemon/base/list.h"
#include "daemon/serve/outbox.h"

struct chunks {
    struct list list; /* of chunks, owned */
    size_t bytes;     /* in all of them but the last */
    size_t max;       /* cap in bytes; 0 = none */
    bool failed;      /* for good: the bytes have passed max */
};

void chunks_init(struct chunks *p, size_t bytes_max);
void chunks_fini(struct chunks *p);

/* The chunk for the next value: one that is not full. NULL: failed. */
struct outbox *chunks_end(struct chunks *p);

/* The last one, full or not. NULL: there is none. */
struct outbox *chunks_last(const struct chunks *p);

/* The bytes in all of them. chunks_whole(): nothing is missing, not even the end of the last value. */
size_t chunks_bytes(const struct chunks *p);
bool chunks_whole(const struct chunks *p);

/* Takes the first one over. False: there is none. */
bool chunks_shift(struct chunks *p, struct outbox *out);

/* Appends all of `from`, which is empty then. No byte moves. */
void chunks_move(struct chunks *to, struct chunks *from);

#endif
