/*
 * load_proto.c -- the protocols: the requests of a slot, and the effects of answers; see load.h.
 *
 * The scripts of `classic` are those of Redisson 3.23.5, those of `redisson` of 4.7.0, byte for byte (test_bench.py
 * compares them with the library's jar where tests/interop has installed it). When a name is taken, both act as the
 * library does: they subscribe to the name's channel, try again when that is confirmed, then once for each message, and
 * unsubscribe when they have the lock. Unlike the library, they do not try again when the holder's lease has ended: no
 * lease ends here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load.h"

#define LOCK_SCRIPT                                                                                              \
    "if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then "          \
    "redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; "     \
    "return redis.call('pttl', KEYS[1]);"

#define UNLOCK_CLASSIC                                                                                           \
    "if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil;end; "                                    \
    "local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); "                                              \
    "if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0; "                                  \
    "else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); return 1; end; return nil;"

#define UNLOCK_LATCH                                                                                             \
    "local val = redis.call('get', KEYS[3]); if val ~= false then return tonumber(val);end; "                    \
    "if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil;end; "                                    \
    "local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); "                                              \
    "if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); redis.call('set', KEYS[3], 0, 'px', ARGV[5]); "\
    "return 0; else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); "                         \
    "redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return 1; end; "

#define COMPARE_DELETE \
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

static const struct proto protos[] = {
    {.name = "rlockd"},
    {.name = "classic", .redis = true, .lock_script = LOCK_SCRIPT, .unlock_script = UNLOCK_CLASSIC},
    {.name = "redisson", .redis = true, .lock_script = LOCK_SCRIPT, .unlock_script = UNLOCK_LATCH, .latch = true},
    {.name = "redisson-del", .redis = true, .lock_script = LOCK_SCRIPT, .unlock_script = UNLOCK_LATCH, .latch = true,
     .del = true},
    {.name = "setnx", .redis = true, .unlock_script = COMPARE_DELETE},
};

const struct proto *
proto_find(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(protos) / sizeof(protos[0]); i++) {
        if (strcmp(protos[i].name, name) == 0) {
            return &protos[i];
        }
    }
    die("no protocol %s", name);
}

void
proto_names(char *out, size_t max)
{
    size_t i, at = 0;

    for (i = 0; i < sizeof(protos) / sizeof(protos[0]) && at < max; i++) {
        at += (size_t)snprintf(out + at, max - at, "%s%s", i == 0 ? "" : " ", protos[i].name);
    }
}

static void
load_script(int fd, const char *script, char *sha)
{
    const char *words[] = {"SCRIPT", "LOAD", script};
    char *answer;

    if (script != NULL) {
        answer = net_ask(fd, 3, words, NULL);
        snprintf(sha, 41, "%s", answer);
        free(answer);
    }
}

void
proto_prepare(struct options *o)
{
    int fd;

    if (o->proto->redis) {
        fd = net_connect(o->at);
        load_script(fd, o->proto->lock_script, o->lock_sha);
        load_script(fd, o->proto->unlock_script, o->unlock_sha);
        close(fd);
    }
}

/* ---- requests ---- */

static char *
keep(size_t n, const char *const *words, size_t *len)
{
    char text[REQUEST_MAX * 2], *out;

    *len = request(text, sizeof(text), n, words);
    out = need(malloc(*len));
    memcpy(out, text, *len);
    return out;
}

static char *
keep_line(size_t n, const char *const *words, const char *option, size_t *len)
{
    char text[REQUEST_MAX], *out;
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i == 0 ? "" : " ", words[i]);
    }
    snprintf(text + at, sizeof(text) - at, "%s%s\r\n", option[0] == '\0' ? "" : " ", option);
    out = need(strdup(text));
    *len = strlen(out);
    return out;
}

/* The position of the latch's number in a request: latch keys are redisson_unlock_latch:{NAME}:NUMBER. */
static size_t
find_latch(const char *p, size_t n)
{
    const char *at = memmem(p, n, "redisson_unlock_latch:", 22);

    return (size_t)((const char *)memmem(at, n - (size_t)(at - p), "}:", 2) + 2 - p);
}

static void
init_hash(struct slot *s, const char *name, const char *owner, const struct options *o)
{
    char channel[REQUEST_MAX / 2], latch[REQUEST_MAX / 2];
    const char *lock[] = {"EVALSHA", o->lock_sha, "1", name, "30000", owner};
    const char *plain[] = {"EVALSHA", o->unlock_sha, "2", name, channel, "0", "30000", owner, "PUBLISH"};
    const char *latched[] = {"EVALSHA", o->unlock_sha, "3",   name,      channel, latch,
                             "0",       "30000",       owner, "PUBLISH", "17100"};
    const char *del[] = {"DEL", latch};

    snprintf(channel, sizeof(channel), "redisson_lock__channel:{%s}", name);
    snprintf(latch, sizeof(latch), "redisson_unlock_latch:{%s}:%0*d", name, LATCH_HEX, 0);
    s->channel = need(strdup(channel));
    s->lock = keep(6, lock, &s->lock_n);
    if (!o->proto->latch) {
        s->unlock = keep(9, plain, &s->unlock_n);
        return;
    }
    s->unlock = keep(11, latched, &s->unlock_n);
    s->latch_at = find_latch(s->unlock, s->unlock_n);
    s->del = keep(2, del, &s->del_n);
    s->del_latch_at = find_latch(s->del, s->del_n);
}

static void
init_setnx(struct slot *s, const char *name, const char *owner, const struct options *o)
{
    const char *lock[] = {"SET", name, owner, "NX", "PX", "30000"};
    const char *unlock[] = {"EVALSHA", o->unlock_sha, "1", name, owner};

    s->lock = keep(6, lock, &s->lock_n);
    s->unlock = keep(5, unlock, &s->unlock_n);
}

/* Several slots of one connection are an owner each, as in the scripts, unless the connection is to be the owner. */
static void
init_rlockd(struct slot *s, const char *name, const char *owner, const struct options *o)
{
    const char *lock[] = {"LOCK", name, "OWNER", owner}, *unlock[] = {"UNLOCK", name, "OWNER", owner};
    const char *attempt[] = {"LOCK", name, "NOWAIT"};
    size_t words = o->pipeline > 1 ? 4 : 2;

    if (o->one_owner) {
        s->lock = keep(3, attempt, &s->lock_n);
        s->unlock = keep(2, unlock, &s->unlock_n);
        return;
    }
    if (o->inlined || o->option[0] != '\0') {
        s->lock = keep_line(words, lock, o->option, &s->lock_n);
        s->unlock = keep_line(words, unlock, "", &s->unlock_n);
        return;
    }
    s->lock = keep(words, lock, &s->lock_n);
    s->unlock = keep(words, unlock, &s->unlock_n);
}

void
slot_init(struct slot *s, struct client *c, const struct options *o, unsigned number)
{
    char name[REQUEST_MAX / 8], owner[REQUEST_MAX / 8];

    memset(s, 0, sizeof(*s));
    s->client = c;
    if (o->hot) {
        snprintf(name, sizeof(name), "%s/hot", o->prefix);
    } else {
        snprintf(name, sizeof(name), "%s/own/%06u/%02u", o->prefix, c->index, number);
    }
    snprintf(owner, sizeof(owner), "da85976b-52b5-4961-8ddf-9d6d%08x:%u", c->index, number + 22);
    if (o->proto->lock_script != NULL) {
        init_hash(s, name, owner, o);
    } else if (o->proto->redis) {
        init_setnx(s, name, owner, o);
    } else {
        init_rlockd(s, name, owner, o);
    }
}

/* ---- steps ---- */

static void
expect(struct client *c, struct slot *s)
{
    if (c->fifo_n == c->fifo_max) {
        die("more answers expected than there is room for");
    }
    c->fifo[(c->fifo_at + c->fifo_n++) % c->fifo_max] = s;
}

static void
ask(struct slot *s, const char *bytes, size_t n, bool matters)
{
    expect(s->client, matters ? s : NULL);
    worker_send(s->client->worker, &s->client->conn, bytes, n);
}

static void
attempt(struct slot *s)
{
    s->step = LOCKING;
    ask(s, s->lock, s->lock_n, true);
}

static void
listen_to(struct slot *s, const char *verb)
{
    const char *words[] = {verb, s->channel};
    char text[REQUEST_MAX];

    s->subscribed = strcmp(verb, "SUBSCRIBE") == 0;
    s->hints = 0;
    worker_send(s->client->worker, &s->client->sub, text, request(text, sizeof(text), 2, words));
}

void
slot_begin(struct slot *s)
{
    s->asked = now_ns();
    attempt(s);
}

static void
taken(struct slot *s)
{
    const struct options *o = s->client->worker->o;

    if (!o->hot) {
        die("%s: a name that no other client uses was taken", o->proto->name);
    }
    if (o->proto->lock_script != NULL) {
        if (!s->subscribed) {
            s->step = SUBSCRIBING;
            listen_to(s, "SUBSCRIBE");
        } else if (s->hints > 0) {
            s->hints--;
            attempt(s);
        } else {
            s->step = LISTENING;
        }
    } else if (o->retry_ms == 0) {
        attempt(s);
    } else {
        s->step = SLEEPING;
        s->again = now_ns() + (int64_t)o->retry_ms * 1000000;
        s->client->worker->sleeping++;
    }
}

/* Replaces the number by one that no unlock had before, as the library does. */
static void
next_latch(struct slot *s)
{
    char hex[LATCH_HEX + 1];

    snprintf(hex, sizeof(hex), "%016" PRIx64 "%08x%08x", ++s->client->latch, s->client->index, (unsigned)getpid());
    memcpy(s->unlock + s->latch_at, hex, LATCH_HEX);
    memcpy(s->del + s->del_latch_at, hex, LATCH_HEX);
}

static void
granted(struct slot *s)
{
    s->got = now_ns();
    if (s->subscribed) {
        listen_to(s, "UNSUBSCRIBE");
    }
    if (s->latch_at > 0) {
        next_latch(s);
    }
    s->step = UNLOCKING;
    ask(s, s->unlock, s->unlock_n, true);
}

static void
again(struct slot *s)
{
    s->step = IDLE;
    if (!worker_ends(s->client->worker, now_ns())) {
        slot_begin(s);
    }
}

/* True for a temporary refusal: by these, rlockd reports overload. */
static bool
refused(struct slot *s, const struct reply *r)
{
    if (r->type != '-' || (strncmp(r->text, "UNAVAILABLE", 11) != 0 && strncmp(r->text, "LIMIT", 5) != 0)) {
        return false;
    }
    s->client->worker->result->refused++;
    again(s);
    return true;
}

static void
freed(struct slot *s)
{
    struct worker *w = s->client->worker;

    if (w->o->proto->del) {
        ask(s, s->del, s->del_n, false);
    }
    worker_pair(w, s, now_ns());
    again(s);
}

void
slot_reply(struct slot *s, const struct reply *r)
{
    const struct proto *p = s->client->worker->o->proto;
    bool null = r->type == '_' || ((r->type == '$' || r->type == '*') && r->number < 0);

    if (refused(s, r)) {
        return;
    }
    if (r->type == '-') {
        die("%s: %.*s", p->name, (int)r->n, r->text);
    }
    if (s->step == UNLOCKING) {
        if (r->type != ':' || r->number != (p->redis ? 1 : 0)) {
            die("%s: an unlock was answered %c%.*s", p->name, r->type, (int)r->n, r->text);
        }
        freed(s);
    } else if (!p->redis) {
        if (r->type != ':') {
            die("%s: LOCK was answered %c%.*s", p->name, r->type, (int)r->n, r->text);
        }
        granted(s);
    } else if (p->lock_script != NULL ? null : r->type == '+') {
        granted(s);
    } else {
        taken(s);
    }
}

void
slot_received(struct slot *s, const struct reply *r)
{
    if (!s->subscribed || r->type != '*' || r->kind == 'u') {
        return;
    }
    if (s->step == LISTENING || (s->step == SUBSCRIBING && r->kind == 's')) {
        attempt(s);
    } else if (r->kind == 'm') {
        s->hints++;
    }
}

void
slot_wake(struct slot *s)
{
    s->client->worker->sleeping--;
    attempt(s);
}
