/*
 * core_each.h -- all locks, waiters or holders of a core in one call: for tests, which need no slices.
 */
#ifndef RLOCKD_TESTS_UNIT_CORE_EACH_H
#define RLOCKD_TESTS_UNIT_CORE_EACH_H

#include <limits.h>

#include "daemon/core/view.h"

/* An empty glob: all. */
static inline void
core_each_lock(struct core *c, int64_t now_us, struct slice glob, core_lock_fn *fn, void *ctx)
{
    struct core_cursor cursor;

    core_cursor_begin(c, &cursor);
    (void)core_cursor_locks(c, &cursor, now_us, glob, UINT_MAX, fn, ctx);
    core_cursor_end(c, &cursor);
}

static inline void
core_each_waiter(struct core *c, int64_t now_us, struct slice glob, core_waiter_fn *fn, void *ctx)
{
    struct core_cursor cursor;

    core_cursor_begin(c, &cursor);
    (void)core_cursor_waiters(c, &cursor, now_us, glob, UINT_MAX, fn, ctx);
    core_cursor_end(c, &cursor);
}

static inline void
core_each_holder(const struct core *c, int64_t now_us, struct slice name, core_holder_fn *fn, void *ctx)
{
    core_holders_of(c, now_us, name, SIZE_MAX, fn, ctx);
}

#endif
