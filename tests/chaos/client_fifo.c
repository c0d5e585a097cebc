/*
 * client_fifo.c -- waiters are granted the lock in their order: one connection holds it, others wait, each seen in the
 * daemon's queue (WAITERS) before the next one asks; then each unlocks as soon as it is granted.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "tests/chaos/session.h"

#define QUEUE 4
#define WAIT_US 2000000

struct round {
    struct session s[QUEUE + 1];
    unsigned id[QUEUE + 1];
    long long token[QUEUE + 1];
    bool waits[QUEUE + 1];
};

static void
invoke(struct client *c, struct round *r, int i, const char *name, const char *op)
{
    r->id[i] = c->ops++;
    say(c, r->s[i].proc, "inv %u %s %s daemon=%s shared=0 token=%lld owner=%s", r->id[i], op, name, c->o.tag,
        r->token[i], r->s[i].proc);
}

/* Reads the answer to the request of connection i. */
static bool
read_answer(struct client *c, struct round *r, int i, int64_t patience)
{
    struct answer a;
    enum outcome out = UNKNOWN;

    if (session_read(&r->s[i], &a, now_us() + patience)) {
        out = answer_outcome(&a);
    }
    if (out == DONE && a.type == '*') {
        r->token[i] = answer_field(&a, "token");
        say(c, r->s[i].proc, "ret %u OK token=%lld lease=%lld waited=%lld holds=1", r->id[i], r->token[i],
            answer_field(&a, "lease_ms"), answer_field(&a, "waited_ms"));
    } else if (out == DONE) {
        say(c, r->s[i].proc, "ret %u OK n=%lld", r->id[i], a.n);
    } else {
        say(c, r->s[i].proc, "ret %u %s why=%.20s", r->id[i], a.type != 0 && out == REFUSED ? "FAIL" : "INFO",
            a.type == 0 ? "closed" : a.item[0][0] != '\0' ? "refused" : "null");
    }
    if (a.type == 0) {
        session_close(c, &r->s[i]);
    }
    return out == DONE;
}

/* The daemon sends no events about its queue, so it is asked until the queue has that length. */
static bool
waits_here(struct round *r, struct session *watcher, const char *name, int wanted)
{
    int64_t end = now_us() + WAIT_US / 4;
    struct answer a;

    (void)r;
    while (now_us() < end && !stopping) {
        if (!session_send(watcher, "WAITERS %s\n", name) || !session_read(watcher, &a, now_us() + WAIT_US)) {
            return false;
        }
        if (a.type == '*' && a.n >= wanted) {
            return true;
        }
        sleep_us(500); /* between two questions */
    }
    return false;
}

static void
leave(struct client *c, struct round *r, int i, const char *name)
{
    invoke(c, r, i, name, "UNLOCK");
    if (!session_send(&r->s[i], "UNLOCK %s TOKEN %lld\n", name, r->token[i])) {
        say(c, r->s[i].proc, "ret %u INFO why=closed", r->id[i]);
        session_close(c, &r->s[i]);
        return;
    }
    (void)read_answer(c, r, i, WAIT_US);
}

/* Each connection that is answered unlocks at once, until none waits. */
static void
drain(struct client *c, struct round *r, const char *name)
{
    int64_t end = now_us() + 2 * WAIT_US;

    while (now_us() < end && !stopping) {
        struct pollfd p[QUEUE + 1];
        int waiting = 0;

        for (int i = 0; i <= QUEUE; i++) {
            p[i] = (struct pollfd){.fd = r->waits[i] ? r->s[i].fd : -1, .events = POLLIN};
            waiting += r->waits[i];
        }
        if (waiting == 0) {
            return;
        }
        if (poll(p, QUEUE + 1, 50) <= 0) {
            continue;
        }
        for (int i = 0; i <= QUEUE; i++) {
            if (p[i].revents != 0) {
                r->waits[i] = false;
                if (read_answer(c, r, i, WAIT_US)) {
                    leave(c, r, i, name);
                }
            }
        }
    }
}

static void
fifo_round(struct client *c, struct round *r, struct session *watcher, const char *name)
{
    for (int i = 0; i <= QUEUE; i++) {
        r->token[i] = 0;
        r->waits[i] = false;
        if (r->s[i].fd < 0 && !session_open(c, &r->s[i])) {
            return;
        }
    }
    if (watcher->fd < 0 && !session_open(c, watcher)) {
        return;
    }
    for (int i = 0; i <= QUEUE; i++) {
        invoke(c, r, i, name, "LOCK");
        if (!session_send(&r->s[i], "LOCK %s WAIT %d FULL\n", name, WAIT_US / 1000)) {
            say(c, r->s[i].proc, "ret %u INFO why=closed", r->id[i]);
            session_close(c, &r->s[i]);
            break;
        }
        if (i == 0) {
            if (!read_answer(c, r, 0, WAIT_US * 2)) {
                break;
            }
            continue;
        }
        r->waits[i] = true;
        if (!waits_here(r, watcher, name, i)) {
            break;
        }
        say(c, r->s[i].proc, "queued %u", r->id[i]);
    }
    if (r->token[0] != 0) {
        leave(c, r, 0, name);
    }
    drain(c, r, name);
}

void
fifo_run(struct client *c)
{
    struct round r;
    struct session watcher = {.fd = -1};
    unsigned rounds = 0;

    memset(&r, 0, sizeof(r));
    for (int i = 0; i <= QUEUE; i++) {
        r.s[i].fd = -1;
    }
    while (!stopping) {
        char name[64];

        snprintf(name, sizeof(name), "%.*s", (int)strcspn(c->o.names, ","), c->o.names);
        fifo_round(c, &r, &watcher, name);
        /* Open requests end with their connection; a new round begins without open requests. */
        for (int i = 0; i <= QUEUE; i++) {
            if (r.waits[i] || rounds % 20 == 19) {
                if (r.waits[i]) {
                    say(c, r.s[i].proc, "ret %u INFO why=given-up", r.id[i]);
                }
                session_close(c, &r.s[i]);
            }
        }
        rounds++;
        sleep_us(20000); /* so that the name is not held all the time */
    }
    for (int i = 0; i <= QUEUE; i++) {
        session_close(c, &r.s[i]);
    }
    session_close(c, &watcher);
}
