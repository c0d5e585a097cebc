/*
 * rlock_hold.h -- the lock that `rlock run` holds: granted, confirmed again and again, over connections that are cut.
 * For rlock_run.c and rlock_hold.c.
 */
#ifndef RLOCKD_RLOCK_HOLD_H
#define RLOCKD_RLOCK_HOLD_H

#include "daemon/rlock.h"
#include "daemon/rlock_child.h"
#include "daemon/rlock_client.h"

#define NEVER INT64_MAX

/* All that the loop knows. */
struct run {
    const struct rlock_run *want;
    struct client lock, events;
    int signals;        /* signalfd, owned */
    sigset_t mask;      /* as it was before; the child gets it back */

    int64_t token;      /* 0 = not granted */
    int64_t lease_us;   /* as granted */
    int64_t deadline_us; /* the lock is ours until then; NEVER while the daemon drains */
    int64_t beat_us;    /* when to have the lock confirmed again; NEVER while an answer is due */
    int64_t asked_us;   /* when that was asked */
    int64_t reported_us; /* the deadline, as the daemon has reported it last */

    bool is_unix;       /* the end of the other side is seen at once */
    bool cut;           /* no connection, or none that has confirmed the lock */
    int64_t owner_grace_us; /* the time for which the lock stays ours without a connection */
    int64_t alive_us;   /* until when there was a connection, as far as is known */
    int64_t retry_us;   /* cut: when to connect again; NEVER while connecting */
    char owner_grace[24]; /* the same as LOCK takes it */
    const char *addr;   /* where to connect */
    char peer[80];      /* that address, without a name in it */
    char why[192];      /* it was cut */

    struct child child;
    bool orphan;        /* a process above us was killed */
    bool lost;
    int64_t kill_us;    /* when KILL is due */
};

static inline int64_t
sooner(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

void run_report(const struct run *r, const char *what, const char *detail);

/* How long the lock must stay ours without us: to reconnect, or else to end the command. */
void hold_set_grace(struct run *r);

/* Both connections, and the events on the lock's session. 0 = fine, else what to end with. */
int hold_open_both(struct run *r);

/*
 * The same anew while the lock is waited for. Each answer has little time; only resolving a name has no bound. NULL =
 * fine, else why not, a text that lives until they are closed.
 */
const char *hold_open_again(struct run *r);

/* LOCK as the command line wants it, and so much more (ends with NULL). False: the connection is over. */
bool hold_send_lock(struct run *r, const char *const *more);

/* Takes the first answer to LOCK. 0 = granted, else what to end with. */
int hold_first_answer(struct run *r, const struct redisReply *v);

/*
 * rlock ends while it waits, or after a null: cancels the wait, so that no ticket stays in the queue, and releases a
 * grant that has come meanwhile.
 */
void hold_give_up(struct run *r);

/* Reads a connection and handles every whole reply on it. */
void hold_read(struct run *r, struct client *c);

/* No other owner has the lock before this, whatever the daemon does: the child must be dead by then. */
int64_t hold_ours_until_us(const struct run *r);

/* When the child gets TERM. */
int64_t hold_warn_us(const struct run *r);

/* The lock is gone, or about to be: the child must end, at the latest at kill_at_us. */
void hold_lose(struct run *r, const char *why, int64_t kill_at_us);

/* The daemon, or the way to it, may have lost the lock; no other owner has it before hold_ours_until_us(). */
void hold_lose_soon(struct run *r, const char *why);

/* Cut: one attempt to be connected again, and the question whether the lock is still ours. */
void hold_reconnect(struct run *r);

/*
 * Asks again for the lock that we hold (ONCE: it is not counted); the reply says until when it is ours. A daemon that
 * has just started needs a moment until it knows: it gets time.
 */
void hold_ask(struct run *r);

/* Learns now whether the lock is ours, and until when. */
void hold_make_sure(struct run *r);

/*
 * All of the command has ended: gives the lock back, over a new connection if need be. An error means that the lock was
 * lost while the command ran; but not to a second UNLOCK, for the first one may have run.
 */
void hold_give_back(struct run *r);

#endif
