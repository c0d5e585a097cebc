/*
 * calls.c -- a Redis as its connections see it: commands in, replies out, and the faults of one command.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/call.h"
#include "daemon/backend/link.h"
#include "daemon/base/units.h"
#include "tests/sim/cluster.h"
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

/* ---- words ---- */

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

/* An array of bulks, as hiredis formats it. */
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

/* A control: Redis ends each grace period at once. */
static void
end_grace(struct server *s)
{
    struct slice get[2] = {SLICE_LIT("GET"), SLICE_LIT("rlock:epoch")}, set[3] = {SLICE_LIT("SET"), get[1]};
    const struct reply *r = server_command(s, 2, get);
    const char *second = r->type == REPLY_TEXT ? strchr(r->text.p, ' ') : NULL;
    const char *third = second != NULL ? strchr(second + 1, ' ') : NULL;
    char open[64];

    if (third != NULL && (size_t)(third - r->text.p) < sizeof(open)) {
        set[2] = (struct slice){open, (size_t)(third - r->text.p)};
        memcpy(open, r->text.p, set[2].n);
        (void)server_command(s, 3, set);
    }
}

static bool
is_any_epoch(const struct world *w)
{
    return w->options->control == CONTROL_LOSSES_NO_GRACE || w->options->control == CONTROL_VOTES_AT_ONCE;
}

/* Controls that change a call of a script on its way. */
static void
break_call(struct server *s, int script, int words, struct slice *word)
{
    const struct world *w = s->world;
    int keys = atoi(word[2].p), guard = 3 + keys;

    if (w->options->control == CONTROL_NO_GUARD && guard < words) {
        word[guard] = SLICE_LIT("0");
    }
    if (w->shape == SHAPE_QUORUM && guard + 1 < words) {
        masters_call(s, scripts_verb(script), word[5], &word[guard + 1]);
    }
    if (w->options->control == CONTROL_NO_OWNER && scripts_verb(script) == VERB_RELEASE) {
        for (int i = 5; i < guard; i++) { /* behind the clock and the epoch */
            (void)server_command(s, 2, (struct slice[]){SLICE_LIT("DEL"), word[i]});
        }
    }
}

/* Controls that change a reply. The token is the second of the four numbers that a row of names has in the reply. */
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
            r->item[i + 1]->n = (int64_t)c->daemon->tokens + 1;
            c->daemon->tokens += (uint64_t)r->item[i + 3]->n;
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
        trace(w, c->server->name, "conn %d%s: %s %s -> %d %" PRId64 " %" PRId64 "%s", (int)c->id,
              c->bev == NULL ? " (given up)" : "",
              (const char *const[VERBS]){"release", "clear", "acquire", "renew"}[scripts_verb(script)],
              kind_rows[scripts_kind(script)].name, (int)r->item[1]->n, r->count > 2 ? r->item[2]->n : 0,
              r->count > 3 ? r->item[3]->n : 0, r->count > 4 ? " ..." : "");
    }
}

/* A script that Redis already has: its whole text is as good as its digest, and needs no digest of its own. */
static const struct reply *
call_server(struct server *s, int script, int words, struct slice *word)
{
    struct slice text = word[1];
    const struct reply *r;

    if (script >= 0 && s->loaded[script] && word[0].n == 4) {
        word[0] = SLICE_LIT("EVALSHA");
        word[1] = slice_of(scripts_sha(script));
        r = server_command(s, words, word);
        if (!call_is_noscript(r)) {
            return r;
        }
        word[0] = SLICE_LIT("EVAL");
        word[1] = text;
    }
    r = server_command(s, words, word);
    if (script >= 0 && word[0].n == 4) {
        s->loaded[script] = true;
    }
    return r;
}

static void
note_beat(struct conn *c, uint64_t calls_before, int words, const struct slice *word, size_t answered)
{
    struct beats *b = &c->world->beats;

    b->n++;
    b->calls += sim_redis_calls(c->server->redis) - calls_before;
    b->bytes += answered;
    for (int i = 0; i < words; i++) {
        b->bytes += word[i].n;
    }
}

static void
run_command(struct conn *c, int script, int words, struct slice *word, const char *instead)
{
    struct world *w = c->world;
    const struct reply *r;
    struct buf out;
    bool taken = false;
    uint64_t calls;

    w->totals->scripts += script >= 0;
    if (scripts_is_call(script)) {
        break_call(c->server, script, words, word);
    }
    if (w->options->control == CONTROL_MISSING_IS_NEW && scripts_is_record(script) && slice_is(word[5], "read")) {
        word[5] = SLICE_LIT("grant");
    }
    calls = sim_redis_calls(c->server->redis);
    r = call_server(c->server, script, words, word);
    if (is_any_epoch(w) && script >= 0 && !scripts_is_call(script)) {
        struct buf kept;

        buf_init(&kept, 0); /* the reply does not outlive the next command */
        put_reply(&kept, r);
        end_grace(c->server);
        masters_establish(c->server);
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
    if (script >= 0 && !scripts_is_call(script)) {
        cluster_informs(c, words, word, r);
    }
    if (instead != NULL) {
        conn_reply(c, instead, strlen(instead), false);
        return;
    }
    buf_init(&out, 0);
    put_reply(&out, r);
    conn_reply(c, out.p, out.n, false);
    if (scripts_is_beat(script)) {
        note_beat(c, calls, words, word, out.n);
    }
    buf_fini(&out);
    if (taken && w->loss_behind) {
        nature_loses_behind(c->server);
    }
}

static void
load_script(struct conn *c, struct slice text)
{
    struct server *s = c->server;
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
send_text(struct conn *c, const char *text)
{
    conn_reply(c, text, strlen(text), false);
}

/* Replicas acknowledge the master's data, all of them at once; or one is missing, and the answer comes at the end. */
static void
wait_for_replicas(struct conn *c, struct slice wanted, struct slice ms)
{
    int64_t n = 0, bound_ms = 0;
    bool few = false;
    char out[32];

    c->waits = true;
    (void)number_parse(wanted, &n);
    (void)number_parse(ms, &bound_ms);
    few = n > 0 && fault(c->world, FAULT_SHORTFALL);
    if (c->world->shape == SHAPE_SENTINEL && !few) {
        int acked = replicas_ack(c->server);

        few = acked < n;
        n = few ? acked + 1 : n;
        if (few) {
            last_failure(c->world, US_PER_S);
        }
    }
    snprintf(out, sizeof(out), ":%" PRId64 "\r\n", n - few);
    send_text(c, out);
    if (few) {
        conn_late(c, bound_ms * US_PER_MS);
    }
}

/* The rights of the daemon's user are changed, and are restored a little later. */
static bool
denies(const struct server *s, struct slice verb)
{
    static const char *const sorts[][3] = {
        {"SUBSCRIBE", "UNSUBSCRIBE", "SUBSCRIBE"}, {"EVAL", "EVALSHA", "SCRIPT"}, {"INFO", "CLIENT", "PING"},
        {"EVALSHA", "EVALSHA", "EVALSHA"}};

    for (int i = 0; i < 3 && s->world->now_us < s->denied_until_us; i++) {
        if (slice_is(verb, sorts[s->denied][i])) {
            return true;
        }
    }
    return false;
}

/* CONFIG GET min-replicas-* */
static void
send_settings(struct conn *c)
{
    int64_t lag_s = c->world->sentinels.max_lag_us / US_PER_S;
    char lag[24], out[160];

    snprintf(lag, sizeof(lag), "%" PRId64, lag_s > 0 ? lag_s : 10);
    snprintf(out, sizeof(out),
             "*4\r\n$20\r\nmin-replicas-max-lag\r\n$%zu\r\n%s\r\n$21\r\nmin-replicas-to-write\r\n$1\r\n%d\r\n",
             strlen(lag), lag, lag_s > 0);
    send_text(c, out);
}

static void
run_words(struct conn *c, int words, struct slice *word, const char *instead)
{
    int script = -1;
    char id[32];

    if (denies(c->server, word[0])) {
        send_text(c, "-NOPERM this user has no permissions to run the command\r\n");
        return;
    }
    if (c->world->shape == SHAPE_CLUSTER && cluster_answers(c, words, word)) {
        return;
    }
    if (slice_is(word[0], "EVALSHA")) {
        script = scripts_by_sha(word[1]);
    } else if (slice_is(word[0], "EVAL")) {
        script = scripts_find(word[1]);
    } else if (slice_is(word[0], "PING")) {
        send_text(c, "+PONG\r\n");
        return;
    } else if (slice_is(word[0], "WAIT") && words == 3) {
        wait_for_replicas(c, word[1], word[2]);
        return;
    } else if (slice_is(word[0], "CLIENT")) {
        snprintf(id, sizeof(id), ":%" PRIu64 "\r\n", c->id);
        send_text(c, slice_is(word[1], "SETNAME") ? "+OK\r\n"
                     : slice_is(word[1], "ID") ? id : "-ERR no such thing\r\n");
        return;
    } else if (slice_is(word[0], "SUBSCRIBE") || slice_is(word[0], "UNSUBSCRIBE")) {
        server_subscribes(c, word[1], false, slice_is(word[0], "SUBSCRIBE"));
        return;
    } else if (slice_is(word[0], "SCRIPT") && words == 3) {
        load_script(c, word[2]);
        return;
    }
    if (slice_is(word[0], "CONFIG")) {
        send_settings(c);
        return;
    }
    run_command(c, script, words, word, instead);
    replicas_receive(c->server);
}

static void
script_flush(struct server *s)
{
    sim_redis_script_flush(s->redis);
    memset(s->loaded, 0, sizeof(s->loaded));
    trace(s->world, s->name, "SCRIPT FLUSH");
}

static void
count_down(struct server *s)
{
    if (s->old != NULL && --s->old_in == 0) {
        struct sim_redis *old = s->old;

        s->old = NULL;
        server_restart(s, old, s->old_how == FAULT_FAILOVER_LOSSY);
        sim_redis_free(&old);
        nature_lost(s);
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
    if (c->server->type == SERVER_SENTINEL) {
        watched_runs(c, words, word);
        return;
    }
    if (fault(w, FAULT_SCRIPT_FLUSH)) {
        script_flush(c->server);
    }
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (fault(w, errors[i].fault)) {
            trace(w, c->server->name, "conn %d: %.*s", (int)c->id, (int)strlen(errors[i].text) - 2, errors[i].text);
            last_failure(w, 0);
            if (errors[i].runs) {
                run_words(c, words, word, errors[i].text);
            } else {
                send_text(c, errors[i].text);
            }
            return;
        }
    }
    run_words(c, words, word, NULL);
    count_down(c->server);
}
