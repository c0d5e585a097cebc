/*
 * rlock_run.c -- a command under a lock: granted, running, ended before the lease is.
 *
 * Two connections: `lock` holds (when it closes, the daemon frees), `ears` is subscribed
 * to what happens to the session of `lock`. All waiting is one poll: both
 * connections, signals (blocked, read from a signalfd) and the next deadline.
 *
 * I1  The child runs only while this process believes in the lock: from the first sign that it is
 *     gone, the child's process group has been sent TERM, and KILL follows.
 * I2  That belief ends early: while the daemon answers, the deadline it tells moves ahead; TERM goes out
 *     `kill_after` (at most a third of the lease) before it, KILL at it.
 * I3  If this process dies, the kernel kills the child (PDEATHSIG) and the daemon frees the lock.
 * I4  No descriptor of ours is open in the child: it cannot keep the lock by living on.
 */
#include "daemon/rlock.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/rlock_child.h"
#include "daemon/rlock_client.h"

#define ANSWER_US (5 * US_PER_S)
#define BEAT_MIN_US (100 * US_PER_MS)
#define NEVER INT64_MAX

/* All that the loop knows. */
struct run {
    const struct rlock_run *want;
    struct client lock, ears;
    int signals;        /* signalfd, owned */
    sigset_t mask;      /* as it was before; the child gets it back */

    int64_t token;      /* 0 = not granted */
    int64_t lease_us;   /* as granted */
    int64_t until_us;   /* the lock is ours until then; NEVER while the daemon drains */
    int64_t beat_us;    /* when to ask again how long; NEVER while an answer is due */
    int64_t asked_us;   /* when that was asked */

    struct child child;
    bool lost;
    int64_t kill_us;    /* when KILL is due */
};

/* Forwarded to the child; the same end us while we wait for the lock, but for WINCH. */
static const int forwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP};

static void
say(const struct run *r, const char *what, const char *detail)
{
    fprintf(stderr, "rlock: %s: %s%s%s\n", r->want->name, what, *detail != '\0' ? ": " : "", detail);
}

/* The same with an error reply as the detail. */
static void
say_reply(const struct run *r, const char *what, const struct value *v)
{
    char text[256];

    snprintf(text, sizeof(text), "%.*s", (int)v->text.n, v->text.p);
    say(r, what, text);
}

/* The lock is gone, or about to be: the child must end, at the latest at kill_us. */
static void
lose(struct run *r, const char *why, int64_t kill_at_us)
{
    if (r->lost) {
        return;
    }
    r->lost = true;
    r->kill_us = kill_at_us;
    say(r, "lock lost", why);
    child_signal(&r->child, SIGTERM);
    child_signal(&r->child, SIGCONT);
}

/* The daemon or the way to it has gone: the lease may live on a little, but no longer than it was told. */
static void
lose_daemon(struct run *r, const char *why)
{
    int64_t at_us = clock_now_us() + r->want->kill_after_us;

    lose(r, why, r->until_us < at_us ? r->until_us : at_us);
}

/* How long before the deadline the child is told to end. */
static int64_t
warning_us(const struct run *r)
{
    return r->want->kill_after_us < r->lease_us / 3 ? r->want->kill_after_us : r->lease_us / 3;
}

/* What a granted LOCK ... FULL says, asked at asked_us. */
static bool
take_grant(struct run *r, const struct value *v)
{
    int64_t token = value_number(value_field(v, "token"), 0);
    int64_t left_us = value_number(value_field(v, "lease_ms"), 0) * US_PER_MS;

    if (token <= 0 || left_us <= 0) {
        return false;
    }
    if (r->token == 0) {
        r->token = token;
        r->lease_us = left_us;
    }
    if (token != r->token) {
        return false;
    }
    r->until_us = r->asked_us + left_us;
    r->beat_us = clock_now_us() + (r->lease_us / 6 > BEAT_MIN_US ? r->lease_us / 6 : BEAT_MIN_US);
    return true;
}

/* LOCK as the command line wants it, and so much more (ends with NULL). False: the connection is over. */
static bool
send_lock(struct run *r, const char *const *more)
{
    const struct {
        const char *word, *value;
        bool given;
    } options[] = {
        {"KIND", r->want->kind, r->want->kind != NULL},
        {"LIMIT", r->want->limit, r->want->limit != NULL},
        {"SHARED", NULL, r->want->shared},
    };
    const char *words[16] = {"LOCK", r->want->name, "FULL"};
    size_t n = 3;

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (options[i].given) {
            words[n++] = options[i].word;
            words[n] = options[i].value;
            n += options[i].value != NULL;
        }
    }
    while (*more != NULL && n + 1 < sizeof(words) / sizeof(words[0])) {
        words[n++] = *more++;
    }
    words[n] = NULL;
    r->asked_us = clock_now_us();
    return client_send(&r->lock, words);
}

/* Asks for what we hold again (ONCE: it is not counted): the answer says how long it is ours. */
static void
ask(struct run *r)
{
    r->beat_us = NEVER;
    if (!send_lock(r, (const char *const[]){"NOWAIT", "ONCE", NULL})) {
        lose_daemon(r, r->lock.error);
    }
}

/* The answer to ask(). */
static void
answered(struct run *r, const struct value *v)
{
    static const char *const no_news[] = {"UNAVAILABLE", "DRAINING", "LIMIT"};

    for (size_t i = 0; v->type == VALUE_ERROR && i < sizeof(no_news) / sizeof(no_news[0]); i++) {
        size_t n = strlen(no_news[i]);

        if (v->text.n > n && strncmp(v->text.p, no_news[i], n) == 0) {
            /* A daemon that drains lets holders finish, and still says when a lock is lost. */
            if (strcmp(no_news[i], "DRAINING") == 0) {
                r->until_us = NEVER;
            }
            r->beat_us = clock_now_us() + r->lease_us / 6;
            return;
        }
    }
    if (!take_grant(r, v)) {
        lose(r, "the daemon says so", clock_now_us() + r->want->kill_after_us);
    }
}

/* Takes the first answer to LOCK. 0 = granted, else what to end with. */
static int
first_answer(struct run *r, const struct value *v)
{
    if (v->type == VALUE_NULL) {
        say(r, "busy", "");
        return RLOCK_BUSY;
    }
    if (v->type == VALUE_ERROR) {
        say_reply(r, "refused", v);
        return v->text.n > 4 && strncmp(v->text.p, "ERR ", 4) == 0 ? RLOCK_USAGE : RLOCK_UNREACHABLE;
    }
    if (!take_grant(r, v)) {
        say(r, "refused", "the answer is not rlockd's");
        return RLOCK_UNREACHABLE;
    }
    return 0;
}

/*
 * Reads all signals that wait, and forwards them. Returns one that is to end us, else SIGTSTP, if they are among them;
 * else 0. SIGWINCH is for the command alone: it must not hide one that came behind it.
 */
static int
take_signals(struct run *r)
{
    struct signalfd_siginfo si;
    int told = 0;

    while (read(r->signals, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
        if (si.ssi_signo == SIGCHLD) {
            continue;
        }
        child_signal(&r->child, (int)si.ssi_signo);
        if (si.ssi_signo != SIGWINCH && (told == 0 || told == SIGTSTP)) {
            told = (int)si.ssi_signo;
        }
    }
    return told;
}

/* One poll until the next deadline. The bits of what is readable: 1 signals, 2 lock, 4 ears. */
static unsigned
wait_some(const struct run *r, int64_t deadline_us)
{
    struct pollfd p[3] = {
        {.fd = r->signals, .events = POLLIN},
        {.fd = r->lost ? -1 : r->lock.fd, .events = POLLIN},
        {.fd = r->lost ? -1 : r->ears.fd, .events = POLLIN},
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
    return bits;
}

/* True when a push on the ears says that the lock was lost. */
static bool
hears_loss(const struct value *v)
{
    const struct value *kind = v + 1, *payload;

    if (v->type != VALUE_ARRAY || v->n != 3 || !slice_is(kind->text, "message")) {
        return false;
    }
    payload = value_after(value_after(kind));
    return payload->text.n >= 4 && strncmp(payload->text.p, "lost", 4) == 0;
}

/* Reads a connection and handles every whole reply on it. */
static void
listen_to(struct run *r, struct client *c)
{
    const struct value *v;
    enum client_result got = CLIENT_MORE;

    if (!client_fill(c)) {
        lose_daemon(r, c->error);
        return;
    }
    while (!r->lost && (got = client_next(c, &v)) == CLIENT_READY) {
        if (c == &r->lock) {
            answered(r, v);
        } else if (hears_loss(v)) {
            lose(r, "the daemon says so", clock_now_us() + r->want->kill_after_us);
        }
    }
    if (got == CLIENT_BAD) {
        lose_daemon(r, c->error);
    }
}

/* Whatever is due now. Returns when to look again. */
static int64_t
keep_time(struct run *r)
{
    int64_t now_us = clock_now_us(), term_us;

    if (r->lost) {
        if (now_us >= r->kill_us) {
            child_signal(&r->child, SIGKILL);
            r->kill_us = NEVER;
        }
        return r->kill_us;
    }
    if (r->beat_us <= now_us) {
        ask(r);
    }
    term_us = r->until_us == NEVER ? NEVER : r->until_us - warning_us(r);
    if (now_us >= term_us) {
        lose(r, "it could not be renewed in time", r->until_us);
        return r->kill_us;
    }
    return r->beat_us < term_us ? r->beat_us : term_us;
}

/* Asks for the lock and waits for it. 0 = granted, else what to end with. */
static int
await_lock(struct run *r)
{
    const struct value *v;

    if (!send_lock(r, (const char *const[]){r->want->wait != NULL ? "WAIT" : NULL, r->want->wait, NULL})) {
        say(r, "cannot ask", r->lock.error);
        return RLOCK_UNREACHABLE;
    }
    for (;;) {
        unsigned ready = wait_some(r, NEVER);

        if (ready & 1) {
            int sig = take_signals(r);

            if (sig == SIGTSTP) {
                kill(0, SIGSTOP);
            } else if (sig != 0) {
                return RLOCK_SIGNAL + sig;
            }
        }
        if (ready & 4 && !client_fill(&r->ears)) {
            say(r, "while waiting", r->ears.error);
            return RLOCK_UNREACHABLE;
        }
        if (!(ready & 2)) {
            continue;
        }
        if (!client_fill(&r->lock)) {
            say(r, "while waiting", r->lock.error);
            return RLOCK_UNREACHABLE;
        }
        switch (client_next(&r->lock, &v)) {
        case CLIENT_READY:
            return first_answer(r, v);
        case CLIENT_BAD:
            say(r, "while waiting", r->lock.error);
            return RLOCK_UNREACHABLE;
        case CLIENT_MORE:
            break;
        }
    }
}

/* Both connections, and the ears on the lock's session. 0 = fine, else what to end with. */
static int
open_both(struct run *r)
{
    const char *const who[] = {"CLIENT", "ID", NULL};
    const struct rlock_at *at = &r->want->at;
    const struct value *v;
    char channel[40];

    if (!client_open(&r->lock, at->addr, at->password)) {
        say(r, "cannot reach rlockd", r->lock.error);
        return RLOCK_UNREACHABLE;
    }
    v = client_send(&r->lock, who) ? client_wait(&r->lock, ANSWER_US) : NULL;
    if (v == NULL) {
        say(r, "cannot reach rlockd", r->lock.error);
        return RLOCK_UNREACHABLE;
    }
    if (v->type != VALUE_INT) {
        say_reply(r, "refused", v);
        return RLOCK_UNREACHABLE;
    }
    snprintf(channel, sizeof(channel), "session:%" PRId64, v->n);
    if (!client_open(&r->ears, at->addr, at->password)) {
        say(r, "cannot reach rlockd", r->ears.error);
        return RLOCK_UNREACHABLE;
    }
    v = client_send(&r->ears, (const char *const[]){"SUBSCRIBE", channel, NULL}) ? client_wait(&r->ears, ANSWER_US)
                                                                                 : NULL;
    if (v == NULL) {
        say(r, "cannot reach rlockd", r->ears.error);
        return RLOCK_UNREACHABLE;
    }
    if (v->type == VALUE_ERROR) {
        say_reply(r, "refused", v);
        return RLOCK_UNREACHABLE;
    }
    return 0;
}

/* Waits for the answer to ask(). */
static void
await_answer(struct run *r)
{
    const struct value *v = r->lost ? NULL : client_wait(&r->lock, ANSWER_US);

    if (v != NULL) {
        answered(r, v);
    } else {
        lose_daemon(r, r->lock.error);
    }
}

/* Learns now whether the lock is ours, and until when. */
static void
make_sure(struct run *r)
{
    if (r->beat_us == NEVER) {
        await_answer(r);
    }
    if (!r->lost) {
        ask(r);
        await_answer(r);
    }
}

/*
 * The lease of a grant runs from a moment that only the daemon knows, and the grant may have waited to be read. If the
 * lock was asked for long ago, that is no use as a bound: asked again, it is ours until so long after we asked.
 */
static int
confirm(struct run *r)
{
    if (clock_now_us() - r->asked_us >= r->lease_us / 6) {
        make_sure(r);
    }
    return r->lost ? RLOCK_LOST : 0;
}

/* The child has ended: gives the lock back. If it is not ours any more, it was lost while the child ran. */
static void
give_back(struct run *r)
{
    char token[24];
    const struct value *v;

    snprintf(token, sizeof(token), "%" PRId64, r->token);
    if (r->lost || !client_send(&r->lock, (const char *const[]){"UNLOCK", r->want->name, "TOKEN", token, NULL})) {
        return;
    }
    /* An answer to ask() may still come first. A daemon that says nothing frees the lock when we close. */
    v = client_wait(&r->lock, ANSWER_US);
    if (v != NULL && r->beat_us == NEVER) {
        v = client_wait(&r->lock, ANSWER_US);
    }
    if (v != NULL && v->type == VALUE_ERROR) {
        r->lost = true;
        say_reply(r, "lock lost", v);
    }
}

/* We were stopped for who knows how long: the command goes on only if the lock is still ours. */
static void
after_pause(struct run *r)
{
    if (!r->lost) {
        make_sure(r);
    }
    if (!r->lost) {
        child_go_on(&r->child);
    }
}

/* The command runs. Returns what to end with. */
static int
attend(struct run *r)
{
    for (;;) {
        enum child_news news = child_look(&r->child);
        unsigned ready;

        if (news == CHILD_ENDED) {
            break;
        }
        if (news == CHILD_PAUSED) {
            after_pause(r);
        }
        ready = wait_some(r, keep_time(r));
        if (ready & 1) {
            take_signals(r);
        }
        if (ready & 4 && !r->lost) {
            listen_to(r, &r->ears);
        }
        if (ready & 2 && !r->lost) {
            listen_to(r, &r->lock);
        }
    }
    r->child.pid = 0;
    give_back(r);
    if (r->lost) {
        return RLOCK_LOST;
    }
    return WIFSIGNALED(r->child.status) ? RLOCK_SIGNAL + WTERMSIG(r->child.status) : WEXITSTATUS(r->child.status);
}

static bool
take_over_signals(struct run *r)
{
    sigset_t ours;

    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&ours);
    sigaddset(&ours, SIGCHLD);
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++) {
        sigaddset(&ours, forwarded[i]);
    }
    sigprocmask(SIG_BLOCK, &ours, &r->mask);
    r->signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    return r->signals >= 0;
}

int
rlock_run(const struct rlock_run *want)
{
    struct run r = {.want = want, .lock = {.fd = -1}, .ears = {.fd = -1}, .signals = -1, .until_us = NEVER,
                    .beat_us = NEVER};
    int end;

    if (!take_over_signals(&r)) {
        say(&r, "signalfd", strerror(errno));
        return RLOCK_UNREACHABLE;
    }
    end = open_both(&r);
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
            give_back(&r);
        }
    }
    client_close(&r.lock);
    client_close(&r.ears);
    close(r.signals);
    return end;
}
