/*
 * commands.c -- the table of commands, their common parts, and the commands for keys of any type.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "daemon/base/glob.h"
#include "tests/sim/inside.h"

#define COMMAND(name, arity, flags) {#name, sizeof(#name) - 1, arity, flags, cmd_##name},
static const struct command table[] = {
#include "tests/sim/commands.def"
};
#undef COMMAND

enum { COMMANDS = sizeof(table) / sizeof(table[0]) };

const struct command *
command_at(size_t i)
{
    return i < COMMANDS ? &table[i] : NULL;
}

/* Scripts use a few Lua strings for their commands, which lua.c remembers: a linear search is fast enough. */
const struct command *
command_find(struct slice name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (name.n == table[i].name_n && strncasecmp(name.p, table[i].name, name.n) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

bool
command_arity_ok(const struct command *c, int n)
{
    return c->arity > 0 ? n == c->arity : n >= -c->arity;
}

/* ---- common parts of commands ---- */

struct key *
key_seen(struct sim_redis *r, struct slice name)
{
    struct key *k = data_find(&r->data, name);

    if (k != NULL && k->expire_ms >= 0 && r->now_ms > k->expire_ms) {
        if (!r->replica) {
            data_del(&r->data, k);
        }
        return NULL;
    }
    return k;
}

bool
key_of(struct sim_redis *r, struct slice name, enum type type, struct key **k, const struct reply **error)
{
    *k = key_seen(r, name);
    if (*k != NULL && (*k)->type != type) {
        *error = out_error(&r->out, "WRONGTYPE Operation against a key holding the wrong kind of value");
        return false;
    }
    return true;
}

struct key *
key_make(struct sim_redis *r, struct slice name, enum type type, struct key *k)
{
    return k != NULL ? k : data_add(&r->data, name, type);
}

void
key_trim(struct sim_redis *r, struct key *k)
{
    if (k->type != TYPE_STRING && k->of.n == 0) {
        data_del(&r->data, k);
    }
}

const struct reply *
key_length(struct sim_redis *r, struct slice name, enum type type)
{
    const struct reply *error;
    struct key *k;

    return key_of(r, name, type, &k, &error) ? out_int(&r->out, k == NULL ? 0 : (int64_t)k->of.n) : error;
}

bool
range_of(int64_t all, int64_t *from, int64_t *to)
{
    *from = *from < 0 ? *from + all : *from;
    *to = *to < 0 ? *to + all : *to;
    *from = *from < 0 ? 0 : *from;
    *to = *to >= all ? all - 1 : *to;
    return *from <= *to && *from < all;
}

bool
int_of(struct slice s, int64_t *n)
{
    bool minus = s.n > 0 && s.p[0] == '-';
    uint64_t v = 0;
    size_t i = minus;

    if (s.n == 1 && s.p[0] == '0') {
        *n = 0;
        return true;
    }
    if (s.n > 20 || i == s.n || s.p[i] < '1' || s.p[i] > '9') {
        return false;
    }
    for (; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v)) {
            return false;
        }
    }
    if (v > (uint64_t)INT64_MAX + minus) {
        return false;
    }
    *n = minus ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool
double_of(struct slice s, double *d)
{
    char text[128], *end;

    if (s.n == 0 || s.n >= sizeof(text) || strchr(" \t\n\v\f\r", s.p[0]) != NULL) {
        return false;
    }
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    errno = 0;
    *d = strtod(text, &end);
    if (errno == ERANGE && (isinf(*d) || fpclassify(*d) == FP_ZERO)) {
        return false;
    }
    return end == text + s.n && !isnan(*d);
}

const struct reply *
not_int(struct sim_redis *r)
{
    return out_error(&r->out, "ERR value is not an integer or out of range");
}

const struct reply *
syntax_error(struct sim_redis *r)
{
    return out_error(&r->out, "ERR syntax error");
}

const struct reply *
arity_error(struct sim_redis *r, const char *command)
{
    return out_error(&r->out, "ERR wrong number of arguments for '%s' command", command);
}

/* ---- commands of any key ---- */

const struct reply *
cmd_del(struct sim_redis *r, int n, const struct slice *w)
{
    int64_t gone = 0;

    for (int i = 1; i < n; i++) {
        struct key *k = key_seen(r, w[i]);

        if (k != NULL) {
            data_del(&r->data, k);
            gone++;
        }
    }
    return out_int(&r->out, gone);
}

const struct reply *
cmd_unlink(struct sim_redis *r, int n, const struct slice *w)
{
    return cmd_del(r, n, w);
}

const struct reply *
cmd_exists(struct sim_redis *r, int n, const struct slice *w)
{
    int64_t there = 0;

    for (int i = 1; i < n; i++) {
        there += key_seen(r, w[i]) != NULL;
    }
    return out_int(&r->out, there);
}

const struct reply *
cmd_type(struct sim_redis *r, int n, const struct slice *w)
{
    static const char *const names[] = {
        [TYPE_STRING] = "string", [TYPE_LIST] = "list", [TYPE_SET] = "set", [TYPE_ZSET] = "zset", [TYPE_HASH] = "hash",
    };
    const struct key *k = key_seen(r, w[1]);

    (void)n;
    return out_status(&r->out, slice_of(k == NULL ? "none" : names[k->type]));
}

/* -2: no key, -1: no expiry, else the ms that are left. */
static int64_t
left_ms(struct sim_redis *r, struct slice name)
{
    const struct key *k = key_seen(r, name);

    if (k == NULL || k->expire_ms < 0) {
        return k == NULL ? -2 : -1;
    }
    return k->expire_ms > r->now_ms ? k->expire_ms - r->now_ms : 0;
}

const struct reply *
cmd_pttl(struct sim_redis *r, int n, const struct slice *w)
{
    (void)n;
    return out_int(&r->out, left_ms(r, w[1]));
}

const struct reply *
cmd_ttl(struct sim_redis *r, int n, const struct slice *w)
{
    int64_t ms = left_ms(r, w[1]);

    (void)n;
    return out_int(&r->out, ms < 0 ? ms : (ms + 500) / 1000);
}

const struct reply *
cmd_pexpiretime(struct sim_redis *r, int n, const struct slice *w)
{
    const struct key *k = key_seen(r, w[1]);

    (void)n;
    return out_int(&r->out, k == NULL ? -2 : k->expire_ms);
}

enum { IF_NX = 1, IF_XX = 2, IF_GT = 4, IF_LT = 8 };

/* Reads NX, XX, GT, LT; an error, or NULL. */
static const struct reply *
expire_options(struct sim_redis *r, int n, const struct slice *w, unsigned *flags)
{
    static const char *const words[] = {"nx", "xx", "gt", "lt"};

    *flags = 0;
    for (int i = 3; i < n; i++) {
        unsigned k = 0;

        while (k < 4 && !slice_is(w[i], words[k])) {
            k++;
        }
        if (k == 4) {
            return out_error(&r->out, "ERR Unsupported option %.*s", (int)w[i].n, w[i].p);
        }
        *flags |= 1U << k;
    }
    if ((*flags & IF_NX) && (*flags & ~(unsigned)IF_NX)) {
        return out_error(&r->out, "ERR NX and XX, GT or LT options at the same time are not compatible");
    }
    if ((*flags & IF_GT) && (*flags & IF_LT)) {
        return out_error(&r->out, "ERR GT and LT options at the same time are not compatible");
    }
    return NULL;
}

static bool
expire_wanted(unsigned flags, int64_t is, int64_t when)
{
    return !((flags & IF_NX) && is != -1) && !((flags & IF_XX) && is == -1) &&
           !((flags & IF_GT) && (is == -1 || when <= is)) && !((flags & IF_LT) && is != -1 && when >= is);
}

static const struct reply *
expire(struct sim_redis *r, int n, const struct slice *w, int64_t base_ms, int unit, const char *name)
{
    const struct reply *error;
    struct key *k;
    unsigned flags;
    int64_t when;

    if ((error = expire_options(r, n, w, &flags)) != NULL) {
        return error;
    }
    if (!int_of(w[2], &when)) {
        return not_int(r);
    }
    if (when > INT64_MAX / unit || when < INT64_MIN / unit || when * unit > INT64_MAX - base_ms) {
        return out_error(&r->out, "ERR invalid expire time in '%s' command", name);
    }
    when = when * unit + base_ms;
    k = key_seen(r, w[1]);
    if (k == NULL || !expire_wanted(flags, k->expire_ms, when)) {
        return out_int(&r->out, 0);
    }
    if (when <= r->now_ms && !r->replica) {
        data_del(&r->data, k);
    } else {
        k->expire_ms = when;
    }
    return out_int(&r->out, 1);
}

const struct reply *
cmd_expire(struct sim_redis *r, int n, const struct slice *w)
{
    return expire(r, n, w, r->now_ms, 1000, "expire");
}

const struct reply *
cmd_pexpire(struct sim_redis *r, int n, const struct slice *w)
{
    return expire(r, n, w, r->now_ms, 1, "pexpire");
}

const struct reply *
cmd_expireat(struct sim_redis *r, int n, const struct slice *w)
{
    return expire(r, n, w, 0, 1000, "expireat");
}

const struct reply *
cmd_pexpireat(struct sim_redis *r, int n, const struct slice *w)
{
    return expire(r, n, w, 0, 1, "pexpireat");
}

const struct reply *
cmd_persist(struct sim_redis *r, int n, const struct slice *w)
{
    struct key *k = key_seen(r, w[1]);
    bool had = k != NULL && k->expire_ms >= 0;

    (void)n;
    if (had) {
        k->expire_ms = -1;
    }
    return out_int(&r->out, had);
}

/* In the order of names, where Redis has no order. */
const struct reply *
cmd_keys(struct sim_redis *r, int n, const struct slice *w)
{
    size_t keys;
    struct key **all = data_sorted(&r->data, &keys);
    struct reply *reply = out_array(&r->out, keys);

    (void)n;
    reply->count = 0;
    for (size_t i = 0; i < keys; i++) {
        bool over = all[i]->expire_ms >= 0 && r->now_ms > all[i]->expire_ms;

        if (!over && glob_match(w[1], key_name(all[i]))) {
            reply->item[reply->count++] = out_text(&r->out, key_name(all[i]));
        }
    }
    free(all);
    return reply;
}

/* ---- the server ---- */

const struct reply *
cmd_ping(struct sim_redis *r, int n, const struct slice *w)
{
    return n > 2 ? arity_error(r, "ping") : n == 2 ? out_text(&r->out, w[1]) : out_status(&r->out, SLICE_LIT("PONG"));
}

const struct reply *
cmd_echo(struct sim_redis *r, int n, const struct slice *w)
{
    (void)n;
    return out_text(&r->out, w[1]);
}

const struct reply *
cmd_time(struct sim_redis *r, int n, const struct slice *w)
{
    struct reply *reply = out_array(&r->out, 2);
    char room[DIGITS_ROOM];

    (void)n;
    (void)w;
    reply->item[0] = out_text(&r->out, print_int(r->wall_us / 1000000, room));
    reply->item[1] = out_text(&r->out, print_int(r->wall_us % 1000000, room));
    return reply;
}

const struct reply *
cmd_dbsize(struct sim_redis *r, int n, const struct slice *w)
{
    (void)n;
    (void)w;
    return out_int(&r->out, (int64_t)HASH_COUNT(r->data.keys));
}

const struct reply *
cmd_flushall(struct sim_redis *r, int n, const struct slice *w)
{
    if (n > 2 || (n == 2 && !slice_is(w[1], "sync") && !slice_is(w[1], "async"))) {
        return syntax_error(r);
    }
    sim_redis_flush(r);
    return out_status(&r->out, SLICE_LIT("OK"));
}

const struct reply *
cmd_publish(struct sim_redis *r, int n, const struct slice *w)
{
    (void)n;
    return out_int(&r->out, r->publish == NULL ? 0 : r->publish(r->publish_ctx, w[1], w[2], false));
}

const struct reply *
cmd_spublish(struct sim_redis *r, int n, const struct slice *w)
{
    (void)n;
    return out_int(&r->out, r->publish == NULL ? 0 : r->publish(r->publish_ctx, w[1], w[2], true));
}

/* NUMSUB and SHARDNUMSUB alone: the subscriber that asks is not counted. */
const struct reply *
cmd_pubsub(struct sim_redis *r, int n, const struct slice *w)
{
    struct reply *reply;

    bool sharded = slice_is(w[1], "shardnumsub");

    if (!sharded && !slice_is(w[1], "numsub")) {
        return out_error(&r->out, "ERR unknown subcommand '%.*s'. Try PUBSUB HELP.",
                         (int)(w[1].n < 128 ? w[1].n : 128), w[1].p);
    }
    reply = out_array(&r->out, 2 * ((size_t)n - 2));
    for (int i = 2; i < n; i++) {
        int listen = r->publish == NULL ? 0 : r->publish(r->publish_ctx, w[i], (struct slice){NULL, 0}, sharded);

        reply->item[2 * i - 4] = out_text(&r->out, w[i]);
        reply->item[2 * i - 3] = out_int(&r->out, listen);
    }
    return reply;
}

const struct reply *
cmd_eval(struct sim_redis *r, int n, const struct slice *w)
{
    return script_eval(r, n, w, false);
}

const struct reply *
cmd_evalsha(struct sim_redis *r, int n, const struct slice *w)
{
    return script_eval(r, n, w, true);
}

const struct reply *
cmd_script(struct sim_redis *r, int n, const struct slice *w)
{
    if (slice_is(w[1], "load") && n == 3) {
        return script_load(r, w[2]);
    } else if (slice_is(w[1], "exists") && n >= 3) {
        struct reply *reply = out_array(&r->out, (size_t)n - 2);

        for (int i = 2; i < n; i++) {
            reply->item[i - 2] = out_int(&r->out, script_is_loaded(r, w[i]));
        }
        return reply;
    } else if (slice_is(w[1], "flush") && (n == 2 || (n == 3 && (slice_is(w[2], "sync") || slice_is(w[2], "async"))))) {
        script_forget(r);
        return out_status(&r->out, SLICE_LIT("OK"));
    }
    return out_error(&r->out, "ERR unknown subcommand '%.*s'. Try SCRIPT HELP.", (int)(w[1].n < 128 ? w[1].n : 128),
                     w[1].p);
}
