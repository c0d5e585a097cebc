/*
 * client.c -- a client process under chaos: `client key=value ...`, until TERM; its arguments stand below the includes.
 *
 * The first two letters of a name are its kind, see the rules of the daemon's configuration. Options of LOCK that a
 * kind does not have are not sent. Each critical section adds one to two numbers of the resource, one of them fenced.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/chaos/session.h"

/*
 *   id=c1 tag=A daemon=unix:PATH history=FILE resource=unix:PATH seed=1 names=re:0,si:1
 *   mode=mix    locks and unlocks: waiting or not, re-entering, reading the state, renewing, adding one under the lock
 *   mode=hot    locks and unlocks without a pause between: where several do, the name goes round in runs of hand-overs
 *   mode=etcd   reads, is stopped for pause=MS, writes: what Jepsen did to etcd
 *   mode=fifo   see client_fifo.c
 *   mode=listen receives losses (PSUBSCRIBE), and writes them down
 *   wait=MS lease=MS (0: the watchdog's) watchdog=MS (its lease) named=1 (owners) think=MS
 */

#define MARGIN_US 3000000 /* a reply later than its WAIT by this much will not come */

volatile sig_atomic_t stopping;

/* One critical section. */
struct work {
    const char *name, *owner;
    char words[96]; /* after LOCK and the name */
    long long token, lease;
    int holds;
    bool shared, one; /* one holder at a time */
};

static void
on_term(int sig)
{
    (void)sig;
    stopping = 1;
}

static const char *
pick_name(struct client *c, char *out, size_t room)
{
    unsigned n = 1;
    const char *at = c->o.names;

    for (const char *p = at; *p != '\0'; p++) {
        n += *p == ',';
    }
    for (unsigned i = rng_below(&c->rng, n); i > 0; i--) {
        at = strchr(at, ',') + 1;
    }
    snprintf(out, room, "%.*s", (int)strcspn(at, ","), at);
    return out;
}

static bool
is_kind(const struct work *w, const char *kind)
{
    return strncmp(w->name, kind, 2) == 0;
}

/* Logs and sends one request of `op`, and reads its answer into `a`. */
static enum outcome
ask(struct client *c, struct session *s, struct work *w, const char *op, const char *line, int64_t patience,
    struct answer *a)
{
    unsigned id = c->ops++;
    enum outcome out;

    say(c, s->proc, "inv %u %s %s daemon=%s shared=%d token=%lld owner=%s", id, op, w->name, c->o.tag, w->shared,
        w->token, w->owner != NULL ? w->owner : s->proc);
    if (!session_send(s, "%s\n", line) || !session_read(s, a, now_us() + patience)) {
        say(c, s->proc, "ret %u INFO why=%s", id, stopping ? "stopped" : "closed");
        session_close(c, s);
        return UNKNOWN;
    }
    out = answer_outcome(a);
    if (out == UNKNOWN && strcmp(op, "UNLOCK") != 0) {
        out = REFUSED;
    }
    if (out == DONE && a->type == '*') {
        say(c, s->proc, "ret %u OK token=%lld lease=%lld waited=%lld holds=%lld", id, answer_field(a, "token"),
            answer_field(a, "lease_ms"), answer_field(a, "waited_ms"), answer_field(a, "holds"));
    } else if (out == DONE) {
        say(c, s->proc, "ret %u OK n=%lld", id, a->n);
    } else {
        a->item[0][strcspn(a->item[0], " ")] = '\0';
        say(c, s->proc, "ret %u %s why=%s", id, out == UNKNOWN ? "INFO" : "FAIL", a->type == '-' ? a->item[0] : "null");
    }
    return out;
}

static bool
lock(struct client *c, struct session *s, struct work *w, const char *op, const char *more, int64_t patience)
{
    char line[256];
    struct answer a;

    snprintf(line, sizeof(line), "LOCK %s%s%s FULL", w->name, w->words, more);
    if (ask(c, s, w, op, line, patience, &a) != DONE) {
        return false;
    }
    w->token = answer_field(&a, "token");
    w->lease = answer_field(&a, "lease_ms");
    w->holds = (int)answer_field(&a, "holds");
    return true;
}

static void
unlock(struct client *c, struct session *s, struct work *w)
{
    char line[256], owner[64] = "";
    struct answer a;

    if (w->owner != NULL) {
        snprintf(owner, sizeof(owner), " OWNER %s", w->owner);
    }
    snprintf(line, sizeof(line), "UNLOCK %s%s%s TOKEN %lld", w->name, owner, w->shared ? " SHARED" : "", w->token);
    for (int tries = 0; s->fd >= 0 && !stopping; tries++) {
        enum outcome out = ask(c, s, w, "UNLOCK", line, MARGIN_US, &a);

        if (out == REFUSED || (out == DONE && a.n == 0) || (out == UNKNOWN && w->holds <= 1)) {
            return;
        }
        w->holds = out == DONE ? (int)a.n : w->holds;
        /* UNAVAILABLE for a hold that is not the last: the release may have happened or not, so ask again. */
        if (tries > 40) {
            session_close(c, s);
        } else if (out == UNKNOWN) {
            sleep_us(50000); /* the client's own pause between two attempts */
        }
    }
}

/* The answer of the resource as a number; -1: refused. */
static long long
resource(struct client *c, const char *verb, const char *name, const char *suffix, long long token, long long value)
{
    char line[256];
    size_t have = 0;
    int n = snprintf(line, sizeof(line), "%s %s%s %lld", verb, name, suffix, token);

    n += strcmp(verb, "put") == 0 ? snprintf(line + n, sizeof(line) - (size_t)n, " %lld\n", value)
                                  : snprintf(line + n, sizeof(line) - (size_t)n, "\n");
    if (write(c->resource, line, (size_t)n) != n) {
        abort();
    }
    do {
        ssize_t got = read(c->resource, line + have, sizeof(line) - 1 - have);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            exit(0); /* the test is over */
        }
        have += (size_t)got;
    } while (line[have - 1] != '\n');
    return strncmp(line, "ok", 2) == 0 ? atoll(line + 2) : -1;
}

/* Reads both numbers, waits, writes both. */
static void
add_one(struct client *c, struct work *w, int64_t stay_us, void (*meanwhile)(struct client *c))
{
    long long plain = resource(c, "get", w->name, "/plain", 0, 0);
    long long fenced = resource(c, "get", w->name, "/fenced", w->token, 0);

    sleep_us(stay_us); /* the work under the lock */
    if (meanwhile != NULL) {
        meanwhile(c);
    }
    (void)resource(c, "put", w->name, "/plain", 0, plain + 1);
    if (fenced >= 0) {
        (void)resource(c, "put", w->name, "/fenced", w->token, fenced + 1);
    }
}

/* Stops this process, and lets it go on later, as a virtual machine may be stopped. */
static void
pause_self(struct client *c)
{
    pid_t self = getpid(), child;

    if (rng_below(&c->rng, 100) >= 30) {
        return;
    }
    child = fork();
    if (child == 0) {
        struct timespec t = {.tv_sec = c->o.pause / 1000, .tv_nsec = c->o.pause % 1000 * 1000000};

        /* the pause is the workload: the time for which the client is stopped, as by Jepsen */
        (void)nanosleep(&t, NULL);
        kill(self, SIGCONT);
        _exit(0);
    }
    if (child > 0) {
        say(c, "-", "paused %s", c->o.id);
        raise(SIGSTOP);
        (void)waitpid(child, NULL, 0);
    }
}

static void
work_words(struct client *c, struct work *w, unsigned conn)
{
    size_t n = 0;
    static char owner[64]; /* one session at a time */

    w->words[0] = '\0';
    if (c->o.named) {
        snprintf(owner, sizeof(owner), "%s/%u", c->o.id, conn);
        w->owner = owner;
        n += (size_t)snprintf(w->words + n, sizeof(w->words) - n, " OWNER %s", owner);
    }
    if (c->o.lease > 0) {
        n += (size_t)snprintf(w->words + n, sizeof(w->words) - n, " LEASE %ld", c->o.lease);
    }
    w->shared = is_kind(w, "rw") && rng_below(&c->rng, 2) == 0;
    if (w->shared) {
        n += (size_t)snprintf(w->words + n, sizeof(w->words) - n, " SHARED");
    }
    w->one = !w->shared && !is_kind(w, "se");
}

/* The time for which the lock is held: mostly a moment, now and then longer than a lease, for a renewal. */
static int64_t
stay_us(struct client *c)
{
    unsigned dice = rng_below(&c->rng, 1000);

    if (dice < 850) {
        return rng_below(&c->rng, 3000);
    }
    if (dice < 985) {
        return 5000 + rng_below(&c->rng, 30000);
    }
    return (int64_t)c->o.watchdog * 1200;
}

static void
mix_once(struct client *c, struct session *s)
{
    char name[64], line[256], more[64];
    struct work w = {.name = pick_name(c, name, sizeof(name))};
    long wait = rng_below(&c->rng, 4) == 0 ? 0 : c->o.wait;
    bool reenters;

    work_words(c, &w, c->conns);
    reenters = strchr("rf", w.name[0]) != NULL && rng_below(&c->rng, 6) == 0; /* reentrant, rw, fair, fenced */
    snprintf(more, sizeof(more), " WAIT %ld", wait);
    if (!lock(c, s, &w, "LOCK", more, (int64_t)wait * 1000 + MARGIN_US)) {
        return;
    }
    if (reenters) {
        (void)lock(c, s, &w, "AGAIN", " WAIT 1000", 1000000 + MARGIN_US);
    }
    if (w.one) {
        add_one(c, &w, stay_us(c), NULL);
    } else {
        sleep_us(stay_us(c)); /* as long as in add_one */
    }
    if (s->fd >= 0 && rng_below(&c->rng, 8) == 0 && !is_kind(&w, "se")) {
        (void)lock(c, s, &w, "CHECK", " ONCE NOWAIT", MARGIN_US);
    }
    if (s->fd >= 0 && c->o.lease > 0 && rng_below(&c->rng, 4) == 0) {
        struct answer a;

        snprintf(line, sizeof(line), "RENEW %s %ld TOKEN %lld", w.name, c->o.lease, w.token);
        (void)ask(c, s, &w, "RENEW", line, MARGIN_US, &a);
    }
    if (s->fd >= 0 && rng_below(&c->rng, 40) == 0) {
        session_close(c, s); /* its locks end with it */
    }
    unlock(c, s, &w);
}

/* Now and then the client ends in the middle of a run, or holds the lock for so long that its lease is renewed. */
static void
hot_once(struct client *c, struct session *s)
{
    char name[64], more[64];
    struct work w = {.name = pick_name(c, name, sizeof(name))};
    unsigned dice = rng_below(&c->rng, 2000);

    work_words(c, &w, c->conns);
    snprintf(more, sizeof(more), " WAIT %ld", c->o.wait);
    if (!lock(c, s, &w, "LOCK", more, (int64_t)c->o.wait * 1000 + MARGIN_US)) {
        return;
    }
    add_one(c, &w, dice == 0 ? (int64_t)c->o.watchdog * 1200 : 1000 + rng_below(&c->rng, 4000), NULL);
    if (dice > 0 && dice < 40) {
        session_close(c, s);
    }
    unlock(c, s, &w);
}

static void
etcd_once(struct client *c, struct session *s)
{
    char name[64], more[64];
    struct work w = {.name = pick_name(c, name, sizeof(name))};

    work_words(c, &w, c->conns);
    snprintf(more, sizeof(more), " WAIT %ld", c->o.wait);
    if (!lock(c, s, &w, "LOCK", more, (int64_t)c->o.wait * 1000 + MARGIN_US)) {
        return;
    }
    add_one(c, &w, rng_below(&c->rng, 20000), pause_self);
    unlock(c, s, &w);
}

/* Logs the event `lost` for the checker: from then on no holder may rely on the lock. */
static void
listen_once(struct client *c, struct session *s)
{
    struct answer a;
    char owner[2];
    long long token;

    if (!session_send(s, "PSUBSCRIBE lock:*\n")) {
        session_close(c, s);
        return;
    }
    while (session_read(s, &a, now_us() + 3600 * INT64_C(1000000))) {
        if (a.items == 4 && sscanf(a.item[3], "lost %lld %1s", &token, owner) == 2) {
            say(c, s->proc, "lost %s %lld", a.item[2] + strlen("lock:"), token);
        }
    }
    session_close(c, s);
}

static void
read_options(struct client *c, int argc, char **argv)
{
    const struct {
        const char *key;
        const char **text;
        long *number;
    } keys[] = {
        {"id", &c->o.id, NULL},           {"tag", &c->o.tag, NULL},
        {"daemon", &c->o.daemon, NULL},   {"history", &c->o.history, NULL},
        {"resource", &c->o.resource, NULL}, {"mode", &c->o.mode, NULL},
        {"names", &c->o.names, NULL},     {"seed", NULL, &c->o.seed},
        {"wait", NULL, &c->o.wait},       {"lease", NULL, &c->o.lease},
        {"watchdog", NULL, &c->o.watchdog}, {"pause", NULL, &c->o.pause},
        {"named", NULL, &c->o.named},     {"think", NULL, &c->o.think},
    };

    for (int i = 1; i < argc; i++) {
        size_t n = strcspn(argv[i], "="), k = 0;

        while (k < sizeof(keys) / sizeof(keys[0]) &&
               (strlen(keys[k].key) != n || strncmp(argv[i], keys[k].key, n) != 0)) {
            k++;
        }
        if (k == sizeof(keys) / sizeof(keys[0]) || argv[i][n] == '\0') {
            fprintf(stderr, "client: what is %s?\n", argv[i]);
            exit(64);
        }
        if (keys[k].text != NULL) {
            *keys[k].text = argv[i] + n + 1;
        } else {
            *keys[k].number = atol(argv[i] + n + 1);
        }
    }
}

int
main(int argc, char **argv)
{
    struct client c = {.o = {.id = "c", .tag = "A", .mode = "mix", .names = "re:0",
                             .wait = 500, .watchdog = 1500, .think = 10}};
    struct session s = {.fd = -1};
    struct sigaction term = {.sa_handler = on_term};

    read_options(&c, argc, argv);
    sigaction(SIGTERM, &term, NULL);
    c.rng = rng_of((int)c.o.seed);
    c.history = open(c.o.history, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    c.resource = dial(c.o.resource);
    if (c.history < 0 || c.resource < 0) {
        fprintf(stderr, "client: %s\n", strerror(errno));
        return 1;
    }
    if (strcmp(c.o.mode, "fifo") == 0) {
        fifo_run(&c);
        return 0;
    }
    while (!stopping) {
        if (s.fd < 0 && !session_open(&c, &s)) {
            sleep_us(20000); /* no daemon is there: the client's pause before it dials again */
            continue;
        }
        if (strcmp(c.o.mode, "listen") == 0) {
            listen_once(&c, &s);
            continue;
        }
        if (strcmp(c.o.mode, "hot") == 0) {
            hot_once(&c, &s);
            continue;
        }
        (strcmp(c.o.mode, "etcd") == 0 ? etcd_once : mix_once)(&c, &s);
        sleep_us(1 + rng_below(&c.rng, (unsigned)c.o.think * 2000)); /* the client's pause between two rounds */
    }
    session_close(&c, &s);
    return 0;
}
