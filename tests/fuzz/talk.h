/*
 * talk.h -- a script of bytes drives a whole house (tests/unit/house.h): clients, cut streams, answers of Redis, time.
 *
 * The stream of the current client is raw bytes; byte 1 begins an instruction (the table stands below the includes).
 * Each client has a reader of its own (proto/reader.c on the same bytes), which counts its requests: each is answered
 * once, unless the connection has given up its right to that (it subscribed, was killed, ...).
 */
#ifndef RLOCKD_TESTS_FUZZ_TALK_H
#define RLOCKD_TESTS_FUZZ_TALK_H

#define OPS_MAX 256

#include <sys/random.h>

#include "tests/fuzz/resp_check.h"
#include "tests/unit/house.h"

#include "proto/reader.h"

/*
 * Byte 1 begins an instruction of one letter, some with one more byte:
 *
 *     0 1 2 3  this client is the current one from now on; it connects if it is not there
 *     (blank)  cut: the bytes so far are sent, and one turn runs
 *     .        the same, and everything goes on until nothing moves, Redis included; replies are read
 *     w  x     the client shuts its sending side down; closes
 *     q        it reads nothing for now (and again: it reads)
 *     t D      time passes: D of the table of durations
 *     o D  e D from now on the outcome of operations, of renewals: D of core_outcome
 *     h D  a D a hint for lock D; its watch is confirmed
 *     s D      the next D bytes are a broadcast of another daemon
 *     r D      the answer of Redis to LOCKINFO
 *     u        Redis is away, is back
 *     l  c  g  Redis has lost its data; a clock has jumped; a grace is over
 *     k D      the rules have kind D, and foreign: wait for odd ones;   K  on_loss: close
 */

enum { TALKERS = 4, ROUNDS_MAX = 4000 };

/* ---- one clock and no chance ---- */

static int64_t virtual_us;

int64_t
clock_now_us(void)
{
    return virtual_us;
}

int64_t
clock_wall_us(void)
{
    return virtual_us + INT64_C(1754380000) * US_PER_S;
}

void
clock_advance_us(int64_t us)
{
    virtual_us += us;
}

void
clock_stop(bool stop)
{
    (void)stop; /* it stands still, except for instructions */
}

/* The only source of chance in the house, so the ids of its daemon and its hashes are always the same. */
ssize_t
getrandom(void *p, size_t n, unsigned flags)
{
    (void)flags;
    memset(p, 0x5a, n);
    return (ssize_t)n;
}

/* ---- clients ---- */

struct talker {
    struct client c;
    bool open, shut, unread; /* unread: it reads nothing */
    bool loose;            /* receives more or less than one reply per request */
    bool fewer;            /* may be closed before all requests are answered */
    bool over;             /* later bytes are not checked any more (QUIT, framing lost) */
    bool proto_3;          /* may have requested RESP3: then both versions are accepted */
    unsigned logins;
    struct reader model;
    struct buf request_bytes, reply_bytes;
    uint64_t requests, replies;
};

struct talk {
    struct talker t[TALKERS];
    struct talker *now;
    bool killed; /* a client may have ended another one */
    bool down;
    uint64_t epoch; /* of Redis */
    unsigned spare; /* replies that may come beyond those to requests */
    void (*on_words)(struct talker *t, const struct words *w); /* may be NULL */
};

static void
note_words(struct talk *k, struct talker *t, const struct words *w)
{
    static const char *const loose[] = {"SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "MONITOR"};
    struct slice verb = w->word[0];

    t->requests++;
    for (size_t i = 0; i < sizeof(loose) / sizeof(loose[0]); i++) {
        t->loose |= slice_is(verb, loose[i]);
    }
    t->proto_3 |= slice_is(verb, "HELLO");
    t->logins += slice_is(verb, "HELLO") || slice_is(verb, "AUTH");
    t->fewer |= t->logins >= 3 || slice_is(verb, "POST") || slice_is(verb, "HOST:");
    t->over |= slice_is(verb, "QUIT");
    k->killed |= slice_is(verb, "KILL") || slice_is(verb, "CLIENT");
    if (k->on_words != NULL) {
        k->on_words(t, w);
    }
}

/* Sends the bytes that the current client has written so far. */
static void
send_request_bytes(struct talk *k)
{
    struct talker *t = k->now;
    enum reader_result res = READER_READY;
    struct words w;

    if (!t->open || t->shut || t->request_bytes.n == 0) {
        buf_clear(&t->request_bytes, SIZE_MAX);
        return;
    }
    if (send(t->c.fd, t->request_bytes.p, t->request_bytes.n, MSG_NOSIGNAL) != (ssize_t)t->request_bytes.n) {
        t->fewer = true; /* it has been closed */
    }
    reader_feed(&t->model, t->request_bytes.p, t->request_bytes.n);
    while (!t->over && res == READER_READY) {
        res = reader_next(&t->model, &w);
        if (res == READER_READY) {
            note_words(k, t, &w);
        } else if (res == READER_BAD) { /* it is answered by one error */
            t->requests++;
            t->over = true;
        }
    }
    buf_clear(&t->request_bytes, SIZE_MAX);
}

static void
talk_come(struct talk *k, struct talker *t)
{
    if (t->open) {
        return;
    }
    memset(t, 0, sizeof(*t));
    t->c = come();
    CHECK(t->c.s != NULL);
    t->open = true;
    reader_init(&t->model, t->c.s->reader.limits);
    buf_init(&t->request_bytes, 0);
    buf_init(&t->reply_bytes, 0);
    k->now = t;
}

/* Reads the bytes that are there, and removes whole values from them. True: there were some. */
static bool
read_replies(const struct talk *k, struct talker *t)
{
    char piece[16384];
    size_t at = 0, n;
    ssize_t got;
    bool any = false;

    if (!t->open || t->unread) {
        return false;
    }
    while ((got = recv(t->c.fd, piece, sizeof(piece), 0)) > 0) {
        buf_add(&t->reply_bytes, piece, (size_t)got);
        any = true;
    }
    while (at < t->reply_bytes.n) {
        struct slice rest = {t->reply_bytes.p + at, t->reply_bytes.n - at};

        n = resp_value(rest, t->proto_3 ? 3 : 2, 0);
        if (n == 0) {
            break;
        }
        at += n;
        t->replies++;
    }
    buf_drop(&t->reply_bytes, at);
    CHECK(t->loose || t->replies <= t->requests + k->spare, "%d replies to %d requests", (int)t->replies,
          (int)t->requests);
    return any;
}

/* Until nothing moves: no reply to read, no event, no operation of Redis. */
static void
talk_settle(struct talk *k)
{
    bool any = true;

    for (int i = 0; any; i++) {
        CHECK(i < ROUNDS_MAX, "it does not settle");
        any = false;
        turn();
        if (!k->down) {
            any = answer_all();
            redis->first = redis->n = 0;
            turn();
        }
        for (int j = 0; j < TALKERS; j++) {
            any = read_replies(k, &k->t[j]) || any;
        }
        if (engine->recheck_us != CORE_FOREVER) { /* time in ms: a client may have ended unnoticed */
            virtual_us = engine->recheck_us > virtual_us ? engine->recheck_us : virtual_us;
            any = true;
        }
    }
}

static void
talk_shut(struct talker *t)
{
    if (t->open && !t->shut) {
        shutdown(t->c.fd, SHUT_WR);
        t->shut = true;
    }
}

/* It sends EOF, and reads to the end. */
static void
talk_finish(struct talk *k, struct talker *t)
{
    if (!t->open) {
        return;
    }
    talk_settle(k);
    for (int i = 0; session_find(engine, t->c.id) != NULL; i++) { /* a wait may end by time alone */
        CHECK(i < 100, "a session does not end");
        virtual_us += US_PER_S;
        talk_settle(k);
    }
    (void)read_replies(k, t);
    CHECK(t->loose || t->fewer || k->killed || t->replies == t->requests, "%d replies to %d requests", (int)t->replies,
          (int)t->requests);
    CHECK(t->fewer || k->killed || t->reply_bytes.n == 0, "half a reply");
}

static void
talk_close(struct talker *t)
{
    if (t->open) {
        close(t->c.fd);
        reader_fini(&t->model);
        buf_fini(&t->request_bytes);
        buf_fini(&t->reply_bytes);
        t->open = false;
    }
}

/* ---- instructions ---- */

static void
talk_time(struct choices *c)
{
    static const int64_t of[] = {1000,           100 * US_PER_MS, US_PER_S,       2 * US_PER_S, 6 * US_PER_S,
                                 11 * US_PER_S,  31 * US_PER_S,   90 * US_PER_S,  3600 * US_PER_S, 1};

    virtual_us += of[take_below(c, sizeof(of) / sizeof(of[0]))];
}

static void
talk_post(enum core_event_type type, struct choices *c)
{
    struct core_event ev = {.type = type};
    struct slice reply_bytes;

    if (type == CORE_RECEIVED) {
        reply_bytes = take_bytes(c, 100);
        ev.received = (struct slice){exact_copy(reply_bytes, false), reply_bytes.n};
        redis->env.post(redis->env.ctx, &ev);
        free((char *)(uintptr_t)ev.received.p);
        return;
    }
    ev.queue = take_below(c, 16);
    redis->env.post(redis->env.ctx, &ev);
}

static void
talk_verify(struct talk *k, enum core_event_type type)
{
    struct core_event ev = {.type = type};

    if (type == CORE_RECLAIM) {
        ev.epoch = ++k->epoch;
    }
    redis->env.post(redis->env.ctx, &ev);
}

static void
talk_inspected(struct choices *c)
{
    static const char *const types[] = {"none", "hash", "string", "list"};
    unsigned how = take_byte(c);
    struct slice holder_name = take_bytes(c, 40);
    struct buf b;

    redis->seen = (struct inspected_key){.ok = (how & 1) != 0, .exists = (how & 6) != 0, .holds = how / 8,
                                        .pttl_ms = how - 1};
    snprintf(redis->seen.type, sizeof(redis->seen.type), "%s", types[how / 2 % 4]);
    buf_init(&b, 0);
    buf_add_escaped(&b, holder_name);
    snprintf(redis->seen.owner, sizeof(redis->seen.owner), "%.*s", (int)b.n, b.n > 0 ? b.p : "");
    buf_fini(&b);
}

static void
instruct(struct talk *k, struct choices *c)
{
    unsigned what = take_byte(c);

    send_request_bytes(k);
    switch (what) {
    case '0':
    case '1':
    case '2':
    case '3':
        k->now = &k->t[what - '0'];
        talk_come(k, k->now);
        break;
    case ' ':
        turn();
        break;
    case '.':
        talk_settle(k);
        break;
    case 'w':
        talk_shut(k->now);
        break;
    case 'x':
        talk_close(k->now);
        break;
    case 'q':
        k->now->unread = !k->now->unread;
        k->now->fewer = true; /* its connection may be closed for that */
        break;
    case 't':
        talk_time(c);
        break;
    case 'o':
        redis->ends = (enum core_outcome)take_below(c, CORE_GRACE + 1);
        break;
    case 'e':
        redis->extends = (enum core_outcome)take_below(c, CORE_GRACE + 1);
        break;
    case 'h':
    case 'a':
    case 's':
        talk_post(what == 'h' ? CORE_HINT : what == 'a' ? CORE_SUBSCRIBED : CORE_RECEIVED, c);
        break;
    case 'l':
    case 'c':
    case 'g':
        talk_verify(k, what == 'l' ? CORE_RECLAIM : what == 'c' ? CORE_SUSPECT : CORE_GRACE_OVER);
        break;
    case 'r':
        talk_inspected(c);
        break;
    case 'u':
        k->down = !k->down;
        redis->env.state(redis->env.ctx, !k->down);
        break;
    case 'k':
        conf->locks.kind = (enum kind)take_below(c, KINDS);
        conf->locks.foreign = take_below(c, 2) ? CONF_FOREIGN_WAIT : CONF_FOREIGN_REFUSE;
        break;
    case 'K':
        conf->locks.on_loss = CONF_LOSS_CLOSE;
        k->killed = true;
        break;
    default: /* the byte itself */
        buf_add(&k->now->request_bytes, "\1", k->now->open);
        break;
    }
}

/* Runs the whole script. */
static void
talk(struct talk *k, struct choices *c)
{
    virtual_us = 1000 * US_PER_S;
    talk_come(k, &k->t[0]);
    while (c->n > 0) {
        const uint8_t *escape = memchr(c->p, 1, c->n);
        size_t n = escape != NULL ? (size_t)(escape - c->p) : c->n;

        buf_add(&k->now->request_bytes, c->p, k->now->open ? n : 0);
        c->p += n;
        c->n -= n;
        if (c->n > 0) {
            (void)take_byte(c);
            instruct(k, c);
        }
        if (redis->n > OPS_MAX / 2) { /* Redis cannot stay down for ever */
            k->down = false;
            talk_settle(k);
        }
    }
    send_request_bytes(k);
}

/* All clients leave in good order; then nothing is left. */
static void
talk_end(struct talk *k)
{
    struct core_totals t;

    redis->ends = redis->extends = CORE_OK;
    k->down = false;
    for (int i = 0; i < TALKERS; i++) { /* all at once: one may wait until another ends */
        k->t[i].unread = false;
        talk_shut(&k->t[i]);
    }
    for (int i = 0; i < TALKERS; i++) {
        talk_finish(k, &k->t[i]);
    }
    for (int i = 0; i < TALKERS; i++) {
        talk_close(&k->t[i]);
    }
    talk_settle(k);
    for (int i = 0; core_next_us(engine->core) != CORE_FOREVER || redis->n > 0; i++) {
        CHECK(i < ROUNDS_MAX, "it does not end");
        virtual_us = core_next_us(engine->core) > virtual_us && core_next_us(engine->core) != CORE_FOREVER
                         ? core_next_us(engine->core)
                         : virtual_us;
        talk_settle(k);
    }
    t = core_totals(engine->core);
    CHECK(engine->sessions_n == 0 && t.locks == 0 && t.owners == 0 && t.sessions == 0 && t.waiters == 0 &&
              t.held_claims == 0,
          "left: %d sessions, %d locks, %d owners", (int)engine->sessions_n, (int)t.locks, (int)t.owners);
    CHECK(redis->reclaimed == k->epoch, "a loss of data that is not got over");
}

#endif
