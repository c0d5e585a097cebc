/*
 * rlock_run.c -- a command under a lock: granted, running, ended before the lease is.
 *
 * I1  The command runs only while there is no sign that the lock is lost: at the first sign its process group gets
 *     TERM, and later KILL.
 * I2  TERM comes `kill_after` (at most a third of the lease) before the deadline that the daemon has reported last, and
 *     KILL at that deadline, which moves ahead while the daemon answers. Without a connection the deadline is
 *     owner_grace_us after the last moment of a connection, at the latest: the owner keeps the lock until then.
 * I3  If this process dies, the kernel kills the command (PDEATHSIG), and the guard or the keeper (rlock_guard.c) all
 *     that is left of it, before the lock is released. If the guard or the keeper dies, this process does the same.
 * I4  No descriptor that rlock has opened is open in the command, which therefore cannot keep the lock by living on.
 */
#include "daemon/rlock.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/units.h"
#include "daemon/rlock_hold.h"
#include "daemon/rlock_descendants.h"

#define RETRY_MIN_US (50 * US_PER_MS)
#define RETRY_MAX_US (1 * US_PER_S)
#define REPLY_LATE_US (60 * US_PER_S) /* behind the time of -w: the longest redis.timeout */

/*
 * Forwarded to the command. While rlock waits for the lock, TSTP stops rlock, and WINCH does nothing, nor does a signal
 * that rlock was started to ignore; all others end it.
 */
static const int forwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP};

/* nohup, and a shell that starts a background job, ignore signals. Such a signal is still queued if it is blocked. */
static bool
is_ignored(int sig)
{
    struct sigaction inherited;

    return sigaction(sig, NULL, &inherited) == 0 && inherited.sa_handler == SIG_IGN;
}

/*
 * Reads all signals that wait, and forwards them. Returns one that ends rlock; if none came, SIGTSTP; if that did not
 * come either, 0. SIGWINCH and a signal that rlock was started to ignore are for the command alone, and must not hide a
 * signal behind them.
 */
static int
take_signals(struct run *r)
{
    struct signalfd_siginfo si;
    int chosen = 0, sig;

    while (read(r->signals, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
        if (si.ssi_signo == SIGCHLD) {
            continue;
        }
        if ((int)si.ssi_signo == RLOCK_GUARD_DIED) {
            r->orphan = true;
            continue;
        }
        sig = (int)si.ssi_signo - RLOCK_RELAYED(0);
        child_signal(&r->child, sig);
        if (sig != SIGWINCH && !is_ignored(sig) && (chosen == 0 || chosen == SIGTSTP)) {
            chosen = sig;
        }
    }
    return chosen;
}

/* What is readable, by wait_some(). */
enum { READY_SIGNALS = 1 << 0, READY_LOCK = 1 << 1, READY_EVENTS = 1 << 2 };

/* Polls until the next deadline. */
static unsigned
wait_some(struct run *r, int64_t deadline_us)
{
    struct pollfd p[3] = { /* in the order of the bits */
        {.fd = r->signals, .events = POLLIN},
        {.fd = r->lost ? -1 : r->lock.fd, .events = POLLIN},
        {.fd = r->lost ? -1 : r->events.fd, .events = POLLIN},
    };
    int64_t left_us = deadline_us == NEVER ? -1 : deadline_us - clock_now_us();
    int64_t left_ms = (left_us + US_PER_MS - 1) / US_PER_MS;
    unsigned bits = 0;

    if (deadline_us != NEVER && left_us < 0) {
        left_ms = 0;
    }
    if (poll(p, 3, deadline_us == NEVER ? -1 : left_ms > INT32_MAX ? INT32_MAX : (int)left_ms) > 0) {
        for (unsigned i = 0; i < 3; i++) {
            bits |= p[i].revents != 0 ? 1u << i : 0;
        }
    }
    if (r->is_unix && !r->cut && (bits & READY_LOCK) == 0) {
        r->alive_us = clock_now_us();
    }
    return bits;
}

/* If TERM is due, the command must not run on, or begin: a reply may confirm the lock so late that TERM is due. */
static void
lose_in_time(struct run *r)
{
    if (!r->lost && clock_now_us() >= hold_warn_us(r)) {
        hold_lose(r, "it could not be renewed in time", hold_ours_until_us(r));
    }
}

/* Does what is due now. Returns the time at which something is due next. */
static int64_t
keep_time(struct run *r)
{
    int64_t now_us = clock_now_us();

    if (r->lost) {
        if (now_us >= r->kill_us) {
            child_signal(&r->child, SIGKILL);
            descendants_signal_kill();
            r->kill_us = NEVER;
        }
        return r->kill_us;
    }
    lose_in_time(r);
    if (r->lost) {
        return r->kill_us;
    }
    if (r->cut && r->retry_us <= now_us) {
        hold_reconnect(r);
    } else if (r->confirm_us <= now_us) {
        hold_confirm(r);
    }
    return sooner(hold_warn_us(r), r->cut ? sooner(r->retry_us, r->confirm_us) : r->confirm_us);
}

/* The wait for the lock, which a connection that is cut does not end. */
struct waiting {
    int64_t end_us;   /* the end of the time of -w; NEVER: without -w, or with `-w forever` */
    int64_t retry_us; /* when to connect again; NEVER: connected */
    int64_t pause_us; /* before the next attempt */
    bool was_cut;     /* a connection was cut */
    char why[192];    /* why the last connection was cut */
};

/* ONCE: a grant that was made to a connection before this one is not counted twice. */
static bool
ask_for_lock(struct run *r, const struct waiting *w)
{
    int64_t left_us = w->end_us == NEVER ? 0 : w->end_us - clock_now_us();
    const char *wait = r->want->wait;
    char left[32];

    if (w->was_cut && w->end_us != NEVER) {
        snprintf(left, sizeof(left), "%" PRId64 "ms", left_us > 0 ? left_us / US_PER_MS : 0);
        wait = left;
    }
    return hold_send_lock(r, wait != NULL ? (const char *const[]){"WAIT", wait, "ONCE", NULL}
                                          : (const char *const[]){"ONCE", NULL});
}

/* A random time, half of `us` at least: clients whose connections were cut together must not reconnect together. */
static int64_t
jittered(int64_t us)
{
    uint32_t drawn;

    if (getrandom(&drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn)) {
        drawn = 0;
    }
    return us / 2 + drawn % (us / 2 + 1);
}

/* Reports why the wait has ended without the lock; returns the exit status. */
static int
wait_over(const struct run *r, const struct waiting *w)
{
    run_report(r, "while waiting", w->why);
    return RLOCK_UNREACHABLE;
}

/* No connection, or none that grants: the next attempt comes soon, while the wait lasts. 0, or the exit status. */
static int
wait_cut(struct run *r, struct waiting *w, const char *why)
{
    int64_t now_us = clock_now_us();

    snprintf(w->why, sizeof(w->why), "%s", why);
    if (now_us >= w->end_us) {
        return wait_over(r, w);
    }
    if (!w->was_cut) {
        run_report(r, "waiting goes on", w->why);
    }
    w->was_cut = true;
    client_close(&r->lock);
    client_close(&r->events);
    w->retry_us = sooner(now_us + jittered(w->pause_us), w->end_us);
    w->pause_us = sooner(2 * w->pause_us, RETRY_MAX_US);
    return 0;
}

/* The reply begins with one of the words, of which the last one is NULL. */
static bool
begins_with_any(const char *reply, const char *const *word)
{
    for (; *word != NULL; word++) {
        size_t n = strlen(*word);

        if (strncmp(reply, *word, n) == 0 && reply[n] == ' ') {
            return true;
        }
    }
    return false;
}

/* Without a connection: 0, or the exit status. A refusal that another attempt would get again ends the run. */
static int
wait_retry(struct run *r, struct waiting *w)
{
    const char *why;

    if (clock_now_us() < w->retry_us) {
        return 0;
    }
    if (clock_now_us() >= w->end_us) {
        return wait_over(r, w);
    }
    w->retry_us = NEVER;
    why = hold_open_again(r);
    if (why == NULL && ask_for_lock(r, w)) {
        return 0;
    }
    if (why != NULL && begins_with_any(why, (const char *const[]){"NOAUTH", "WRONGPASS", "NOPERM", NULL})) {
        snprintf(w->why, sizeof(w->why), "%s", why);
        return wait_over(r, w);
    }
    return wait_cut(r, w, why != NULL ? why : r->lock.error);
}

/* True for an error that has its cause in this daemon, or in the one before it: another attempt may be granted. */
static bool
is_passing(const struct waiting *w, const struct redisReply *v)
{
    const char *const *words = w->was_cut ? (const char *const[]){"DRAINING", "UNAVAILABLE", "LIMIT", "LOST", NULL}
                                        : (const char *const[]){"DRAINING", NULL};

    return v->type == REDIS_REPLY_ERROR && begins_with_any(v->str, words);
}

#define GOES_ON (-1)

/* Reads once. GOES_ON; 0 = granted; else the exit status. */
static int
wait_read(struct run *r, struct waiting *w, unsigned ready)
{
    const struct redisReply *v;
    struct client *c = NULL;
    int end = 0;

    if (ready & READY_EVENTS && !client_fill(&r->events)) {
        c = &r->events;
    } else if (ready & READY_LOCK && !client_fill(&r->lock)) {
        c = &r->lock;
    }
    if (c != NULL) {
        end = wait_cut(r, w, c->error);
        return end != 0 ? end : GOES_ON;
    }
    while (ready & READY_EVENTS && client_next(&r->events, &v) == CLIENT_READY) {
        /* no event is about a grant to rlock yet */
    }
    switch (ready & READY_LOCK ? client_next(&r->lock, &v) : CLIENT_MORE) {
    case CLIENT_READY:
        if (!is_passing(w, v)) {
            return hold_first_reply(r, v);
        }
        end = wait_cut(r, w, v->str);
        return end != 0 ? end : GOES_ON;
    case CLIENT_BAD:
        run_report(r, "while waiting", r->lock.error);
        return RLOCK_UNREACHABLE;
    case CLIENT_MORE:
        break;
    }
    return GOES_ON;
}

/* The daemon must have answered by then, unless it stands still (SIGSTOP), which does not end the connection. */
static int64_t
reply_due_us(const struct waiting *w)
{
    return w->end_us == NEVER ? NEVER : w->end_us + REPLY_LATE_US;
}

/* Asks for the lock and waits for it. 0 = granted, else the exit status. */
static int
await_lock(struct run *r)
{
    struct waiting w = {.end_us = NEVER, .retry_us = NEVER, .pause_us = RETRY_MIN_US};
    int64_t wait_us;
    int end;

    if (r->want->wait != NULL && duration_parse(slice_of(r->want->wait), &wait_us)) {
        w.end_us = clock_now_us() + wait_us;
    }
    if (!ask_for_lock(r, &w) && (end = wait_cut(r, &w, r->lock.error)) != 0) {
        return end;
    }
    for (;;) {
        bool overdue = clock_now_us() >= reply_due_us(&w); /* after a stop of rlock the reply may be there, unread */
        unsigned ready = wait_some(r, sooner(w.retry_us, reply_due_us(&w)));

        if (ready & READY_SIGNALS) {
            int sig = take_signals(r);

            if (sig == SIGTSTP) {
                kill(0, SIGSTOP);
            } else if (sig != 0) {
                return RLOCK_SIGNAL + sig;
            }
            if (r->orphan) {
                return RLOCK_LOST;
            }
        }
        if (w.retry_us != NEVER) {
            end = wait_retry(r, &w);
            end = end != 0 ? end : GOES_ON;
        } else {
            end = wait_read(r, &w, ready);
            if (end == GOES_ON && w.retry_us == NEVER && overdue) {
                snprintf(w.why, sizeof(w.why), "no answer");
                end = wait_over(r, &w);
            }
        }
        if (end != GOES_ON) {
            return end;
        }
    }
}

/*
 * The lease of a grant runs from a moment that only the daemon knows, and the grant may have waited to be read. Long
 * after the LOCK was sent, its reply is no useful bound: ask again, and count from the second request.
 */
static int
confirm(struct run *r)
{
    if (clock_now_us() - r->asked_us >= r->lease_us / 6) {
        hold_confirm_now(r);
    }
    if (r->cut) { /* nothing runs yet */
        hold_lose_soon(r, r->why);
    }
    lose_in_time(r);
    return r->lost ? RLOCK_LOST : 0;
}

/* Waits for the next event, and handles it. */
static void
turn(struct run *r)
{
    unsigned ready = wait_some(r, keep_time(r));

    if (ready & READY_SIGNALS) {
        take_signals(r);
    }
    if (r->orphan) {
        hold_lose(r, "rlock was killed", 0);
    }
    if (ready & READY_EVENTS && !r->lost && r->events.fd >= 0) {
        hold_read(r, &r->events);
    }
    if (ready & READY_LOCK && !r->lost && r->lock.fd >= 0) {
        hold_read(r, &r->lock);
    }
}

/* After a stop of unknown length (SIGSTOP) the command goes on only if the owner still has the lock. */
static void
after_pause(struct run *r)
{
    if (!r->lost) {
        hold_confirm_now(r);
    }
    while (!r->lost && r->cut) {
        turn(r);
    }
    lose_in_time(r);
    if (!r->lost) {
        child_continue(&r->child);
    }
}

/*
 * Children that outlive a terminated command may run until kill_us, as the command might have; after that, or when the
 * guard or the keeper has died, they are killed. Only then the lock is released.
 */
static void
end_rest(struct run *r)
{
    while (!r->orphan && r->kill_us != NEVER && clock_now_us() < r->kill_us && !descendants_reap()) {
        wait_some(r, r->kill_us);
        take_signals(r);
    }
    if (!descendants_kill()) {
        run_report(r, "some processes of the command cannot be killed", "");
    }
}

/* Serves the lock while the command runs. Returns the exit status. */
static int
attend(struct run *r)
{
    enum child_news news;

    while ((news = child_poll(&r->child)) != CHILD_ENDED) {
        if (news == CHILD_PAUSED) {
            after_pause(r);
        }
        turn(r);
    }
    r->child.pid = 0;
    if (r->lost) {
        end_rest(r);
    }
    hold_give_back(r);
    if (r->lost) {
        return RLOCK_LOST;
    }
    return WIFSIGNALED(r->child.status) ? RLOCK_SIGNAL + WTERMSIG(r->child.status) : WEXITSTATUS(r->child.status);
}

void
rlock_signals(sigset_t *users, sigset_t *relayed)
{
    sigemptyset(users);
    sigaddset(users, SIGCHLD);
    *relayed = *users;
    sigaddset(relayed, RLOCK_GUARD_DIED);
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++) {
        sigaddset(users, forwarded[i]);
        sigaddset(relayed, RLOCK_RELAYED(forwarded[i]));
    }
}

int
rlock_inner(const struct rlock_run *want, const sigset_t *mask)
{
    struct run r = {.want = want, .lock = {.fd = -1}, .events = {.fd = -1}, .signals = -1, .deadline_us = NEVER,
                    .reported_us = NEVER, .confirm_us = NEVER, .retry_us = NEVER, .mask = *mask, .addr = want->at.addr,
                    .is_unix = strncmp(want->at.addr, "tcp:", 4) != 0};
    sigset_t users, relayed;
    int end;

    descendants_adopt();
    hold_set_grace(&r);
    rlock_signals(&users, &relayed);
    r.signals = signalfd(-1, &relayed, SFD_CLOEXEC | SFD_NONBLOCK);
    if (r.signals < 0) {
        run_report(&r, "signalfd", strerror(errno));
        return RLOCK_UNREACHABLE;
    }
    end = hold_open_both(&r);
    if (end == 0) {
        end = await_lock(&r);
    }
    if (end == 0) {
        end = confirm(&r);
    }
    if (end == 0) {
        end = child_start(&r.child, want->command, want->name, r.token, &r.mask);
        if (end == 0) {
            end = attend(&r);
        } else {
            hold_give_back(&r);
        }
    } else if (r.token != 0) {
        hold_give_back(&r);
    } else {
        hold_give_up(&r);
    }
    client_close(&r.lock);
    client_close(&r.events);
    close(r.signals);
    return end;
}
