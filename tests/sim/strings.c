/*
 * strings.c -- the simulated Redis's commands of strings and hashes.
 */
#include "tests/sim/inside.h"

/* ---- strings ---- */

const struct reply *
cmd_get(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;

    (void)n;
    if (!key_of(r, w[1], TYPE_STRING, &k, &error)) {
        return error;
    }
    return k == NULL ? out_null(&r->out) : out_text(&r->out, str_slice(k->text));
}

/* Replaces any value, of any type. */
static void
set_key(struct sim_redis *r, struct slice name, struct slice value, bool keep_ttl)
{
    struct key *k = key_seen(r, name);
    int64_t expire_ms = k != NULL && keep_ttl ? k->expire_ms : -1;

    if (k != NULL && k->type != TYPE_STRING) {
        data_del(&r->data, k);
        k = NULL;
    }
    k = key_make(r, name, TYPE_STRING, k);
    key_set_text(k, value);
    k->expire_ms = expire_ms;
}

struct set_options {
    bool nx, xx, get, keep_ttl;
    bool at;           /* the time is absolute */
    int unit;          /* ms; 0 = no time is given */
    struct slice time;
};

static bool
set_options(int n, const struct slice *w, struct set_options *o)
{
    static const struct {
        const char *word;
        int unit;
        bool at;
    } times[] = {{"ex", 1000, false}, {"px", 1, false}, {"exat", 1000, true}, {"pxat", 1, true}};

    *o = (struct set_options){.unit = 0};
    for (int i = 3; i < n; i++) {
        unsigned t = 0;

        while (t < 4 && !slice_is(w[i], times[t].word)) {
            t++;
        }
        if (slice_is(w[i], "nx") && !o->xx) {
            o->nx = true;
        } else if (slice_is(w[i], "xx") && !o->nx) {
            o->xx = true;
        } else if (slice_is(w[i], "get")) {
            o->get = true;
        } else if (slice_is(w[i], "keepttl") && o->unit == 0) {
            o->keep_ttl = true;
        } else if (t < 4 && i + 1 < n && !o->keep_ttl &&
                   (o->unit == 0 || (o->unit == times[t].unit && o->at == times[t].at))) {
            o->unit = times[t].unit;
            o->at = times[t].at;
            o->time = w[++i];
        } else {
            return false;
        }
    }
    return true;
}

const struct reply *
cmd_set(struct sim_redis *r, int n, const struct slice *w)
{
    struct set_options o;
    const struct reply *was;
    struct key *k;
    int64_t when = -1;

    if (!set_options(n, w, &o)) {
        return syntax_error(r);
    }
    if (o.unit != 0) {
        if (!int_of(o.time, &when)) {
            return not_int(r);
        }
        if (when <= 0 || when > INT64_MAX / o.unit || (!o.at && when * o.unit > INT64_MAX - r->now_ms)) {
            return out_error(&r->out, "ERR invalid expire time in 'set' command");
        }
        when = when * o.unit + (o.at ? 0 : r->now_ms);
    }
    was = NULL;
    if (o.get) {
        was = cmd_get(r, 2, w);
        if (was->type == REPLY_ERROR) {
            return was;
        }
    }
    k = key_seen(r, w[1]);
    if ((o.nx && k != NULL) || (o.xx && k == NULL)) {
        return was != NULL ? was : out_null(&r->out);
    }
    set_key(r, w[1], w[2], o.keep_ttl);
    if (when >= 0) {
        data_find(&r->data, w[1])->expire_ms = when;
    }
    return was != NULL ? was : out_status(&r->out, SLICE_LIT("OK"));
}

const struct reply *
cmd_setnx(struct sim_redis *r, int n, const struct slice *w)
{
    (void)n;
    if (key_seen(r, w[1]) != NULL) {
        return out_int(&r->out, 0);
    }
    set_key(r, w[1], w[2], false);
    return out_int(&r->out, 1);
}

const struct reply *
cmd_getset(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *was = cmd_get(r, n, w);

    if (was->type != REPLY_ERROR) {
        set_key(r, w[1], w[2], false);
    }
    return was;
}

/* Null for a key of another type. */
const struct reply *
cmd_mget(struct sim_redis *r, int n, const struct slice *w)
{
    struct reply *reply = out_array(&r->out, (size_t)n - 1);

    for (int i = 1; i < n; i++) {
        const struct key *k = key_seen(r, w[i]);

        reply->item[i - 1] =
            k == NULL || k->type != TYPE_STRING ? out_null(&r->out) : out_text(&r->out, str_slice(k->text));
    }
    return reply;
}

const struct reply *
cmd_mset(struct sim_redis *r, int n, const struct slice *w)
{
    if (n % 2 == 0) {
        return out_error(&r->out, "ERR wrong number of arguments for 'mset' command");
    }
    for (int i = 1; i < n; i += 2) {
        set_key(r, w[i], w[i + 1], false);
    }
    return out_status(&r->out, SLICE_LIT("OK"));
}

const struct reply *
cmd_getdel(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *was = cmd_get(r, n, w);

    if (was->type == REPLY_TEXT) {
        data_del(&r->data, data_find(&r->data, w[1]));
    }
    return was;
}

/* Keeps the expiry. */
static const struct reply *
add_to(struct sim_redis *r, struct slice name, int64_t by)
{
    const struct reply *error;
    struct key *k;
    int64_t value = 0;
    char room[DIGITS_ROOM];

    if (!key_of(r, name, TYPE_STRING, &k, &error)) {
        return error;
    }
    if (k != NULL && !int_of(str_slice(k->text), &value)) {
        return not_int(r);
    }
    if (__builtin_add_overflow(value, by, &value)) {
        return out_error(&r->out, "ERR increment or decrement would overflow");
    }
    key_set_text(key_make(r, name, TYPE_STRING, k), print_int(value, room));
    return out_int(&r->out, value);
}

const struct reply *
cmd_incr(struct sim_redis *r, int n, const struct slice *w)
{
    (void)n;
    return add_to(r, w[1], 1);
}

const struct reply *
cmd_decr(struct sim_redis *r, int n, const struct slice *w)
{
    (void)n;
    return add_to(r, w[1], -1);
}

const struct reply *
cmd_incrby(struct sim_redis *r, int n, const struct slice *w)
{
    int64_t by;

    (void)n;
    return int_of(w[2], &by) ? add_to(r, w[1], by) : not_int(r);
}

const struct reply *
cmd_decrby(struct sim_redis *r, int n, const struct slice *w)
{
    int64_t by;

    (void)n;
    if (!int_of(w[2], &by)) {
        return not_int(r);
    }
    return by == INT64_MIN ? out_error(&r->out, "ERR decrement would overflow") : add_to(r, w[1], -by);
}

const struct reply *
cmd_strlen(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;

    (void)n;
    if (!key_of(r, w[1], TYPE_STRING, &k, &error)) {
        return error;
    }
    return out_int(&r->out, k == NULL ? 0 : (int64_t)k->text->n);
}

const struct reply *
cmd_getrange(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;
    int64_t from, to, all;

    (void)n;
    if (!int_of(w[2], &from) || !int_of(w[3], &to)) {
        return not_int(r);
    }
    if (!key_of(r, w[1], TYPE_STRING, &k, &error)) {
        return error;
    }
    all = k == NULL ? 0 : (int64_t)k->text->n;
    if (from < 0 && to < 0 && from > to) {
        return out_text(&r->out, SLICE_LIT(""));
    }
    from = from < 0 ? from + all : from;
    to = to < 0 ? to + all : to;
    from = from < 0 ? 0 : from;
    to = to < 0 ? 0 : to;
    to = to >= all ? all - 1 : to;
    if (from > to || all == 0) {
        return out_text(&r->out, SLICE_LIT(""));
    }
    return out_text(&r->out, (struct slice){k->text->p + from, (size_t)(to - from + 1)});
}

enum { STRING_MAX = 512 * 1024 * 1024 };

/* At least n bytes of the string, to be written; a missing string is created. */
static char *
bytes_of(struct sim_redis *r, struct slice name, struct key *k, size_t n)
{
    struct str *was, *now;

    if (k == NULL) {
        k = key_make(r, name, TYPE_STRING, k);
        key_set_text(k, SLICE_LIT(""));
    }
    was = k->text;
    if (n > was->n) {
        now = data_alloc(NULL, sizeof(*now) + n + 1);
        memset(now->p, 0, n + 1);
        memcpy(now->p, was->p, was->n);
        now->n = n;
        str_free(&k->text);
        k->text = now;
    }
    return k->text->p;
}

const struct reply *
cmd_setbit(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    int64_t offset, bit;
    struct key *k;
    char *byte;
    int mask, was;

    (void)n;
    if (!int_of(w[2], &offset) || offset < 0 || offset / 8 >= STRING_MAX) {
        return out_error(&r->out, "ERR bit offset is not an integer or out of range");
    }
    if (!int_of(w[3], &bit) || bit < 0 || bit > 1) {
        return out_error(&r->out, "ERR bit is not an integer or out of range");
    }
    if (!key_of(r, w[1], TYPE_STRING, &k, &error)) {
        return error;
    }
    byte = bytes_of(r, w[1], k, (size_t)offset / 8 + 1) + offset / 8;
    mask = 128 >> offset % 8;
    was = (*byte & mask) != 0;
    *byte = (char)(bit != 0 ? *byte | mask : *byte & ~mask);
    return out_int(&r->out, was);
}

const struct reply *
cmd_setrange(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    int64_t offset;
    struct key *k;

    (void)n;
    if (!int_of(w[2], &offset)) {
        return not_int(r);
    }
    if (offset < 0) {
        return out_error(&r->out, "ERR offset is out of range");
    }
    if (!key_of(r, w[1], TYPE_STRING, &k, &error)) {
        return error;
    }
    if (w[3].n == 0) {
        return out_int(&r->out, k == NULL ? 0 : (int64_t)k->text->n);
    }
    if (offset > STRING_MAX - (int64_t)w[3].n) {
        return out_error(&r->out, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    }
    memcpy(bytes_of(r, w[1], k, (size_t)offset + w[3].n) + offset, w[3].p, w[3].n);
    return out_int(&r->out, (int64_t)data_find(&r->data, w[1])->text->n);
}

/* ---- hashes ---- */

/* True: the field is new. */
static bool
put_field(struct key *k, struct slice name, struct slice value)
{
    size_t at = entries_find(&k->of, name);
    bool new = at == k->of.n;
    struct str *text = str_new(value);

    if (new) {
        entries_insert(&k->of, at, name);
    } else {
        str_free(&k->of.p[at].value);
    }
    k->of.p[at].value = text;
    k->large = k->large || k->of.n > SMALL_ENTRIES || name.n > SMALL_BYTES || value.n > SMALL_BYTES;
    return new;
}

/* The field's value, or NULL. */
static const struct str *
field_of(const struct key *k, struct slice name)
{
    size_t at = k == NULL ? 0 : entries_find(&k->of, name);

    return k == NULL || at == k->of.n ? NULL : k->of.p[at].value;
}

const struct reply *
cmd_hset(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;
    int64_t new = 0;

    if (n % 2 != 0) {
        return arity_error(r, "hset");
    }
    if (!key_of(r, w[1], TYPE_HASH, &k, &error)) {
        return error;
    }
    k = key_make(r, w[1], TYPE_HASH, k);
    for (int i = 2; i < n; i += 2) {
        new += put_field(k, w[i], w[i + 1]);
    }
    return out_int(&r->out, new);
}

const struct reply *
cmd_hsetnx(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;

    (void)n;
    if (!key_of(r, w[1], TYPE_HASH, &k, &error)) {
        return error;
    }
    if (field_of(k, w[2]) != NULL) {
        return out_int(&r->out, 0);
    }
    put_field(key_make(r, w[1], TYPE_HASH, k), w[2], w[3]);
    return out_int(&r->out, 1);
}

const struct reply *
cmd_hincrby(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    const struct str *is;
    struct key *k;
    int64_t by, value = 0;
    char room[DIGITS_ROOM];

    (void)n;
    if (!int_of(w[3], &by)) {
        return not_int(r);
    }
    if (!key_of(r, w[1], TYPE_HASH, &k, &error)) {
        return error;
    }
    is = field_of(k, w[2]);
    if (is != NULL && !int_of(str_slice(is), &value)) {
        return out_error(&r->out, "ERR hash value is not an integer");
    }
    if (__builtin_add_overflow(value, by, &value)) {
        return out_error(&r->out, "ERR increment or decrement would overflow");
    }
    put_field(key_make(r, w[1], TYPE_HASH, k), w[2], print_int(value, room));
    return out_int(&r->out, value);
}

static struct reply *
field_reply(struct sim_redis *r, const struct key *k, struct slice name)
{
    const struct str *value = field_of(k, name);

    return value == NULL ? out_null(&r->out) : out_text(&r->out, str_slice(value));
}

const struct reply *
cmd_hget(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;

    (void)n;
    return key_of(r, w[1], TYPE_HASH, &k, &error) ? field_reply(r, k, w[2]) : error;
}

const struct reply *
cmd_hmget(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct reply *reply;
    struct key *k;

    if (!key_of(r, w[1], TYPE_HASH, &k, &error)) {
        return error;
    }
    reply = out_array(&r->out, (size_t)n - 2);
    for (int i = 2; i < n; i++) {
        reply->item[i - 2] = field_reply(r, k, w[i]);
    }
    return reply;
}

const struct reply *
cmd_hdel(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;
    int64_t gone = 0;

    if (!key_of(r, w[1], TYPE_HASH, &k, &error)) {
        return error;
    }
    for (int i = 2; k != NULL && i < n; i++) {
        size_t at = entries_find(&k->of, w[i]);

        if (at < k->of.n) {
            entries_remove(k, at, 1);
            gone++;
        }
    }
    if (k != NULL) {
        key_trim(r, k);
    }
    return out_int(&r->out, gone);
}

const struct reply *
cmd_hexists(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;

    (void)n;
    return key_of(r, w[1], TYPE_HASH, &k, &error) ? out_int(&r->out, field_of(k, w[2]) != NULL) : error;
}

const struct reply *
cmd_hlen(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;

    (void)n;
    return key_of(r, w[1], TYPE_HASH, &k, &error) ? out_int(&r->out, k == NULL ? 0 : (int64_t)k->of.n) : error;
}

const struct reply *
cmd_hstrlen(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    const struct str *value;
    struct key *k;

    (void)n;
    if (!key_of(r, w[1], TYPE_HASH, &k, &error)) {
        return error;
    }
    value = field_of(k, w[2]);
    return out_int(&r->out, value == NULL ? 0 : (int64_t)value->n);
}

static struct reply *
list_fields(struct sim_redis *r, const struct key *k, bool names, bool values)
{
    struct reply *reply;
    size_t to = 0;

    reply = out_array(&r->out, k == NULL ? 0 : k->of.n * ((size_t)names + (size_t)values));
    for (size_t i = 0; k != NULL && i < k->of.n; i++) {
        if (names) {
            reply->item[to++] = out_text(&r->out, str_slice(k->of.p[i].name));
        }
        if (values) {
            reply->item[to++] = out_text(&r->out, str_slice(k->of.p[i].value));
        }
    }
    return reply;
}

static const struct reply *
fields(struct sim_redis *r, struct slice name, bool names, bool values)
{
    const struct reply *error;
    struct key *k;

    return key_of(r, name, TYPE_HASH, &k, &error) ? list_fields(r, k, names, values) : error;
}

const struct reply *
cmd_hgetall(struct sim_redis *r, int n, const struct slice *w)
{
    (void)n;
    return fields(r, w[1], true, true);
}

const struct reply *
cmd_hkeys(struct sim_redis *r, int n, const struct slice *w)
{
    (void)n;
    return fields(r, w[1], true, false);
}

const struct reply *
cmd_hvals(struct sim_redis *r, int n, const struct slice *w)
{
    (void)n;
    return fields(r, w[1], false, true);
}

/* Returns all entries at once, as Redis does for a small hash; for a large one Redis returns a part. */
const struct reply *
cmd_hscan(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct reply *reply;
    struct key *k;

    if (n != 5 || !slice_is(w[2], "0") || !slice_is(w[3], "COUNT")) {
        return syntax_error(r); /* no script of rlockd uses it */
    }
    if (!key_of(r, w[1], TYPE_HASH, &k, &error)) {
        return error;
    }
    reply = out_array(&r->out, 2);
    reply->item[0] = out_text(&r->out, SLICE_LIT("0"));
    reply->item[1] = list_fields(r, k, true, true);
    return reply;
}
