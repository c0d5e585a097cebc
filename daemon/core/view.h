/*
 * view.h -- looking at the core: changes nothing.
 *
 * Slices in views are borrowed for the callback. The order is the order of
 * creation (locks, sessions) or of the queue (waiters).
 */
#ifndef RLOCKD_CORE_VIEW_H
#define RLOCKD_CORE_VIEW_H

#include "daemon/base/list.h"
#include "daemon/core/core.h"

struct core_owner_view {
    uint64_t id;       /* of the owner, as long as it lives; 0 = none */
    uint64_t number;   /* behind the daemon's uuid in Redis; may change from hold to hold */
    struct slice name; /* n == 0: a session's own owner */
    uint64_t session;  /* that acted for it last */
};

struct core_lock_view {
    struct slice name, key;
    enum kind kind;
    const char *state;   /* "held", "taken" (elsewhere), "trying", "lingering", "freeing", "lost", "idle" */
    struct core_owner_view owner; /* number 0 when no owner here holds it */
    uint64_t token;      /* 0 when not held here */
    uint32_t holds;
    uint32_t holders;    /* owners here that hold it; `owner`, `token` and the rest are the first one's */
    uint32_t limit;      /* kinds with permits */
    bool shared;         /* held shared */
    bool fresh;          /* granted to a LOCK that was `fresh` */
    int64_t deadline_us; /* held: until when the core says so; taken: when Redis may drop it; else 0 */
    bool renewed;        /* by the watchdog */
    uint64_t claim;      /* held: with the token, the grant */
    int64_t held_us;     /* since the grant */
    uint32_t waiters;    /* LOCKs that wait */
    int64_t oldest_wait_us; /* of those at the head of the queue */
};

struct core_waiter_view {
    struct slice name;
    struct core_owner_view owner;
    uint32_t position;      /* 1 = next */
    int64_t waited_us;
    int64_t deadline_us;    /* CORE_FOREVER */
    bool shared;            /* wants it shared */
    bool kept;              /* the position is kept without a request */
};

struct core_session_counts {
    uint32_t held, waiting; /* by the session's own owner and by named owners it granted for; see COUNTED */
};

struct core_totals {
    uint64_t locks, held, waiters, owners, sessions, freeing;
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

#define CORE_CURSOR_OVER UINT64_MAX

/*
 * Reads all locks, or all waiters, in pieces: every name that exists at the begin and is not freed meanwhile; later
 * names may be missing. The memory of a cursor is its owner's, and must not move before the cursor is at its end.
 */
struct core_cursor {
    struct list node;      /* core.cursors; linked = there is more */
    struct list *at, *last; /* lock.all of the next one, and of the last one of its domain */
    uint64_t waiter;       /* core_cursor_waiters(): the next one in the queue of `at`; 0 = the first; else _OVER */
    uint32_t position;     /* of the one before it */
};
void core_cursor_begin(struct core *c, struct core_cursor *w);
void core_cursor_end(struct core_cursor *w); /* harmless if it has ended */

/* The next `n` names (or waiters), matching or not. False: it is over. glob n == 0: all. */
bool core_cursor_locks(struct core *c, struct core_cursor *w, int64_t now_us, struct slice glob, unsigned n,
                       core_lock_fn *fn, void *ctx);
bool core_cursor_waiters(struct core *c, struct core_cursor *w, int64_t now_us, struct slice glob, unsigned n,
                         core_waiter_fn *fn, void *ctx);

/* The first `most` waiters for the name, in the order of the queue. */
void core_waiters_of(const struct core *c, int64_t now_us, struct slice name, size_t most, core_waiter_fn *fn,
                     void *ctx);

/*
 * The first `most` holders, in the order of their grants; the hold of one named owner. False: the owner holds nothing.
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
struct core_weight {
    size_t n, bytes; /* locks that were counted, each held by few owners; the bytes of them and of their holders */
};

/* Looks at the oldest `most` names. */
struct core_weight core_memory_of_locks(const struct core *c, size_t most);

/* A session and itself as an owner; 0 = there is none. */
size_t core_memory_of_session(struct core *c, uint64_t session);

#endif
