/*
 * rlock_hold.c -- the lock that `rlock run` holds, and its state.
 *
 * Two connections: `lock` holds, `events` is subscribed to the events of the session of `lock`; after a cut to those of
 * the name, because the grant was made to the session before the cut. All waiting is one poll: both connections,
 * signals (blocked, read from a signalfd) and the next deadline.
 *
 * The holder is a named owner with a secret id, and keeps the lock for GRACE after its connections have ended: so after
 * a cut (the daemon is restarted or killed, or CLIENT KILL) rlock reconnects, and the command goes on if the daemon
 * confirms the same grant.
 */
#include "daemon/rlock_hold.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"

#define REPLY_US (5 * US_PER_S)
#define CONNECT_US (5 * US_PER_S)
#define RECONNECT_US (10 * US_PER_S)       /* the longest time for connecting again after a cut */
#define AGAIN_US (100 * US_PER_MS)         /* ... the pause between attempts */
#define AGAIN_PATIENCE_US (300 * US_PER_MS)
#define CHANNEL_BYTES 5000                 /* a name, and some */
#define GRACE_MOST_US (3600 * US_PER_S)    /* the longest GRACE that LOCK takes */
#define MARGIN_US (1 * US_PER_S)           /* of GRACE, for clocks that run at other speeds and for KILL */
#define UNLOCK_AGAIN_US (1 * US_PER_S)
#define CONFIRM_PAUSE_MIN_US (100 * US_PER_MS)

void
run_report(const struct run *r, const char *what, const char *detail)
{
    fprintf(stderr, "rlock: %s: %s%s%s\n", r->want->name, what, *detail != '\0' ? ": " : "", detail);
}

void
hold_lose(struct run *r, const char *why, int64_t kill_at_us)
{
    if (r->lost) {
        return;
    }
    r->lost = true;
    r->kill_us = kill_at_us;
    run_report(r, "lock lost", why);
    child_signal(&r->child, SIGTERM);
    child_signal(&r->child, SIGCONT);
}

int64_t
hold_ours_until_us(const struct run *r)
{
    /* A Unix socket reports the end of its peer at once. */
    return r->cut || !r->is_unix ? sooner(r->deadline_us, r->alive_us + r->owner_grace_us) : r->deadline_us;
}

int64_t
hold_warn_us(const struct run *r)
{
    int64_t before_us = sooner(r->want->kill_after_us, r->lease_us / 3), ours_us = hold_ours_until_us(r);
    int64_t by_deadline_us = r->deadline_us != NEVER ? r->deadline_us - before_us : NEVER, by_grace_us = NEVER;

    if (ours_us != r->deadline_us) { /* the owner grace ends first */
        by_grace_us = ours_us - r->want->kill_after_us;
    }
    return sooner(by_deadline_us, by_grace_us);
}

void
hold_lose_soon(struct run *r, const char *why)
{
    hold_lose(r, why, sooner(hold_ours_until_us(r), clock_now_us() + r->want->kill_after_us));
}

/* The connection has ended: the lock has not, yet. */
static void
cut(struct run *r, const char *why)
{
    if (!r->cut && !r->lost) {
        snprintf(r->why, sizeof(r->why), "%s", why);
        r->cut = true;
        if (r->child.pid != 0) {
            run_report(r, "connection lost, the command goes on", why);
        }
    }
    r->deadline_us = sooner(r->deadline_us, r->reported_us);
    r->confirm_us = NEVER;
    r->retry_us = clock_now_us() + AGAIN_US;
    client_close(&r->lock);
    client_close(&r->events);
}

/* The pause before the next hold_confirm(). Over TCP only replies prove that the daemon still has the session. */
static int64_t
confirm_pause_us(const struct run *r)
{
    int64_t pause_us = (r->is_unix ? r->lease_us : sooner(r->lease_us, RECONNECT_US)) / 6;

    return pause_us > CONFIRM_PAUSE_MIN_US ? pause_us : CONFIRM_PAUSE_MIN_US;
}

/* Takes the reply to LOCK ... FULL, sent at asked_us. False: it is no grant, or another one than before. */
static bool
take_grant(struct run *r, const struct redisReply *v)
{
    int64_t token = reply_number(reply_field(v, "token"));
    int64_t left_us = reply_number(reply_field(v, "lease_ms")) * US_PER_MS;

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
    r->deadline_us = r->reported_us = r->asked_us + left_us;
    r->alive_us = r->asked_us;
    r->cut = false;
    r->confirm_us = clock_now_us() + confirm_pause_us(r);
    return true;
}

bool
hold_send_lock(struct run *r, const char *const *more)
{
    const struct {
        const char *word, *value;
        bool given;
    } options[] = {
        {"KIND", r->want->kind, r->want->kind != NULL},
        {"LIMIT", r->want->limit, r->want->limit != NULL},
        {"SHARED", NULL, r->want->shared},
    };
    const char *words[20] = {"LOCK", r->want->name, "FULL", "OWNER", r->want->owner, "GRACE", r->owner_grace};
    size_t n = 7;

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

void
hold_confirm(struct run *r)
{
    r->confirm_us = NEVER;
    if (!hold_send_lock(r, r->cut ? (const char *const[]){"WAIT", "2s", "ONCE", NULL}
                             : (const char *const[]){"NOWAIT", "ONCE", NULL})) {
        cut(r, r->lock.error);
    }
}

/* The reply to hold_confirm(). */
static void
take_confirmation(struct run *r, const struct redisReply *v)
{
    /* ERR only while rlock reconnects: a daemon at its limit of sessions sends it to every new connection */
    static const char *const no_news[] = {"UNAVAILABLE", "DRAINING", "LIMIT", "ERR"};
    size_t no_news_n = sizeof(no_news) / sizeof(no_news[0]) - (r->cut ? 0 : 1);

    for (size_t i = 0; v->type == REDIS_REPLY_ERROR && i < no_news_n; i++) {
        size_t n = strlen(no_news[i]);

        if (v->len > n && strncmp(v->str, no_news[i], n) == 0) {
            /*
             * The daemon that granted the lock lets holders finish, and reports when a lock is lost. After a cut the
             * daemon may be another one, which does not have the lock: then the deadline stays.
             */
            if (strcmp(no_news[i], "DRAINING") == 0 && !r->cut) {
                r->deadline_us = NEVER;
            }
            r->alive_us = r->cut ? r->alive_us : r->asked_us;
            r->confirm_us = clock_now_us() + (r->cut ? AGAIN_US : confirm_pause_us(r));
            return;
        }
    }
    if (!take_grant(r, v)) {
        hold_lose_soon(r, "the daemon says so");
    }
}

int
hold_first_reply(struct run *r, const struct redisReply *v)
{
    if (v->type == REDIS_REPLY_NIL) {
        run_report(r, "busy", "");
        return RLOCK_BUSY;
    }
    if (v->type == REDIS_REPLY_ERROR) {
        run_report(r, "refused", v->str);
        return strncmp(v->str, "ERR ", 4) == 0 ? RLOCK_USAGE : RLOCK_UNREACHABLE;
    }
    if (!take_grant(r, v)) {
        run_report(r, "refused", "the reply is not rlockd's");
        return RLOCK_UNREACHABLE;
    }
    return 0;
}

/* True: this message reports that the grant of rlock was lost. */
static bool
reports_loss(const struct run *r, const struct redisReply *v)
{
    const char *payload;

    if (v->elements != 3 || !slice_is(reply_text(v->element[0]), "message")) {
        return false;
    }
    payload = v->element[2]->str;
    return payload != NULL && strncmp(payload, "lost ", 5) == 0 && strtoll(payload + 5, NULL, 10) == r->token;
}

void
hold_read(struct run *r, struct client *c)
{
    const struct redisReply *v;
    enum client_result got = CLIENT_MORE;

    if (!client_fill(c)) {
        cut(r, c->error);
        return;
    }
    while (!r->lost && (got = client_next(c, &v)) == CLIENT_READY) {
        if (c == &r->lock) {
            take_confirmation(r, v);
        } else if (reports_loss(r, v)) {
            hold_lose_soon(r, "the daemon says so");
        }
    }
    if (got == CLIENT_BAD) {
        hold_lose_soon(r, c->error);
    }
}

/* Opens a connection and sends one request. NULL: c->error says why. */
static const struct redisReply *
open_and_ask(struct run *r, struct client *c, const char *const *words, int64_t patience_us)
{
    return client_open(c, r->addr, r->want->at.password, patience_us) && client_send(c, words)
               ? client_wait(c, patience_us) : NULL;
}

/* Reports that the question failed. */
static int
refused(const struct run *r, const struct client *c, const struct redisReply *v)
{
    if (v == NULL) {
        run_report(r, "cannot reach rlockd", c->error);
    } else {
        run_report(r, "refused", v->str != NULL ? v->str : "");
    }
    return RLOCK_UNREACHABLE;
}

/* Opens both connections. Returns NULL, or the connection that failed; *v: its reply, NULL: there was none. */
static struct client *
open_both(struct run *r, int64_t patience_us, const struct redisReply **v)
{
    char channel[40], peer[sizeof(r->peer)];

    *v = open_and_ask(r, &r->lock, (const char *const[]){"CLIENT", "ID", NULL}, patience_us);
    if (*v == NULL || (*v)->type != REDIS_REPLY_INTEGER) {
        return &r->lock;
    }
    snprintf(channel, sizeof(channel), "session:%lld", (*v)->integer);
    client_peer(&r->lock, peer);
    if (peer[0] != '\0') { /* while the lock is held no name is resolved: that may take long */
        memcpy(r->peer, peer, sizeof(peer));
        r->addr = r->peer;
    }
    *v = open_and_ask(r, &r->events, (const char *const[]){"SUBSCRIBE", channel, NULL}, patience_us);
    return *v == NULL || (*v)->type == REDIS_REPLY_ERROR ? &r->events : NULL;
}

int
hold_open_both(struct run *r)
{
    const struct redisReply *v;
    struct client *failed = open_both(r, CONNECT_US, &v);

    return failed != NULL ? refused(r, failed, v) : 0;
}

const char *
hold_open_again(struct run *r)
{
    const struct redisReply *v;
    struct client *failed = open_both(r, AGAIN_PATIENCE_US, &v);

    /* A daemon that does not answer where it was may have begun at another address, which its name resolves to. */
    if (failed != NULL && v == NULL && r->addr == r->peer) {
        client_close(&r->lock);
        client_close(&r->events);
        r->addr = r->want->at.addr;
        failed = open_both(r, AGAIN_PATIENCE_US, &v);
        r->addr = r->peer;
    }
    if (failed == NULL) {
        return NULL;
    }
    return v == NULL ? failed->error : v->str != NULL ? v->str : "";
}

void
hold_reconnect(struct run *r)
{
    int64_t left_us = hold_warn_us(r) - clock_now_us(), patience_us = sooner(left_us, AGAIN_PATIENCE_US);
    char channel[CHANNEL_BYTES];
    const struct redisReply *v;

    snprintf(channel, sizeof(channel), "lock:%s", r->want->name);
    v = open_and_ask(r, &r->events, (const char *const[]){"SUBSCRIBE", channel, NULL}, patience_us);
    if (v == NULL || v->type == REDIS_REPLY_ERROR ||
        !client_open(&r->lock, r->addr, r->want->at.password, patience_us)) {
        cut(r, "");
        return;
    }
    r->retry_us = NEVER;
    hold_confirm(r);
}

/* Waits for the reply to hold_confirm(). */
static void
await_reply(struct run *r)
{
    const struct redisReply *v = r->lost || r->cut ? NULL : client_wait(&r->lock, REPLY_US);

    if (v != NULL) {
        take_confirmation(r, v);
    } else {
        cut(r, r->lock.error);
    }
}

void
hold_confirm_now(struct run *r)
{
    if (r->confirm_us == NEVER && !r->cut) {
        await_reply(r);
    }
    if (!r->lost && !r->cut) {
        hold_confirm(r);
    }
    if (!r->lost && !r->cut) {
        await_reply(r);
    }
}

/* Sends UNLOCK, and returns its reply, which may follow that to hold_confirm(). NULL: no connection, or no reply. */
static const struct redisReply *
send_unlock(struct run *r)
{
    char token[24];
    const struct redisReply *v;

    snprintf(token, sizeof(token), "%" PRId64, r->token);
    if (r->lock.fd < 0 || !client_send(&r->lock, (const char *const[]){"UNLOCK", r->want->name, "OWNER",
                                                                       r->want->owner, "TOKEN", token, NULL})) {
        return NULL;
    }
    v = client_wait(&r->lock, REPLY_US);
    if (v != NULL && r->confirm_us == NEVER) {
        r->confirm_us = 0;
        v = client_wait(&r->lock, REPLY_US);
    }
    return v;
}

/* Releases what the owner may have been granted unnoticed. The reply is not awaited. */
static void
unlock_unnoticed(struct run *r)
{
    if (r->lock.fd >= 0) {
        (void)client_send(&r->lock, (const char *const[]){"UNLOCK", r->want->name, "OWNER", r->want->owner,
                                                          r->want->shared ? "SHARED" : NULL, NULL});
    }
}

void
hold_give_up(struct run *r)
{
    if (r->lock.fd >= 0 && r->asked_us != 0 &&
        client_send(&r->lock, (const char *const[]){"CANCEL", r->want->name, "OWNER", r->want->owner, NULL})) {
        unlock_unnoticed(r); /* a grant may have come before CANCEL */
    }
}

/* The UNLOCK had no reply (NULL), or Redis has not confirmed it. */
static bool
is_unconfirmed(const struct redisReply *v)
{
    return v == NULL || (v->type == REDIS_REPLY_ERROR && strncmp(v->str, "UNAVAILABLE ", 12) == 0);
}

void
hold_give_back(struct run *r)
{
    int64_t end_us = clock_now_us() + UNLOCK_AGAIN_US;
    const struct redisReply *v;
    bool again = false;

    if (r->lost) {
        unlock_unnoticed(r); /* the lock may have been granted again while rlock reconnected */
        return;
    }
    for (v = send_unlock(r); is_unconfirmed(v) && clock_now_us() < end_us; v = send_unlock(r)) {
        client_close(&r->lock);
        (void)poll(NULL, 0, again ? (int)(AGAIN_US / US_PER_MS) : 0);
        again = true;
        r->confirm_us = 0;
        if (!client_open(&r->lock, r->addr, r->want->at.password, AGAIN_PATIENCE_US)) {
            client_close(&r->lock);
        }
    }
    if (!is_unconfirmed(v) && v->type == REDIS_REPLY_ERROR && !again) {
        r->lost = true;
        run_report(r, "lock lost", v->str);
    }
}

void
hold_set_grace(struct run *r)
{
    int64_t most_us = GRACE_MOST_US - MARGIN_US - RECONNECT_US;

    r->owner_grace_us = RECONNECT_US + sooner(r->want->kill_after_us, most_us);
    snprintf(r->owner_grace, sizeof(r->owner_grace), "%" PRId64 "ms", (r->owner_grace_us + MARGIN_US) / US_PER_MS);
}
