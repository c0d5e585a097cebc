/*
 * queue.h -- who waits for a lock here; private to daemon/core.
 */
#ifndef RLOCKD_CORE_QUEUE_H
#define RLOCKD_CORE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/core/core.h"
#include "daemon/core/graph.h"
#include "daemon/core/jobs.h"
#include "daemon/core/times.h"

struct lock;

/* The waiters that the last outcome answers, if they do not want to wait for another one; see timing_out.c. */
enum settle_how { SETTLE_ALL, SETTLE_FULL, SETTLE_IMPATIENT };

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
    struct {
        struct job job;        /* some of them are still to be answered */
        uint32_t outcome_n;    /* outcomes that any of them had to be told */
        enum settle_how how;   /* the last one: who is to be told, and what */
        enum core_answer answer;
    } settle;
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

#endif
