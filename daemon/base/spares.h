/*
 * spares.h -- free lists: records that are done with, kept for the next ones of their size, so that what comes and goes
 * with each request costs the allocator nothing.
 *
 * Sizes are put together as malloc does it, so a record takes no more than it would there. Of each such size 64 KiB are
 * kept, and none of records above 1 KiB: what a crowd has left behind goes back. Under AddressSanitizer nothing is kept,
 * so that it sees who uses what he gave away.
 */
#ifndef RLOCKD_BASE_SPARES_H
#define RLOCKD_BASE_SPARES_H

#include <stddef.h>
#include <stdint.h>

enum {
    SPARES_STEP = 16,             /* bytes from one size to the next */
    SPARES_RECORD_MAX = 1024 + 8, /* larger ones are not kept */
    SPARES_SIZES = SPARES_RECORD_MAX / SPARES_STEP + 1,
    SPARES_KEPT_BYTES = 64 * 1024, /* of each size */
};

/* Embedded in who owns the records; all zero: there are none. */
struct spares {
    struct spare *first[SPARES_SIZES]; /* owned */
    uint32_t n[SPARES_SIZES];
};

/* n bytes with anything in them, to be given back; NULL: out of memory. No spares (s NULL): malloc's and free's. */
void *spares_take(struct spares *s, size_t n);

/* ... zeroed. */
void *spares_take_zeroed(struct spares *s, size_t n);

/* What was taken from these spares with this n. NULL is fine. */
void spares_give(struct spares *s, void *p, size_t n);

/* Frees what is kept; records that are out may still be given back, and are kept then. */
void spares_clear(struct spares *s);

#endif
