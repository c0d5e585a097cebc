/*
 * kinds.h -- kinds of lock, formats of their values (kinds.def, values.def), and whose waiters an UNLOCK wakes.
 */
#ifndef RLOCKD_BASE_KINDS_H
#define RLOCKD_BASE_KINDS_H

#include <stdbool.h>

#include "daemon/base/slice.h"

/* Properties of a kind for Redis, clients and tests. Those for the core are in core/kind_policy.c. */
enum {
    KIND_F_REENTRANT = 1 << 0, /* the same owner may lock again; holds are counted */
    KIND_F_BY_EXPIRY = 1 << 1, /* only the expiry proves the owner: one operation at a time, see core_op.expiry_ms */
    KIND_F_TICKETS = 1 << 2,   /* waiters have a ticket in Redis, renewed and released like a lock */
    KIND_F_SHARED = 1 << 3,    /* may be locked SHARED, by many owners together, but not beside an exclusive hold */
    KIND_F_PERMITS = 1 << 4,   /* up to a limit of holds; every LOCK takes another permit, also of the same owner */
    KIND_F_HANDOFF = 1 << 5,   /* a lock may be handed over to a local waiter, see core/handoff.c */
    KIND_F_STRING = 1 << 6,    /* the key in Redis is a string; else a hash */
    KIND_F_ONE_KEY = 1 << 7,   /* one holder, of whom the name's key says all: what a quorum and a bundle can serve */
};

enum kind {
#define KIND(id, name, flags, help) KIND_##id,
#include "daemon/base/kinds.def"
#undef KIND
    KINDS
};

enum value_format {
#define VALUE(id, name, pattern, help) VALUE_##id,
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

/* Finds a kind by its name, in any case. False: there is no such kind. */
bool kind_parse(struct slice word, enum kind *out);

/* The pattern of Lua that every value of the format matches. */
const char *value_format_pattern(enum value_format f);

const char *value_format_name(enum value_format f);

#endif
