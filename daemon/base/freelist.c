/*
 * freelist.c -- a stack of records for each size class: the latest one is likely in the processor's cache.
 *
 * Class c has records of 16 c + 8 bytes, which fill malloc's blocks, except for the smallest ones. The shared part is
 * for bursts: malloc would split the freed blocks of a burst for smaller records that stay, and the remains would be
 * lost: 13 bytes for each of a million locks that were taken in one go.
 * F1  freelist.shared is the sum of what the classes keep above FREELIST_CLASS_MAX records each.
 */
#include "daemon/base/freelist.h"

#include <assert.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/memory.h"

#ifdef __has_feature
#define FREELIST_ASAN __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define FREELIST_ASAN 1
#else
#define FREELIST_ASAN 0
#endif
#ifndef FREELIST_NONE /* a test that counts allocations defines it */
#define FREELIST_NONE FREELIST_ASAN
#endif

struct free_record {
    struct free_record *next;
};

static size_t
class_of(size_t n)
{
    return n <= 8 ? 0 : (n - 8 + FREELIST_STEP - 1) / FREELIST_STEP;
}

static size_t
bytes_of(size_t class)
{
    return class * FREELIST_STEP + 8;
}

static bool
is_kept(const struct freelist *s, size_t class)
{
    return s != NULL && !FREELIST_NONE && class < FREELIST_CLASSES;
}

void *
freelist_take(struct freelist *s, size_t n)
{
    size_t class = class_of(n);
    struct free_record *p;

    if (!is_kept(s, class)) {
        return mem_alloc(n);
    }
    p = s->first[class];
    if (p == NULL) {
        return mem_alloc(bytes_of(class));
    }
    s->first[class] = p->next;
    if (s->n[class]-- > FREELIST_CLASS_MAX) {
        s->shared -= bytes_of(class);
    }
    return p;
}

void *
freelist_take_zeroed(struct freelist *s, size_t n)
{
    void *p = freelist_take(s, n);

    return memset(p, 0, n);
}

void
freelist_give(struct freelist *s, void *p, size_t n)
{
    size_t class = class_of(n);
    struct free_record *record = p;

    if (p == NULL) {
        return;
    }
    assert(!FREELIST_ASAN || !FREELIST_NONE || malloc_usable_size(p) == n); /* under ASan the requested size */
    if (!is_kept(s, class)) {
        free(p);
        return;
    }
    if (s->n[class] >= FREELIST_CLASS_MAX) {
        if (s->shared + bytes_of(class) > FREELIST_SHARED_BYTES) {
            free(p);
            return;
        }
        s->shared += bytes_of(class);
    }
    record->next = s->first[class];
    s->first[class] = record;
    s->n[class]++;
}

void
freelist_clear(struct freelist *s)
{
    for (size_t class = 0; class < FREELIST_CLASSES; class++) {
        while (s->first[class] != NULL) {
            struct free_record *p = s->first[class];

            s->first[class] = p->next;
            free(p);
        }
        s->n[class] = 0;
    }
    s->shared = 0;
}
