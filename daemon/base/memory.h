/*
 * memory.h -- memory that is there, or the process ends: no caller looks for NULL.
 *
 * Where the kernel gives none, one line goes to stderr (`error memory exhausted bytes=N`) and the process ends with
 * MEMORY_STATUS, as if it were killed: systemd starts it anew, and the state file brings back what was held. Limits
 * bound what clients can make it use; a size that somebody outside names is compared with one before it comes here.
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
void *mem_array(void *old, size_t n, size_t item);     /* the same, n items of so many bytes */
char *mem_text(struct slice s);                        /* a copy with a NUL behind it */

/* Ends the process, for want of so many bytes. For libraries that say so themselves. */
_Noreturn void mem_exhausted(size_t bytes);

#endif
