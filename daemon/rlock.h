/*
 * rlock.h -- the verbs of the command line, and their exit statuses.
 */
#ifndef RLOCKD_RLOCK_H
#define RLOCKD_RLOCK_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rlock_exit {
    RLOCK_USAGE = 64,       /* the command line is wrong, or the daemon has refused the request as wrong */
    RLOCK_UNREACHABLE = 69, /* no daemon answers, or it refuses */
    RLOCK_NO_MEMORY = 71,   /* an allocation has failed (MEMORY_STATUS of daemon/base/memory.h) */
    RLOCK_BUSY = 75,        /* not granted in time */
    RLOCK_LOST = 79,        /* the lock was lost while the command ran */
    RLOCK_NO_EXEC = 126,    /* the command cannot be run */
    RLOCK_NO_COMMAND = 127, /* the command was not found */
    RLOCK_SIGNAL = 128,     /* plus the signal's number */
};

/* The address of the daemon, and the password for it. */
struct rlock_at {
    const char *addr;
    const char *password; /* or NULL */
};

struct rlock_run {
    struct rlock_at at;
    const char *name;
    const char *wait;      /* as LOCK's WAIT takes it; NULL = the daemon's default */
    char wait_text[24];    /* `wait` points here if the option had another form */
    const char *kind;      /* as LOCK's KIND takes it; NULL = by the daemon's rules */
    const char *limit;     /* as LOCK's LIMIT takes it; NULL = by the rules */
    bool shared;
    int64_t kill_after_us; /* between TERM and KILL when the lock is lost */
    char **command;        /* ends with NULL */
    const char *owner;     /* the owner; drawn by rlock_run() */
    bool *inner_returned;  /* shared by all three processes: rlock_inner() has returned and given the lock back, or the
                              keeper does that; no other process has to */
    char *title;           /* the words of the command line, which ps shows; the strings above may point there */
    size_t title_bytes;
};

#define RLOCK_OWNER_BYTES 120
/*
 * A user's signal on its way from the guard to the inner process (see rlock_guard.c): a number of its own, because the
 * inner process also gets (and ignores) signals to the process group, and signals of one number merge.
 */
#define RLOCK_RELAYED(sig) (SIGRTMIN + (sig))
#define RLOCK_GUARD_DIED RLOCK_RELAYED(0) /* the guard or the keeper has died: the command must end */

/* Runs the command while the lock is held; returns the exit status. */
int rlock_run(const struct rlock_run *r);

/* The inner process of rlock_run(): both sets of rlock_signals() are blocked, and the command gets `mask`. */
int rlock_inner(const struct rlock_run *r, const sigset_t *mask);

/* The signals that the guard relays to the command, and those that the other two processes handle. Both have CHLD. */
void rlock_signals(sigset_t *users, sigset_t *relayed);

#endif
