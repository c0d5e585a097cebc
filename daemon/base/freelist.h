/*
 * freelist.h -- free lists: used records, kept for the next ones of their size, so that records of a request cost the
 * allocator nothing.
 *
 * Sizes are rounded as by malloc, so a record takes no more than there. Each of the 65 classes of sizes keeps 128
 * records, and all together 4 MiB more, first come, first served: 8.2 MiB at most, until freelist_clear(). Records
 * above 1 KiB are not kept. Under AddressSanitizer nothing is kept, so that it sees uses after the end, and the size
 * that is given back is checked. valgrind sees neither.
 */
#ifndef RLOCKD_BASE_FREELIST_H
#define RLOCKD_BASE_FREELIST_H

#include <stddef.h>
#include <stdint.h>

enum {
    FREELIST_STEP = 16,             /* bytes from one class to the next */
    FREELIST_RECORD_MAX = 1024 + 8, /* larger ones are not kept */
    FREELIST_CLASSES = FREELIST_RECORD_MAX / FREELIST_STEP + 1,
    FREELIST_KEPT = 128, /* records of each class; and above that, of all together: */
    FREELIST_SHARED_BYTES = 4 * 1024 * 1024,
};

/* Embedded in the owner of the records; all zero: empty. */
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

/* Gives back memory that was taken with this n. NULL is fine. */
void freelist_give(struct freelist *s, void *p, size_t n);

/* Frees the kept records; records in use may still be given back, and are kept then. */
void freelist_clear(struct freelist *s);

#endif
