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
 * Nothing is freed where it falls. A lock or owner that something happened to is put on core.lock_work or
 * core.owner_work; the end of the step looks at each once, goes on with what it can, and frees what is empty.
 * So no function has to fear that a record it was handed disappears under it; only request_finish() frees its request.
 */
#ifndef RLOCKD_CORE_STATE_H
#define RLOCKD_CORE_STATE_H

#include "daemon/base/clock.h"
#include "daemon/base/heap.h"
#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/base/spares.h"
#include "daemon/core/claim.h"
#include "daemon/core/core.h"

#define GRACE_MAX_US (3600 * US_PER_S) /* an owner, or its place, is waited for no longer; see keys.def */
#define LINGER_MAX_US (3600 * US_PER_S) /* far more than a rule may say */

enum {
    BACKOFF_MIN_US = 20 * 1000,  /* between attempts while Redis cannot answer ... */
    BACKOFF_MAX_US = 500 * 1000, /* ... doubled up to this, which is */
    BACKOFF_TIMES = 6,           /* after so many */
    TOGETHER = 64,               /* attempts of one name under way, at most */
    CROWD = 64,                  /* behind more than these nobody who can not wait has a chance */
    STAMP_GAP_US = 5 * 1000, /* scripts/counter.lua takes stamps that are 2 ms apart for the same */
    YIELD_US = 5 * 1000,         /* others get so long to take a lock we let go to them */
    PLACE_MAX_US = 240 * 1000 * 1000, /* a place in Redis's queue lives for a lease, but no longer; see fair.lua */
    ASK_MAX_US = 30 * 1000 * 1000, /* between searches for a deadlock over several daemons */
    HANDOFF_ROOM = 1024,         /* tokens set aside for one run of hand-overs, at most */
    HANDOFF_PERMITS = 64,        /* of a kind with permits: where there are more of them, none is handed over */
    HOPS_MAX = 16,               /* owners in a cycle that is followed over several daemons */
    SAY_BYTES = 8 * 1024,        /* of what one daemon tells the others at a time */
    DRAIN_MAX_US = 2000 * 1000 * 1000, /* no drain lasts longer; see claim_deserted() */
    REACH_US = 20 * 1000,        /* a start that has something to free gives Redis so long to be reached */
    RENEW_TOGETHER = 64,         /* so many renewals are brought together before their time; a call has room for them */
    RENEW_WINDOW = 8 * 1024,     /* no more are in flight at a time ... */
    RENEW_US = 100,              /* ... nor than Redis answers in time if each takes it so long */
};

struct peer {
    uint64_t id;
    struct owner *owner;   /* itself as an owner; never NULL */
    struct list requests;  /* request.peer_node, in order of arrival */
    struct list ties;      /* tie.peer_node */
    UT_hash_handle hh;     /* core.peers */
};

/* This session has used that named owner. */
struct tie {
    struct peer *peer;
    struct owner *owner;
    struct list peer_node, owner_node;
};

struct owner {
    uint64_t id;          /* never changes */
    uint64_t number;      /* of its claims, see claim.number */
    char *name;           /* owned, NUL not counted; NULL: a session's own owner */
    size_t name_n;
    uint64_t session;     /* that acted for it last */
    struct list fifo;     /* request.fifo_node: requests run in this order, the first one is running */
    struct list claims;   /* claim.owner_node */
    uint32_t claims_n;
    uint32_t lingering_n; /* ... of them LINGERING: it had them last, and has nothing to do with them any more */
    struct list ties;     /* tie.owner_node; named owners only */
    struct list work;     /* in core.owner_work */
    struct timer timer;   /* named, no session left: the end of its grace */
    bool ending;          /* releases what it has, takes no request any more */
    uint64_t search;      /* number of the search for a deadlock that was here last ... */
    struct owner *via;    /* ... on the way from this owner, which waits for it */
    struct owner *todo;   /* ... and which it looks at after this one */
    bool stuck;           /* ... and whether it can never go on */
    UT_hash_handle hh;    /* core.owners; named owners that are not ending */
};

enum watch_state { WATCH_OFF, WATCH_ASKED, WATCH_ON }; /* ON: whoever asks how many listen finds us among them */

/*
 * Who waits for a lock, and what is known of those who have it elsewhere. It is made for the LOCK or BREAK that
 * arrives, or when the lock begins to linger, and goes when nobody waits, all who are left hold it, and Redis is not
 * asked about it: see lock_work(). Then lock.queue is core.nobody, which is read like any other, but never written: see
 * lock_has_queue().
 */
struct queue {
    struct lock *lock;      /* NULL: core.nobody */
    struct map_node by_id;  /* core.queues; its number is what HINT, WATCHING, DEAF, and the DONE of a BREAK speak of */
    struct list claims;     /* claim.node */
    struct list probe_node; /* probe.todo, probe.seen: it stays here, nobody needs to wait for that */
    struct list hurried;    /* request.hurry_node: answered as soon as the next outcome is known */
    struct list breaks;     /* request.claim_node of BREAKs */
    uint64_t break_op;
    struct timer timer;     /* armed to retry_us while somebody waits */
    uint32_t waiting_n;     /* LOCK requests that wait for it */
    uint32_t trying_n;      /* claims TRYING */
    uint32_t elsewhere_n;   /* kinds with several holders: how many Redis knew of when it was last taken */
    uint32_t failed_n;      /* times that Redis could not answer in a row, BACKOFF_TIMES at most */
    bool alone;             /* one is TRYING beside which no other may */
    bool failed;            /* one of those that are, or were, under way together has failed */
    bool again;             /* something moved while they were */
    bool unplaced;          /* somebody may need a place in Redis */
    enum watch_state watch;
    enum core_answer trouble; /* why the last attempt had no answer: UNAVAILABLE, REDIS_FULL; else NOT_GRANTED */
    uint64_t turn;          /* in which the attempts under way were sent */
    uint64_t watch_owner;   /* kinds with places: whose turn is listened for; 0 = nobody's */
    int64_t retry_us;       /* no attempt before it */
    int64_t taken_until_us; /* somebody elsewhere holds it, at the latest until then; 0 = not that we know */
    int64_t yield_until_us; /* we let it go to others: wake-ups are ignored until then */
};

struct lock {
    struct map_node by_name; /* core.by_name; its number is the name's keyed hash */
    struct list all;        /* core.locks */
    struct lock *work_next; /* behind it in core.lock_work; NULL: it is the last one, or not there */
    struct list holders, rest; /* claim.node; of `rest` those who are IDLE in front */
    struct queue *queue;    /* owned, or core.nobody; never NULL */
    enum kind kind : 8;
    enum value_format value : 8;
    bool foreign_wait : 1, tracking : 1; /* as its rule said last; so are limit, linger_us, and the graces */
    bool has_key : 1;       /* which is not the name */
    bool woken : 1;         /* it is in core.lock_work */
    bool lingers : 1;       /* one claim is LINGERING */
    bool contended : 1;     /* somebody here wanted it while it was held, since the record was made */
    bool heard_itself : 1;  /* our ear was on its channel when it was asked last who else listens */
    bool wanted_since : 1;  /* ... and since then somebody elsewhere said that he waits */
    bool outside : 1;       /* somebody waits elsewhere, as was heard; and Redis was not told since that it is free */
    uint32_t limit;         /* kinds with permits: so many may hold it */
    uint32_t linger_us;     /* LINGER_MAX_US at most */
    uint32_t owner_grace_us, place_grace_us; /* GRACE_MAX_US at most */
    uint32_t claims_n;      /* claims on it */
    uint32_t held_n, freeing_n; /* claims HELD, FREEING, and ... */
    uint32_t releasing_n;   /* ... FREEING whose release is under way */
    uint32_t run;           /* grants here in a row */
    int64_t run_since_us;   /* begin of the grants here in a row; or when Redis said that nobody waits elsewhere */
    uint32_t name_n, key_n; /* bytes */
    char text[];            /* the name, and behind it the key, unless they are equal */
};

/*
 * A million of each are a matter of memory: a claim that is held and its lock, with a name of 32 bytes, are what a held
 * lock costs, besides 40 bytes in tables. The allocator adds 8 to each and rounds up to 16: 272 and 176. So fields lie
 * in pairs that leave no gaps, what is of some states only shares its place, and neither grows unseen.
 */
_Static_assert(sizeof(struct claim) <= 264, "a claim has grown");
_Static_assert(offsetof(struct lock, text) <= 136, "a lock has grown");
_Static_assert(HANDOFF_ROOM < 1u << ROOM_BITS && BACKOFF_TIMES < 1u << FAILED_BITS, "no count is cut off");

struct request {
    uint64_t id;
    enum core_event_type verb;
    struct peer *peer;
    struct owner *owner;
    struct claim *claim;    /* that it is about; counted in claim.refs. NULL: BREAK */
    struct lock *lock;      /* BREAK */
    struct list peer_node;  /* peer.requests */
    struct list fifo_node;  /* owner.fifo; unlinked = runs out of order (TOKEN, a second ONCE) */
    struct list claim_node; /* claim.requests or queue.breaks */
    struct list hurry_node; /* queue.hurried */
    struct timer timer;
    bool started;           /* request_run() has seen it */
    bool waits;             /* LOCK, not granted: counted in waiting_n of queue and core */
    bool once, full, fresh, shared, hurried;
    bool silent;            /* nobody hears the answer */
    bool late;              /* UNLOCK of some of the holds, which went unanswered: see LATE_RELEASE */
    uint64_t token;
    uint64_t serial;        /* since it was started: the wait, as other daemons know it; its place in the queue */
    uint64_t cycle;         /* hash of the cycle it was found in, to be found again before it is believed */
    uint64_t walk;          /* number of the last search for it over several daemons */
    int64_t arrived_us, due_us, lease_us, spec_lease_us;
    int64_t ask_us;         /* next search for a deadlock over several daemons */
    struct bundle *bundle;  /* one of several with one answer; NULL = by itself */
    uint32_t part;          /* its place there */
    bool tended;            /* granted in a bundle with a LEASE: renewed until the bundle is whole */
    bool again;             /* UNLOCK that gave back the last exclusive hold: if it is sent once more, it is that one */
    bool uncounted;         /* granted for what was held already: there is nothing to give back */
};

/* What is said to all daemons; tell.c. */
struct tell {
    size_t n;
    bool fits;
    char text[SAY_BYTES];
};

enum tell_what {
    TELL_WAY = 'W',     /* deadlock.c: a trail, on its way; */
    TELL_VERDICT = 'V', /* ... a cycle */
    TELL_BROKEN = 'B',  /* locks.c: a name was broken; told_lock() */
    TELL_WANTED = 'N',  /* attempts.c: somebody needs what may only linger; told_lock() */
};

/* Whether somebody waits elsewhere for what stays here, see probe.c. */
struct probe {
    struct timer timer; /* the next one; or that the one in flight is not answered any more */
    struct list todo;   /* queue.probe_node: to be asked about in this round, the first one next ... */
    struct list seen;   /* ... and in the next one */
    uint64_t op;        /* in flight; 0 = none */
    uint64_t claim[CORE_PROBE_MAX]; /* ids; whose locks it is asked about */
    size_t n;
    int64_t sent_us;    /* the last one */
    uint64_t grants;    /* made here before it */
};

struct core {
    struct core_conf conf;
    struct hash_key key;
    struct metrics *metrics;
    struct core_sink sink;
    int64_t now_us;       /* of this step */
    uint64_t serial;      /* ids of everything */
    uint64_t turn;        /* of the loop, see core_sent() */
    uint64_t token_max;   /* highest token ever seen */
    bool stepping, draining;
    uint64_t epoch;       /* in which what is held is being asserted; 0 = it is done, and said */
    uint64_t doubts_n;    /* claims with DOUBT_LOST */
    uint32_t renewing_n;  /* claims with RENEWAL_SENT */
    struct list renewals; /* claim.renew_node: to be renewed as soon as there is room in the window */
    struct heap timers;
    size_t timers_n;      /* records that own a timer: the heap has room for each */
    struct peer *peers;
    struct owner *owners;
    struct map claims;
    struct map by_name;     /* locks */
    struct map queues;      /* of those that have one */
    struct list locks;      /* lock.all, in order of creation */
    struct queue nobody;    /* of all locks that nobody waits for: never written */
    struct {
        struct lock *first, **end;
    } lock_work;            /* lock.work_next: first come, first served */
    struct list owner_work;
    struct spares spares;   /* of all records but sessions and bundles */
    struct probe probe;
    uint64_t searches;
    struct tell tell;
    uint32_t waiting_n;     /* LOCK requests not answered */
    uint64_t peers_n, owners_n, held_n, freeing_n, locks_n;
};

/* core.c */
void core_act(struct core *c, const struct core_action *a);
bool timer_init(struct core *c, struct timer *t, enum timer_kind kind); /* false: no memory */
void timer_fini(struct core *c, struct timer *t);
void timer_set(struct core *c, struct timer *t, int64_t at_us);         /* CORE_FOREVER = off */
int64_t after_us(int64_t now_us, int64_t delay_us);                     /* saturating sum */
int64_t backoff_us(unsigned failed_n); /* the pause after so many in a row: 1..BACKOFF_TIMES */

/* owners.c */
struct peer *peer_find(struct core *c, uint64_t id);
void peer_eof(struct core *c, struct peer *p);
void peer_gone(struct core *c, struct peer *p);
enum core_answer owner_get(struct core *c, struct peer *p, struct slice name, bool create, struct owner **out);
struct owner *owner_adopt(struct core *c, struct slice name); /* n == 0: one that has ended. NULL: no memory */
void owner_timer(struct core *c, struct owner *o);
void owner_wake(struct core *c, struct owner *o);
void owner_work(struct core *c, struct owner *o);

/* locks.c */
struct lock *lock_find(const struct core *c, struct slice name);
struct queue *queue_find(const struct core *c, uint64_t id);
enum core_answer lock_get(struct core *c, const struct core_request *rq, bool any_kind, struct lock **out);
void queue_init(struct queue *q);
bool queue_open(struct core *c, struct lock *l); /* so that lock.queue may be written; false: no memory */
void lock_wake(struct core *c, struct lock *l);
void lock_work(struct core *c); /* goes on with the first that was woken; may free it */
void queue_timer(struct core *c, const struct queue *q);
void lock_hint(struct core *c, struct lock *l, bool confirmed);
bool lock_is_full(const struct lock *l, bool shared); /* who holds it here leaves no room for one more */
bool lock_has_room(const struct lock *l, bool shared, bool behind);
struct claim *lock_next(const struct lock *l); /* the first in the queue whom somebody waits for; NULL: nobody */
void lock_break(struct core *c, struct request *r);
void lock_break_done(struct core *c, struct lock *l, const struct core_done *d);
void lock_broken(struct core *c, struct lock *l); /* it was, or may have been, here or elsewhere */
void lock_wanted(struct core *c, const struct lock *l, bool shared); /* somebody begins to wait */
bool lock_has_one_token(const struct lock *l);                       /* held, and by one grant: others are stale */
void lock_news(struct core *c, const struct claim *cl, enum core_news news, const char *reason);
void lock_refuse(struct core *c, struct lock *l, enum core_answer answer);
void lock_free(struct core *c, struct lock *l);

/* attempts.c */
void lock_try(struct core *c, struct lock *l, struct claim *next);
void lock_attempt_succeeded(struct lock *l);
void lock_attempt_failed(struct core *c, struct lock *l, const struct core_done *d);
void lock_released(struct core *c, struct lock *l, const struct core_done *d);

/* claims.c */
struct claim *claim_find(const struct lock *l, const struct owner *o);
struct claim *claim_new(struct core *c, struct lock *l, struct owner *o); /* NULL: no memory */
void claim_move(struct core *c, struct claim *cl, enum claim_state to);
void claim_arm(struct core *c, struct claim *cl);
void claim_enqueue(struct core *c, struct claim *cl, const struct request *r);
void claim_put_last(struct core *c, struct claim *cl);
void claim_put_placed(struct claim *cl);
void claim_free(struct core *c, struct claim *cl);
void claim_timer(struct core *c, struct claim *cl);
struct claim *claim_first(const struct list *home, unsigned states); /* there in one of them; NULL: none is */
bool claim_renew_is_next(const struct claim *cl, int64_t at_us); /* that is what its timer is armed to at_us for */
struct claim *claim_wanted(const struct lock *l, const struct owner *o, bool once); /* NULL: a new one is needed */
bool claim_wants_shared(const struct claim *cl); /* the first LOCK that waits for it */
struct claim *claim_newest_held(const struct lock *l, const struct owner *o, uint64_t token);

/* ends.c */
void claim_deserted(struct core *c, struct claim *cl);
void claim_desert(struct core *c, struct claim *cl);
void claim_lose(struct core *c, struct claim *cl, const char *reason, bool in_redis);
void claim_freed(struct core *c, struct claim *cl, bool news);
void claim_told_lost(struct core *c, struct claim *cl);
void claim_owner_ends(struct core *c, struct claim *cl);

/* kept.c */
void claim_keep(struct core *c, struct claim *cl);   /* what is kept of it follows what it is now */
void claim_forget(struct core *c, struct claim *cl); /* nothing is kept of it any more */
void claim_check_kept(const struct core *c, const struct claim *cl); /* asserts that it is kept as it is now */

/* adopt.c */
void adopt(struct core *c, struct core_adoption *a);
void adopt_reached(struct core *c);

/* operations.c */
bool claim_busy(const struct claim *cl);                 /* no operation may be sent for it now */
void claim_try(struct core *c, struct claim *cl);        /* asks Redis for it; QUEUED, somebody waits */
void claim_serve(struct core *c, struct claim *cl);      /* goes on with what its owner asks; HELD */
void claim_renew(struct core *c, struct claim *cl);      /* of the lease; of the place, when QUEUED */
void claim_renew_in_turn(struct core *c, struct claim *cl); /* the same, when there is room in the window */
void claim_renew_waits_not(struct claim *cl);            /* for its turn, if it did */
void claim_renew_over(struct core *c, struct claim *cl); /* it was answered, or what it finds is no news any more */
void claim_release(struct core *c, struct claim *cl, struct request *r);
void claim_put_off(const struct core *c, struct claim *cl); /* an operation failed: again later, and later each time */
void claim_forget_op(const struct core *c, struct claim *cl);
void claim_reassert(struct core *c, struct claim *cl, bool shared); /* holds that Redis may have lost */
int64_t claim_left_us(const struct core *c, const struct claim *cl); /* the lease to ask Redis for to keep it as long */

/* reclaim.c */
void reclaim_begin(struct core *c, uint64_t epoch);   /* Redis may have lost all that is held */
void reclaim_confirm(struct core *c);                 /* a clock has jumped: is all that is held still there? */
void reclaim_wake(struct core *c);                    /* Redis grants again, or has other data: who waits tries now */
void reclaim_end(struct core *c);                     /* of a step: says so when all is asserted */
void claim_doubt(struct core *c, struct claim *cl, unsigned doubt);
void lock_suspect(struct core *c, struct lock *l);    /* Redis may not have it any more */
void claim_settle(struct core *c, struct claim *cl);  /* asks Redis about a doubt, if nothing else is under way */

/* outcomes.c */
void claim_done(struct core *c, struct claim *cl, const struct core_done *d);
void claim_grant(struct core *c, struct claim *cl, int64_t since_us); /* HELD now: its requests are answered */
void claim_lasts(struct claim *cl, int64_t from_us, int64_t lease_us); /* in Redis, perhaps; never less than before */
void claim_late(const struct core *c, struct claim *cl, unsigned what, int64_t until_us); /* LATE_*, one more */
int64_t permits_left(const struct claim *cl); /* that its owner holds beside it */

/* handoff.c */
bool claim_hand_over(struct core *c, struct claim *cl, struct request *r); /* to who waits; false: nothing was done */
bool claim_linger(struct core *c, struct claim *cl, struct request *r); /* for who comes; false: nothing was done */
void claim_take_up(struct core *c, struct claim *cl, struct request *r); /* LINGERING: by r, of its own owner */
bool lock_take_up(struct core *c, struct lock *l); /* by who waits; false: it is being released */
void lock_linger_ends(struct core *c, struct lock *l);
struct claim *lock_lingering(const struct lock *l); /* lock.lingers */
struct claim *lock_newest(const struct lock *l);    /* of those who hold it who has the highest token; NULL: nobody */
void lock_room_ends(struct lock *l); /* others may have later tokens: no hand-over before the next grant */

/* probe.c */
void probe_join(struct core *c, struct lock *l); /* it stays here: Redis is asked whether others wait */
void probe_timer(struct core *c);
void probe_done(struct core *c, const struct core_probed *d);
void lock_wanted_elsewhere(struct core *c, struct lock *l); /* somebody there waits for it */

/* requests.c */
void request_arrive(struct core *c, const struct core_event *ev);
void request_run(struct core *c, struct request *r);
bool request_waits_for_itself(const struct request *r); /* HELD: a LOCK by who has it, and can not have it again */
void request_timer(struct core *c, struct request *r);
void request_grant(struct core *c, struct request *r);
void request_finish(struct core *c, struct request *r, enum core_answer answer, int64_t left);
void request_drop(struct core *c, struct request *r);
void request_deadlock(struct core *c, struct request *r, const struct core_hop *hop, size_t hops);
void request_refuse(struct core *c, const struct core_request *rq, enum core_answer answer); /* no record was made */
void request_reply(struct core *c, const struct core_reply *rp);
void request_settle(struct core *c, struct request *r); /* waits for nothing any more; the record stays */
enum core_answer request_lock(struct core *c, struct peer *p, const struct core_request *rq, struct request **out);
enum core_answer request_held(struct core *c, struct peer *p, const struct core_request *rq, enum core_event_type verb,
                              struct request **out);
void request_begin(struct core *c, struct request *r, bool in_order);

/* hurry.c */
void request_hurry(struct core *c, struct request *r); /* its time is over; may be its end */
void lock_settle_hurried(struct core *c, struct lock *l, enum core_answer answer); /* all of them */
void lock_settle_full(struct core *c, struct lock *l);      /* those for whom there is no room any more: no */
void lock_settle_impatient(struct core *c, struct lock *l); /* those who had wanted to wait: what the trouble is */

/* bundles.c */
void bundle_arrive(struct core *c, const struct core_event *ev);
void bundle_answer(struct core *c, struct request *r, const struct core_reply *rp); /* of one of its requests */
void bundle_leave(struct core *c, struct request *r);   /* its session has gone, or the core goes */

/* deadlock.c */
bool deadlock_begins(struct core *c, struct request *r); /* true: answered, r has gone */
void deadlock_ask(struct core *c, struct request *r);    /* may answer it */
void deadlock_heard(struct core *c, enum tell_what what, struct slice text);

/* tell.c */
struct slice tell_myself(const struct core *c); /* the daemon, as the others know it */
void tell_begin(struct core *c, enum tell_what what);
void tell_word(struct core *c, struct slice word);
void tell_number(struct core *c, uint64_t number);
void tell_send(struct core *c); /* nothing is said if it was too much */
void tell_lock(struct core *c, enum tell_what what, const struct lock *l); /* all of it: who says it, name and key */
bool told_word(struct slice *text, struct slice *word); /* takes it off the text; false: there is none */
bool told_number(struct slice *text, uint64_t *number);
struct lock *told_lock(const struct core *c, struct slice text); /* NULL: of no lock here, or we said it ourselves */
void tell_heard(struct core *c, struct slice what);

static inline bool
lock_is(const struct lock *l, unsigned flags) /* any of them */
{
    return (kind_rows[l->kind].flags & flags) != 0;
}

static inline bool
lock_has_queue(const struct lock *l)
{
    return l->queue->lock != NULL;
}

/* One of these, LATE_*, may still run. */
static inline bool
claim_is_late(const struct core *c, const struct claim *cl, unsigned what)
{
    return (cl->late & what) != 0 && c->now_us < cl->late_until_us;
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
lock_run_is_over(const struct core *c, const struct lock *l)
{
    return l->run >= c->conf.handoff_max || c->now_us - l->run_since_us >= c->conf.handoff_time_us;
}

/* Within 0..most_us, which is short. */
static inline uint32_t
short_us(int64_t us, int64_t most_us)
{
    return (uint32_t)earlier(later(us, 0), most_us);
}

/* So many renewals may be in flight. */
static inline uint32_t
renew_window(const struct core *c)
{
    int64_t n = earlier(c->conf.op_timeout_us / RENEW_US, RENEW_WINDOW);

    return (uint32_t)later(n, RENEW_TOGETHER);
}

/* What was sent until now, also by the process before this one, can run until then, by clocks that differ a little. */
static inline int64_t
late_until_us(const struct core *c)
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
