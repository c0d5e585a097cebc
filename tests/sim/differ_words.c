/*
 * differ_words.c -- random commands: those of the table, the same from within scripts, and the shipped scripts.
 *
 * Few names, few members and short lives, so that they meet; now and then a word that does not belong there.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/base/clock.h"
#include "tests/sim/differ.h"
#include "tests/sim/inside.h"

static const struct slice lock_names[NAMES] = {
    SLICE_LIT("a"), SLICE_LIT("b:{t}"), SLICE_LIT("c\r\n\0d"), SLICE_LIT("pool"), SLICE_LIT("e"), SLICE_LIT("doc/1"),
};

static const char *const uuids[UUIDS] = {
    "0f9b8a76-1c2d-4e3f-8a9b-726c6f636b64", /* a daemon's */
    "1f9b8a76-1c2d-4e3f-8a9b-726c6f636b64",
    "2f9b8a76-1c2d-4e3f-8a9b-012345678901", /* a client's of Redisson */
};

/* Beside a lock's own key: %s is its name. */
static const char *const beside[] = {
    "redisson_lock_queue:{%s}", "redisson_lock_timeout:{%s}", "redisson_lock_token:{%s}", "{%s}:timeout",
    "{%s}:0f9b8a76-1c2d-4e3f-8a9b-726c6f636b64:1:rwlock_timeout:1",
};

static const struct slice plain_keys[] = {
    SLICE_LIT("s1"), SLICE_LIT("s2"), SLICE_LIT("h1"), SLICE_LIT("h2"), SLICE_LIT("l1"),
    SLICE_LIT("l2"), SLICE_LIT("t1"), SLICE_LIT("z1"), SLICE_LIT("z2"), SLICE_LIT(""),
};

static const char *const own[] = {CALL_CLOCK_KEY, CALL_EPOCH_KEY, "rlock:daemons", "rlock:absent"};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- making a line ---- */

static void
line_init(struct line *l)
{
    l->words = 0;
    l->call.n = 0;
    l->look = false;
    l->presence = NULL;
    l->name = -1;
    list_init(&l->call.items);
    buf_init(&l->text, 0);
}

void
line_fini(struct line *l)
{
    while (!list_empty(&l->call.items)) {
        struct item *it = container_of(l->call.items.next, struct item, node);

        list_remove(&it->node);
        free(it);
    }
    buf_fini(&l->text);
}

static void
add_word(struct line *l, struct slice word)
{
    l->end[l->words] = 0;
    l->word[l->words++] = word;
}

/* What was appended to the text since the word before. */
static void
end_word(struct line *l)
{
    l->word[l->words] = (struct slice){NULL, 0};
    l->end[l->words++] = l->text.n + 1;
}

/* The text does not move any more. */
static void
line_done(struct line *l)
{
    size_t at = 0;

    for (int i = 0; i < l->words; i++) {
        if (l->end[i] > 0) {
            l->word[i] = (struct slice){l->text.n > 0 ? l->text.p + at : "", l->end[i] - 1 - at};
            at = l->end[i] - 1;
        }
    }
    if (l->text.failed) {
        abort();
    }
}

void
line_of(struct line *l, int words, const struct slice *word)
{
    line_init(l);
    for (int i = 0; i < words; i++) {
        add_word(l, word[i]);
    }
}

/* ---- random words ---- */

static bool
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

static void
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
                                       SLICE_LIT("a member of more than sixty-four bytes, which no listpack takes, is here.")};

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
 * How the words of each command look: k key, m member or field, v value, i integer, s score, b bound, t ms from now, T a
 * time in ms, c a channel, P a pattern; * goes on with the last two of these some more times; O some of the options.
 * Options are words, each perhaps with such letters behind a colon.
 */
static const struct {
    const char *name, *form, *options;
} forms[] = {
    {"del", "kk*", ""}, {"unlink", "k", ""}, {"exists", "kk*", ""}, {"type", "k", ""}, {"ttl", "k", ""},
    {"pttl", "k", ""}, {"pexpiretime", "k", ""}, {"expire", "kiO", "NX XX GT LT"}, {"pexpire", "ktO", "NX XX GT LT"},
    {"expireat", "ki", ""}, {"pexpireat", "kTO", "NX XX GT LT Q"}, {"persist", "k", ""}, {"keys", "P", ""},
    {"get", "k", ""}, {"set", "kvO", "NX XX GET KEEPTTL PX:t EX:i PXAT:T EXAT:i Q"}, {"setnx", "kv", ""},
    {"getset", "kv", ""}, {"getdel", "k", ""}, {"incr", "k", ""}, {"decr", "k", ""}, {"incrby", "kv", ""},
    {"decrby", "kv", ""}, {"strlen", "k", ""}, {"getrange", "kii", ""}, {"hset", "kmv*", ""}, {"hsetnx", "kmv", ""},
    {"hincrby", "kmv", ""}, {"hget", "km", ""}, {"hmget", "kmm*", ""}, {"hdel", "kmm*", ""}, {"hexists", "km", ""},
    {"hlen", "k", ""}, {"hstrlen", "km", ""}, {"hgetall", "k", ""}, {"hkeys", "k", ""}, {"hvals", "k", ""},
    {"rpush", "kmm*", ""}, {"lpush", "kmm*", ""}, {"lpop", "kO", ":i"}, {"rpop", "kO", ":i"}, {"llen", "k", ""},
    {"lindex", "ki", ""}, {"lrange", "kii", ""}, {"lpos", "kmO", "RANK:i COUNT:i MAXLEN:i Q"}, {"lrem", "kim", ""},
    {"ltrim", "kii", ""}, {"sadd", "kmm*", ""}, {"srem", "kmm*", ""}, {"smembers", "k", ""}, {"scard", "k", ""},
    {"sismember", "km", ""}, {"zadd", "kOsm*", "NX XX CH INCR GT LT"}, {"zincrby", "ksm", ""}, {"zrem", "kmm*", ""},
    {"zremrangebyscore", "kbb", ""}, {"zscore", "km", ""}, {"zcard", "k", ""}, {"zcount", "kbb", ""},
    {"zrank", "km", ""}, {"zrange", "kiiO", "REV WITHSCORES Q"}, {"zrange", "kbbO", "BYSCORE REV WITHSCORES LIMIT:ii"},
    {"zrangebyscore", "kbbO", "WITHSCORES LIMIT:ii"}, {"zrevrangebyscore", "kbbO", "WITHSCORES LIMIT:ii"},
    {"ping", "O", ":v"}, {"echo", "v", ""}, {"time", "", ""}, {"dbsize", "", ""}, {"publish", "cv", ""},
    {"nosuch", "kvO", ":v :v"},
};

/* Of the table, but not of chance: differ.c looks at INFO, and empties the key space. */
static const char *const elsewhere[] = {"eval", "evalsha", "script", "info", "flushall"};

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

/* A command of the table at the end of the line; how many words it has. */
static int
put_raw(struct words *g, struct line *l)
{
    size_t f = rng_below(&g->rng, COUNT(forms));
    const char *form = forms[f].form;
    int from = l->words;

    for (size_t i = 0; forms[f].name[i] != '\0'; i++) { /* upper case, as everybody writes it, or as it stands there */
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
    if (one_in(g, 60) && l->words > from + 1) { /* one too few, or too many */
        if (one_in(g, 2)) {
            put_value(g, l);
        } else if (l->end[l->words - 1] == 0) {
            l->words--;
        }
    }
    return l->words - from;
}

/* ---- scripts ---- */

static const char *const wrappers[] = {
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "local r = redis.pcall(unpack(ARGV))\nif type(r) == 'table' and r.err then return {'pcall', r.err} end return {type(r), r}",
    "return {pcall(redis.call, unpack(ARGV))}",
    "local r = redis.call(unpack(ARGV))\nif type(r) == 'table' and r.ok then return 'ok ' .. r.ok end\nreturn tostring(r == false)",
};

/* Several in one script, which is how a full Redis differs. */
static const char several[] = "local out, at = {}, 1\n"
                              "while at <= #ARGV do\n"
                              "local n = tonumber(ARGV[at])\n"
                              "out[#out + 1] = redis.pcall(unpack(ARGV, at + 1, at + n))\n"
                              "at = at + n + 1\n"
                              "end\n"
                              "return out";

static void
make_scripted(struct words *g, struct line *l)
{
    bool many = one_in(g, 2);

    add_word(l, SLICE_LIT("EVAL"));
    add_word(l, slice_of(many ? several : wrappers[rng_below(&g->rng, COUNT(wrappers))]));
    add_word(l, SLICE_LIT("0"));
    for (unsigned i = many ? 1 + rng_below(&g->rng, 4) : 1; i > 0; i--) {
        struct line part;
        int n;

        if (many) { /* the number goes in front of words that are not there yet: made apart */
            line_init(&part);
            n = put_raw(g, &part);
            line_done(&part);
            buf_printf(&l->text, "%d", n);
            end_word(l);
            for (int k = 0; k < n; k++) {
                buf_add_slice(&l->text, part.word[k]);
                end_word(l);
            }
            line_fini(&part);
        } else {
            (void)put_raw(g, l);
        }
    }
}

/* Many entries of one key: what was kept in order is not any more. */
static void
make_large(struct words *g, struct line *l)
{
    static const char *const fills[] = {
        "for i = 1, 140 do redis.call('HSET', KEYS[1], 'm' .. i, i) end return 1",
        "for i = 1, 140 do redis.call('RPUSH', KEYS[1], 'm' .. i % 20) end return 1",
        "for i = 1, 140 do redis.call('ZADD', KEYS[1], i % 7, 'm' .. i) end return 1",
        "for i = 1, 140 do redis.call('SADD', KEYS[1], 'm' .. i) end return 1",
    };
    static const struct slice keys[] = {SLICE_LIT("h2"), SLICE_LIT("l2"), SLICE_LIT("z2"), SLICE_LIT("t1")};

    add_word(l, SLICE_LIT("EVAL"));
    add_word(l, slice_of(fills[rng_below(&g->rng, COUNT(fills))]));
    add_word(l, SLICE_LIT("1"));
    add_word(l, keys[rng_below(&g->rng, COUNT(keys))]);
}

static struct core_op
some_op(struct words *g, enum kind kind, int name)
{
    static const int64_t leases[] = {1, 5, 20, 100, 1000, 30000, 300000};
    uint64_t owner = 1 + rng_below(&g->rng, g->phase.owners);
    struct core_op op = {
        .key = lock_names[name],
        .kind = kind,
        .value = one_in(g, 8) ? (enum value_format)rng_below(&g->rng, VALUES) : g->phase.value,
        .owner = owner,
        .claim = owner * 10 + one_in(g, 6),
        .holds = rng_below(&g->rng, 3),
        .rest = one_in(g, 3),
        .reentry = one_in(g, 4),
        .exact = one_in(g, 2),
        .shared = one_in(g, 2),
        .place = one_in(g, 2),
        .limit = 1 + rng_below(&g->rng, 3),
        .lease_us = leases[rng_below(&g->rng, COUNT(leases))] * US_PER_MS,
        .token_floor = one_in(g, 4) ? (uint64_t)g->now_us + rng_below(&g->rng, 1000000) : 0,
        .stamp = one_in(g, 4) ? g->stamp[name] + rng_below(&g->rng, 5) - 2 : g->stamp[name],
    };

    return op;
}

static void
make_shipped(struct words *g, struct line *l)
{
    static const struct hash_key secret = {3, 4};
    const struct epoch *e = &g->daemon[rng_below(&g->rng, g->phase.uuids)];
    struct call_terms terms = {.uuid = e->uuid, .secret = &secret};
    int name = (int)rng_below(&g->rng, g->phase.names);
    struct call *c = &l->call;

    c->kind = rng_below(&g->rng, 100) < g->phase.foreign ? (enum kind)rng_below(&g->rng, KINDS) : g->phase.kind[name];
    c->verb = (enum call_verb)rng_below(&g->rng, VERBS);
    if (c->verb == VERB_CLEAR && !one_in(g, 4)) {
        c->verb = VERB_ACQUIRE;
    }
    c->whole = one_in(g, 8);
    c->reclaim = c->verb == VERB_ACQUIRE && (e->until_ms != 0 ? !one_in(g, 3) : one_in(g, 16));
    terms.sha = g->sha[c->verb][c->kind];
    terms.epoch = slice_of(one_in(g, 40) ? "1 0123456789abcdef" : c->reclaim ? e->now : e->open);
    c->guard_us = one_in(g, 4) ? g->now_us + (int64_t)rng_below(&g->rng, 4000) - 1000 : 0;
    l->name = name;
    for (unsigned n = one_in(g, 3) ? 1 + rng_below(&g->rng, 4) : 1; c->n < n; c->n++) {
        struct core_op op = some_op(g, c->kind, c->n == 0 ? name : (int)rng_below(&g->rng, g->phase.names));
        struct item *it;

        op.holds += c->verb == VERB_ACQUIRE;
        it = item_new(&op);
        if (it == NULL) {
            abort();
        }
        list_push_back(&c->items, &it->node);
    }
    l->words = call_words(c, &terms, &l->text, l->word);
}

/* A daemon says that it is there; in troubled times now and then as another process, or as one that leaves. */
static void
make_presence(struct words *g, struct line *l, struct epoch *e)
{
    static const int64_t graces[] = {5, 50, 1000};
    bool trouble = g->phase.trouble;

    if (trouble && one_in(g, 12)) {
        e->former = one_in(g, 2) ? e->nonce : 0;
        e->nonce = rng_next(&g->rng);
    }
    if (trouble && one_in(g, 12)) {
        epoch_forget(e);
        e->peers_n = 0;
    }
    e->leaving = trouble && one_in(g, 12);
    e->strict = trouble && one_in(g, 6);
    e->grace_us = graces[rng_below(&g->rng, COUNT(graces))] * US_PER_MS;
    e->reclaimed = !trouble || one_in(g, 2) ? e->number : 0;
    l->presence = e;
    l->words = epoch_words(e, one_in(g, 4) ? (uint64_t)g->now_us + 5 : 0, &l->text, l->word);
}

void
words_presence(struct words *g, struct line *l, int daemon)
{
    line_init(l);
    make_presence(g, l, &g->daemon[daemon]);
}

/* What an old snapshot or a replica would bring: the epoch of another process, and older. */
static void
make_old(struct words *g, struct line *l)
{
    add_word(l, SLICE_LIT("SET"));
    add_word(l, SLICE_LIT(CALL_EPOCH_KEY));
    buf_printf(&l->text, "%" PRIu64 " 0123456789abcdef", g->daemon[0].number - rng_below(&g->rng, 2));
    if (one_in(g, 4)) {
        buf_printf(&l->text, " %" PRId64, g->now_us / 1000 + 40);
    }
    end_word(l);
}

static void
make_look(struct words *g, struct line *l)
{
    bool whole = one_in(g, 4);

    l->look = true;
    add_word(l, whole ? SLICE_LIT("EVAL") : SLICE_LIT("EVALSHA"));
    add_word(l, slice_of(whole ? call_other_text(OTHER_LOOK) : g->look_sha));
    add_word(l, SLICE_LIT("1"));
    put_key(g, l);
}

static void
make_load(struct words *g, struct line *l)
{
    add_word(l, SLICE_LIT("SCRIPT"));
    if (one_in(g, 8)) {
        add_word(l, SLICE_LIT("FLUSH"));
        return;
    }
    add_word(l, one_in(g, 2) ? SLICE_LIT("LOAD") : SLICE_LIT("EXISTS"));
    if (l->word[1].n == 4) {
        add_word(l, slice_of(call_script_text((enum call_verb)rng_below(&g->rng, VERBS),
                                              (enum kind)rng_below(&g->rng, KINDS))));
    } else {
        add_word(l, slice_of(g->sha[rng_below(&g->rng, VERBS)][rng_below(&g->rng, KINDS)]));
        add_word(l, slice_of(g->look_sha));
    }
}

void
words_next(struct words *g, struct line *l)
{
    const struct phase *p = &g->phase;
    unsigned d = rng_below(&g->rng, 100);

    line_init(l);
    if (p->shipped > 0 && one_in(g, 30)) {
        make_presence(g, l, &g->daemon[rng_below(&g->rng, UUIDS)]);
        return;
    }
    if (p->trouble && one_in(g, 300)) {
        make_old(g, l);
    } else if (d < p->raw) {
        (void)put_raw(g, l);
    } else if (d < p->raw + p->scripted) {
        make_scripted(g, l);
    } else if (d < p->raw + p->scripted + p->shipped) {
        make_shipped(g, l);
        return; /* call_words has made them all */
    } else if (one_in(g, 12)) {
        make_load(g, l);
    } else if (one_in(g, 10)) {
        make_large(g, l);
    } else {
        make_look(g, l);
    }
    line_done(l);
}

void
words_answer(struct words *g, const struct line *l, const struct reply *r)
{
    if (l->presence != NULL) {
        (void)epoch_answer(l->presence, r);
    } else if (l->call.n > 0 && l->call.verb != VERB_CLEAR && r->type == REPLY_ARRAY && r->item[1]->n == 1) {
        g->stamp[l->name] = r->item[3]->n;
    }
}

void
words_phase(struct words *g)
{
    static const struct phase shapes[] = {
        {.raw = 60, .scripted = 35, .shipped = 0, .foreign = 5},
        {.raw = 10, .scripted = 10, .shipped = 75, .foreign = 30},
        {.raw = 2, .scripted = 2, .shipped = 93, .foreign = 3},
        {.raw = 0, .scripted = 0, .shipped = 99, .foreign = 0},
    };

    g->phase = shapes[rng_below(&g->rng, COUNT(shapes))];
    g->phase.names = 1 + rng_below(&g->rng, NAMES);
    g->phase.owners = 1 + rng_below(&g->rng, OWNERS);
    g->phase.uuids = 1 + rng_below(&g->rng, UUIDS);
    g->phase.trouble = one_in(g, 3);
    g->phase.value = (enum value_format)rng_below(&g->rng, VALUES);
    for (int i = 0; i < NAMES; i++) {
        g->phase.kind[i] = (enum kind)rng_below(&g->rng, KINDS);
    }
}

void
words_init(struct words *g, uint64_t seed)
{
    *g = (struct words){.rng = {UINT64_C(0x9e3779b97f4a7c15) * (seed + 1)}};
    for (int v = 0; v < VERBS; v++) {
        for (int k = 0; k < KINDS; k++) {
            sha1_hex(slice_of(call_script_text((enum call_verb)v, (enum kind)k)), g->sha[v][k]);
        }
    }
    sha1_hex(slice_of(call_other_text(OTHER_LOOK)), g->look_sha);
    for (int i = 0; i < UUIDS; i++) {
        memcpy(g->daemon[i].uuid, uuids[i], sizeof(g->daemon[i].uuid));
        g->daemon[i].nonce = (uint64_t)i + 1;
    }
    words_phase(g);
}
