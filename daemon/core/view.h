/*
 * view.h -- what the core has; nothing is changed.
 *
 * Slices in views are borrowed for the callback. Locks come domain by domain, those of one domain in the order of their
 * creation; the waiters of each in the order of the queue.
 */
#ifndef RLOCKD_CORE_VIEW_H
#define RLOCKD_CORE_VIEW_H

#include "daemon/core/core.h"
#include "daemon/core/cursor.h"

struct core_owner_view {
    uint64_t id;       /* of the owner, as long as it lives; 0 = none */
    uint64_t redis_owner; /* behind the daemon's uuid in Redis; may change from hold to hold */
    struct slice name; /* n == 0: a session's own owner */
    uint64_t session;  /* that acted for it last */
};

struct core_lock_view {
    struct slice name, key;
    enum kind kind;
    const char *state;   /* "held", "taken" (elsewhere), "trying", "lingering", "freeing", "lost", "idle" */
    /* "held", "freeing", "lost": the owner that holds it here, gave it back, or lost it; else zeroed */
    struct core_owner_view owner;
    uint64_t token;      /* of that owner's grant; 0 = none */
    uint32_t holds;
    uint32_t holders;    /* owners, or permits, that hold it here; `owner`, `token` and the rest are of the first one */
    uint32_t limit;      /* kinds with permits */
    bool shared;         /* held shared */
    bool fresh;          /* granted to a LOCK that was `fresh` */
    int64_t deadline_us; /* held: the deadline; taken: when Redis may drop it; else 0 */
    bool renewed;        /* by the watchdog */
    uint64_t claim;      /* held: this and the token name the grant */
    int64_t held_us;     /* since the grant */
    uint32_t waiters;    /* LOCKs that wait */
    int64_t oldest_wait_us; /* of those at the head of the queue */
};

struct core_waiter_view {
    struct slice name;
    struct core_owner_view owner;
    uint32_t position;      /* 1 = next */
    int64_t waited_us;
    int64_t due_us;         /* when its wait, or its kept position, ends; CORE_FOREVER: never */
    bool shared;            /* wants it shared */
    bool kept;              /* the position is kept without a request */
};

struct core_session_counts {
    uint32_t held, waiting; /* locks and permits granted to it, for any owner; LOCKs that wait; see COUNT_MAX */
};

/* Claims: of a name one for each owner, and of a semaphore one for each permit. */
struct core_totals {
    uint64_t locks, held_claims, waiters, owners, sessions, releasing_claims;
    uint64_t serial; /* the last id given out */
};

/* One of the owners that hold a name. */
struct core_holder_view {
    struct slice name;
    struct core_owner_view owner;
    uint64_t token;
    uint32_t holds;
    bool shared;
    int64_t held_us, deadline_us;
    uint64_t claim; /* with the token, the grant */
};

typedef void core_lock_fn(void *ctx, const struct core_lock_view *v);
typedef void core_waiter_fn(void *ctx, const struct core_waiter_view *v);
typedef void core_holder_fn(void *ctx, const struct core_holder_view *v);

void core_cursor_begin(struct core *c, struct core_cursor *w);
void core_cursor_end(struct core *c, struct core_cursor *w); /* harmless if it has ended; before core_free() */

/* The next `n` names (or waiters), matching or not. False: it is over. glob n == 0: all. */
bool core_cursor_locks(struct core *c, struct core_cursor *w, int64_t now_us, struct slice glob, unsigned n,
                       core_lock_fn *fn, void *ctx);
bool core_cursor_waiters(struct core *c, struct core_cursor *w, int64_t now_us, struct slice glob, unsigned n,
                         core_waiter_fn *fn, void *ctx);

/* The first `most` waiters for the name, in the order of the queue. */
void core_waiters_of(const struct core *c, int64_t now_us, struct slice name, size_t most, core_waiter_fn *fn,
                     void *ctx);

/*
 * The first `most` holders, in the order in which Redis granted them: a hand-off changes no order. core_holder_named():
 * the hold of one named owner; false: it holds nothing.
 */
void core_holders_of(const struct core *c, int64_t now_us, struct slice name, size_t most, core_holder_fn *fn,
                     void *ctx);
bool core_holder_named(const struct core *c, int64_t now_us, struct slice name, struct slice owner,
                       struct core_holder_view *out);

/* Whether this daemon has the name in use, and as what kind. Costs no more than to find its record. */
bool core_name_in_use(const struct core *c, struct slice name, enum kind *kind);

/* False when this daemon has no record of the name. The view's slices live until the next step. */
bool core_lock_info(const struct core *c, int64_t now_us, struct slice name, struct core_lock_view *out);

struct core_session_counts core_session_count(const struct core *c, uint64_t session);
struct core_totals core_totals(const struct core *c);

/* Memory, in bytes: see memory_usage.c. */
struct core_memory {
    size_t n, bytes; /* locks that were counted, each held by few owners; the bytes of them and of their holders */
};

/* Looks at the first `most` names: with one domain, the oldest. */
struct core_memory core_memory_of_locks(const struct core *c, size_t most);

/* A session and itself as an owner; 0 = there is none. */
size_t core_memory_of_session(struct core *c, uint64_t session);

#endif
