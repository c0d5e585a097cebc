/*
 * table.h -- slots of one size in a mapped file, found by their id.
 *
 * The first word of a slot is its id; 0 = free. It is written last when a slot is filled and first when it is cleared,
 * so a slot that counts is whole however the process ends. Before the slots stands a page for the owner of the table.
 *
 * Stores reach the kernel's pages in the order of the program, whatever becomes of the process: only the compiler must
 * be kept from changing it (table_in_order). After a loss of power any of them may be missing.
 */
#ifndef RLOCKD_SERVE_TABLE_H
#define RLOCKD_SERVE_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TABLE_HEAD = 4096 };

struct table {
    int fd;
    unsigned char *map;
    size_t slot_bytes, mapped;
    uint32_t slots_n, first_n, used_n;
    uint32_t buckets_n, mask;
    uint32_t *bucket, *next; /* by id; next also of the free ones */
    uint32_t *prev;          /* of the free ones */
    uint32_t free, high;     /* see T1 */
    uint32_t target, low;    /* it shrinks to so many slots, those before `low` are used; 0 = it does not */
};

/* Opens or makes the file, with room for `first_n` slots at least. table_index() comes next. False: errno says why. */
bool table_open(struct table *t, int dir, const char *file, size_t slot_bytes, uint32_t first_n);
void table_close(struct table *t);

/* Reads anew which slots are used. False: out of memory, nothing has changed. */
bool table_index(struct table *t);

void *table_head(const struct table *t);
void *table_slot(const struct table *t, uint32_t i); /* 0 .. slots_n - 1; a slot moves when the table grows */
uint64_t table_id(const void *slot);

void *table_find(const struct table *t, uint64_t id); /* NULL: there is none */

/* A slot to be filled behind its id; NULL: no room, no memory. table_commit() makes it count. */
void *table_free_slot(struct table *t);
void table_commit(struct table *t, uint64_t id);

/* Goes on with making the file smaller, if few of its slots are used. True: there is more to be done, soon. */
bool table_tidy(struct table *t);

bool table_remove(struct table *t, uint64_t id); /* false: there is none */
void table_clear(void *slot);                    /* before table_index() */

static inline void
table_in_order(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

#endif
