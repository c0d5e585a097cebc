/*
 * lists.c -- the simulated Redis's commands of lists.
 */
#include "tests/sim/inside.h"

static const struct reply *
push(struct sim_redis *r, int n, const struct slice *w, bool front)
{
    const struct reply *error;
    struct key *k;

    if (!key_of(r, w[1], TYPE_LIST, &k, &error)) {
        return error;
    }
    k = key_make(r, w[1], TYPE_LIST, k);
    for (int i = 2; i < n; i++) {
        entries_insert(&k->of, front ? 0 : k->of.n, w[i]);
    }
    return out_int(&r->out, (int64_t)k->of.n);
}

const struct reply *
cmd_rpush(struct sim_redis *r, int n, const struct slice *w)
{
    return push(r, n, w, false);
}

const struct reply *
cmd_lpush(struct sim_redis *r, int n, const struct slice *w)
{
    return push(r, n, w, true);
}

static const struct reply *
pop(struct sim_redis *r, int n, const struct slice *w, bool front)
{
    const struct reply *error;
    struct reply *reply;
    struct key *k;
    int64_t count = 1;

    if (n > 3) {
        return arity_error(r, front ? "lpop" : "rpop");
    }
    if (n == 3 && (!int_of(w[2], &count) || count < 0)) {
        return out_error(&r->out, "ERR value is out of range, must be positive");
    }
    if (!key_of(r, w[1], TYPE_LIST, &k, &error)) {
        return error;
    }
    if (k == NULL) {
        return out_null(&r->out);
    }
    count = count > (int64_t)k->of.n ? (int64_t)k->of.n : count;
    reply = out_array(&r->out, (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        size_t at = front ? 0 : k->of.n - 1;

        reply->item[i] = out_text(&r->out, str_slice(k->of.p[at].name));
        entries_remove(k, at, 1);
    }
    key_trim(r, k);
    return n == 3 ? reply : reply->item[0];
}

const struct reply *
cmd_lpop(struct sim_redis *r, int n, const struct slice *w)
{
    return pop(r, n, w, true);
}

const struct reply *
cmd_rpop(struct sim_redis *r, int n, const struct slice *w)
{
    return pop(r, n, w, false);
}

const struct reply *
cmd_llen(struct sim_redis *r, int n, const struct slice *w)
{
    (void)n;
    return key_length(r, w[1], TYPE_LIST);
}

const struct reply *
cmd_lindex(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;
    int64_t at;

    (void)n;
    if (!key_of(r, w[1], TYPE_LIST, &k, &error)) {
        return error;
    }
    if (k == NULL) {
        return out_null(&r->out);
    }
    if (!int_of(w[2], &at)) {
        return not_int(r);
    }
    at = at < 0 ? at + (int64_t)k->of.n : at;
    return at < 0 || at >= (int64_t)k->of.n ? out_null(&r->out) : out_text(&r->out, str_slice(k->of.p[at].name));
}

const struct reply *
cmd_lset(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;
    int64_t at;

    (void)n;
    if (!key_of(r, w[1], TYPE_LIST, &k, &error)) {
        return error;
    }
    if (k == NULL) {
        return out_error(&r->out, "ERR no such key");
    }
    if (!int_of(w[2], &at)) {
        return not_int(r);
    }
    at = at < 0 ? at + (int64_t)k->of.n : at;
    if (at < 0 || at >= (int64_t)k->of.n) {
        return out_error(&r->out, "ERR index out of range");
    }
    entries_remove(k, (size_t)at, 1);
    entries_insert(&k->of, (size_t)at, w[3]);
    return out_status(&r->out, SLICE_LIT("OK"));
}

const struct reply *
cmd_lrange(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct reply *reply;
    struct key *k;
    int64_t from, to;

    (void)n;
    if (!int_of(w[2], &from) || !int_of(w[3], &to)) {
        return not_int(r);
    }
    if (!key_of(r, w[1], TYPE_LIST, &k, &error)) {
        return error;
    }
    if (k == NULL || !range_of((int64_t)k->of.n, &from, &to)) {
        return out_array(&r->out, 0);
    }
    reply = out_array(&r->out, (size_t)(to - from + 1));
    for (int64_t i = from; i <= to; i++) {
        reply->item[i - from] = out_text(&r->out, str_slice(k->of.p[i].name));
    }
    return reply;
}

/* Reads RANK, COUNT, MAXLEN; an error, or NULL. */
static const struct reply *
lpos_options(struct sim_redis *r, int n, const struct slice *w, int64_t *rank, int64_t *count, int64_t *most)
{
    *rank = 1;
    *count = -1;
    *most = 0;
    for (int i = 3; i < n; i += 2) {
        bool more = i + 1 < n;

        if (slice_is(w[i], "rank") && more) {
            if (!int_of(w[i + 1], rank)) {
                return not_int(r);
            }
            if (*rank == 0) {
                return out_error(&r->out, "ERR RANK can't be zero: use 1 to start from the first match, 2 from the "
                                          "second ... or use negative to start from the end of the list");
            }
        } else if (slice_is(w[i], "count") && more) {
            if (!int_of(w[i + 1], count) || *count < 0) {
                return out_error(&r->out, "ERR COUNT can't be negative");
            }
        } else if (slice_is(w[i], "maxlen") && more) {
            if (!int_of(w[i + 1], most) || *most < 0) {
                return out_error(&r->out, "ERR MAXLEN can't be negative");
            }
        } else {
            return syntax_error(r);
        }
    }
    return NULL;
}

const struct reply *
cmd_lpos(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct reply *reply;
    struct key *k;
    int64_t rank, count, most, all, found = 0;
    bool back;

    if ((error = lpos_options(r, n, w, &rank, &count, &most)) != NULL || !key_of(r, w[1], TYPE_LIST, &k, &error)) {
        return error;
    }
    all = k == NULL ? 0 : (int64_t)k->of.n;
    reply = out_array(&r->out, (size_t)all);
    reply->count = 0;
    back = rank < 0;
    rank = back ? -(rank + 1) : rank - 1; /* the number of matches to skip */
    for (int64_t i = 0; i < all && (most == 0 || i < most); i++) {
        int64_t at = back ? all - 1 - i : i;

        if (slice_eq(str_slice(k->of.p[at].name), w[2]) && found++ >= rank) {
            reply->item[reply->count++] = out_int(&r->out, at);
            if (count == -1 || (int64_t)reply->count == count) {
                break;
            }
        }
    }
    return count != -1 ? reply : reply->count > 0 ? reply->item[0] : out_null(&r->out);
}

const struct reply *
cmd_lrem(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;
    int64_t most, gone = 0;
    bool back;

    (void)n;
    if (!int_of(w[2], &most)) {
        return not_int(r);
    }
    if (!key_of(r, w[1], TYPE_LIST, &k, &error)) {
        return error;
    }
    back = most < 0;
    most = back ? (most == INT64_MIN ? INT64_MAX : -most) : most;
    for (size_t i = 0, all = k == NULL ? 0 : k->of.n; i < all; i++) {
        size_t at = back ? all - 1 - i : i - (size_t)gone;

        if (slice_eq(str_slice(k->of.p[at].name), w[3])) {
            entries_remove(k, at, 1);
            if (++gone == most) {
                break;
            }
        }
    }
    if (k != NULL) {
        key_trim(r, k);
    }
    return out_int(&r->out, gone);
}

const struct reply *
cmd_ltrim(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;
    int64_t from, to;

    (void)n;
    if (!int_of(w[2], &from) || !int_of(w[3], &to)) {
        return not_int(r);
    }
    if (!key_of(r, w[1], TYPE_LIST, &k, &error)) {
        return error;
    }
    if (k != NULL) {
        if (!range_of((int64_t)k->of.n, &from, &to)) {
            from = 0;
            to = -1;
        }
        entries_remove(k, (size_t)(to + 1), k->of.n - (size_t)(to + 1));
        entries_remove(k, 0, (size_t)from);
        key_trim(r, k);
    }
    return out_status(&r->out, SLICE_LIT("OK"));
}
