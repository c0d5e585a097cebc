/*
 * spares.c -- one list of records for each class of sizes, the one that was given last in front: it is in the cache.
 *
 * Class c has records of 16 c + 8 bytes, of which malloc has no room left over; but for the smallest ones.
 */
#include "daemon/base/spares.h"

#include <assert.h>
#include <malloc.h>
#include <stdbool.h>
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
class_of(size_t n)
{
    return n <= 8 ? 0 : (n - 8 + SPARES_STEP - 1) / SPARES_STEP;
}

static size_t
bytes_of(size_t class)
{
    return class * SPARES_STEP + 8;
}

static bool
is_kept(const struct spares *s, size_t class)
{
    return s != NULL && !SPARES_NONE && class < SPARES_CLASSES;
}

void *
spares_take(struct spares *s, size_t n)
{
    size_t class = class_of(n);
    struct spare *p;

    if (!is_kept(s, class)) {
        return malloc(n);
    }
    p = s->first[class];
    if (p == NULL) {
        return malloc(bytes_of(class));
    }
    s->first[class] = p->next;
    s->n[class]--;
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
    size_t class = class_of(n);
    struct spare *spare = p;

    if (p == NULL) {
        return;
    }
    assert(!SPARES_ASAN || !SPARES_NONE || malloc_usable_size(p) == n); /* there it is what was asked for */
    if (!is_kept(s, class) || (s->n[class] + 1) * bytes_of(class) > SPARES_KEPT_BYTES) {
        free(p);
        return;
    }
    spare->next = s->first[class];
    s->first[class] = spare;
    s->n[class]++;
}

void
spares_clear(struct spares *s)
{
    for (size_t class = 0; class < SPARES_CLASSES; class++) {
        while (s->first[class] != NULL) {
            struct spare *p = s->first[class];

            s->first[class] = p->next;
            free(p);
        }
        s->n[class] = 0;
    }
}
