/*
 * memory.h -- an allocation succeeds, or the process ends: no caller tests for NULL.
 *
 * When the kernel gives no memory, one line goes to stderr (`error memory exhausted bytes=N`) and the process ends with
 * MEMORY_STATUS, as if it were killed: systemd starts it anew, and the state file restores what was held. Limits bound
 * what clients can make it use; a size that a client or Redis names is compared with one before it comes here.
 */
#ifndef RLOCKD_BASE_MEMORY_H
#define RLOCKD_BASE_MEMORY_H

#include <stddef.h>

#include "daemon/base/slice.h"

enum { MEMORY_STATUS = 71 }; /* EX_OSERR of sysexits.h */

/* All of them are given back to free(). None is NULL, also of 0 bytes. */
void *mem_alloc(size_t n);                             /* with anything in it */
void *mem_zalloc(size_t n);                            /* zeroed */
void *mem_realloc(void *old, size_t n);                /* old may be NULL */
void *mem_array(void *old, size_t n, size_t item);     /* the same, n items of that size */
char *mem_text(struct slice s);                        /* a copy, terminated by a NUL */

/* Ends the process because an allocation of that many bytes has failed. For libraries that report it themselves. */
_Noreturn void mem_exhausted(size_t bytes);

#endif
