/*
 * slot_file.h -- slots of one size in a mapped file, found by their id.
 *
 * The first word of a slot is its id; 0 = free. It is written last when a slot is filled and first when it is cleared,
 * so a slot that counts is whole however the process ends. The first page of the file belongs to its user.
 *
 * Stores reach the kernel's pages in the order of the program, even if the process is killed: only the compiler must
 * not reorder them (slot_file_in_order). After a loss of power any of them may be missing.
 *
 * The index is not a map (map.h): slots are numbers in a file, and have no node that a map could link.
 */
#ifndef RLOCKD_SERVE_SLOT_FILE_H
#define RLOCKD_SERVE_SLOT_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SLOT_FILE_HEAD = 4096 };

struct slot_file {
    int fd;
    unsigned char *map;
    size_t slot_bytes, mapped;
    uint32_t slots_n, first_n, used_n;
    uint32_t buckets_n, mask;
    uint32_t *bucket, *next; /* by id; next also of the free ones */
    uint32_t *prev;          /* of the free ones */
    uint32_t free, high;     /* see T1 */
    uint32_t target, low;    /* slots_n after shrinking, 0 = no shrinking; the slots before `low` were used */
};

/*
 * Opens or makes the file, with room for `first_n` slots at least. slot_file_index() comes next. False: errno says why.
 */
bool slot_file_open(struct slot_file *t, int dir, const char *file, size_t slot_bytes, uint32_t first_n);
void slot_file_close(struct slot_file *t);

/* Reads anew which slots are used. */
void slot_file_index(struct slot_file *t);

void *slot_file_head(const struct slot_file *t);
void *slot_file_slot(const struct slot_file *t, uint32_t i); /* 0 .. slots_n - 1; it moves when slots_n changes */
uint64_t slot_file_id(const void *slot);

void *slot_file_find(const struct slot_file *t, uint64_t id); /* NULL: there is none */

/* A slot to be filled behind its id; NULL: no room. slot_file_commit() makes it count. */
void *slot_file_free_slot(struct slot_file *t);
void slot_file_commit(struct slot_file *t, uint64_t id);

/* The same for an id that has a slot already: that slot is free then. */
void slot_file_replace(struct slot_file *t, uint64_t id);

/* One slice of making the file smaller, if few of its slots are used. True: call again soon. */
bool slot_file_tidy(struct slot_file *t);

bool slot_file_remove(struct slot_file *t, uint64_t id); /* false: there is none */
void slot_file_clear(void *slot);                    /* before slot_file_index() */

static inline void
slot_file_in_order(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

#endif
