/*
 * differ_raw.c -- random commands of the table.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "tests/sim/differ.h"
#include "tests/sim/inside.h"

/* Auxiliary keys of a lock: %s is its name. */
static const char *const beside[] = {
    "redisson_lock_queue:{%s}", "redisson_lock_timeout:{%s}", "redisson_lock_token:{%s}", "{%s}:timeout",
    "{%s}:0f9b8a76-1c2d-4e3f-8a9b-726c6f636b64:1:rwlock_timeout:1",
};

static const struct slice plain_keys[] = {
    SLICE_LIT("s1"), SLICE_LIT("s2"), SLICE_LIT("h1"), SLICE_LIT("h2"), SLICE_LIT("l1"),
    SLICE_LIT("l2"), SLICE_LIT("t1"), SLICE_LIT("z1"), SLICE_LIT("z2"), SLICE_LIT(""),
};

static const char *const own[] = {CALL_CLOCK_KEY,  CALL_EPOCH_KEY, "rlock:members", "rlock:until",
                                  "rlock:changes", "rlock:left",   "rlock:awaited"};

/* ---- random words ---- */

bool
one_in(struct words *g, unsigned n)
{
    return rng_below(&g->rng, n) == 0;
}

static int64_t
some_ms(struct words *g)
{
    static const int64_t most[] = {3, 20, 100, 3000, 400000};

    return 1 + (int64_t)(rng_next(&g->rng) % (uint64_t)most[rng_below(&g->rng, COUNT(most))]);
}

void
put_key(struct words *g, struct line *l)
{
    if (rng_below(&g->rng, 100) >= g->phase.foreign) {
        add_word(l, plain_keys[rng_below(&g->rng, COUNT(plain_keys))]);
    } else if (one_in(g, 2)) {
        add_word(l, lock_names[rng_below(&g->rng, g->phase.names)]);
    } else if (one_in(g, 8)) {
        add_word(l, slice_of(own[rng_below(&g->rng, COUNT(own))]));
    } else {
        static const char *const simple[] = {"a", "pool", "e"};
        const char *pattern = beside[rng_below(&g->rng, COUNT(beside))], *mark = strstr(pattern, "%s");

        buf_add(&l->text, pattern, (size_t)(mark - pattern));
        buf_adds(&l->text, simple[rng_below(&g->rng, COUNT(simple))]);
        buf_adds(&l->text, mark + 2);
        end_word(l);
    }
}

static void
put_member(struct words *g, struct line *l)
{
    static const struct slice odd[] = {SLICE_LIT(""), SLICE_LIT("mode"), SLICE_LIT("m\0n"), SLICE_LIT("12"),
                                       SLICE_LIT("a member of more than sixty-four bytes, which no listpack "
                                                 "takes, is here")};

    if (one_in(g, 8)) {
        add_word(l, odd[rng_below(&g->rng, COUNT(odd))]);
    } else if (one_in(g, 4)) {
        buf_printf(&l->text, "%s:%u", uuids[rng_below(&g->rng, 3)], 1 + rng_below(&g->rng, OWNERS));
        end_word(l);
    } else {
        buf_printf(&l->text, "m%u", rng_below(&g->rng, 12));
        end_word(l);
    }
}

static void
put_value(struct words *g, struct line *l)
{
    static const struct slice odd[] = {
        SLICE_LIT(""), SLICE_LIT("read"), SLICE_LIT("write"), SLICE_LIT("x\r\ny"), SLICE_LIT("9223372036854775807"),
        SLICE_LIT("-9223372036854775808"), SLICE_LIT("007"), SLICE_LIT("+1"), SLICE_LIT("1.5"), SLICE_LIT(" 1"),
        SLICE_LIT("a value of more than sixty-four bytes, which makes of a hash a table, is here."),
    };

    if (one_in(g, 4)) {
        add_word(l, odd[rng_below(&g->rng, COUNT(odd))]);
    } else {
        buf_printf(&l->text, "%d", (int)rng_below(&g->rng, 30) - 5);
        end_word(l);
    }
}

static void
put_int(struct words *g, struct line *l)
{
    if (one_in(g, 12)) {
        put_value(g, l);
    } else {
        buf_printf(&l->text, "%d", (int)rng_below(&g->rng, 14) - 6);
        end_word(l);
    }
}

static void
put_score(struct words *g, struct line *l)
{
    static const char *const odd[] = {"inf", "-inf", "nan", "1e3", "-0", "0.1", "3.0000000000000004", "1e400", "x",
                                      "0x10", "922337203685477", "1763701200123.5", " 1", "1 ", "", "1e-400"};

    if (one_in(g, 4)) {
        add_word(l, slice_of(odd[rng_below(&g->rng, COUNT(odd))]));
    } else if (one_in(g, 3)) {
        buf_printf(&l->text, "%" PRId64, g->now_us / 1000 + some_ms(g) - 50);
        end_word(l);
    } else {
        buf_printf(&l->text, "%d", (int)rng_below(&g->rng, 12) - 4);
        end_word(l);
    }
}

static void
put_bound(struct words *g, struct line *l)
{
    if (one_in(g, 4)) {
        buf_printf(&l->text, "(%d", (int)rng_below(&g->rng, 12) - 4);
        end_word(l);
    } else if (one_in(g, 4)) {
        add_word(l, one_in(g, 2) ? SLICE_LIT("-inf") : SLICE_LIT("+inf"));
    } else {
        put_score(g, l);
    }
}

static void
put_ms(struct words *g, struct line *l, bool absolute)
{
    if (one_in(g, 16)) {
        put_value(g, l);
    } else {
        buf_printf(&l->text, "%" PRId64, (absolute ? g->now_us / 1000 : 0) + some_ms(g) - (one_in(g, 8) ? 10 : 0));
        end_word(l);
    }
}

/*
 * The forms of the words of each command: k key, m member or field, v value, i integer, s score, b bound, t ms from
 * now, T a time in ms, c a channel, P a pattern; * repeats the last two of these some more times; O some of the
 * options. Options are words, some with such letters behind a colon.
 */
static const struct {
    const char *name, *form, *options;
} forms[] = {
    {"del", "kk*", ""}, {"unlink", "k", ""}, {"exists", "kk*", ""}, {"type", "k", ""}, {"ttl", "k", ""},
    {"pttl", "k", ""}, {"pexpiretime", "k", ""}, {"expire", "kiO", "NX XX GT LT"}, {"pexpire", "ktO", "NX XX GT LT"},
    {"expireat", "ki", ""}, {"pexpireat", "kTO", "NX XX GT LT Q"}, {"persist", "k", ""}, {"keys", "P", ""},
    {"get", "k", ""}, {"set", "kvO", "NX XX GET KEEPTTL PX:t EX:i PXAT:T EXAT:i Q"}, {"setnx", "kv", ""},
    {"getset", "kv", ""}, {"mget", "kk*", ""}, {"mset", "kvkv*", ""},
    {"getdel", "k", ""}, {"incr", "k", ""}, {"decr", "k", ""}, {"incrby", "kv", ""},
    {"decrby", "kv", ""}, {"strlen", "k", ""}, {"setbit", "kii", ""}, {"setrange", "kiv", ""},
    {"getrange", "kii", ""}, {"hset", "kmv*", ""}, {"hsetnx", "kmv", ""},
    {"hincrby", "kmv", ""}, {"hget", "km", ""}, {"hmget", "kmm*", ""}, {"hdel", "kmm*", ""}, {"hexists", "km", ""},
    {"hlen", "k", ""}, {"hstrlen", "km", ""}, {"hgetall", "k", ""}, {"hkeys", "k", ""}, {"hvals", "k", ""},
    {"rpush", "kmm*", ""}, {"lpush", "kmm*", ""}, {"lpop", "kO", ":i"}, {"rpop", "kO", ":i"}, {"llen", "k", ""},
    {"lindex", "ki", ""}, {"lrange", "kii", ""}, {"lpos", "kmO", "RANK:i COUNT:i MAXLEN:i Q"}, {"lrem", "kim", ""},
    {"ltrim", "kii", ""}, {"lset", "kim", ""},
    {"sadd", "kmm*", ""}, {"srem", "kmm*", ""}, {"smembers", "k", ""}, {"scard", "k", ""},
    {"sismember", "km", ""}, {"zadd", "kOsm*", "NX XX CH INCR GT LT"}, {"zincrby", "ksm", ""}, {"zrem", "kmm*", ""},
    {"zremrangebyscore", "kbb", ""}, {"zscore", "km", ""}, {"zcard", "k", ""}, {"zcount", "kbb", ""},
    {"zrank", "km", ""}, {"zrange", "kiiO", "REV WITHSCORES Q"}, {"zrange", "kbbO", "BYSCORE REV WITHSCORES LIMIT:ii"},
    {"zrangebyscore", "kbbO", "WITHSCORES LIMIT:ii"}, {"zrevrangebyscore", "kbbO", "WITHSCORES LIMIT:ii"},
    {"ping", "O", ":v"}, {"echo", "v", ""}, {"time", "", ""}, {"dbsize", "", ""}, {"publish", "cv", ""},
    {"spublish", "cv", ""},
    {"nosuch", "kvO", ":v :v"},
};

/*
 * Commands of the table that are not drawn: differ.c compares INFO, and empties the key space; rw.lua has the one form
 * of HSCAN, and CLUSTER is for nodes of a cluster.
 */
static const char *const elsewhere[] = {"eval", "evalsha", "script", "info", "flushall", "pubsub", "hscan", "cluster"};

const char *
words_missing(void)
{
    const struct command *c;

    for (size_t i = 0; (c = command_at(i)) != NULL; i++) {
        bool found = false;

        for (size_t f = 0; f < COUNT(forms); f++) {
            found = found || strcmp(forms[f].name, c->name) == 0;
        }
        for (size_t f = 0; f < COUNT(elsewhere); f++) {
            found = found || strcmp(elsewhere[f], c->name) == 0;
        }
        if (!found) {
            return c->name;
        }
    }
    return NULL;
}

static void
put_letter(struct words *g, struct line *l, char letter)
{
    static const char *const patterns[] = {"*", "s*", "h?", "*:*", "[a-l]1", "nothing"};

    switch (letter) {
    case 'k': put_key(g, l); break;
    case 'm': put_member(g, l); break;
    case 'v': put_value(g, l); break;
    case 'i': put_int(g, l); break;
    case 's': put_score(g, l); break;
    case 'b': put_bound(g, l); break;
    case 't': put_ms(g, l, false); break;
    case 'T': put_ms(g, l, true); break;
    case 'c': add_word(l, one_in(g, 2) ? SLICE_LIT("redisson_lock__channel:{a}") : SLICE_LIT("news")); break;
    case 'P': add_word(l, slice_of(patterns[rng_below(&g->rng, COUNT(patterns))])); break;
    default: abort();
    }
}

static void
put_options(struct words *g, struct line *l, const char *options)
{
    const char *o = options;

    while (*o != '\0') {
        size_t n = strcspn(o, " ");
        const char *letters = memchr(o, ':', n);
        size_t word = letters == NULL ? n : (size_t)(letters - o);

        if (one_in(g, strlen(options) > 8 ? 4 : 2)) {
            if (word > 0) {
                add_word(l, (struct slice){o, word});
            }
            for (const char *at = letters == NULL ? o + n : letters + 1; at < o + n && !one_in(g, 16); at++) {
                put_letter(g, l, *at);
            }
        }
        o += n + (o[n] == ' ');
    }
}

/* Appends a command of the table to the line; returns the number of its words. */
int
put_raw(struct words *g, struct line *l)
{
    size_t f = rng_below(&g->rng, COUNT(forms));
    const char *form = forms[f].form;
    int from = l->words;

    for (size_t i = 0; forms[f].name[i] != '\0'; i++) { /* upper case, as usual, or as the table has it */
        char c = forms[f].name[i];

        buf_add(&l->text, (char[]){(char)((f + g->phase.names) % 4 == 0 ? c : c - 'a' + 'A')}, 1);
    }
    end_word(l);
    for (size_t i = 0; form[i] != '\0'; i++) {
        if (form[i] == 'O') {
            put_options(g, l, forms[f].options);
        } else if (form[i] == '*') {
            for (unsigned more = rng_below(&g->rng, 3); more > 0; more--) {
                put_letter(g, l, form[i - 2]);
                put_letter(g, l, form[i - 1]);
            }
        } else {
            put_letter(g, l, form[i]);
        }
    }
    if (one_in(g, 60) && l->words > from + 1) { /* one word too few, or too many */
        if (one_in(g, 2)) {
            put_value(g, l);
        } else if (l->end[l->words - 1] == 0) {
            l->words--;
        }
    }
    return l->words - from;
}
