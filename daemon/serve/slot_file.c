/*
 * slot_file.c -- the mapped file, how it grows and shrinks, and the index over it.
 *
 * T1  Slots from `high` on are free and on no list: those of a file that has just grown, and those that a shrinking
 *     file is about to lose. All other free slots are on the list `free`.
 * T2  A checkpoint that moves is in its new slot before it leaves the old one: a process that is killed between leaves
 *     two slots with one id, of which slot_file_index() clears one.
 * T3  Nothing here looks at all slots at once, except slot_file_index(), at the start: the index grows and
 *     shrinks by a bucket at a time (linear hashing), the file grows by at most GROW_BYTES at a time, and
 *     slot_file_tidy() looks at TIDY slots.
 */
#include "daemon/serve/slot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/hash.h"
#include "daemon/base/memory.h"

enum {
    NONE = UINT32_MAX,
    SLOTS_MAX = 1 << 24,
    BUCKETS_MIN = 64,
    GROW_BYTES = 16 << 20,
    SPARSE = 8, /* a file shrinks when fewer than one slot in so many is used ... */
    ROOMY = 4,  /* ... to this many slots for each used one, at least */
    TIDY = 1024,
};

static size_t
bytes_of(const struct slot_file *t, uint32_t slots_n)
{
    return SLOT_FILE_HEAD + slots_n * t->slot_bytes;
}

void *
slot_file_head(const struct slot_file *t)
{
    return t->map;
}

void *
slot_file_slot(const struct slot_file *t, uint32_t i)
{
    return t->map + SLOT_FILE_HEAD + i * t->slot_bytes;
}

uint64_t
slot_file_id(const void *slot)
{
    return atomic_load_explicit((const _Atomic uint64_t *)slot, memory_order_relaxed);
}

static void
set_id(void *slot, uint64_t id)
{
    slot_file_in_order();
    atomic_store_explicit((_Atomic uint64_t *)slot, id, memory_order_relaxed);
    slot_file_in_order();
}

void
slot_file_clear(void *slot)
{
    set_id(slot, 0);
}

/* ---- the index ---- */

/* By linear hashing: ids of a bucket that does not exist yet are in the bucket from which it will split. */
static uint32_t *
bucket_of(const struct slot_file *t, uint64_t id)
{
    uint32_t b = (uint32_t)hash_id(id) & t->mask;

    return &t->bucket[b < t->buckets_n ? b : b & t->mask >> 1];
}

static void
chain(struct slot_file *t, uint32_t i)
{
    uint32_t *b = bucket_of(t, slot_file_id(slot_file_slot(t, i)));

    t->next[i] = *b;
    *b = i;
}

/* Splits one bucket. */
static void
add_bucket(struct slot_file *t)
{
    uint32_t old, i;

    if (t->buckets_n > t->mask) {
        t->bucket = mem_array(t->bucket, t->buckets_n, 2 * sizeof(*t->bucket));
        t->mask = 2 * t->mask + 1;
    }
    old = t->buckets_n & t->mask >> 1;
    t->bucket[t->buckets_n++] = NONE;
    i = t->bucket[old];
    t->bucket[old] = NONE;
    while (i != NONE) {
        uint32_t next = t->next[i];

        chain(t, i);
        i = next;
    }
}

/* Merges two buckets. */
static void
remove_bucket(struct slot_file *t)
{
    uint32_t last = --t->buckets_n, *at = &t->bucket[last & t->mask >> 1];

    while (*at != NONE) {
        at = &t->next[*at];
    }
    *at = t->bucket[last];
    t->mask = t->buckets_n == (t->mask + 1) / 2 ? t->mask >> 1 : t->mask;
}

static void
add(struct slot_file *t, uint32_t i)
{
    chain(t, i);
    t->used_n++;
    if (t->used_n > t->buckets_n) {
        add_bucket(t);
    }
}

/* ---- free slots ---- */

static void
free_push(struct slot_file *t, uint32_t i)
{
    if (t->free != NONE) {
        t->prev[t->free] = i;
    }
    t->next[i] = t->free;
    t->prev[i] = NONE;
    t->free = i;
}

static void
free_take(struct slot_file *t, uint32_t i)
{
    if (t->prev[i] == NONE) {
        t->free = t->next[i];
    } else {
        t->next[t->prev[i]] = t->next[i];
    }
    if (t->next[i] != NONE) {
        t->prev[t->next[i]] = t->prev[i];
    }
}

/* Room for n slots in the arrays. */
static void
resize_arrays(struct slot_file *t, uint32_t slots_n)
{
    t->next = mem_array(t->next, slots_n, sizeof(*t->next));
    t->prev = mem_array(t->prev, slots_n, sizeof(*t->prev));
}

void
slot_file_index(struct slot_file *t)
{
    resize_arrays(t, t->slots_n);
    t->bucket = mem_array(t->bucket, BUCKETS_MIN, sizeof(*t->bucket));
    memset(t->bucket, 0xff, BUCKETS_MIN * sizeof(*t->bucket));
    t->buckets_n = BUCKETS_MIN;
    t->mask = BUCKETS_MIN - 1;
    t->used_n = t->target = 0;
    t->high = t->slots_n;
    t->free = NONE;
    for (uint32_t i = t->slots_n; i-- > 0;) {
        uint64_t id = slot_file_id(slot_file_slot(t, i));

        if (id != 0 && slot_file_find(t, id) != NULL) { /* T2 */
            slot_file_clear(slot_file_slot(t, i));
            id = 0;
        }
        if (id != 0) {
            add(t, i);
        } else {
            free_push(t, i);
        }
    }
}

void *
slot_file_find(const struct slot_file *t, uint64_t id)
{
    for (uint32_t i = *bucket_of(t, id); i != NONE; i = t->next[i]) {
        if (slot_file_id(slot_file_slot(t, i)) == id) {
            return slot_file_slot(t, i);
        }
    }
    return NULL;
}

bool
slot_file_remove(struct slot_file *t, uint64_t id)
{
    for (uint32_t *at = bucket_of(t, id); *at != NONE; at = &t->next[*at]) {
        uint32_t i = *at;

        if (slot_file_id(slot_file_slot(t, i)) == id) {
            slot_file_clear(slot_file_slot(t, i));
            *at = t->next[i];
            free_push(t, i);
            t->used_n--;
            for (int n = 0; n < ROOMY && t->buckets_n > BUCKETS_MIN && t->used_n < t->buckets_n / ROOMY; n++) {
                remove_bucket(t);
            }
            return true;
        }
    }
    return false;
}

/* ---- the file ---- */

/* Blocks, not a hole: a store into a hole that finds no room on the disk would kill the daemon (SIGBUS). */
static bool
grow(struct slot_file *t)
{
    uint32_t most = GROW_BYTES / (uint32_t)t->slot_bytes, more = t->slots_n < most ? t->slots_n : most;
    size_t bytes = bytes_of(t, t->slots_n + more);
    void *p;

    if (t->slots_n + more > SLOTS_MAX ||
        posix_fallocate(t->fd, (off_t)t->mapped, (off_t)(bytes - t->mapped)) != 0) {
        return false;
    }
    resize_arrays(t, t->slots_n + more);
    p = mremap(t->map, t->mapped, bytes, MREMAP_MAYMOVE);
    if (p == MAP_FAILED) {
        return false;
    }
    t->map = p;
    t->mapped = bytes;
    t->slots_n += more; /* from `high` on */
    return true;
}

void *
slot_file_free_slot(struct slot_file *t)
{
    if (t->free == NONE && (t->high < t->slots_n || grow(t))) {
        t->target = 0; /* the file shrinks no more: its slots are used again */
        free_push(t, t->high++);
    }
    return t->free != NONE ? slot_file_slot(t, t->free) : NULL;
}

void
slot_file_commit(struct slot_file *t, uint64_t id)
{
    uint32_t i = t->free;

    free_take(t, i);
    set_id(slot_file_slot(t, i), id);
    add(t, i);
}

/* T2: a process that is killed between leaves the old slot and the new one. */
void
slot_file_replace(struct slot_file *t, uint64_t id)
{
    uint32_t *at = bucket_of(t, id), to = t->free, i;

    while (slot_file_id(slot_file_slot(t, *at)) != id) {
        at = &t->next[*at];
    }
    i = *at;
    free_take(t, to);
    set_id(slot_file_slot(t, to), id);
    slot_file_clear(slot_file_slot(t, i));
    t->next[to] = t->next[i];
    *at = to;
    free_push(t, i);
}

/* T2. From slot i to the free slot `to`. */
static void
move(struct slot_file *t, uint32_t i, uint32_t to)
{
    uint64_t id = slot_file_id(slot_file_slot(t, i));
    unsigned char *from = slot_file_slot(t, i), *into = slot_file_slot(t, to);
    uint32_t *at = bucket_of(t, id);

    free_take(t, to);
    memcpy(into + sizeof(id), from + sizeof(id), t->slot_bytes - sizeof(id));
    set_id(into, id);
    slot_file_clear(from);
    while (*at != i) {
        at = &t->next[*at];
    }
    t->next[to] = t->next[i];
    *at = to;
}

/* Everything from `target` on is free: the file ends there. */
static void
cut(struct slot_file *t)
{
    size_t bytes = bytes_of(t, t->target);
    void *p = mremap(t->map, t->mapped, bytes, MREMAP_MAYMOVE);

    if (p != MAP_FAILED) {
        t->map = p;
        t->mapped = bytes;
        t->slots_n = t->target;
        t->high = t->high < t->target ? t->high : t->target;
        (void)!ftruncate(t->fd, (off_t)bytes); /* on failure the file only stays as large as it was */
        resize_arrays(t, t->slots_n);
        t->bucket = mem_array(t->bucket, t->mask + 1, sizeof(*t->bucket));
    }
    t->target = 0;
}

bool
slot_file_tidy(struct slot_file *t)
{
    if (t->target == 0) {
        if (t->slots_n <= t->first_n || t->used_n >= t->slots_n / SPARSE) {
            return false;
        }
        for (t->target = t->first_n; t->target < t->used_n * ROOMY;) {
            t->target *= 2;
        }
        t->low = 0;
    }
    for (int n = 0; n < TIDY; n++) {
        if (t->high <= t->target) {
            cut(t);
            return false;
        }
        if (t->low >= t->target) { /* the file shrinks no more: its slots are used again */
            t->target = 0;
            return false;
        }
        if (slot_file_id(slot_file_slot(t, t->high - 1)) == 0) {
            free_take(t, --t->high);
        } else if (slot_file_id(slot_file_slot(t, t->low)) != 0) {
            t->low++;
        } else {
            move(t, --t->high, t->low);
        }
    }
    return true;
}

bool
slot_file_open(struct slot_file *t, int dir, const char *file, size_t slot_bytes, uint32_t first_n)
{
    struct stat st;
    void *p;

    *t = (struct slot_file){.fd = -1, .slot_bytes = slot_bytes, .slots_n = first_n, .first_n = first_n};
    t->fd = openat(dir, file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (t->fd < 0 || fstat(t->fd, &st) != 0) {
        return false;
    }
    if ((size_t)st.st_size > bytes_of(t, first_n)) {
        t->slots_n = (uint32_t)(((size_t)st.st_size - SLOT_FILE_HEAD) / slot_bytes);
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
slot_file_close(struct slot_file *t)
{
    if (t->map != NULL) {
        munmap(t->map, t->mapped);
    }
    if (t->fd >= 0) {
        close(t->fd);
    }
    free(t->bucket);
    free(t->next);
    free(t->prev);
    *t = (struct slot_file){.fd = -1};
}
