/*
 * spares.c -- one list of records for each size, the one that was given last in front: it is in the cache.
 *
 * A size is 16 n + 8 bytes: what malloc makes of it has no room left over.
 */
#include "daemon/base/spares.h"

#include <stdlib.h>
#include <string.h>

#ifdef __has_feature
#define SPARES_ASAN __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define SPARES_ASAN 1
#else
#define SPARES_ASAN 0
#endif
#ifndef SPARES_NONE /* a test that counts allocations says so, too */
#define SPARES_NONE SPARES_ASAN
#endif

struct spare {
    struct spare *next;
};

static size_t
size_of(size_t n)
{
    return n <= 8 ? 0 : (n - 8 + SPARES_STEP - 1) / SPARES_STEP;
}

static size_t
bytes_of(size_t size)
{
    return size * SPARES_STEP + 8;
}

void *
spares_take(struct spares *s, size_t n)
{
    size_t size = size_of(n);
    struct spare *p;

    if (s == NULL || size >= SPARES_SIZES) {
        return malloc(n);
    }
    p = s->first[size];
    if (p == NULL) {
        return malloc(SPARES_NONE ? n : bytes_of(size));
    }
    s->first[size] = p->next;
    s->n[size]--;
    return p;
}

void *
spares_take_zeroed(struct spares *s, size_t n)
{
    void *p = spares_take(s, n);

    return p != NULL ? memset(p, 0, n) : NULL;
}

void
spares_give(struct spares *s, void *p, size_t n)
{
    size_t size = size_of(n);
    struct spare *spare = p;

    if (p == NULL) {
        return;
    }
    if (s == NULL || SPARES_NONE || size >= SPARES_SIZES || (s->n[size] + 1) * bytes_of(size) > SPARES_KEPT_BYTES) {
        free(p);
        return;
    }
    spare->next = s->first[size];
    s->first[size] = spare;
    s->n[size]++;
}

void
spares_clear(struct spares *s)
{
    for (size_t size = 0; size < SPARES_SIZES; size++) {
        while (s->first[size] != NULL) {
            struct spare *p = s->first[size];

            s->first[size] = p->next;
            free(p);
        }
        s->n[size] = 0;
    }
}
