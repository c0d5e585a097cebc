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

/* The state of `rlock run` in the inner process. */
struct run {
    const struct rlock_run *want;
    struct client lock, events;
    int signals;        /* signalfd, owned */
    sigset_t mask;      /* the signal mask that rlock was started with; the command gets it */

    int64_t token;      /* 0 = not granted */
    int64_t lease_us;   /* as granted */
    int64_t deadline_us; /* the owner has the lock until then; NEVER while the daemon drains, until a cut */
    int64_t confirm_us; /* when to have the lock confirmed again; NEVER while a reply is due */
    int64_t asked_us;   /* when the last LOCK was sent */
    int64_t reported_us; /* the last deadline that the daemon has reported */

    bool is_unix;       /* by Unix socket, which reports the end of the daemon at once */
    bool cut;           /* no connection, or none that has confirmed the lock */
    int64_t owner_grace_us; /* for so long the owner keeps the lock without a connection */
    int64_t alive_us;   /* until when there was a connection, as far as is known */
    int64_t retry_us;   /* cut: when to connect again; NEVER while connecting */
    char owner_grace[24]; /* owner_grace_us and a margin, as LOCK's GRACE takes it */
    const char *addr;   /* where to connect */
    char peer[80];      /* the same address in numbers, without a name of a host */
    char why[192];      /* why the connection was cut */

    struct child child;
    bool orphan;        /* the guard or the keeper was killed */
    bool lost;
    int64_t kill_us;    /* when KILL is due */
};

static inline int64_t
sooner(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

void run_report(const struct run *r, const char *what, const char *detail);

/* Sets the owner grace: time enough to reconnect, or else to end the command. */
void hold_set_grace(struct run *r);

/* Opens both connections, and subscribes to the events of the session of `lock`. 0 = done, else the exit status. */
int hold_open_both(struct run *r);

/*
 * Opens both connections again, while rlock waits for the lock. Each reply has little time; only resolving a name has
 * no bound. NULL: both are open; else the reason, a text that lives until they are closed.
 */
const char *hold_open_again(struct run *r);

/* Sends LOCK with the options of the command line, and `more` words (NULL ends them). False: the connection failed. */
bool hold_send_lock(struct run *r, const char *const *more);

/* Takes the first reply to LOCK. 0 = granted, else the exit status. */
int hold_first_reply(struct run *r, const struct redisReply *v);

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

/* After a cut: connects once more, and asks whether the owner still has the lock. */
void hold_reconnect(struct run *r);

/*
 * Asks again for the lock that the owner holds (ONCE: no hold is counted); the reply has the deadline. After a cut LOCK
 * waits for 2 s: a daemon that has just started needs a moment until Redis has confirmed its locks.
 */
void hold_confirm(struct run *r);

/* Asks whether the owner has the lock, and until when, and waits for the reply. */
void hold_confirm_now(struct run *r);

/*
 * The command has ended: gives the lock back, over a new connection if need be. The error of a first UNLOCK means that
 * the lock was lost while the command ran, except UNAVAILABLE: Redis has not confirmed the release yet. The error of a
 * second UNLOCK does not mean that, because the first one may have run.
 */
void hold_give_back(struct run *r);

#endif
