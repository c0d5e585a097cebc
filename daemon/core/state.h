/*
 * state.h -- the records of the core; private to daemon/core.
 *
 *   peer  --<  tie >--  owner  --<  claim  >--  lock
 *     \______________ request ______/
 *
 * peer     a session of the daemon
 * owner    who holds: a session itself, or an OWNER id that any session may act for
 * lock     a name this daemon has to do with: its dealings with Redis; while somebody waits for it, its queue
 * claim    one owner's interest in one lock, from the first wish to the last release; see claim.h
 * request  one LOCK, UNLOCK, RENEW or BREAK that is not answered yet
 * bundle   the requests of one MLOCK, MUNLOCK or MRENEW, which has one answer
 *
 * State is location: a claim's state names the list of its lock that it is on, and claim_move() alone changes both.
 *
 * Nothing is freed where it falls. A lock or owner that something happened to is put on core.dirty_locks or
 * core.dirty_owners; the end of the step looks at each once, goes on with what it can, and frees what is empty.
 * So no function has to fear that a record it was handed disappears under it; only request_finish() frees its request.
 */
#ifndef RLOCKD_CORE_STATE_H
#define RLOCKD_CORE_STATE_H

#include "daemon/base/clock.h"
#include "daemon/base/heap.h"
#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/base/freelist.h"
#include "daemon/core/claim.h"
#include "daemon/core/core.h"
#include "daemon/core/graph.h"
#include "daemon/core/jobs.h"

#define GRACE_MAX_US (3600 * US_PER_S) /* an owner, or its place, is waited for no longer; see keys.def */
#define LOST_US (600 * US_PER_S) /* so long, or for its lease, the end of a lease that was asked for is told */
#define LINGER_MAX_US (3600 * US_PER_S) /* far more than a rule may say */

enum {
    BACKOFF_MIN_US = 20 * 1000,  /* between attempts while Redis cannot answer ... */
    BACKOFF_MAX_US = 500 * 1000, /* ... doubled up to this, which is */
    BACKOFF_TIMES = 6,           /* after so many */
    TOGETHER = 64,               /* attempts of one name under way, at most */
    TICKETS_KEPT_MAX = 1024,           /* of one name, that are kept for nobody */
    CROWD = 64,                  /* behind more than these nobody who can not wait has a chance */
    EXPIRY_GAP_US = 5 * 1000, /* scripts/counter.lua takes stamps that are 2 ms apart for the same */
    YIELD_US = 5 * 1000,         /* others get so long to take a lock we let go to them */
    TICKET_MAX_US = 240 * 1000 * 1000, /* a place in Redis's queue lives for a lease, but no longer; see fair.lua */
    ASK_MAX_US = 30 * 1000 * 1000, /* between searches for a deadlock over several daemons */
    HANDOFF_ROOM = 1024,         /* tokens set aside for one run of hand-overs, at most */
    HANDOFF_PERMITS = 64,        /* of a kind with permits: where there are more of them, none is handed over */
    HOPS_MAX = 16,               /* owners in a cycle that is followed over several daemons */
    BROADCAST_BYTES = 8 * 1024,        /* of what one daemon tells the others at a time */
    SET_BACK_MAX_US = 120 * 1000 * 1000, /* for how long a guard that moved is waited for: no network keeps a command of
                                            a closed connection for longer */
    DRAIN_MAX_US = 2000 * 1000 * 1000, /* no drain lasts longer; see claim_deserted() */
    REACH_US = 20 * 1000,        /* a start that has something to free gives Redis so long to be reached */
    TWIN_BYTES = 8 * 1024,       /* of a key, with braces: more than a configuration allows */
    RENEW_TOGETHER = 64,         /* so many renewals are brought together before their time; a call has room for them */
    WINDOW_MAX = 8 * 1024,       /* no more operations of one sort are in flight at a time ... */
    WINDOW_US = 100,             /* ... nor than Redis answers in time if each takes it so long */
    WINDOW_OWED = 8,             /* releases that no request waits for: this part of a window */
    REVIEW_BITS = 3,
    REVIEW_LOST = 1, /* Redis may have lost what it had; */
    REVIEW_JUMPED = 2, /* a clock has jumped, or it was broken elsewhere: it may be gone */
    LOST_OF_OWNER = 1024,        /* such ends that an owner is still to be told; of more the oldest are forgotten ... */
    LOST_MAX = 16 * 1024,        /* ... and in all */
    CANCEL_MOST = 1024,          /* requests of an owner that a CANCEL looks at: it is done in one step */
};

/* Whose sessions these are, see users.c. */
struct user {
    uint64_t key;
    uint64_t refs;        /* sessions and owners */
    uint32_t sessions_n;
    uint32_t blocked_n;   /* requests of its sessions that are `blocked` */
    uint64_t claims_n;    /* of its owners */
    UT_hash_handle hh;    /* core.users */
};

struct core_session {
    uint64_t id;
    struct user *user;     /* NULL: nobody's */
    struct owner *owner;   /* itself as an owner; never NULL */
    struct list requests;  /* request.session_node, in order of arrival */
    struct list session_owners;      /* tie.session_node */
    struct job job;        /* it has gone, and some ties are left */
    uint32_t blocked_n;    /* requests that are `blocked` */
    UT_hash_handle hh;     /* core.peers, until it has gone */
};

/*
 * This session has used that named owner, which lives while it has requests or claims: so there are no more of them
 * than sessions times owners that want or have something, each 64 bytes and 8 in the table.
 */
struct session_owner {
    struct map_node by_pair; /* core.ties; its number is a keyed hash of both ids */
    struct core_session *session;
    struct owner *owner;
    struct list session_node, owner_node;
};

struct owner {
    uint64_t id;          /* never changes */
    uint64_t redis_owner;      /* of its claims, see claim.number */
    char *name;           /* owned, NUL not counted; NULL: a session's own owner */
    size_t name_n;
    uint64_t session;     /* that acted for it last */
    struct user *user;    /* whose session used it first; NULL: nobody's */
    struct list fifo;     /* request.fifo_node: requests begin in this order, see order.c */
    struct list claims;   /* claim.owner_node */
    struct list unended;  /* ending: by claim.owner_node, those of its claims that it has not given back yet */
    struct job job;       /* ... as long as there are some */
    uint32_t grace_us;    /* the longest of its claims' locks, since it had none */
    uint32_t claims_n;    /* on both lists */
    struct list lost;     /* claim.lost_node: LOST, of leases that were asked for; the oldest first */
    struct list loser_node; /* core.losers: there are some */
    uint32_t lost_n;
    uint32_t others_n;    /* on fifo: what is no LOCK */
    uint32_t cached_n; /* ... of them CACHED: it had them last, and has nothing to do with them any more */
    struct list session_owners;     /* tie.owner_node; named owners only */
    struct list work;     /* in core.dirty_owners */
    struct timer timer;   /* named, no session left: the end of its grace */
    int64_t until_us;     /* ... which was kept by KEEP_OWNER; 0 = nothing was */
    bool ending;          /* releases what it has, takes no request any more */
    struct graph_mark mark[GRAPHS];
    UT_hash_handle hh;    /* core.owners; named owners that are not ending */
};

enum watch_state { WATCH_OFF, WATCH_ASKED, WATCH_ON }; /* ON: whoever asks how many listen finds us among them */

/*
 * Who waits for a lock, and what is known of those who have it elsewhere. It is made for the LOCK or BREAK that
 * arrives, or when the lock begins to linger, and goes when nobody waits, all who are left hold it, and Redis is not
 * asked about it: see lock_advance(). Then lock.queue is core.nobody, which is read like any other, but never written:
 * see lock_has_queue().
 */
struct queue {
    struct lock *lock;      /* NULL: core.nobody */
    struct map_node by_id;  /* core.queues; its number is what HINT, WATCHING, DEAF, and the DONE of a BREAK speak of */
    struct list claims;     /* claim.node */
    struct list waiter_poll_node; /* probe.todo, probe.seen: it stays here, nobody needs to wait for that */
    struct list timing_out;    /* request.timing_out_node: answered as soon as the next outcome is known */
    struct list breaks;     /* request.claim_node of BREAKs */
    uint64_t break_op;
    struct job job;         /* it was broken, and some who held it until then are on lock.holders yet */
    uint64_t broken_token;  /* ... those who were granted it before this one */
    struct timer timer;     /* armed to retry_us while somebody waits */
    uint32_t waiting_n;     /* LOCK requests that wait for it ... */
    uint32_t blocked_n;     /* ... and of them, those that are `blocked` */
    uint32_t trying_n;      /* claims TRYING */
    uint32_t elsewhere_n;   /* kinds with several holders: how many Redis knew of when it was last taken */
    uint32_t failed_n;      /* times that Redis could not answer in a row, BACKOFF_TIMES at most */
    bool alone;             /* one is TRYING beside which no other may */
    bool failed;            /* one of those that are, or were, under way together has failed */
    bool again;             /* something moved while they were */
    bool ticketless;          /* somebody may need a place in Redis */
    enum watch_state watch;
    bool watch_tracking;    /* the WATCH in force is by client-side caching too; a reload may change lock.tracking */
    enum core_answer last_failure; /* why the last attempt had no answer: UNAVAILABLE, REDIS_FULL; else NOT_GRANTED */
    uint64_t turn;          /* in which the attempts under way were sent */
    uint64_t watch_owner;   /* kinds with places: whose turn is listened for; 0 = nobody's */
    int64_t retry_us;       /* no attempt before it */
    int64_t taken_until_us; /* somebody elsewhere holds it, at the latest until then; 0 = not that we know */
    int64_t yield_until_us; /* we let it go to others: wake-ups are ignored until then */
    struct graph_mark mark[GRAPHS];
};

struct lock {
    struct map_node by_name; /* core.by_name; its number is the name's keyed hash */
    struct list all;        /* core.locks */
    struct lock *dirty_next; /* behind it in core.dirty_locks; NULL: it is the last one, or not there */
    struct list holders, rest; /* claim.node; of `rest` those who are to be freed in front */
    struct queue *queue;    /* owned, or core.nobody; never NULL */
    enum kind kind : 3;
    enum value_format value : 3;
    enum kind rule_kind : 3; /* what the rules said when the record was made; KINDS: not known */
    bool foreign_wait : 1, tracking : 1; /* as its rule said last; so are limit, linger_us, and the graces */
    enum wakes wakes : 2;
    bool declared : 1;      /* ... and that its kind is what the rule says */
    bool has_key : 1;       /* which is not the name */
    bool dirty : 1;         /* it is in core.dirty_locks */
    bool lingers : 1;       /* one claim is CACHED */
    bool contended : 1;     /* somebody here wanted it while it was held, since the record was made */
    bool heard_itself : 1;  /* our ear was on its channel when it was asked last who else listens */
    bool wanted_since : 1;  /* ... and since then somebody elsewhere said that he waits */
    bool set_aside : 1;     /* a holder, or who is asking, may have tokens set aside: claim.room */
    bool remote_waiters : 1; /* somebody waits elsewhere, as was heard; and Redis was not told since that it is free */
    unsigned review : REVIEW_BITS; /* core.review.number, as of when it was reviewed last ... */
    unsigned turn : TURN_BITS; /* ... and of its claims: counts their reviews */
    unsigned why : 2;       /* ROUND_REVIEW: REVIEW_* */
    bool rounded : 1;       /* a round of it stands */
    uint32_t limit;         /* kinds with permits: so many may hold it */
    uint32_t linger_us;     /* LINGER_MAX_US at most */
    uint32_t owner_grace_us, queue_grace_us; /* GRACE_MAX_US at most */
    uint32_t claims_n;      /* claims on it */
    uint32_t held_n, releasing_n; /* claims HELD, RELEASING, and ... */
    uint32_t releases_sent_n;   /* ... RELEASING whose release is under way */
    uint32_t cohort_passes;           /* grants here in a row */
    int64_t cohort_since_us;   /* begin of the grants here in a row; or when Redis said that nobody waits elsewhere */
    uint32_t name_n, key_n; /* bytes */
    char text[];            /* the name, and behind it the key, unless they are equal */
};

/* With has_key alone: it lies in front of the record. */
static inline struct map_node *
lock_key_node(struct lock *l)
{
    return (struct map_node *)(void *)l - 1;
}

static inline size_t
lock_front_bytes(bool has_key)
{
    return has_key ? sizeof(struct map_node) : 0;
}

/*
 * A million of each are a matter of memory: a claim that is held and its lock, with a name of 32 bytes, are what a held
 * lock costs, besides 40 bytes in tables. The allocator adds 8 to each and rounds up to 16: 272 and 176. So fields lie
 * in pairs that leave no gaps, what is of some states only shares its place, and neither grows unseen.
 */
_Static_assert(sizeof(struct claim) <= 264, "a claim has grown");
_Static_assert(offsetof(struct lock, text) <= 136, "a lock has grown");
_Static_assert(KINDS < 1 << 3 && VALUES <= 1 << 3 && WAKES <= 1 << 2, "a lock has room for each");
_Static_assert(HANDOFF_ROOM < 1u << ROOM_BITS && BACKOFF_TIMES < 1u << FAILED_BITS, "no count is cut off");

struct request {
    uint64_t id;
    enum core_event_type verb;
    struct core_session *session;
    struct owner *owner;
    struct claim *claim;    /* that it is about; counted in claim.refs. NULL: BREAK */
    struct lock *lock;      /* BREAK */
    struct list session_node;  /* peer.requests */
    struct list fifo_node;  /* owner.fifo; unlinked = runs out of order (TOKEN, a second ONCE) */
    struct list claim_node; /* claim.requests or queue.breaks */
    struct list timing_out_node; /* queue.hurried */
    struct list search_node; /* search.waits, search.roots */
    struct list ask_node;    /* search.asks */
    struct timer timer;
    bool started;           /* request_run() has seen it */
    bool waits;             /* LOCK, not granted: counted in waiting_n of queue and core */
    bool blocked;           /* ... that wanted to wait: in blocked_n of its session and of core */
    bool once, full, fresh, shared, timing_out;
    bool silent;            /* nobody hears the answer */
    bool cancelled;         /* by CANCEL: its ticket goes with it */
    bool crowded;           /* refused for the requests behind it: "not granted" is TOO_MANY_REQUESTS */
    bool late;              /* UNLOCK of some of the holds, which went unanswered: see STRAGGLER_RELEASE */
    uint64_t token;
    uint64_t serial;        /* since it was started: the wait, as other daemons know it; its place in the queue */
    uint64_t cycle;         /* hash of the cycle it was found in, to be found again before it is believed */
    uint64_t walk;          /* number of the last search for it over several daemons */
    struct map_node by_wait; /* core.told_waits; its number is the serial */
    bool told;              /* ... it is there: a trail names this wait */
    int64_t arrived_us, due_us, lease_us, spec_lease_us;
    int64_t ask_us;         /* next search for a deadlock over several daemons */
    struct multilock *multilock;  /* one of several with one answer; NULL = by itself */
    uint32_t part;          /* its place there */
    bool tended;            /* granted in a bundle with a LEASE: renewed until the bundle is whole */
    bool again;             /* UNLOCK that gave back the last exclusive hold: if it is sent once more, it is that one */
    bool uncounted;         /* granted for what was held already: there is nothing to give back */
};

/* What is said to all daemons; broadcast.c. */
struct tell {
    size_t n;
    bool fits;
    char text[BROADCAST_BYTES];
};

enum broadcast_type {
    BROADCAST_TRAIL = 'W',     /* trail.c: a trail, on its way; */
    BROADCAST_VERDICT = 'V', /* ... a cycle */
    BROADCAST_BROKEN = 'B',  /* locks.c: a name was broken; received_lock() */
    BROADCAST_WANTED = 'N',  /* attempts.c: somebody needs what may only linger; received_lock() */
    /* 'K' is serve/keymap.c's */
};

/* Operations that come by the hundred thousand, each sort within a bound of its own: window.c. */
enum window_sort {
    WINDOW_RECLAIM, /* holds that Redis may have lost, asserted anew */
    WINDOW_RENEW,   /* leases and places */
    WINDOW_UNLOCK,  /* releases that a request waits for: the UNLOCK itself, or a LOCK of the same name */
    WINDOW_RELEASE, /* all others: what an ended session, a passed lease or a loss left in Redis */
    WINDOWS
};

struct window {
    uint32_t n;          /* in flight */
    struct heap waiting; /* claim.turn: whose lease ends first is first; releases in order of arrival */
};

/* Whether somebody waits elsewhere for what stays here, see waiter_polls.c. */
struct waiter_poll {
    struct timer timer; /* the next one; or that the one in flight is not answered any more */
    struct list todo;   /* queue.waiter_poll_node: to be asked about in this round, the first one next ... */
    struct list seen;   /* ... and in the next one */
    uint64_t op;        /* in flight; 0 = none */
    uint64_t claim[CORE_WAITER_POLL_MAX]; /* ids; whose locks it is asked about */
    size_t n;
    int64_t sent_us;    /* the last one */
    uint64_t grants;    /* made here before it */
};

/* What deadlock.c has put off; it stands in core.graph[GRAPH_JOB]. */
struct search {
    struct list waits; /* request.search_node: for the next search, in order of arrival */
    struct list roots; /* ... and those of this one that are not in the graph yet */
    struct list asks;  /* request.ask_node: waits that have become old */
    enum { SEARCH_NONE, SEARCH_GROW, SEARCH_VERIFY, SEARCH_FIND } phase;
    int64_t began_us, rest_until_us;
};

struct core {
    struct core_conf conf;
    struct hash_key key;
    struct metrics *metrics;
    struct core_sink sink;
    int64_t now_us;       /* of this step */
    uint64_t serial;      /* ids of everything */
    uint64_t turn;        /* of the loop, see core_sent() */
    int64_t set_back_us;  /* by so much in all Redis's clock was set back, seen from ours: CLOCK_BACK */
    uint64_t token_max;   /* highest token ever seen */
    bool stepping, draining;
    uint64_t epoch;       /* in which what is held is being asserted; 0 = it is done, and said */
    uint64_t unverified_n;    /* claims with VERIFY_LOST */
    struct window window[WINDOWS];
    uint64_t turns_n;     /* claims that wait in them for their turn */
    struct heap timers;
    size_t timers_n;      /* records that own a timer: the heap has room for each */
    struct core_session *sessions;
    struct user *users;
    struct owner *owners;
    struct map session_owners;
    struct map told_waits;
    struct map claims;
    struct map tokens;      /* claim_token_node() */
    struct map shares;      /* share.by_pair */
    struct map by_name;     /* locks */
    struct map by_key;      /* those whose key is not their name: lock_key_node(). The others are found by name */
    struct map queues;      /* of those that have one */
    struct list locks;      /* lock.all, in order of creation */
    struct list looks;      /* core_walk.node: looks at all of them that are under way */
    struct queue empty_queue;    /* of all locks that nobody waits for: never written */
    struct {
        struct lock *first, **end;
    } dirty_locks;            /* lock.dirty_next: first come, first served */
    struct list dirty_owners;
    struct list losers;     /* owner.loser_node */
    struct list jobs;       /* job.node: what a step has left for the next one, in the order of their turns */
    struct walk walk[WALKS];
    struct list rounds;     /* round.node */
    struct slice_left left; /* of this turn's slice, if that has a bound */
    struct {
        unsigned number;    /* of the last one; locks have it when WALK_REVIEW has been there */
        unsigned begun_n;   /* since none stood */
        bool lost, jumped;  /* Redis may have lost data; a clock has jumped */
    } review;
    struct freelist freelist;   /* of all records but sessions and bundles */
    struct waiter_poll waiter_poll;
    uint64_t searches;    /* graph.round */
    struct graph graph[GRAPHS];
    struct search search;
    struct tell tell;
    uint32_t lost_n;        /* of all losers */
    uint32_t waiting_n;     /* LOCK requests not answered */
    uint32_t blocked_n;     /* ... and that want to wait */
    uint64_t sessions_n, owners_n, held_n, releasing_n, locks_n;
};

/* core.c */
void core_act(struct core *c, const struct core_action *a);
bool timer_init(struct core *c, struct timer *t, enum timer_kind kind); /* false: no memory */
void timer_fini(struct core *c, struct timer *t);
void timer_set(struct core *c, struct timer *t, int64_t at_us);         /* CORE_FOREVER = off */
int64_t after_us(int64_t now_us, int64_t delay_us);                     /* saturating sum */
int64_t backoff_us(unsigned failed_n); /* the pause after so many in a row: 1..BACKOFF_TIMES */

/* owners.c */
bool owner_ends(struct core *c, struct owner *o); /* gives one of its claims back; false: there is none left */
/* leaves one of its owners; false: none was left, it is freed */
bool core_session_leave(struct core *c, struct core_session *p);
struct core_session *core_session_find(struct core *c, uint64_t id);
void core_session_eof(struct core *c, struct core_session *p);
/* its oldest request is refused, if it waits */
void core_session_crowded(struct core *c, const struct core_session *p, uint64_t id);
void core_session_gone(struct core *c, struct core_session *p);
enum core_answer owner_get(struct core *c, struct core_session *p, struct slice name, bool create, struct owner **out);
struct owner *owner_restore(struct core *c, struct slice name); /* n == 0: one that has ended. NULL: no memory */
/* counts that of the lock, and what it asks for */
void owner_grace(struct owner *o, const struct lock *l, int64_t asked_us);
void owner_timer(struct core *c, struct owner *o);
struct owner *owner_find(const struct core *c, struct slice name); /* NULL: there is no such named owner */
void owner_left(struct core *c, struct owner *o, int64_t until_us); /* no session uses it: it ends then */
void owner_wake(struct core *c, struct owner *o);
void owner_advance(struct core *c, struct owner *o);

/* order.c */
struct request *order_next(const struct core *c, const struct owner *o); /* that may begin now; NULL: none may */
void order_check(const struct core *c, const struct owner *o); /* asserts I9 */

/* users.c */
bool user_enter(struct core *c, struct core_session *p, uint64_t key); /* false: no memory */
void user_leave(struct core *c, struct core_session *p);
void user_own(struct owner *o, struct user *u);                /* nobody's owner counts for u, from now on */
void user_disown(struct core *c, struct owner *o);
uint64_t user_claims(const struct owner *o); /* that its user has in all */
void user_count_claim(const struct owner *o, int by);
void user_count_blocked(const struct core_session *p, int by);
/* One more, of a limit of all (0 = none), by a user that has `mine` of it; a refusal is counted. */
bool user_may(struct core *c, const struct user *u, uint64_t limit, uint64_t used, uint64_t mine);
struct user *user_find(const struct core *c, uint64_t key);    /* NULL: it has nothing */

/* names.c */
struct lock *lock_find(const struct core *c, struct slice name);
/* ... and of its name the hash */
struct lock *lock_find_number(const struct core *c, struct slice name, uint64_t *number);
struct lock *lock_of_key(const struct core *c, struct slice key); /* whatever its name is; NULL: nobody uses it here */
struct lock *lock_beside(const struct core *c, struct slice key); /* has the same keys beside its own; NULL: none has */
struct lock *lock_in_the_way(const struct core *c, const struct core_request *rq); /* of a name without a record */
struct lock *lock_new(struct core *c, struct slice name, uint64_t number, const struct core_spec *spec); /* NULL: no
                         memory; number: of lock_find_number() */
void lock_delete(struct core *c, struct lock *l); /* nothing of it is used any more */

/* locks.c */
struct queue *queue_find(const struct core *c, uint64_t id);
enum core_answer lock_get(struct core *c, const struct core_request *rq, bool any_kind, struct lock **out);
void queue_init(struct queue *q);
bool queue_open(struct core *c, struct lock *l); /* so that lock.queue may be written; false: no memory */
void lock_wake(struct core *c, struct lock *l);
void lock_advance(struct core *c); /* goes on with the first that was woken; may free it */
void queue_timer(struct core *c, const struct queue *q);
void lock_hint(struct core *c, struct lock *l, bool confirmed);
bool lock_is_full(const struct lock *l, bool shared); /* who holds it here leaves no room for one more */
bool lock_has_room(const struct lock *l, bool shared, bool behind);
struct claim *lock_next(const struct lock *l); /* the first in the queue whom somebody waits for; NULL: nobody */
void lock_wanted(struct core *c, const struct lock *l, bool shared); /* somebody begins to wait */
bool lock_has_one_token(const struct core *c, const struct lock *l); /* held, and by one grant: others are stale */
void lock_news(struct core *c, const struct claim *cl, enum core_news news, const char *reason);
enum { REFUSED_MAX = 512 }; /* at a time; those behind them have Redis asked anew */
void lock_refuse(struct core *c, struct lock *l, enum core_answer answer, uint32_t most);
void lock_drain(struct core *c, struct lock *l);
void claim_drain(struct core *c, struct claim *cl); /* the first request that waits for it is sent away */
void lock_free(struct core *c, struct lock *l);

/* breaks.c */
void lock_break(struct core *c, struct request *r);
void lock_break_done(struct core *c, struct lock *l, const struct core_done *d);
void lock_broken(struct core *c, struct lock *l); /* it was, or may have been, here or elsewhere */
bool lock_loses(struct core *c, struct lock *l); /* it was broken: one of its holders; false: there is none left */

/* attempts.c */
void lock_try(struct core *c, struct lock *l, struct claim *next);
void lock_attempt_succeeded(struct lock *l);
void lock_attempt_failed(struct core *c, struct lock *l, const struct core_done *d);
void lock_released(struct core *c, struct lock *l, const struct core_done *d);

/* claim_index.c */
/* What one owner has of one name with permits: the permits that it holds, and what it waits for or gives back. */
struct share {
    struct map_node by_pair; /* core.shares; its number is a keyed hash of both */
    const struct lock *lock;
    const struct owner *owner;
    struct list held;        /* permit.node, by rising tokens */
    struct list others;
    struct heap ends;        /* permit.end: deadlines of those that are held; has room for all */
    uint32_t held_n, claims_n;
};
/* NULL: it has nothing of it, or that has no permits. */
struct share *share_find(const struct core *c, const struct lock *l, const struct owner *o);
int64_t share_left(const struct core *c, const struct claim *but); /* permits that the owner holds beside that one */
struct claim *share_first_end(struct claim *of); /* of the permits that its owner holds; NULL: it holds none */
void share_moved(struct claim *cl, bool was_held); /* its state has changed */
void share_swapped(struct claim *a, struct claim *b); /* so have their owners */
void share_deadline(struct claim *cl); /* HELD: its deadline may have */
/*
 * The claims of one owner on one lock: one at most but of a kind with permits. Looked for on the shorter of both sides:
 * a hot name has many claims, but then their owners have few. What pair_next() returned may be moved, and only that.
 */
struct pair {
    const struct lock *lock;
    const struct owner *owner;
    const struct list *head[3]; /* lists that have all of them */
    struct list *next;
    int at, heads_n;
    bool by_owner;
};
void pair_begin(struct pair *p, const struct lock *l, const struct owner *o);
struct claim *pair_next(struct pair *p); /* NULL: no more */
struct claim *claim_find(const struct core *c, const struct lock *l, const struct owner *o);
bool claim_index(struct core *c, struct claim *cl); /* gives it its id; false: no memory */
void claim_unindex(struct core *c, struct claim *cl);
void claim_set_token(struct core *c, struct claim *cl, uint64_t token);
struct claim *claim_by_token(const struct core *c, const struct lock *l, uint64_t token); /* NULL: it stands for none */
struct claim *claim_first(const struct list *home, unsigned states); /* there in one of them; NULL: none is */
/* NULL: a new one is needed */
struct claim *claim_wanted(const struct core *c, const struct lock *l, const struct owner *o, bool once);
struct claim *claim_newest_held(const struct core *c, const struct lock *l, const struct owner *o, uint64_t token);

/* claims.c */
void claim_refer(struct core *c, struct claim *cl, int by); /* that is the change of claim.refs */
struct claim *claim_new(struct core *c, struct lock *l, struct owner *o); /* NULL: no memory */
void claim_move(struct core *c, struct claim *cl, enum claim_state to);
void claim_arm(struct core *c, struct claim *cl);
void claim_enqueue(struct core *c, struct claim *cl, const struct request *r);
void claim_put_last(struct core *c, struct claim *cl);
void claim_put_by_ticket(struct core *c, struct claim *cl);
void claim_free(struct core *c, struct claim *cl);
void claim_timer(struct core *c, struct claim *cl);
bool claim_renew_is_next(const struct claim *cl, int64_t at_us); /* that is what its timer is armed to at_us for */
bool claim_wants_shared(const struct claim *cl); /* the first LOCK that waits for it */

/* ends.c */
void claim_deserted(struct core *c, struct claim *cl, bool for_good); /* for good: no ticket is kept */
void claim_desert(struct core *c, struct claim *cl);
/* nobody asks for it: a ticket that is kept is not any more */
void claim_leaves_queue(struct core *c, struct claim *cl);
void claim_lose(struct core *c, struct claim *cl, const char *reason, bool in_redis);
void claim_over(struct core *c, struct claim *cl);     /* its lease has ended, or it was broken */
void claim_freed(struct core *c, struct claim *cl, bool news);
void claim_lost(struct core *c, struct claim *cl);     /* its owner does not know yet */
void claim_lost_over(struct core *c, struct claim *cl); /* ... and will not: nobody asked for so long */
void claim_told_lost(struct core *c, struct claim *cl);
void claim_untold(struct core *c, const struct core_grant *g, bool told); /* lost; told: its owner knows */
void claim_owner_ends(struct core *c, struct claim *cl);

/* records.c */
void claim_keep(struct core *c, struct claim *cl);   /* what is kept of it follows what it is now */
void claim_forget(struct core *c, struct claim *cl); /* nothing is kept of it any more */
void claim_check_record(const struct core *c, const struct claim *cl); /* asserts that it is kept as it is now */

/* restore.c */
void restore(struct core *c, struct core_restored *a);
void lock_reached(struct core *c, struct lock *l);   /* Redis can be: what was put off for that */
void claim_reached(struct core *c, struct claim *cl);

/* operations.c */
bool claim_busy(const struct claim *cl);                 /* no operation may be sent for it now */
void claim_try(struct core *c, struct claim *cl);        /* asks Redis for it; QUEUED, somebody waits */
void claim_serve(struct core *c, struct claim *cl);      /* goes on with what its owner asks; HELD */
void claim_renew(struct core *c, struct claim *cl);      /* of the lease; of the place, when QUEUED */
void claim_renew_in_turn(struct core *c, struct claim *cl); /* the same, when there is room in the window */
void claim_renew_over(struct core *c, struct claim *cl); /* it was answered, or what it finds is no news any more */
void claim_release(struct core *c, struct claim *cl, struct request *r);
void claim_put_off(const struct core *c, struct claim *cl); /* an operation failed: again later, and later each time */
void claim_forget_op(struct core *c, struct claim *cl);
void claim_reassert(struct core *c, struct claim *cl, bool shared); /* holds that Redis may have lost */
int64_t claim_left_us(const struct core *c, const struct claim *cl); /* the lease to ask Redis for to keep it as long */

/* window.c */
uint32_t window_size(const struct core *c, enum window_sort sort);
bool claim_may_leave(struct core *c, struct claim *cl, enum window_sort sort); /* false: it waits for its turn now */
void claim_waits(struct core *c, struct claim *cl, enum window_sort sort); /* for its turn, from now on */
void claim_waits_not(struct core *c, struct claim *cl);   /* for its turn, if it did */
void claim_waits_anew(struct core *c, struct claim *cl);  /* its deadline has changed: so has its turn, if it waits */
enum window_sort claim_release_sort(const struct claim *cl, const struct request *r);
void lock_releases_sooner(struct core *c, struct lock *l); /* somebody waits for it */
bool windows_have_room(const struct core *c);             /* ... for some claim that waits for its turn */
void windows_go_on(struct core *c);                       /* with those that waited, as many as there is room for */
void windows_fini(struct core *c);                        /* no claim is left */

/* reclaim.c */
void reclaim_begin(struct core *c, uint64_t epoch);   /* Redis may have lost all that is held */
void reclaim_confirm(struct core *c);                 /* a clock has jumped: is all that is held still there? */
void lock_granting(struct core *c, struct lock *l);   /* Redis grants again, or has other data: who waits tries now */
void claim_granting(struct core *c, struct claim *cl);
void claim_review(struct core *c, struct claim *cl);  /* for the reasons of its lock's review, once */
void reclaim_end(struct core *c);                     /* of a step in an epoch: says so when all is asserted */
void claim_verify(struct core *c, struct claim *cl, unsigned verify);
void lock_join_review(struct core *c, struct lock *l); /* lock_meet(), where a review has not been yet */
void lock_suspect(struct core *c, struct lock *l);    /* Redis may not have it any more */
void claim_settle(struct core *c, struct claim *cl);  /* asks Redis about a doubt, if nothing else is under way */

/* outcomes.c */
void claim_done(struct core *c, struct claim *cl, const struct core_done *d);
void claim_grant(struct core *c, struct claim *cl, int64_t since_us); /* HELD now: its requests are answered */
void claim_lasts(struct claim *cl, int64_t from_us, int64_t lease_us); /* in Redis, perhaps; never less than before */
/* LATE_*, one more */
void claim_add_straggler(const struct core *c, struct claim *cl, unsigned what, int64_t until_us);
void guards_move(struct core *c, int64_t back_us); /* Redis's clock was set back by so much */

/* handoff.c */
bool claim_hand_over(struct core *c, struct claim *cl, struct request *r); /* to who waits; false: nothing was done */
bool claim_linger(struct core *c, struct claim *cl, struct request *r); /* for who comes; false: nothing was done */
void claim_take_up(struct core *c, struct claim *cl, struct request *r); /* CACHED: by r, of its own owner */
bool lock_take_up(struct core *c, struct lock *l); /* by who waits; false: it is being released */
void lock_linger_ends(struct core *c, struct lock *l);
struct claim *lock_cached(const struct lock *l); /* lock.lingers */
struct claim *lock_newest(const struct lock *l);    /* of those who hold it who has the highest token; NULL: nobody */
void lock_room_ends(struct lock *l); /* others may have later tokens: no hand-over before the next grant */

/* waiter_polls.c */
void waiter_poll_join(struct core *c, struct lock *l); /* it stays here: Redis is asked whether others wait */
void waiter_poll_timer(struct core *c);
void waiter_poll_done(struct core *c, const struct core_waiters_polled *d);
void lock_wanted_elsewhere(struct core *c, struct lock *l); /* somebody there waits for it */

/* requests.c */
void request_arrive(struct core *c, const struct core_event *ev);
void request_run(struct core *c, struct request *r);
bool request_waits_for_itself(const struct request *r); /* HELD: a LOCK by who has it, and can not have it again */
void request_timer(struct core *c, struct request *r);
enum core_answer request_lock(struct core *c, struct core_session *p, const struct core_request *rq,
                              struct request **out);
enum core_answer request_held(struct core *c, struct core_session *p, const struct core_request *rq,
                              enum core_event_type verb, struct request **out);
void request_begin(struct core *c, struct request *r, bool in_order);
/* One hold, by an UNLOCK that nobody hears about. False: no memory. */
bool request_give_back(struct core *c, struct claim *cl, bool shared);

/* request_ends.c */
void request_grant(struct core *c, struct request *r);
void request_finish(struct core *c, struct request *r, enum core_answer answer, int64_t left);
void request_drop(struct core *c, struct request *r);
void request_deadlock(struct core *c, struct request *r, const struct core_hop *hop, size_t hops);
struct core_reply request_refusal(const struct core *c, const struct core_request *rq, enum core_answer answer);
void request_refuse(struct core *c, const struct core_request *rq, enum core_answer answer); /* no record was made */
void request_reply(struct core *c, const struct core_reply *rp);
void request_settle(struct core *c, struct request *r); /* waits for nothing any more; the record stays */

/* timing_out.c */
void request_time_out(struct core *c, struct request *r); /* its time is over; may be its end */
void lock_settle_timing_out(struct core *c, struct lock *l, enum core_answer answer); /* all of them */
void lock_settle_full(struct core *c, struct lock *l);      /* those for whom there is no room any more: no */
void lock_settle_impatient(struct core *c, struct lock *l); /* those who had wanted to wait: what the trouble is */

/* multilock.c */
void multilock_arrive(struct core *c, const struct core_event *ev);
void multilock_answer(struct core *c, struct request *r, const struct core_reply *rp); /* of one of its requests */
void multilock_leave(struct core *c, struct request *r);   /* its session has gone, or the core goes */
void multilock_cancelled(struct multilock *b);                /* all of it is about to end so, by the answer of one */
bool multilock_asks_for(const struct multilock *b, const struct lock *l); /* one of its requests does, granted or not */

/* cancel.c */
void cancel_arrives(struct core *c, struct core_session *p, const struct core_request *rq);

/* deadlock.c */
void search_init(struct search *s);
bool deadlock_begins(struct core *c, struct request *r); /* true: answered, r has gone */
void deadlock_ask(struct core *c, struct request *r);    /* it has become old: the others are asked, too */
void deadlock_work(struct core *c);                      /* a slice of what was put off */
int64_t deadlock_next_us(const struct core *c);          /* the next slice; CORE_FOREVER: nothing was */
struct request *deadlock_wait_of(const struct owner *o);
bool deadlock_waits_for_holders(const struct lock *l, bool shared);
bool deadlock_is_over(const struct core *c, const struct claim *cl);
struct core_hop deadlock_hop(const struct owner *o, const struct lock *waits_for);

/* trail.c */
void trail_begin(struct core *c, struct request *r); /* the other daemons are asked */
void trail_heard(struct core *c, enum broadcast_type what, struct slice text);
void trail_forget(struct core *c, struct request *r); /* it waits no more */

/* broadcast.c */
struct slice broadcast_self(const struct core *c); /* the daemon, as the others know it */
void broadcast_begin(struct core *c, enum broadcast_type what);
void broadcast_word(struct core *c, struct slice word);
void broadcast_number(struct core *c, uint64_t number);
void broadcast_send(struct core *c); /* nothing is said if it was too much */
/* all of it: who says it, name and key */
void broadcast_lock(struct core *c, enum broadcast_type what, const struct lock *l);
bool received_word(struct slice *text, struct slice *word); /* takes it off the text; false: there is none */
bool received_number(struct slice *text, uint64_t *number);
/* NULL: of no lock here, or we said it ourselves */
struct lock *received_lock(const struct core *c, struct slice text);
void broadcast_received(struct core *c, struct slice what);

static inline bool
lock_is(const struct lock *l, unsigned flags) /* any of them */
{
    return (kind_rows[l->kind].flags & flags) != 0;
}

/*
 * What several may hold has its claims found by their tokens: a node that lies in front of the record. Its number is
 * the token; without one, the claim's id, so that the table has room for each.
 */
static inline struct map_node *
claim_token_node(struct claim *cl)
{
    return (struct map_node *)(void *)cl - 1;
}

/* A permit: in front of that node. */
struct permit {
    struct share *share;
    struct list node;     /* share.held, share.others */
    struct heap_node end; /* HELD: share.ends */
    struct map_node token;
};

static inline struct permit *
claim_permit(struct claim *cl)
{
    return (struct permit *)(void *)cl - 1;
}

static inline struct claim *
permit_claim(struct permit *p)
{
    return (struct claim *)(void *)(p + 1);
}

static inline size_t
claim_front_bytes(const struct lock *l)
{
    size_t token = lock_is(l, KIND_F_SHARED) ? sizeof(struct map_node) : 0;

    return lock_is(l, KIND_F_PERMITS) ? sizeof(struct permit) : token;
}

/* HELD, and its name was broken since; its job has not come to it yet. */
static inline bool
claim_is_broken(const struct claim *cl)
{
    const struct queue *q = cl->lock->queue;

    return job_stands(&q->job) && cl->token < q->broken_token;
}

/* HELD may also be what has run out, or was broken, and whose timer or job has not had its turn yet. */
static inline bool
claim_is_held(const struct claim *cl, int64_t now_us)
{
    return cl->state == CLAIM_HELD && now_us < cl->deadline_us && !claim_is_broken(cl);
}

/* Whether there is something left of that part of the turn's slice. */
static inline bool
slice_has(const struct core *c, uint32_t left)
{
    return c->conf.slice == 0 || left > 0;
}

static inline void
slice_spend(uint32_t *left, uint32_t n)
{
    *left -= n < *left ? n : *left;
}

static inline bool
lock_has_queue(const struct lock *l)
{
    return l->queue->lock != NULL;
}

/* By our clock: so long what is `late` may still run. A guard is by Redis's clock, and moves when that is set back. */
static inline int64_t
stragglers_end_us(const struct core *c, const struct claim *cl)
{
    return cl->stragglers_until_us + c->set_back_us;
}

/* One of these, LATE_*, may still run. */
static inline bool
claim_has_stragglers(const struct core *c, const struct claim *cl, unsigned what)
{
    return (cl->stragglers & what) != 0 && c->now_us < stragglers_end_us(c, cl);
}

/* Some claim that waits for its turn may leave now. */
static inline bool
windows_open(const struct core *c)
{
    return c->turns_n > 0 && windows_have_room(c);
}

/* Something is to be done by a job, and something is left of the slice. */
static inline bool
jobs_may_run(const struct core *c)
{
    return !list_empty(&c->jobs) && slice_has(c, c->left.records);
}

static inline void
lock_meet(struct core *c, struct lock *l)
{
    if (l->review != c->review.number) {
        lock_join_review(c, l);
    }
}

/* Holds of either sort. */
static inline uint32_t
claim_holds(const struct claim *cl)
{
    return cl->holds + cl->shared;
}

static inline int64_t
earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static inline int64_t
later(int64_t a_us, int64_t b_us)
{
    return a_us > b_us ? a_us : b_us;
}

/* It may pass to the next one here while Redis has it; see handoff.c. */
static inline bool
lock_is_handed(const struct lock *l)
{
    return lock_is(l, KIND_F_HANDED) && !(lock_is(l, KIND_F_PERMITS) && l->limit > HANDOFF_PERMITS);
}

/* ... and stay for who comes, as the rule of its name says. A permit that is free is for whoever wants it elsewhere. */
static inline bool
lock_may_linger(const struct lock *l)
{
    return l->linger_us > 0 && lock_is(l, KIND_F_HANDED) && !lock_is(l, KIND_F_PERMITS);
}

/* Others have their turn now: so many grants here in a row, or so much time, are enough. */
static inline bool
lock_cohort_is_over(const struct core *c, const struct lock *l)
{
    return l->cohort_passes >= c->conf.handoff_max || c->now_us - l->cohort_since_us >= c->conf.handoff_time_us;
}

/* Within 0..most_us, which is short. */
static inline uint32_t
short_us(int64_t us, int64_t most_us)
{
    return (uint32_t)earlier(later(us, 0), most_us);
}

/* What was sent until now, also by the process before this one, can run until then, by clocks that differ a little. */
static inline int64_t
stragglers_until_us(const struct core *c)
{
    return after_us(c->now_us, 2 * c->conf.op_timeout_us);
}

/* That its operation, or the one that is tried again, is done for; NULL: nobody's, or it has gone. */
static inline struct request *
claim_op_request(const struct claim *cl)
{
    return cl->op_asked ? container_of(cl->requests.next, struct request, claim_node) : NULL;
}

static inline struct slice
lock_name(const struct lock *l)
{
    return (struct slice){l->text, l->name_n};
}

static inline struct slice
lock_key(const struct lock *l)
{
    return (struct slice){l->text + (l->has_key ? l->name_n : 0), l->key_n};
}

/* 0: nobody waits, so nothing will be said of it. */
static inline uint64_t
queue_id(const struct lock *l)
{
    return l->queue->by_id.number;
}

static inline uint64_t
claim_id(const struct claim *cl)
{
    return cl->by_id.number;
}

#endif
