/*
 * differ_words.c -- random commands: those of the table (differ_raw.c), the same within scripts, and the shipped
 * scripts.
 *
 * Few names, few members and short lives, so that commands meet the same keys; now and then a word of another sort.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/backend/script_variants.h"
#include "daemon/base/clock.h"
#include "tests/sim/differ.h"

const struct slice lock_names[NAMES] = {
    SLICE_LIT("a"), SLICE_LIT("b:{t}"), SLICE_LIT("c\r\n\0d"), SLICE_LIT("pool"), SLICE_LIT("e"), SLICE_LIT("doc/1"),
};

const char *const uuids[UUIDS] = {
    "0f9b8a76-1c2d-4e3f-8a9b-726c6f636b64", /* of a daemon */
    "1f9b8a76-1c2d-4e3f-8a9b-726c6f636b64",
    "2f9b8a76-1c2d-4e3f-8a9b-012345678901", /* of a client of Redisson */
};

/* ---- making a line ---- */

void
line_init(struct line *l)
{
    l->words = 0;
    l->call.n = 0;
    l->inspect = false;
    l->membership = NULL;
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

void
add_word(struct line *l, struct slice word)
{
    l->end[l->words] = 0;
    l->word[l->words++] = word;
}

/* Ends a word: the text that was appended since the word before. */
void
end_word(struct line *l)
{
    l->word[l->words] = (struct slice){NULL, 0};
    l->end[l->words++] = l->text.n + 1;
}

/* Ends the line: the text does not move any more. */
void
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

/* ---- scripts ---- */

static const char *const wrappers[] = {
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "local r = redis.pcall(unpack(ARGV))\nif type(r) == 'table' and r.err then return {'pcall', r.err} end\n"
    "return {type(r), r}",
    "return {pcall(redis.call, unpack(ARGV))}",
    "local r = redis.call(unpack(ARGV))\nif type(r) == 'table' and r.ok then return 'ok ' .. r.ok end\n"
    "return tostring(r == false)",
};

/* Several commands in one script: a full Redis treats them differently. */
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

        if (many) { /* the number of words comes before them, so these are made apart */
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

/* Many entries of one key: the order of arrival is lost. */
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
        .other_sort = one_in(g, 3),
        .reentry = one_in(g, 4),
        .exact = one_in(g, 2),
        .shared = one_in(g, 2),
        .ticket = one_in(g, 2),
        .limit = 1 + rng_below(&g->rng, 3),
        .lease_us = leases[rng_below(&g->rng, COUNT(leases))] * US_PER_MS,
        .token_floor = one_in(g, 4) ? (uint64_t)g->now_us + rng_below(&g->rng, 1000000) : 0,
        .expiry_ms = one_in(g, 4) ? g->expiry_ms[name] + rng_below(&g->rng, 5) - 2 : g->expiry_ms[name],
    };

    return op;
}

static void
make_shipped(struct words *g, struct line *l)
{
    static const struct hash_key secret = {3, 4};
    const struct epoch *e = &g->daemon[rng_below(&g->rng, g->phase.uuids)];
    struct call_sender sender = {.uuid = e->uuid, .secret = &secret,
                                 .keys = {SLICE_LIT(CALL_CLOCK_KEY), SLICE_LIT(CALL_EPOCH_KEY)}};
    int name = (int)rng_below(&g->rng, g->phase.names);
    struct call *c = &l->call;

    c->kind = rng_below(&g->rng, 100) < g->phase.foreign ? (enum kind)rng_below(&g->rng, KINDS) : g->phase.kind[name];
    c->verb = (enum call_verb)rng_below(&g->rng, VERBS);
    if (c->verb == VERB_CLEAR && !one_in(g, 4)) {
        c->verb = VERB_ACQUIRE;
    }
    c->of_quorum = one_in(g, 4);
    c->with_text = c->of_quorum || one_in(g, 8);
    c->reclaim = c->verb == VERB_ACQUIRE && (e->until_ms != 0 ? !one_in(g, 3) : one_in(g, 16));
    sender.text = script_variants_text(c->of_quorum ? &script_variants_of_quorum : NULL, c->verb, c->kind, false);
    sender.sha = g->sha[c->verb][c->kind];
    sender.epoch = slice_of(one_in(g, 40) ? "1 0123456789abcdef" : c->reclaim ? e->last_value : e->granting_value);
    c->guard_us = one_in(g, 4) ? g->now_us + (int64_t)rng_below(&g->rng, 4000) - 1000 : 0;
    l->name = name;
    for (unsigned n = one_in(g, 3) ? 1 + rng_below(&g->rng, 4) : 1; c->n < n; c->n++) {
        struct core_op op = some_op(g, c->kind, c->n == 0 ? name : (int)rng_below(&g->rng, g->phase.names));
        struct item *it;

        op.holds += c->verb == VERB_ACQUIRE;
        it = item_new(NULL, &op);
        if (it == NULL) {
            abort();
        }
        list_push_back(&c->items, &it->node);
    }
    l->words = call_words(c, &sender, &l->text, l->word);
}

/* A daemon registers; in troubled times now and then as another process, or as one that leaves. */
static void
make_membership(struct words *g, struct line *l, struct epoch *e)
{
    static const int64_t graces[] = {5, 50, 200};
    bool last_failure = g->phase.last_failure;
    struct epoch_ask ask = {.token_floor = one_in(g, 4) ? (uint64_t)g->now_us + 5 : 0, .changes = !one_in(g, 4)};

    if (last_failure && one_in(g, 12)) {
        e->former_nonce[0] = one_in(g, 2) ? e->nonce : 0;
        e->nonce = rng_next(&g->rng);
    }
    if (last_failure && one_in(g, 12)) {
        e->number = e->reclaimed = 0; /* a new process without any knowledge */
        e->until_ms = 0;
        e->granting_value[0] = e->last_value[0] = '\0';
        e->list_epoch = e->since = e->cursor = 0;
        e->bring = EPOCH_BRING_NOTHING;
    }
    e->leaving = last_failure && one_in(g, 12);
    e->rolled_back = last_failure && one_in(g, 6);
    e->strict = last_failure && one_in(g, 6);
    e->members_unknown = last_failure && one_in(g, 6);
    snprintf(e->channel, sizeof(e->channel), "%s", one_in(g, 2) ? "here" : "there");
    e->longest_lease_us = graces[rng_below(&g->rng, COUNT(graces))] * US_PER_MS;
    e->reclaimed = !last_failure || one_in(g, 2) ? e->number : 0;
    if (e->bring == EPOCH_BRING_NOW && !one_in(g, 3)) {
        ask.part = slice_of(g->uuids);
        ask.last = one_in(g, 2);
    }
    l->membership = e;
    l->members = &g->members[e - g->daemon];
    l->then = *e;
    l->words = epoch_words(&l->then, l->members, &ask, &l->text, l->word);
}

void
words_membership(struct words *g, struct line *l, int daemon)
{
    line_init(l);
    make_membership(g, l, &g->daemon[daemon]);
}

/* The epoch of an old snapshot or of a replica: that of another process, and older. */
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
make_inspect(struct words *g, struct line *l)
{
    bool whole = one_in(g, 4);

    l->inspect = true;
    add_word(l, whole ? SLICE_LIT("EVAL") : SLICE_LIT("EVALSHA"));
    add_word(l, slice_of(whole ? call_other_text(OTHER_INSPECT) : g->inspect_sha));
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
        add_word(l, slice_of(g->inspect_sha));
    }
}

void
words_next(struct words *g, struct line *l)
{
    const struct phase *p = &g->phase;
    unsigned d = rng_below(&g->rng, 100);

    line_init(l);
    if (p->shipped > 0 && one_in(g, 30)) {
        make_membership(g, l, &g->daemon[rng_below(&g->rng, UUIDS)]);
        return;
    }
    if (p->last_failure && one_in(g, 300)) {
        make_old(g, l);
    } else if (d < p->raw) {
        (void)put_raw(g, l);
    } else if (d < p->raw + p->scripted) {
        make_scripted(g, l);
    } else if (d < p->raw + p->scripted + p->shipped) {
        make_shipped(g, l);
        return; /* call_words has made all words */
    } else if (one_in(g, 12)) {
        make_load(g, l);
    } else if (one_in(g, 10)) {
        make_large(g, l);
    } else {
        make_inspect(g, l);
    }
    line_done(l);
}

void
words_answer(struct words *g, const struct line *l, const struct reply *r)
{
    if (l->membership != NULL) {
        (void)epoch_answer(l->membership, l->members, r);
    } else if (l->call.n > 0 && l->call.verb != VERB_CLEAR && r->type == REPLY_ARRAY && r->item[1]->n == 1) {
        g->expiry_ms[l->name] = r->item[3]->n;
    }
}

void
words_fini(struct words *g)
{
    for (int i = 0; i < UUIDS; i++) {
        members_fini(&g->members[i]);
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
    g->phase.last_failure = one_in(g, 3);
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
    sha1_hex(slice_of(call_other_text(OTHER_INSPECT)), g->inspect_sha);
    for (int i = 0; i < UUIDS; i++) {
        memcpy(g->daemon[i].uuid, uuids[i], sizeof(g->daemon[i].uuid));
        g->daemon[i].nonce = (uint64_t)i + 1;
        members_init(&g->members[i], &(struct hash_key){1, 2});
        memcpy(g->uuids + (size_t)i * MEMBERS_UUID_BYTES, uuids[i], MEMBERS_UUID_BYTES);
    }
    words_phase(g);
}
