/*
 * table.c -- the mapped file, its growth, and the index over it.
 */
#include "daemon/serve/table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/hash.h"

enum { NONE = UINT32_MAX, SLOTS_MAX = 1 << 24 };

static size_t
bytes_of(const struct table *t, uint32_t slots_n)
{
    return TABLE_HEAD + slots_n * t->slot_bytes;
}

void *
table_head(const struct table *t)
{
    return t->map;
}

void *
table_slot(const struct table *t, uint32_t i)
{
    return t->map + TABLE_HEAD + i * t->slot_bytes;
}

uint64_t
table_id(const void *slot)
{
    return atomic_load_explicit((const _Atomic uint64_t *)slot, memory_order_relaxed);
}

static void
set_id(void *slot, uint64_t id)
{
    table_in_order();
    atomic_store_explicit((_Atomic uint64_t *)slot, id, memory_order_relaxed);
    table_in_order();
}

void
table_clear(void *slot)
{
    set_id(slot, 0);
}

/* ---- the index ---- */

static uint32_t *
bucket_of(const struct table *t, uint64_t id)
{
    return &t->bucket[hash_id(id) & (t->buckets_n - 1)];
}

static void
add(struct table *t, uint32_t i)
{
    uint32_t *b = bucket_of(t, table_id(table_slot(t, i)));

    t->next[i] = *b;
    *b = i;
    t->used_n++;
}

bool
table_index(struct table *t)
{
    uint32_t buckets_n = 1, *bucket, *next;

    while (buckets_n < t->slots_n) {
        buckets_n *= 2;
    }
    bucket = malloc(buckets_n * sizeof(*bucket));
    next = malloc(t->slots_n * sizeof(*next));
    if (bucket == NULL || next == NULL) {
        free(bucket);
        free(next);
        return false;
    }
    free(t->bucket);
    free(t->next);
    memset(bucket, 0xff, buckets_n * sizeof(*bucket));
    t->bucket = bucket;
    t->next = next;
    t->buckets_n = buckets_n;
    t->used_n = 0;
    t->free = NONE;
    for (uint32_t i = t->slots_n; i-- > 0;) {
        if (table_id(table_slot(t, i)) != 0) {
            add(t, i);
        } else {
            next[i] = t->free;
            t->free = i;
        }
    }
    return true;
}

void *
table_find(const struct table *t, uint64_t id)
{
    for (uint32_t i = *bucket_of(t, id); i != NONE; i = t->next[i]) {
        if (table_id(table_slot(t, i)) == id) {
            return table_slot(t, i);
        }
    }
    return NULL;
}

bool
table_remove(struct table *t, uint64_t id)
{
    for (uint32_t *at = bucket_of(t, id); *at != NONE; at = &t->next[*at]) {
        uint32_t i = *at;

        if (table_id(table_slot(t, i)) == id) {
            table_clear(table_slot(t, i));
            *at = t->next[i];
            t->next[i] = t->free;
            t->free = i;
            t->used_n--;
            return true;
        }
    }
    return false;
}

/* ---- the file ---- */

/* Twice as large. Blocks, not a hole: a store that finds no room on the disk would kill us. */
static bool
grow(struct table *t)
{
    uint32_t was = t->slots_n;
    size_t bytes = bytes_of(t, was * 2);
    void *p;

    if (was > SLOTS_MAX / 2 || posix_fallocate(t->fd, 0, (off_t)bytes) != 0) {
        return false;
    }
    p = mremap(t->map, t->mapped, bytes, MREMAP_MAYMOVE);
    if (p == MAP_FAILED) {
        return false;
    }
    t->map = p;
    t->mapped = bytes;
    t->slots_n = was * 2;
    if (!table_index(t)) {
        t->slots_n = was; /* what is mapped beyond is used by the next attempt */
        return false;
    }
    return true;
}

void *
table_free_slot(struct table *t)
{
    return t->free != NONE || grow(t) ? table_slot(t, t->free) : NULL;
}

void
table_commit(struct table *t, uint64_t id)
{
    uint32_t i = t->free;

    t->free = t->next[i];
    set_id(table_slot(t, i), id);
    add(t, i);
}

bool
table_open(struct table *t, int dir, const char *file, size_t slot_bytes, uint32_t first_n)
{
    struct stat st;
    void *p;

    *t = (struct table){.fd = -1, .slot_bytes = slot_bytes, .slots_n = first_n};
    t->fd = openat(dir, file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (t->fd < 0 || fstat(t->fd, &st) != 0) {
        return false;
    }
    if ((size_t)st.st_size > bytes_of(t, first_n)) {
        t->slots_n = (uint32_t)(((size_t)st.st_size - TABLE_HEAD) / slot_bytes);
    }
    t->slots_n = t->slots_n > SLOTS_MAX ? SLOTS_MAX : t->slots_n;
    t->mapped = bytes_of(t, t->slots_n);
    errno = posix_fallocate(t->fd, 0, (off_t)t->mapped);
    if (errno != 0) {
        return false;
    }
    p = mmap(NULL, t->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
    t->map = p == MAP_FAILED ? NULL : p;
    return t->map != NULL;
}

void
table_close(struct table *t)
{
    if (t->map != NULL) {
        munmap(t->map, t->mapped);
    }
    if (t->fd >= 0) {
        close(t->fd);
    }
    free(t->bucket);
    free(t->next);
    *t = (struct table){.fd = -1};
}
