/*
 * freelist.h -- free lists: records that are done with, kept for the next ones of their size, so that what comes and
 * goes with each request costs the allocator nothing.
 *
 * Sizes are rounded as malloc rounds them, so a record takes no more than it would there. Of each of the 65 classes of
 * sizes 128 records are kept, and of all of them together 4 MiB more, for who comes first; so 8.2 MiB at most, until
 * freelist_clear(). Of records above 1 KiB none is kept.
 *
 * Under AddressSanitizer nothing is kept, so that it sees who uses what he gave away, and that what is given is of the
 * size that was taken is checked. valgrind sees neither.
 */
#ifndef RLOCKD_BASE_FREELIST_H
#define RLOCKD_BASE_FREELIST_H

#include <stddef.h>
#include <stdint.h>

enum {
    FREELIST_STEP = 16,             /* bytes from one class to the next */
    FREELIST_RECORD_MAX = 1024 + 8, /* larger ones are not kept */
    FREELIST_CLASSES = FREELIST_RECORD_MAX / FREELIST_STEP + 1,
    FREELIST_KEPT = 128, /* records of each class; and what is above that, of all together: */
    FREELIST_SHARED_BYTES = 4 * 1024 * 1024,
};

/* Embedded in who owns the records; all zero: there are none. */
struct freelist {
    struct spare *first[FREELIST_CLASSES]; /* owned */
    uint32_t n[FREELIST_CLASSES];
    size_t shared; /* bytes of records above the share of their class */
};

/*
 * n bytes with anything in them, aligned as by malloc, to be given back. Without spares (s NULL) they are malloc's, and
 * free's.
 */
void *freelist_take(struct freelist *s, size_t n);

/* ... zeroed. */
void *freelist_take_zeroed(struct freelist *s, size_t n);

/* What was taken from these spares with this n. NULL is fine. */
void freelist_give(struct freelist *s, void *p, size_t n);

/* Frees what is kept; records that are out may still be given back, and are kept then. */
void freelist_clear(struct freelist *s);

#endif
