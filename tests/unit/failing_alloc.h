/*
 * failing_alloc.h -- allocators that fail when told to, and that count what is out: for sources that a test includes
 * behind this header, which from here on allocate with them. Include everything else first; the test itself goes on
 * with the real ones behind failing_alloc_end.h.
 */
#ifndef RLOCKD_TESTS_FAILING_ALLOC_H
#define RLOCKD_TESTS_FAILING_ALLOC_H

#include <stdbool.h>
#include <stdlib.h>

static long alive;        /* allocations that were not freed */
static long failing = -1; /* so many more succeed; -1 = all */

static bool
may_allocate(void)
{
    if (failing == 0) {
        return false;
    }
    failing -= failing > 0;
    return true;
}

static inline void *
test_calloc(size_t n, size_t size)
{
    void *p = may_allocate() ? calloc(n, size) : NULL;

    alive += p != NULL;
    return p;
}

static inline void *
test_malloc(size_t n)
{
    return test_calloc(1, n);
}

static inline void *
test_realloc(void *old, size_t n)
{
    void *p = may_allocate() ? realloc(old, n) : NULL;

    alive += p != NULL && old == NULL;
    return p;
}

static inline void
test_free(void *p)
{
    alive -= p != NULL;
    free(p);
}

#define malloc test_malloc
#define calloc test_calloc
#define realloc test_realloc
#define free test_free

#endif
