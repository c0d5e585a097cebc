/*
 * queue.h -- the waiters for a lock at this daemon; private to daemon/core.
 */
#ifndef RLOCKD_CORE_QUEUE_H
#define RLOCKD_CORE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/base/timer.h"
#include "daemon/core/answers.h"
#include "daemon/core/graph_record.h"
#include "daemon/core/job.h"

struct lock;

/* The waiters that the last outcome answers, if they do not want to wait for another one; see timing_out.c. */
enum settle_how {
    SETTLE_ALL,    /* those whose own attempt is not under way */
    SETTLE_FULL,   /* of SETTLE_ALL those for which the lock has no room: another claim was granted it */
    SETTLE_WAITED, /* of SETTLE_ALL those that had wanted to wait: the attempt has not run */
};

enum watch_state { WATCH_OFF, WATCH_ASKED, WATCH_ON }; /* ON: Redis counts this daemon as a subscriber */

/*
 * The waiters of a lock, and what is known of its holders elsewhere. A queue is made for the LOCK or BREAK that
 * arrives, for a claim that is restored, when the claim of the lock becomes CACHED, or when the lock is left to remote
 * waiters for a while. I15 of core.c says how long it is kept; lock_advance() frees it. Then lock.queue is
 * core.empty_queue, which is read like any other, but never written: see lock_has_queue().
 */
struct queue {
    struct lock *lock;      /* NULL: core.empty_queue */
    struct map_node by_id;  /* core.queues; its number is in HINT, SUBSCRIBED, UNSUBSCRIBED, and the DONE of a BREAK */
    struct list claims;     /* claim.node */
    struct list waiter_poll_node; /* waiter_poll.todo or waiter_poll.seen: CACHED, or in a cohort */
    struct list timing_out; /* request.timing_out_node: answered as soon as the next outcome is known */
    struct {
        struct job job;        /* some requests on timing_out are still to be answered */
        uint32_t outcome_n;    /* number of the last outcome; outcomes are counted while requests are on timing_out */
        enum settle_how how;   /* which waiters the last outcome answers ... */
        enum core_answer answer; /* ... and what they are answered */
    } settle;
    struct list breaks;     /* request.claim_node of BREAKs */
    uint64_t break_op;
    struct job break_job;   /* the name was broken, and some former holders are still on lock.holders: */
    uint64_t broken_token;  /* ... those with a smaller token than this; 0 = no BREAK is known */
    struct timer timer;     /* armed to retry_us while a request waits for that; without claims, to yield_until_us */
    uint32_t waiting_n;     /* LOCK requests that wait for it ... */
    uint32_t blocking_n;    /* ... and of them, those that are `blocking` */
    uint32_t trying_n;      /* claims TRYING */
    uint32_t shortfalls_n;  /* claims with claim.shortfall: A7 of attempts.c */
    uint32_t kept_n;        /* claims whose position is kept without a request */
    uint32_t redis_holders_n;   /* kinds with several holders: their number in Redis at the last TAKEN */
    uint32_t failed_n;      /* failures of Redis in a row, BACKOFF_TIMES at most */
    bool lone_attempt;      /* a claim is TRYING that admits no attempt beside it */
    bool failed;            /* of the attempts under way together, one has failed */
    bool broken_remains;    /* what the BREAK of broken_token has left in Redis is to be released */
    bool hinted;            /* a hint came while attempts were under way */
    bool ticketless;        /* a waiter may lack a ticket */
    enum watch_state watch;
    bool watch_tracking;    /* the WATCH in force is by client-side caching too; a reload may change lock.tracking */
    enum core_answer last_failure; /* why the last attempt was neither granted nor TAKEN: UNAVAILABLE, REDIS_FULL,
                                      NO_REPLICAS; else NOT_GRANTED */
    uint8_t replicas, replicas_wanted; /* NO_REPLICAS: how many had acknowledged it, of how many */
    uint64_t asks_first;    /* id of the claim that asks next, A8 of attempts.c; 0 = the first with requests */
    uint64_t sent_turn;     /* in which the attempts under way were sent */
    uint64_t watch_owner;   /* kinds with tickets: the owner whose own channel is watched; 0 = none */
    int64_t retry_us;       /* no attempt before it, but for a ticket: attempts_advance() */
    int64_t taken_until_us; /* held elsewhere, until then if it is not renewed; 0 = no remote holder is known */
    int64_t yield_until_us; /* the lock is left to remote waiters until then */
    struct graph_mark mark[GRAPHS];
};

#endif
