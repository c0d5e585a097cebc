/*
 * server.c -- Redis as its connections see it: commands in, replies and messages out; and how it dies.
 *
 * What a connection is to Redis (its name, its subscriptions) is here; the data and the scripts are in redis.c.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/call.h"
#include "daemon/backend/link.h"
#include "tests/sim/sim.h"

static const struct {
    enum fault fault;
    bool runs;
    const char *text;
} errors[] = {
    {FAULT_ERR_LOADING, false, "-LOADING Redis is loading the dataset in memory\r\n"},
    {FAULT_ERR_BUSY, false, "-BUSY Redis is busy running a script.\r\n"},
    {FAULT_ERR_MASTERDOWN, false, "-MASTERDOWN Link with MASTER is down\r\n"},
    {FAULT_ERR_CLUSTERDOWN, false, "-CLUSTERDOWN The cluster is down\r\n"},
    {FAULT_ERR_TRYAGAIN, false, "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"},
    {FAULT_ERR_NOREPLICAS, false, "-NOREPLICAS Not enough good replicas to write.\r\n"},
    {FAULT_ERR_MISCONF, false, "-MISCONF Redis is configured to save RDB snapshots\r\n"},
    {FAULT_ERR_NOSCRIPT, false, "-NOSCRIPT No matching script. Please use EVAL.\r\n"},
    {FAULT_ERR_READONLY, false, "-READONLY You can't write against a read only replica.\r\n"},
    {FAULT_ERR_NOAUTH, false, "-NOAUTH Authentication required.\r\n"},
    {FAULT_ERR_NOPERM, false, "-NOPERM this user has no permissions to run the command\r\n"},
    {FAULT_ERR_MOVED, false, "-MOVED 3999 127.0.0.1:6381\r\n"},
    {FAULT_ERR_ASK, false, "-ASK 3999 127.0.0.1:6381\r\n"},
    {FAULT_ERR_CROSSSLOT, false, "-CROSSSLOT Keys in request don't hash to the same slot\r\n"},
    {FAULT_ERR_EXECABORT, false, "-EXECABORT Transaction discarded\r\n"},
    {FAULT_ERR_WRONGTYPE, false, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"},
    {FAULT_ERR_OOM, false, "-OOM command not allowed when used memory > 'maxmemory'.\r\n"},
    {FAULT_ERR_RAN, true, "-ERR something went wrong at the end\r\n"},
    {FAULT_ERR_NOT_RUN, false, "-ERR something went wrong at the beginning\r\n"},
};

int64_t
server_clock(const struct world *w)
{
    return w->server.wall_us + w->now_us + w->now_us * w->server.ppm / 1000000;
}

/* ---- subscriptions ---- */

static struct channel *
channel_find(const struct conn *c, struct slice name)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->channels)
    {
        struct channel *ch = container_of(pos, struct channel, node);

        if (ch->n == name.n && memcmp(ch->name, name.p, name.n) == 0) {
            return ch;
        }
    }
    return NULL;
}

static void
subscribe(struct conn *c, struct slice name, bool on)
{
    struct channel *ch = channel_find(c, name);
    struct buf out;

    if (on && ch == NULL) {
        ch = malloc(sizeof(*ch) + name.n);
        if (ch == NULL) {
            abort();
        }
        ch->n = name.n;
        memcpy(ch->name, name.p, name.n);
        list_init(&ch->node);
        list_push_back(&c->channels, &ch->node);
        c->channels_n++;
    } else if (!on && ch != NULL) {
        list_remove(&ch->node);
        free(ch);
        c->channels_n--;
    }
    buf_init(&out, 0);
    buf_printf(&out, "*3\r\n$%d\r\n%s\r\n$%zu\r\n", on ? 9 : 11, on ? "subscribe" : "unsubscribe", name.n);
    buf_add_slice(&out, name);
    buf_printf(&out, "\r\n:%zu\r\n", c->channels_n);
    conn_reply(c, out.p, out.n, false);
    buf_fini(&out);
}

void
server_hangs_up(struct conn *c)
{
    while (!list_empty(&c->channels)) {
        struct channel *ch = container_of(c->channels.next, struct channel, node);

        list_remove(&ch->node);
        free(ch);
    }
    c->channels_n = 0;
    c->open = false;
}

/* Who subscribed is counted, heard or not, as Redis does. No message at all: only that. */
static int
published(void *ctx, struct slice channel, struct slice message)
{
    struct world *w = ctx;
    struct list *pos, *nxt;
    struct buf out;
    int heard = 0;

    buf_init(&out, 0);
    list_for_each_safe(pos, nxt, &w->server.conns)
    {
        struct conn *c = container_of(pos, struct conn, node);

        if (c->channels_n == 0 || channel_find(c, channel) == NULL) {
            continue;
        }
        heard++;
        if (message.p == NULL) {
            continue;
        }
        if (fault(w, FAULT_PUBSUB_DROP) || w->options->control == CONTROL_NO_POLL) {
            w->harm_us = w->now_us + w->habit.poll_us; /* who does not hear of it asks then; L5: seed 10087 */
            continue;
        }
        if (out.n == 0) {
            buf_printf(&out, "*3\r\n$7\r\nmessage\r\n$%zu\r\n", channel.n);
            buf_add_slice(&out, channel);
            buf_printf(&out, "\r\n$%zu\r\n", message.n);
            buf_add_slice(&out, message);
            buf_adds(&out, "\r\n");
        }
        conn_reply(c, out.p, out.n, true);
    }
    buf_fini(&out);
    if (message.p != NULL && w->habit.monitors > 0) {
        sight(w, SIGHT_MONITORED);
        heard += w->habit.monitors;
    }
    return heard;
}

/* ---- commands ---- */

static int64_t
number(const char **p)
{
    int64_t n = 0;

    for (; **p >= '0' && **p <= '9'; (*p)++) {
        n = n * 10 + (**p - '0');
    }
    *p += 2;
    return n;
}

/* What hiredis formats: an array of bulks. */
static int
read_words(const struct parcel *p, struct slice *word)
{
    const char *at = p->bytes + 1;
    int n = (int)number(&at);

    for (int i = 0; i < n; i++) {
        at++;
        word[i].n = (size_t)number(&at);
        word[i].p = at;
        at += word[i].n + 2;
    }
    return n;
}

bool
server_is_acquire(const struct parcel *p)
{
    static struct slice word[LINK_WORDS_MAX];
    int script = -1, words = read_words(p, word);

    if (words > 3 && slice_is(word[0], "EVALSHA")) {
        script = scripts_by_sha(word[1]);
    }
    return scripts_is_call(script) && scripts_verb(script) == VERB_ACQUIRE;
}

static void
put_number(struct buf *out, char mark, int64_t n)
{
    char text[24];
    char *p = text + sizeof(text);
    uint64_t u = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;

    *--p = '\n';
    *--p = '\r';
    do {
        *--p = (char)('0' + u % 10);
        u /= 10;
    } while (u > 0);
    if (n < 0) {
        *--p = '-';
    }
    *--p = mark;
    buf_add(out, p, (size_t)(text + sizeof(text) - p));
}

static void
put_reply(struct buf *out, const struct reply *r)
{
    switch (r->type) {
    case REPLY_NULL:
        buf_adds(out, "$-1\r\n");
        break;
    case REPLY_INT:
        put_number(out, ':', r->n);
        break;
    case REPLY_TEXT:
        put_number(out, '$', (int64_t)r->text.n);
        buf_add_slice(out, r->text);
        buf_adds(out, "\r\n");
        break;
    case REPLY_STATUS:
    case REPLY_ERROR:
        buf_adds(out, r->type == REPLY_ERROR ? "-" : "+");
        buf_add_slice(out, r->text);
        buf_adds(out, "\r\n");
        break;
    case REPLY_ARRAY:
        put_number(out, '*', (int64_t)r->count);
        for (size_t i = 0; i < r->count; i++) {
            put_reply(out, r->item[i]);
        }
        break;
    }
}

/* A control: whatever has happened, Redis says that there is no grace. */
static void
end_grace(struct world *w)
{
    struct slice get[2] = {SLICE_LIT("GET"), SLICE_LIT("rlock:epoch")}, set[3] = {SLICE_LIT("SET"), get[1]};
    const struct reply *r = sim_redis_command(w->server.redis, server_clock(w), 2, get);
    const char *second = r->type == REPLY_TEXT ? strchr(r->text.p, ' ') : NULL;
    const char *third = second != NULL ? strchr(second + 1, ' ') : NULL;
    char open[64];

    if (third != NULL && (size_t)(third - r->text.p) < sizeof(open)) {
        set[2] = (struct slice){open, (size_t)(third - r->text.p)};
        memcpy(open, r->text.p, set[2].n);
        (void)sim_redis_command(w->server.redis, server_clock(w), 3, set);
    }
}

/* Controls: what is done to a call of a script of ours on its way. */
static void
break_call(struct world *w, int script, int words, struct slice *word)
{
    int keys = atoi(word[2].p), guard = 3 + keys;

    if (w->options->control == CONTROL_NO_GUARD && guard < words) {
        word[guard] = SLICE_LIT("0");
    }
    if (w->options->control == CONTROL_NO_OWNER && scripts_verb(script) == VERB_RELEASE) {
        for (int i = 5; i < guard; i++) { /* behind the clock and the epoch */
            (void)sim_redis_command(w->server.redis, server_clock(w), 2, (struct slice[]){SLICE_LIT("DEL"), word[i]});
        }
    }
}

/* Controls: and to its reply. Tokens are second of the four numbers that are said of some names in a row. */
static void
break_reply(struct conn *c, int script, const struct reply *r)
{
    struct world *w = c->world;

    if (w->options->control != CONTROL_TOKEN_PER_DAEMON || scripts_verb(script) != VERB_ACQUIRE ||
        r->type != REPLY_ARRAY) {
        return;
    }
    for (size_t i = 1; i < r->count; i += 4) {
        if (r->item[i]->n == 1 && r->item[i + 1]->n > 0) {
            r->item[i + 1]->n = (int64_t)w->daemon_tokens[c->daemon->index] + 1;
            w->daemon_tokens[c->daemon->index] += (uint64_t)r->item[i + 3]->n;
        }
    }
}

static void
note_reply(struct conn *c, int script, const struct reply *r)
{
    struct world *w = c->world;

    if (c->bev == NULL) {
        w->totals->faults[FAULT_ZOMBIE]++;
        w->totals->faults[FAULT_ZOMBIE_LATE] += w->now_us - c->closed_us > 2 * US_PER_S;
        check_zombie(c, script, r);
    }
    if (r->type != REPLY_ARRAY || r->count < 2) {
        return;
    }
    w->totals->faults[FAULT_STALE] += r->item[1]->n == 6;
    for (size_t i = 1; i < r->count; i++) {
        note(w, (uint64_t)script, (uint64_t)r->item[i]->n);
    }
    if (w->traced) {
        trace(w, "redis", "conn %d%s: %s %s -> %d %" PRId64 " %" PRId64 "%s", (int)c->id,
              c->bev == NULL ? " (given up)" : "",
              (const char *const[VERBS]){"release", "clear", "acquire", "renew"}[scripts_verb(script)],
              kind_rows[scripts_kind(script)].name, (int)r->item[1]->n, r->count > 2 ? r->item[2]->n : 0,
              r->count > 3 ? r->item[3]->n : 0, r->count > 4 ? " ..." : "");
    }
}

/* A script with its whole text that Redis has already is the same as by its digest, and that need not be made anew. */
static const struct reply *
call_server(struct world *w, int script, int words, struct slice *word)
{
    struct server *s = &w->server;
    struct slice text = word[1];
    const struct reply *r;

    if (script >= 0 && s->loaded[script] && word[0].n == 4) {
        word[0] = SLICE_LIT("EVALSHA");
        word[1] = slice_of(scripts_sha(script));
        r = sim_redis_command(s->redis, server_clock(w), words, word);
        if (!call_is_noscript(r)) {
            return r;
        }
        word[0] = SLICE_LIT("EVAL");
        word[1] = text;
    }
    r = sim_redis_command(s->redis, server_clock(w), words, word);
    if (script >= 0 && word[0].n == 4) {
        s->loaded[script] = true;
    }
    return r;
}

static void
run_command(struct conn *c, int script, int words, struct slice *word, const char *instead)
{
    struct world *w = c->world;
    const struct reply *r;
    struct buf out;
    bool taken = false;

    w->totals->scripts += script >= 0;
    if (scripts_is_call(script)) {
        break_call(w, script, words, word);
    }
    r = call_server(w, script, words, word);
    if (w->options->control == CONTROL_LOSSES_NO_GRACE && script >= 0 && !scripts_is_call(script)) {
        struct buf kept;

        buf_init(&kept, 0); /* the reply does not outlive the next command */
        put_reply(&kept, r);
        end_grace(w);
        conn_reply(c, kept.p, kept.n, false);
        buf_fini(&kept);
        return;
    }
    if (scripts_is_call(script)) {
        taken = scripts_verb(script) == VERB_ACQUIRE && r->type == REPLY_ARRAY && r->count > 1 && r->item[1]->n == 1;
        note_reply(c, script, r);
        c->daemon->renewed_on = scripts_verb(script) == VERB_RENEW ? c->id : c->daemon->renewed_on;
        if (scripts_verb(script) == VERB_ACQUIRE) {
            check_moved_guard(c, word, r);
        }
        break_reply(c, script, r);
    }
    if (instead != NULL) {
        conn_reply(c, instead, strlen(instead), false);
        return;
    }
    buf_init(&out, 0);
    put_reply(&out, r);
    conn_reply(c, out.p, out.n, false);
    buf_fini(&out);
    if (taken && w->loss_behind) {
        nature_loses_behind(w);
    }
}

static void
load_script(struct conn *c, struct slice text)
{
    struct server *s = &c->world->server;
    struct slice word[3] = {SLICE_LIT("SCRIPT"), SLICE_LIT("LOAD"), text};
    int script = scripts_find(text);
    char out[64];

    if (script < 0 || !s->loaded[script]) {
        run_command(c, -1, 3, word, NULL);
        if (script >= 0) {
            s->loaded[script] = true;
        }
        return;
    }
    snprintf(out, sizeof(out), "$40\r\n%s\r\n", scripts_sha(script));
    conn_reply(c, out, strlen(out), false);
}

static void
say(struct conn *c, const char *text)
{
    conn_reply(c, text, strlen(text), false);
}

static void
run_words(struct conn *c, int words, struct slice *word, const char *instead)
{
    int script = -1;
    char id[32];

    if (nature_denies(c->world, word[0])) {
        say(c, "-NOPERM this user has no permissions to run the command\r\n");
        return;
    }
    if (slice_is(word[0], "EVALSHA")) {
        script = scripts_by_sha(word[1]);
    } else if (slice_is(word[0], "EVAL")) {
        script = scripts_find(word[1]);
    } else if (slice_is(word[0], "PING")) {
        say(c, "+PONG\r\n");
        return;
    } else if (slice_is(word[0], "CLIENT")) {
        snprintf(id, sizeof(id), ":%" PRIu64 "\r\n", c->id);
        say(c, slice_is(word[1], "SETNAME") ? "+OK\r\n" : slice_is(word[1], "ID") ? id : "-ERR no such thing\r\n");
        return;
    } else if (slice_is(word[0], "SUBSCRIBE") || slice_is(word[0], "UNSUBSCRIBE")) {
        subscribe(c, word[1], slice_is(word[0], "SUBSCRIBE"));
        return;
    } else if (slice_is(word[0], "SCRIPT") && words == 3) {
        load_script(c, word[2]);
        return;
    }
    run_command(c, script, words, word, instead);
}

static void
script_flush(struct world *w)
{
    sim_redis_script_flush(w->server.redis);
    memset(w->server.loaded, 0, sizeof(w->server.loaded));
    trace(w, "redis", "SCRIPT FLUSH");
}

static void
count_down(struct world *w)
{
    struct server *s = &w->server;

    if (s->old != NULL && --s->old_in == 0) {
        struct sim_redis *old = s->old;

        s->old = NULL;
        server_restart(w, old, s->old_how == FAULT_FAILOVER_LOSSY);
        sim_redis_free(&old);
        nature_lost(w);
    }
}

void
server_runs(struct conn *c, struct parcel *p)
{
    static struct slice word[LINK_WORDS_MAX];
    struct world *w = c->world;
    int words = read_words(p, word);

    c->ran_sent_us = p->sent_us;
    w->totals->commands++;
    if (fault(w, FAULT_SCRIPT_FLUSH)) {
        script_flush(w);
    }
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (fault(w, errors[i].fault)) {
            trace(w, "redis", "conn %d: %.*s", (int)c->id, (int)strlen(errors[i].text) - 2, errors[i].text);
            last_failure(w, 0);
            if (errors[i].runs) {
                run_words(c, words, word, errors[i].text);
            } else {
                say(c, errors[i].text);
            }
            return;
        }
    }
    run_words(c, words, word, NULL);
    count_down(w);
}

/* ---- life and death ---- */

/* What was answered, and has not arrived, of one connection of each daemon: the others hear first what has happened. */
void
server_late(struct world *w, int64_t for_us)
{
    struct list *pos, *nxt;
    bool seen[DAEMONS] = {false};

    list_for_each_safe(pos, nxt, &w->server.conns)
    {
        struct conn *c = container_of(pos, struct conn, node);

        if (c->bev != NULL && c->channels_n == 0 && !list_empty(&c->back) && !seen[c->daemon->index]) {
            seen[c->daemon->index] = true;
            conn_late(c, for_us);
        }
    }
}

static void
hex_id(struct world *w, char out[41], uint64_t life, uint64_t what)
{
    snprintf(out, 41, "%016" PRIx64 "%016" PRIx64 "%08" PRIx64, w->seed, life, what);
}

/* All connections end. */
static void
begin_life(struct world *w, uint64_t life, struct sim_redis *data, bool promote)
{
    struct server *s = &w->server;
    struct list *pos, *nxt;
    char run_id[41], replid[41];

    turns_harm(w, NULL, promote ? SIGHT_FAILOVER_IN_RUN : SIGHT_RESTART_IN_RUN);
    hex_id(w, run_id, life, 1);
    hex_id(w, replid, life, 2);
    sim_redis_restart(s->redis, data, run_id, replid);
    if (promote) {
        hex_id(w, replid, life, 3);
        sim_redis_promote(s->redis, replid);
    }
    s->promoted = promote;
    memset(s->loaded, 0, sizeof(s->loaded));
    s->down_until_us = w->now_us + between(w, 1, 2000) * US_PER_MS;
    last_failure(w, s->down_until_us - w->now_us);
    list_for_each_safe(pos, nxt, &s->conns)
    {
        conn_cut(container_of(pos, struct conn, node), !promote || chance(w, 50000));
    }
}

/* data NULL: empty. A promoted replica is another process that has lived on; the one before it may come back. */
void
server_restart(struct world *w, struct sim_redis *data, bool promote)
{
    struct server *s = &w->server;

    if (promote && w->rate[FAULT_FAILBACK] > 0) {
        if (s->former != NULL) {
            sim_redis_free(&s->former);
        }
        s->former = sim_redis_copy(s->redis);
        s->former_life = s->life;
        s->former_promoted = s->promoted;
    }
    begin_life(w, ++s->life, data, promote);
}

void
server_back(struct world *w)
{
    struct server *s = &w->server;

    begin_life(w, s->former_life, s->former, s->former_promoted);
    sim_redis_free(&s->former);
}

void
server_open(struct world *w)
{
    struct server *s = &w->server;
    char run_id[41], replid[41];

    list_init(&s->conns);
    s->life = 1;
    hex_id(w, run_id, s->life, 1);
    hex_id(w, replid, s->life, 2);
    s->wall_us = INT64_C(1700000000) * US_PER_S;
    s->redis = sim_redis_new(run_id, replid);
    sim_redis_on_publish(s->redis, published, w);
    sim_redis_started(s->redis, s->wall_us - 3600 * US_PER_S);
}

void
server_close(struct world *w)
{
    if (w->server.old != NULL) {
        sim_redis_free(&w->server.old);
    }
    if (w->loss_old != NULL) {
        sim_redis_free(&w->loss_old);
    }
    if (w->server.former != NULL) {
        sim_redis_free(&w->server.former);
    }
    sim_redis_free(&w->server.redis);
}

bool
server_has(struct world *w, const char *key)
{
    struct slice word[2] = {SLICE_LIT("EXISTS"), slice_of(key)};
    const struct reply *r = sim_redis_command(w->server.redis, server_clock(w), 2, word);

    return r->type == REPLY_INT && r->n == 1;
}
