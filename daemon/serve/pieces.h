/*
 * pieces.h -- the bytes of a long answer, in pieces: none but the first is copied on its way out (lists.c), and each is
 * freed when it has left.
 *
 * A piece is an outbox of about 256 KiB, the first one of 64 KiB. Where an answer is made, values are written to
 * pieces_end() one by one; the session then takes the pieces as they are, behind what it has to send.
 */
#ifndef RLOCKD_SERVE_PIECES_H
#define RLOCKD_SERVE_PIECES_H

#include "daemon/base/list.h"
#include "daemon/serve/outbox.h"

struct pieces {
    struct list list; /* of pieces, owned */
    size_t bytes;     /* in all of them but the last */
    size_t max;       /* cap in bytes; 0 = none */
    bool failed;      /* for good: the bytes have passed max */
};

void pieces_init(struct pieces *p, size_t bytes_max);
void pieces_fini(struct pieces *p);

/* The piece for the next value: one that is not full. NULL: failed. */
struct outbox *pieces_end(struct pieces *p);

/* The last one, full or not. NULL: there is none. */
struct outbox *pieces_last(const struct pieces *p);

/* The bytes in all of them. pieces_whole(): nothing is missing, not even the end of the last value. */
size_t pieces_bytes(const struct pieces *p);
bool pieces_whole(const struct pieces *p);

/* Takes the first one over. False: there is none. */
bool pieces_shift(struct pieces *p, struct outbox *out);

/* Appends all of `from`, which is empty then. No byte moves. */
void pieces_move(struct pieces *to, struct pieces *from);

#endif
