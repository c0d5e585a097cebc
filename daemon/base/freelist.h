/*
 * freelist.h -- free lists: keep freed records for later ones of their size, so that the records of a request do not
 * cost a call of the allocator.
 *
 * Sizes are rounded as by malloc, so a record takes no more memory than malloc's. Each of the 65 size classes keeps 128
 * records, and all classes together 4 MiB more: 8.2 MiB at most, until freelist_clear(). Records above 1,032 bytes are
 * not kept. Under AddressSanitizer no record is kept, so that uses after free are found, and the size that is given
 * back is checked. valgrind finds neither.
 */
#ifndef RLOCKD_BASE_FREELIST_H
#define RLOCKD_BASE_FREELIST_H

#include <stddef.h>
#include <stdint.h>

enum {
    FREELIST_STEP = 16,             /* bytes from one class to the next */
    FREELIST_RECORD_MAX = 1024 + 8, /* larger ones are not kept */
    FREELIST_CLASSES = FREELIST_RECORD_MAX / FREELIST_STEP + 1,
    FREELIST_CLASS_MAX = 128,       /* records that each class keeps */
    FREELIST_SHARED_BYTES = 4 * 1024 * 1024, /* bytes of further records, of all classes together */
};

/* Embedded in the owner of the records; all zero: empty. */
struct freelist {
    struct free_record *first[FREELIST_CLASSES]; /* owned */
    uint32_t n[FREELIST_CLASSES];
    size_t shared; /* bytes of records beyond FREELIST_CLASS_MAX of their class */
};

/*
 * n uninitialized bytes, aligned as by malloc, to be given back by freelist_give(). With s NULL both functions are
 * malloc() and free().
 */
void *freelist_take(struct freelist *s, size_t n);

/* n zeroed bytes. */
void *freelist_take_zeroed(struct freelist *s, size_t n);

/* Gives back p, which was taken with the same n. NULL is fine. */
void freelist_give(struct freelist *s, void *p, size_t n);

/* Frees the kept records; records in use may still be given back, and are kept then. */
void freelist_clear(struct freelist *s);

#endif
