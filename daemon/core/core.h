/*
 * core.h -- the lock manager without the world: events in, actions out.
 *
 * core_step() takes one event and the time; it calls the sink once per action.
 * core_next_us() says when it wants to be called again if nothing happens. The
 * core does not talk, wait, log or look at a clock, and the sink must not call
 * back into it: what comes of an action is a later event.
 *
 * Times are microseconds of one never-stepping clock (CLOCK_BOOTTIME in the
 * daemon, a virtual one in tests). Slices in events and actions are borrowed
 * for the call. Ids (sessions, claims, queues, operations) are never used twice.
 *
 * Memory: a request allocates what its whole life needs when it arrives, or is
 * answered CORE_NO_MEMORY; no later step allocates.
 */

/*
 * The files of the room stand on floors, the highest first; calls go down only (scripts/floors). What has to be told
 * upward goes on a dirty list (dirty.h, core.freed, core.dirty_multilocks), which work.c goes through.
 *
 *   step      an event, what is due, what is dirty; what looks at everything
 *   requests  what sessions ask for: arrivals, bundles, cancels, deadlocks
 *   locks     a name: whose turn it is, attempts, hand-overs, what Redis's outcomes mean, reviews
 *   answers   how requests and claims end, and what they are told
 *   leases    what a claim asks Redis for
 *   records   claims, locks, queues, owners, and how they are found
 *   tools     timers, jobs, dirty marks, words for other daemons
 */
#ifndef RLOCKD_CORE_CORE_H
#define RLOCKD_CORE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/hash.h"
#include "daemon/base/kinds.h"
#include "daemon/base/metrics.h"
#include "daemon/base/slice.h"

#define CORE_FOREVER INT64_MAX
#define CORE_MANY_MAX 64 /* names in one MLOCK */
#define CORE_WAITER_POLL_MAX 128 /* names in one PROBE */

struct core; /* opaque; one per daemon */

struct core_conf {
    int64_t op_timeout_us;   /* a Redis operation unanswered that long is UNKNOWN (redis.timeout) */
    int64_t max_poll_us;     /* a waiter asks Redis at least that often, whatever PTTL says */
    int64_t deadlock_us;     /* a wait older than that asks other daemons about deadlocks; 0 = never */
    char daemon[40];         /* this daemon's uuid, as other daemons know it */
    int64_t handoff_time_us; /* while others wait elsewhere, at most so long ... */
    uint32_t handoff_max;    /* ... and so many grants in a row here */
    uint32_t waiters_max;    /* LOCKs that want to wait, in all */
    uint32_t session_waiters_max; /* ... of one session; 0 = as many as in all */
    uint32_t locks_max;      /* locks held or wanted by one owner */
    uint64_t total_locks_max; /* ... by all; 0 = no bound */
    uint32_t user_percent;   /* what one user may have of waiters_max and total_locks_max whoever else comes */
    uint32_t window;         /* operations of one sort in flight, see window.c; 0 = as many as Redis answers in time */
    uint32_t slice;          /* records of a long work, and timers, that are looked at in one turn; 0 = all of them */
    uint32_t search_steps;   /* of a search for deadlocks in one step, for tests; 0 = as many as are good */
    bool one_link;           /* Redis runs the operations on all names, but renewals, in the order in which they were
                                asked for, as shard_calls.c (I3) and shard_route.c (I1) have it */
    bool keeps;              /* KEEP and FORGET are wanted: there is a place that outlives this process */
};

/* What the rules (and the request's own options) say about a name. */
struct core_spec {
    enum kind kind;
    enum kind rule_kind;  /* what the rules say, where the request says another one; KINDS: not known */
    enum value_format value;
    uint32_t limit;       /* kinds with permits: so many holders at a time, 1.. */
    int64_t linger_us;    /* a lock that nobody here waits for stays with this daemon for so long; 0 = not at all */
    bool foreign_wait;    /* a key of another kind is waited for like one that is taken, instead of WRONG_KIND */
    bool tracking;        /* who else holds it publishes nothing: WATCH by client-side caching */
    enum wakes wakes;     /* waiters of another library that a release wakes as well */
    bool declared;        /* the rules say that kind; else the request alone does, which proves nothing of a key */
    uint32_t waiters_max; /* waiters on this name, 0 = no limit but the global one */
    int64_t lease_us;     /* the watchdog's lease */
    int64_t owner_grace_us; /* a named owner without a connection keeps the lock so long */
    int64_t queue_grace_us; /* ... and its place in the queue so long */
    struct slice key;       /* the key in Redis */
};

enum core_event_type {
    CORE_LOCK,
    CORE_UNLOCK,
    CORE_RENEW,
    CORE_MLOCK,    /* several LOCKs of one owner, all or none, under the longest wait of them */
    CORE_MUNLOCK,  /* several UNLOCKs: each name by itself */
    CORE_MRENEW,   /* several RENEWs: each name by itself */
    CORE_BREAK,    /* free the name whoever holds it */
    CORE_CANCEL,   /* end the owner's waits for the name; answered LEFT: how many. cancel.c */
    CORE_CROWDED,  /* the session has as many requests unanswered as it may: the oldest is refused if it waits */
    CORE_EOF,      /* the session sends nothing more: nothing of it may go on waiting */
    CORE_GONE,     /* the session has ended */
    CORE_TOLD_LOST, /* the owner of this grant has been told that it is lost */
    CORE_UNTOLD,   /* this grant cannot be told any more: the hold that it counted is taken back. If that was the only
                      one, the owner is told LOST */
    CORE_DONE,     /* an operation has an outcome */
    CORE_HINT,     /* something moved on a watched name */
    CORE_SUBSCRIBED, /* the watch of a name is confirmed (again): try now */
    CORE_UNSUBSCRIBED, /* until WATCHING comes (again), Redis does not count us among those who listen to the name */
    CORE_PROBED,   /* how many listen, see core_waiters_polled */
    CORE_RECEIVED,    /* another daemon (or we) said something, see broadcast.c */
    CORE_RECLAIM,  /* Redis may have lost what it had: whatever is held is asserted anew; ends in one RECLAIMED */
    CORE_GRACE_OVER, /* Redis grants again: who waits tries now */
    CORE_SUSPECT,  /* a clock has jumped: whatever is held is confirmed by Redis before it is said again */
    CORE_CLOCK_BACK, /* Redis's clock was set back: guards that were made before are as much later */
    CORE_RESTORE,    /* before the first session: what the process before us has left; see core_restored */
    CORE_REACHED,  /* Redis can be reached (again): what was put off for that is done now */
    CORE_TIME,     /* nothing but the time */
    CORE_DRAIN,    /* no new grants from now on; waiters are sent away */
};

/* One request about a lock. `id` is the session's own number for it, echoed in the reply. */
struct core_request {
    uint64_t session, id;
    struct slice name;     /* 1..limit bytes, checked by the caller */
    struct slice owner;    /* n == 0: the session is the owner */
    struct core_spec spec; /* LOCK and BREAK */
    int64_t wait_us;       /* LOCK: 0 = NOWAIT, CORE_FOREVER */
    int64_t lease_us;      /* LOCK: 0 = renewed by the watchdog; RENEW: the new lease */
    int64_t owner_grace_us; /* LOCK: the owner keeps what it has at least so long without a session */
    uint64_t token;        /* UNLOCK, RENEW: 0 = none given */
    bool once;             /* LOCK: held or waiting already is not counted again */
    bool fresh;            /* LOCK: an owner that holds it already is not granted it again, whatever the kind; and a
                              loss that its owner was not told of yet is forgotten, instead of being its answer */
    bool shared;           /* LOCK: together with others that want it shared; UNLOCK: give a shared hold back */
    bool full;             /* echoed in the reply */
};

enum core_outcome {
    CORE_OK,
    CORE_TAKEN,   /* somebody else holds it: pttl_us */
    CORE_GONE_IN_REDIS, /* renew, release: it is not ours (any more) */
    CORE_UNKNOWN, /* may have run, may yet run until guard_us */
    CORE_DOWN,    /* has not run and will not; ask again later */
    CORE_FOREIGN, /* the key is of another kind */
    CORE_DENIED,  /* Redis's ACL keeps the daemon from the key: has not run and will not */
    CORE_FULL,    /* Redis is out of memory; nothing was written */
    CORE_GRACE,   /* Redis has lost data, holders are asserting their locks: nothing was done; pttl_us: until then */
};

/* One grant, which what is said of it relies on. claim 0 = none. */
struct core_grant {
    uint64_t claim, token;
    int64_t until_us; /* its deadline */
    bool counted;     /* the answer says that one hold more was counted ... */
    bool shared;      /* ... a shared one */
};

/* The outcome of one operation; `claim` (for BREAK too, which names its queue so) and `op` are those of the action. */
struct core_done {
    uint64_t claim, op;
    enum core_outcome outcome;
    int64_t sent_us;    /* clock read before the first byte of this attempt was queued for the socket */
    int64_t guard_us;   /* UNKNOWN acquire, extend, BREAK: from then on it cannot run any more */
    int64_t pttl_us;    /* TAKEN, FOREIGN: what Redis said, -1 = no expiry */
    uint64_t token;     /* acquire OK, BREAK OK */
    int64_t expiry_ms; /* acquire, renew OK: when Redis drops the key, ms of its clock; BREAK OK: 1 if there was one */
    int64_t remote_subscribers;  /* release OK: subscribers that heard the wake-up (our own counted too) */
    int64_t holders;    /* TAKEN, kinds with several holders: how many Redis knows of; 0 = not said */
    bool has_ticket;        /* TAKEN, kinds with places: this owner has one in Redis now */
    bool no_room;       /* acquire OK: no tokens are set aside behind it */
    bool denied;        /* UNKNOWN: the ACL has ended its script at a key that the script made; it would do so again */
};

/* The answer to a PROBE. There may be none: nothing waits for it. */
struct core_waiters_polled {
    uint64_t op;                /* of the PROBE */
    const int64_t *subscribers; /* on the channel of each name, in the order they were asked for; our own counted too */
    size_t n;                   /* as many as there were names */
};

enum core_record_state {
    CORE_RECORD_NOTHING,
    CORE_RECORD_QUEUED,
    CORE_RECORD_HELD,
    CORE_RECORD_RELEASING,
    CORE_RECORD_LOST
};

/* Of a claim, what may change while it is kept; no pointers, and the same bytes for the same values. */
struct core_record_part {
    uint64_t claim;          /* its id: values and permits are derived from it, and it is that of the operations */
    uint64_t number;         /* of its owner in Redis */
    uint64_t token;          /* HELD, LOST, RELEASING: of the grant */
    uint64_t order;          /* QUEUED: among those with a place in Redis, and those without: smaller ones first */
    int64_t deadline_us;     /* HELD */
    int64_t granted_us;
    int64_t lease_us;
    int64_t ticket_life_us;   /* QUEUED with a place */
    int64_t shrink_lease_us; /* HELD: a RENEW may still set the expiry to so little; 0 = no */
    int64_t expiry_ms;
    uint32_t holds, shared;
    uint8_t state;           /* core_record_state */
    bool named;              /* belongs to the named owner; else to one that has ended, or ends with this process */
    bool watchdog, fresh;
    bool has_ticket;             /* QUEUED: has a place in Redis */
    bool acquire_unresolved;             /* an acquire may still run, or has run unheard */
    bool partial;            /* HELD: a release of some of the holds may still run */
    bool lost;               /* RELEASING: its owner does not know yet that it was lost */
};

/* All that Redis may have of a claim, and whose it is. The texts of a claim never change. */
struct core_record {
    struct core_record_part part;
    struct slice name, key, owner; /* owner.n == 0: a session's own */
    enum kind kind;
    enum value_format value;
    uint32_t limit;
    bool declared;                    /* in ADOPT: the rules of now say that kind, see core_spec */
    enum wakes wakes;                 /* in ADOPT: as the rules of now say */
    int64_t owner_grace_us, queue_grace_us;
};

/* A named owner that no session uses: it ends then, also in the process after us. */
struct core_owner_record {
    uint64_t id;      /* of the record */
    struct slice name;
    int64_t until_us;
};

/* What was kept when the process before us ended, and what has become of it. */
struct core_restored {
    struct core_record *kept; /* put into another order */
    size_t n;
    const struct core_owner_record *owner;
    size_t owners_n;
    uint64_t serial;        /* ids up to this one may have been used */
    uint64_t token;         /* every token that was given is at most this, as far as is known */
    size_t held, places, freed, lost, failed; /* out */
};

struct core_event {
    enum core_event_type type;
    union {
        struct core_request request; /* LOCK UNLOCK RENEW BREAK CANCEL */
        struct {                     /* MLOCK MUNLOCK MRENEW */
            const struct core_request *request; /* of one session, id and owner; each name once */
            size_t n;                /* 1 .. CORE_MANY_MAX */
        } many;
        struct slice heard;          /* HEARD: what a SAY of some daemon said */
        uint64_t session;            /* EOF GONE */
        struct {
            uint64_t session, id;    /* CROWDED: its oldest request without an answer */
        } oldest;
        uint64_t lock;               /* HINT WATCHING DEAF: core_op.lock of the WATCH */
        uint64_t epoch;              /* RECLAIM: number of Redis's life that begins, rising */
        int64_t back_us;             /* CLOCK_BACK: by so much, seen from our clock */
        struct core_grant grant;     /* TOLD_LOST UNTOLD */
        struct core_done done;       /* DONE */
        struct core_waiters_polled polled;   /* PROBED */
        struct core_restored *restore; /* ADOPT */
    };
};

enum core_action_type {
    CORE_ACQUIRE, /* operations: end in exactly one DONE with this op, unless they are untaken */
    CORE_EXTEND,
    CORE_RELEASE,
    CORE_BREAK_KEY,
    CORE_WATCH, /* no DONE: WATCHING when confirmed, then HINTs, and DEAFs and more WATCHINGs, until UNWATCH */
    CORE_UNWATCH,
    CORE_WAITER_POLL, /* how many listen on the channels of these? No DONE: PROBED when it is known */
    CORE_REPLY,
    CORE_PUBLISH,
    CORE_KEEP, /* remember this of a claim, in place of what was known: before an acquire leaves, and when it changes */
    CORE_FORGET, /* Redis has nothing of this claim any more, and nobody will come for it */
    CORE_KEEP_OWNER, /* remember this of a named owner: no session uses it any more, and it has claims */
    CORE_FORGET_OWNER, /* a session uses it again, or it has ended */
    CORE_SAY, /* to all daemons on this Redis (this one too); each hears it as HEARD. May get lost */
    CORE_RECLAIMED, /* what is held here is in this epoch of Redis, or is lost: this daemon needs no grace any more */
};

/* A verb for the backend. */
struct core_op {
    uint64_t op;      /* serial of this operation */
    uint64_t lock;    /* id of the name's queue here: for what is heard of it. 0: nobody waits */
    uint64_t claim;   /* id of the owner's claim on it; in DONE */
    struct slice key; /* in Redis */
    enum kind kind;
    enum value_format value;
    uint64_t owner;     /* decimal number behind the daemon's uuid */
    uint32_t holds;     /* count to be set: ACQUIRE 1.., RELEASE what is left of that sort. RELEASE of 0 that is not
                           `shared`, with `rest` 0: everything this owner has of it, the place in the queue too */
    uint32_t rest;      /* RELEASE: holds of the other sort, which stay */
    bool reentry;       /* ACQUIRE: only if this owner has it */
    bool reclaim;       /* ACQUIRE: held, and perhaps lost by Redis; may be done in a grace, which keeps others out */
    bool shared;        /* ACQUIRE, RELEASE with holds left: of the shared holds, not the exclusive ones */
    bool ticket;         /* ACQUIRE: take a place in Redis's queue if it is taken (who has one does not ask for it);
                           EXTEND: of the place, not of a hold */
    bool tracking;      /* WATCH: by client-side caching too */
    enum wakes wakes;   /* RELEASE, BREAK_KEY: waiters of another library that are woken as well */
    uint32_t limit;     /* ACQUIRE: permits in all */
    bool declared; /* ACQUIRE, BREAK_KEY: by the rules a key there is one of this kind, whoever has made it; BREAK_KEY:
                           or it is held here */
    bool exact;         /* EXTEND: may also shorten. Every other operation on a key that is ours only lengthens its
                           expiry, so that one that runs late takes nothing away; a shortening one is guarded */
    int64_t lease_us;   /* ACQUIRE, EXTEND, RELEASE with holds left */
    uint64_t token_floor; /* every token given here so far is at most this */
    uint32_t room;        /* ACQUIRE: so many tokens behind the one it brings are for this name here */
    int64_t expiry_ms;      /* last stamp of this claim, 0 = none */
    bool *untaken;      /* out: set by who has no memory to note it down; there is no DONE then. NULL: WATCH, UNWATCH */
};

struct core_waiter_poll_name {
    struct slice key; /* in Redis */
    enum kind kind;
};

struct core_waiter_poll {
    uint64_t op; /* serial of this one; one at a time is asked for */
    const struct core_waiter_poll_name *name;
    size_t n;    /* 1 .. CORE_WAITER_POLL_MAX */
};

enum core_answer {
    CORE_GRANTED,     /* token (and the rest) */
    CORE_NOT_GRANTED, /* not in time */
    CORE_CANCELLED,   /* not granted: a CANCEL came first */
    CORE_LEFT,        /* UNLOCK: holds left; RENEW: ms left; BREAK: 1 if there was anything; CANCEL: waits
                         ended */
    CORE_NOT_HELD,
    CORE_STALE,
    CORE_WAS_LOST,
    CORE_WRONG_KIND,
    CORE_KEY_IN_USE, /* its key is that of another name, which is in use */
    CORE_DEADLOCK,
    CORE_TOO_MANY_WAITERS,
    CORE_TOO_MANY_LOCKS,
    CORE_LOCKS_FULL, /* limits.total_locks, or its user's share of these */
    CORE_TOO_MANY_REQUESTS, /* of one session, unanswered: this one was the oldest, and waited */
    CORE_DRAINING,
    CORE_UNAVAILABLE,
    CORE_REDIS_FULL,
    CORE_FORBIDDEN,   /* Redis's ACL keeps the daemon from the key */
    CORE_NO_MEMORY,
    CORE_ANSWERS
};

/* One link of a cycle: this owner holds what the one before waits for, and waits for `name`. */
struct core_hop {
    struct slice daemon;     /* uuid; n == 0: this daemon */
    uint64_t owner;          /* id of the owner in its daemon: the session's for a session */
    struct slice owner_name; /* n == 0: a session's own owner, or not known here */
    struct slice name;
};

struct core_reply {
    uint64_t session, id;
    enum core_answer answer;
    struct slice name;
    struct slice other; /* KEY_IN_USE: the name that has the key */
    uint64_t token;
    uint64_t owner; /* its number */
    enum kind kind;
    uint32_t holds;
    int64_t left;      /* LEFT: see core_answer */
    int64_t lease_us;  /* GRANTED: until the deadline */
    int64_t waited_us; /* GRANTED */
    struct core_grant relies; /* GRANTED, LEFT: the answer says that it is held; of parts each by itself */
    bool ms;           /* LEFT: of a RENEW */
    bool full;
    /*
     * MLOCK GRANTED, MUNLOCK, MRENEW: one for each name, in the order they were asked for. MUNLOCK and MRENEW always
     * answer LEFT, and each part has its own answer. Another answer to MLOCK is that of the name it failed for.
     */
    const struct core_reply *part;
    size_t parts;
    const struct core_hop *hop;    /* DEADLOCK: the cycle, beginning with who asked */
    size_t hops;
};

enum core_news {
    CORE_NEWS_GRANTED,
    CORE_NEWS_RELEASED,
    CORE_NEWS_LOST,
    CORE_NEWS_WANTED,
    CORE_NEWS_JEOPARDY, /* two thirds of the lease have passed without a confirmed renewal */
};

/* For lock:<name> and session:<id> subscribers, and for the log. */
struct core_publish {
    enum core_news news;
    struct slice name;
    uint64_t token;
    uint64_t owner;          /* its number; WANTED: of the one who holds it */
    struct slice owner_name; /* n == 0 for a session's own owner */
    uint64_t session;        /* that was granted the lock last */
    struct core_grant relies; /* GRANTED, WANTED, JEOPARDY: the event says that it is held */
    const char *reason;      /* LOST: static text */
};

struct core_action {
    enum core_action_type type;
    union {
        struct core_op op; /* ACQUIRE EXTEND RELEASE BREAK_KEY WATCH UNWATCH */
        struct core_waiter_poll waiter_poll; /* PROBE */
        struct core_reply reply;
        struct core_publish publish;
        struct slice say;     /* SAY */
        struct core_record keep; /* KEEP */
        struct core_owner_record keep_owner; /* KEEP_OWNER */
        uint64_t forget;      /* FORGET: id of the claim; FORGET_OWNER: of the record */
        uint64_t epoch;       /* RECLAIMED */
    };
};

/* Where actions go; must not call back into the core. */
struct core_sink {
    void (*act)(void *ctx, const struct core_action *a);
    void *ctx;
};

/* NULL when out of memory. conf is copied, metrics borrowed for the core's life. */
struct core *core_new(const struct core_conf *conf, const struct hash_key *key, struct metrics *metrics,
                      struct core_sink sink);
void core_free(struct core **c);

/* New settings; what is held or waiting keeps what it was granted under. (So do the rules: a grace grows at once, but
   gets shorter only when nobody has the name, see take_rules().) */
void core_configure(struct core *c, const struct core_conf *conf);

/*
 * A session of this user (any number that stands for it; 0 = nobody's, not counted) begins. Returns its id, which is
 * also the first number of the owner it is; 0 = out of memory.
 */
uint64_t core_session_open(struct core *c, uint64_t user);

/* How many sessions that user has. */
uint64_t core_user_sessions(const struct core *c, uint64_t user);

/*
 * Whether a user that has `mine` of a limit may have one more, when all have `used`: most of the limit is for whoever
 * comes; in what is left of it above `percent`, nobody may have more than are left. So who has none finds one.
 */
bool core_share(uint64_t limit, unsigned percent, uint64_t used, uint64_t mine);

/*
 * One event. First what is due at now_us happens, then the event. Of what is long (an owner that ends with very many
 * locks, say) a step does a slice: while something is left core_next_us() says that the next one is due now.
 */
void core_step(struct core *c, int64_t now_us, const struct core_event *ev);

/*
 * The turn is over, and the next one has a slice of its own: what the core has asked for until now leaves for Redis, or
 * waits to leave together behind a call that is under way. Those of a name who may have it together ask together until
 * then; without this they would still, but who comes later might get it first.
 */
void core_sent(struct core *c);

/* When core_step(CORE_TIME) is wanted next; CORE_FOREVER = not at all. */
int64_t core_next_us(const struct core *c);

/* The deadline that may be told for a lease handed to the socket at sent_us: 1 % + 2 ms early. */
int64_t core_deadline_us(int64_t sent_us, int64_t lease_us);

/* The lease that would have to be asked for now so that a deadline so far ahead is told. */
int64_t core_lease_us(int64_t left_us);

enum core_standing {
    CORE_STANDS,      /* held */
    CORE_LOST_UNTOLD, /* lost, and its owner does not know */
    CORE_ENDED,       /* given back, or its owner has been told of the loss */
};

/* What has become of a grant; until_us: STANDS: its deadline as it is now. */
enum core_standing core_standing(const struct core *c, const struct core_grant *g, int64_t now_us, int64_t *until_us);

/* Asserts every invariant; slow, for tests. */
void core_check(const struct core *c, int64_t now_us);

#endif
