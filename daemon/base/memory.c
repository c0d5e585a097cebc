/*
 * memory.c -- malloc, and the end of the process where it fails.
 *
 * mem_exhausted() takes no memory, closes no file and calls no callback, so it leaves what a kill -9 leaves: the state
 * file's records are whole at any moment (slot_file.h), the next process replaces sockets that are left, the kernel
 * frees locks on files, and an embedded Redis ends with its parent.
 */
#include "daemon/base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"

void
mem_exhausted(size_t bytes)
{
    const struct log lg = {.priorities = getenv("JOURNAL_STREAM") != NULL, .fd = STDERR_FILENO};

    log_event(&lg, LOG_ERROR, "memory", "exhausted", "bytes", LOG_N(bytes < INT64_MAX ? bytes : INT64_MAX), NULL);
    _exit(MEMORY_STATUS);
}

static void *
or_exhausted(void *p, size_t n)
{
    if (p == NULL) {
        mem_exhausted(n);
    }
    return p;
}

void *
mem_alloc(size_t n)
{
    return or_exhausted(malloc(n > 0 ? n : 1), n);
}

void *
mem_zalloc(size_t n)
{
    return or_exhausted(calloc(1, n > 0 ? n : 1), n);
}

void *
mem_realloc(void *old, size_t n)
{
    return or_exhausted(realloc(old, n > 0 ? n : 1), n);
}

void *
mem_array(void *old, size_t n, size_t item)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, item, &bytes)) {
        mem_exhausted(SIZE_MAX);
    }
    return mem_realloc(old, bytes);
}

char *
mem_text(struct slice s)
{
    char *p = mem_alloc(s.n + 1);

    if (s.n > 0) {
        memcpy(p, s.p, s.n);
    }
    p[s.n] = '\0';
    return p;
}
