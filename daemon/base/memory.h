/*
 * memory.h -- an allocation succeeds, or the process ends: no caller tests for NULL.
 *
 * When the kernel gives no memory, one line goes to stderr (`error memory exhausted bytes=N`) and the process ends with
 * MEMORY_STATUS, as if it were killed: systemd starts it anew, and the state file restores held locks. Limits bound the
 * memory that clients can make it use: every size from a client or Redis is compared with a limit before it is
 * allocated.
 */
#ifndef RLOCKD_BASE_MEMORY_H
#define RLOCKD_BASE_MEMORY_H

#include <stddef.h>

#include "daemon/base/slice.h"

enum { MEMORY_STATUS = 71 }; /* EX_OSERR of sysexits.h */

/* Memory for free(). Never NULL, not even for 0 bytes. */
void *mem_alloc(size_t n);                             /* uninitialized */
void *mem_zalloc(size_t n);                            /* zeroed */
void *mem_realloc(void *old, size_t n);                /* old may be NULL */
void *mem_array(void *old, size_t n, size_t item);     /* as mem_realloc(), n items of that size */
char *mem_text(struct slice s);                        /* a copy, with a NUL at the end */

/* Ends the process because an allocation of that many bytes has failed. For libraries that report it themselves. */
_Noreturn void mem_exhausted(size_t bytes);

#endif
