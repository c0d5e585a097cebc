/*
 * kinds.h -- kinds of lock and shapes of their values, as tables (kinds.def, values.def).
 */
#ifndef RLOCKD_BASE_KINDS_H
#define RLOCKD_BASE_KINDS_H

#include <stdbool.h>

#include "daemon/base/slice.h"

/* What Redis, clients and tests see of a kind; what the core makes of it is its row in core/kind_policy.c. */
enum {
    KIND_F_REENTRANT = 1 << 0, /* the same owner may lock again; holds are counted */
    KIND_F_STAMPED = 1 << 1,   /* only its expiry proves whose it is: one operation at a time, see core_op.stamp */
    KIND_F_TICKETS = 1 << 2,    /* waiters have a ticket in Redis, renewed and released like a lock */
    KIND_F_SHARED = 1 << 3,    /* may be locked SHARED: many of these at a time, but none beside an exclusive one */
    KIND_F_PERMITS = 1 << 4,   /* up to a limit of holders; every LOCK takes another permit, also of the same owner */
    KIND_F_STRING = 1 << 6,    /* its key in Redis is a string; else a hash */
    KIND_F_HANDED = 1 << 5,    /* a hold may pass to a local waiter while Redis has it, see core/handoff.c */
};

enum kind {
#define KIND(id, name, flags, help) KIND_##id,
#include "daemon/base/kinds.def"
#undef KIND
    KINDS
};

enum value_format {
#define VALUE(id, name, shape, help) VALUE_##id,
#include "daemon/base/values.def"
#undef VALUE
    VALUES
};

/* Waiters of other libraries that an UNLOCK of a `simple` lock wakes; see scripts/simple.lua. */
enum wakes {
    WAKES_NONE,
    WAKES_SPRING, /* Spring Integration's RedisLockRegistry, PUB_SUB_LOCK */
    WAKES_PYTHON, /* python-redis-lock */
    WAKES
};

struct kind_row {
    const char *name;
    unsigned flags;
    const char *help;
};

extern const struct kind_row kind_rows[KINDS];

/* Names are compared without regard to case; false when there is no such kind. */
bool kind_parse(struct slice word, enum kind *out);

/* What every value of that format looks like, as a pattern of Lua. */
const char *value_format_shape(enum value_format f);

const char *value_format_name(enum value_format f);

#endif
