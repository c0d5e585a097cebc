/*
 * sets.c -- the simulated Redis's commands of sets and sorted sets.
 */
#include <math.h>
#include <stdlib.h>

#include "tests/sim/inside.h"

/* ---- sets: in order of arrival; those of Redis have no order ---- */

const struct reply *
cmd_sadd(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;
    int64_t new = 0;

    if (!key_of(r, w[1], TYPE_SET, &k, &error)) {
        return error;
    }
    k = key_make(r, w[1], TYPE_SET, k);
    for (int i = 2; i < n; i++) {
        if (entries_find(&k->of, w[i]) == k->of.n) {
            entries_insert(&k->of, k->of.n, w[i]);
            new++;
        }
    }
    return out_int(&r->out, new);
}

/* SREM, ZREM. */
static const struct reply *
take_out(struct sim_redis *r, int n, const struct slice *w, enum type type)
{
    const struct reply *error;
    struct key *k;
    int64_t gone = 0;

    if (!key_of(r, w[1], type, &k, &error)) {
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
cmd_srem(struct sim_redis *r, int n, const struct slice *w)
{
    return take_out(r, n, w, TYPE_SET);
}

const struct reply *
cmd_smembers(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct reply *reply;
    struct key *k;

    (void)n;
    if (!key_of(r, w[1], TYPE_SET, &k, &error)) {
        return error;
    }
    reply = out_array(&r->out, k == NULL ? 0 : k->of.n);
    for (size_t i = 0; i < reply->count; i++) {
        reply->item[i] = out_text(&r->out, str_slice(k->of.p[i].name));
    }
    return reply;
}

const struct reply *
cmd_scard(struct sim_redis *r, int n, const struct slice *w)
{
    (void)n;
    return key_length(r, w[1], TYPE_SET);
}

const struct reply *
cmd_sismember(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;

    (void)n;
    if (!key_of(r, w[1], TYPE_SET, &k, &error)) {
        return error;
    }
    return out_int(&r->out, k != NULL && entries_find(&k->of, w[2]) < k->of.n);
}

/* ---- sorted sets ---- */

static const struct {
    const char *word;
    unsigned flag;
} zadd_words[] = {{"nx", 1}, {"xx", 2}, {"ch", 4}, {"incr", 8}, {"gt", 16}, {"lt", 32}};

enum { ZADD_NX = 1, ZADD_XX = 2, ZADD_CH = 4, ZADD_INCR = 8, ZADD_GT = 16, ZADD_LT = 32 };

struct zadd {
    unsigned flags;
    int64_t added, moved;
    bool done;    /* a member was changed, for INCR */
    bool nan;
    double score; /* INCR: the new score */
};

/* A small set keeps whole numbers as integers: there is no -0. */
static double
kept(const struct key *k, double score)
{
    return score == 0 && !k->large ? 0 : score;
}

static void
zadd_one(struct zadd *z, struct key *k, struct slice name, double score)
{
    struct entries *is = &k->of;
    size_t at = entries_find(is, name);

    if (at == is->n) {
        if (!(z->flags & ZADD_XX)) {
            k->large = k->large || is->n >= SMALL_ENTRIES || name.n > SMALL_BYTES;
            zset_put(is, at, name, kept(k, score));
            z->added++;
            z->done = true;
            z->score = score;
        }
        return;
    }
    if (z->flags & ZADD_NX) {
        return;
    }
    score += z->flags & ZADD_INCR ? is->p[at].score : 0;
    if (isnan(score)) {
        z->nan = true;
        return;
    }
    if (((z->flags & ZADD_LT) && score >= is->p[at].score) || ((z->flags & ZADD_GT) && score <= is->p[at].score)) {
        return;
    }
    z->done = true;
    z->score = score;
    if (score != is->p[at].score) {
        zset_put(is, at, name, kept(k, score));
        z->moved++;
    }
}

/* Reads the options; *from is the index of the first score. An error, or NULL. */
static const struct reply *
zadd_options(struct sim_redis *r, int n, const struct slice *w, struct zadd *z, int *from)
{
    unsigned f;

    for (*from = 2; *from < n; ++*from) {
        unsigned i = 0;

        while (i < 6 && !slice_is(w[*from], zadd_words[i].word)) {
            i++;
        }
        if (i == 6) {
            break;
        }
        z->flags |= zadd_words[i].flag;
    }
    f = z->flags;
    if (*from == n || (n - *from) % 2 != 0) {
        return syntax_error(r);
    }
    if ((f & ZADD_NX) && (f & ZADD_XX)) {
        return out_error(&r->out, "ERR XX and NX options at the same time are not compatible");
    }
    if (((f & ZADD_NX) && (f & (ZADD_GT | ZADD_LT))) || ((f & ZADD_GT) && (f & ZADD_LT))) {
        return out_error(&r->out, "ERR GT, LT, and/or NX options at the same time are not compatible");
    }
    if ((f & ZADD_INCR) && n - *from > 2) {
        return out_error(&r->out, "ERR INCR option supports a single increment-element pair");
    }
    return NULL;
}

static const struct reply *
zadd(struct sim_redis *r, int n, const struct slice *w, unsigned flags)
{
    struct zadd z = {.flags = flags};
    const struct reply *error;
    struct key *k;
    double score;
    int from;

    if ((error = zadd_options(r, n, w, &z, &from)) != NULL) {
        return error;
    }
    for (int i = from; i < n; i += 2) {
        if (!double_of(w[i], &score)) {
            return out_error(&r->out, "ERR value is not a valid float");
        }
    }
    if (!key_of(r, w[1], TYPE_ZSET, &k, &error)) {
        return error;
    }
    if (k != NULL || !(z.flags & ZADD_XX)) {
        k = key_make(r, w[1], TYPE_ZSET, k);
        for (int i = from; i < n && !z.nan; i += 2) {
            double_of(w[i], &score);
            zadd_one(&z, k, w[i + 1], score);
        }
        key_trim(r, k);
    }
    if (z.nan) {
        return out_error(&r->out, "ERR resulting score is not a number (NaN)");
    }
    if (z.flags & ZADD_INCR) {
        return z.done ? out_double(&r->out, z.score) : out_null(&r->out);
    }
    return out_int(&r->out, z.added + (z.flags & ZADD_CH ? z.moved : 0));
}

const struct reply *
cmd_zadd(struct sim_redis *r, int n, const struct slice *w)
{
    return zadd(r, n, w, 0);
}

const struct reply *
cmd_zincrby(struct sim_redis *r, int n, const struct slice *w)
{
    return zadd(r, n, w, ZADD_INCR);
}

const struct reply *
cmd_zrem(struct sim_redis *r, int n, const struct slice *w)
{
    return take_out(r, n, w, TYPE_ZSET);
}

const struct reply *
cmd_zscore(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;
    size_t at;

    (void)n;
    if (!key_of(r, w[1], TYPE_ZSET, &k, &error)) {
        return error;
    }
    at = k == NULL ? 0 : entries_find(&k->of, w[2]);
    return k == NULL || at == k->of.n ? out_null(&r->out) : out_double(&r->out, k->of.p[at].score);
}

const struct reply *
cmd_zrank(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct key *k;
    size_t at;

    (void)n;
    if (!key_of(r, w[1], TYPE_ZSET, &k, &error)) {
        return error;
    }
    at = k == NULL ? 0 : entries_find(&k->of, w[2]);
    return k == NULL || at == k->of.n ? out_null(&r->out) : out_int(&r->out, (int64_t)at);
}

const struct reply *
cmd_zcard(struct sim_redis *r, int n, const struct slice *w)
{
    (void)n;
    return key_length(r, w[1], TYPE_ZSET);
}

/* ---- ranges of scores ---- */

struct bound {
    double score;
    bool open;
};

/* As strtod reads it: with blanks in front, and an empty text, too. */
static bool
bound_of(struct slice s, struct bound *b)
{
    char text[128], *end;

    b->open = s.n > 0 && s.p[0] == '(';
    if (s.n - b->open >= sizeof(text)) {
        return false;
    }
    memcpy(text, s.n > 0 ? s.p + b->open : "", s.n - b->open);
    text[s.n - b->open] = '\0';
    b->score = strtod(text, &end);
    return *end == '\0' && !isnan(b->score);
}

static bool
within(double score, const struct bound *low, const struct bound *high)
{
    return (low->open ? score > low->score : score >= low->score) &&
           (high->open ? score < high->score : score <= high->score);
}

const struct reply *
cmd_zcount(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct bound low, high;
    struct key *k;
    int64_t many = 0;

    (void)n;
    if (!bound_of(w[2], &low) || !bound_of(w[3], &high)) {
        return out_error(&r->out, "ERR min or max is not a float");
    }
    if (!key_of(r, w[1], TYPE_ZSET, &k, &error)) {
        return error;
    }
    for (size_t i = 0; k != NULL && i < k->of.n; i++) {
        many += within(k->of.p[i].score, &low, &high);
    }
    return out_int(&r->out, many);
}

const struct reply *
cmd_zremrangebyscore(struct sim_redis *r, int n, const struct slice *w)
{
    const struct reply *error;
    struct bound low, high;
    struct key *k;
    int64_t gone = 0;

    (void)n;
    if (!bound_of(w[2], &low) || !bound_of(w[3], &high)) {
        return out_error(&r->out, "ERR min or max is not a float");
    }
    if (!key_of(r, w[1], TYPE_ZSET, &k, &error)) {
        return error;
    }
    for (size_t i = k == NULL ? 0 : k->of.n; i-- > 0;) {
        if (within(k->of.p[i].score, &low, &high)) {
            entries_remove(k, i, 1);
            gone++;
        }
    }
    if (k != NULL) {
        key_trim(r, k);
    }
    return out_int(&r->out, gone);
}

struct zrange {
    bool any;                   /* ZRANGE: its options choose the sort of range */
    bool by_score, back, scores;
    int64_t offset, limit;
    int64_t from, to;           /* ranks */
    struct bound low, high;
};

/* An error, or NULL. */
static const struct reply *
zrange_options(struct sim_redis *r, int n, const struct slice *w, struct zrange *z)
{
    z->limit = -1;
    for (int i = 4; i < n; i++) {
        if (slice_is(w[i], "withscores")) {
            z->scores = true;
        } else if (slice_is(w[i], "limit") && i + 2 < n) {
            if (!int_of(w[i + 1], &z->offset) || !int_of(w[i + 2], &z->limit)) {
                return not_int(r);
            }
            i += 2;
        } else if (z->any && slice_is(w[i], "rev")) {
            z->back = true;
        } else if (z->any && !z->by_score && slice_is(w[i], "byscore")) {
            z->by_score = true;
        } else {
            return syntax_error(r);
        }
    }
    if (z->limit != -1 && !z->by_score) {
        return out_error(&r->out, "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or "
                                  "BYLEX");
    }
    if (!z->by_score) {
        return int_of(w[2], &z->from) && int_of(w[3], &z->to) ? NULL : not_int(r);
    }
    if (!bound_of(w[z->back ? 3 : 2], &z->low) || !bound_of(w[z->back ? 2 : 3], &z->high)) {
        return out_error(&r->out, "ERR min or max is not a float");
    }
    return NULL;
}

static const struct reply *
zrange(struct sim_redis *r, int n, const struct slice *w, struct zrange z)
{
    const struct reply *error;
    struct reply *reply;
    struct key *k;
    int64_t all, passed = 0;

    if ((error = zrange_options(r, n, w, &z)) != NULL || !key_of(r, w[1], TYPE_ZSET, &k, &error)) {
        return error;
    }
    all = k == NULL ? 0 : (int64_t)k->of.n;
    reply = out_array(&r->out, 2 * (size_t)all);
    reply->count = 0;
    if (z.by_score ? z.offset < 0 : !range_of(all, &z.from, &z.to)) { /* a negative offset: past the end */
        return reply;
    }
    for (int64_t i = z.by_score ? 0 : z.from; i < all && (z.by_score || i <= z.to); i++) {
        const struct entry *e = &k->of.p[z.back ? all - 1 - i : i];

        if (z.by_score) {
            if (!within(e->score, &z.low, &z.high) || passed++ < z.offset) {
                continue;
            } else if (z.limit >= 0 && passed - z.offset > z.limit) {
                break;
            }
        }
        reply->item[reply->count++] = out_text(&r->out, str_slice(e->name));
        if (z.scores) {
            reply->item[reply->count++] = out_double(&r->out, e->score);
        }
    }
    return reply;
}

const struct reply *
cmd_zrange(struct sim_redis *r, int n, const struct slice *w)
{
    return zrange(r, n, w, (struct zrange){.any = true});
}

const struct reply *
cmd_zrangebyscore(struct sim_redis *r, int n, const struct slice *w)
{
    return zrange(r, n, w, (struct zrange){.by_score = true});
}

const struct reply *
cmd_zrevrangebyscore(struct sim_redis *r, int n, const struct slice *w)
{
    return zrange(r, n, w, (struct zrange){.by_score = true, .back = true});
}
