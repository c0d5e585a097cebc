/*
 * counted_alloc.h -- allocators that count the blocks in use, and that can be barred: then an allocation fails the
 * test. They are for sources that a test includes behind this header. Other headers come before it; the test itself
 * uses the real allocators again behind counted_alloc_end.h.
 */
#ifndef RLOCKD_TESTS_COUNTED_ALLOC_H
#define RLOCKD_TESTS_COUNTED_ALLOC_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/base/memory.h"

static long alive;  /* blocks that were not freed */
static bool barred; /* an allocation fails the test */

static void *
counted(void *p)
{
    ck_assert_msg(!barred, "memory is taken where none is needed");
    alive++;
    return p;
}

static inline void *
counted_alloc(size_t n)
{
    return counted(mem_alloc(n));
}

static inline void *
counted_zalloc(size_t n)
{
    return counted(mem_zalloc(n));
}

static inline void *
counted_calloc(size_t n, size_t item)
{
    return counted_zalloc(n * item);
}

static inline void *
counted_array(void *old, size_t n, size_t item)
{
    alive -= old != NULL;
    return counted(mem_array(old, n, item));
}

static inline void *
counted_realloc(void *old, size_t n)
{
    return counted_array(old, n, 1);
}

static inline void
counted_free(void *p)
{
    alive -= p != NULL;
    free(p);
}

#define mem_alloc counted_alloc
#define mem_zalloc counted_zalloc
#define mem_array counted_array
#define mem_realloc counted_realloc
#define malloc counted_alloc
#define calloc counted_calloc
#define realloc counted_realloc
#define free counted_free

#endif
