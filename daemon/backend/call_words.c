/*
 * call_words.c -- the scripts of the verbs, and operations of one verb and kind as the words of one script command.
 */
#include "daemon/backend/call.h"

#include <assert.h>

#include "daemon/backend/link.h"
#include "daemon/backend/value.h"
#include "daemon/base/clock.h"

/* The parameters of the scripts' verbs; scripts/embed names them after the Lua functions. */
enum column {
    COLUMN_OWNER,
    COLUMN_VALUE,
    COLUMN_EXPIRY,
    COLUMN_LEASE,
    COLUMN_HOLDS,
    COLUMN_REENTRY,
    COLUMN_EXACT,
    COLUMN_CHANNEL,
    COLUMN_MODE,
    COLUMN_TICKET,
    COLUMN_LIMIT,
    COLUMN_REST,
    COLUMN_PERMIT,
    COLUMN_DECLARED,
    COLUMN_PATTERN,
    COLUMN_WAKES,
};

/* Words of one name: as many as fit LINK_WORDS_MAX in a call with SHARD_BATCH_MAX names. */
enum { COLUMNS_MAX = 6 };

struct script_row {
    const char *text;
    unsigned char column[COLUMNS_MAX]; /* the terms first: columns that several names may have in common */
    unsigned char columns_n, terms_n;
};

#define OTHER_SCRIPT(name, t)
#define QUORUM_SCRIPT(kind, verb, t)
#define SCRIPT(kind, verb, t, terms, ...)                                                                             \
    [VERB_##verb][KIND_##kind] = {.text = (t),                                                                        \
                                  .terms_n = (terms),                                                                 \
                                  .column = {__VA_ARGS__},                                                            \
                                  .columns_n = sizeof((unsigned char[]){__VA_ARGS__})},
static const struct script_row scripts[VERBS][KINDS] = {
#include "gen/scripts.h"
};
#undef SCRIPT
#undef QUORUM_SCRIPT

#define SCRIPT(kind, verb, t, ...)
#define QUORUM_SCRIPT(kind, verb, t) [VERB_##verb][KIND_##kind] = (t),
static const char *const quorum_scripts[VERBS][KINDS] = {
#include "gen/scripts.h"
};
#undef QUORUM_SCRIPT
#undef OTHER_SCRIPT

#define QUORUM_SCRIPT(kind, verb, t)
#define OTHER_SCRIPT(name, t) [OTHER_##name] = (t),
static const char *const other_scripts[OTHERS] = {
#include "gen/scripts.h"
};
#undef SCRIPT
#undef QUORUM_SCRIPT
#undef OTHER_SCRIPT

const char *
call_script_text(enum call_verb verb, enum kind kind)
{
    return scripts[verb][kind].text;
}

const char *
call_quorum_text(enum call_verb verb, enum kind kind)
{
    return quorum_scripts[verb][kind];
}

const char *
call_other_text(enum other_script script)
{
    return other_scripts[script];
}

/* Redisson's channels of a kind; for kinds that Redisson lacks, daemons use the channel of its RLock. */
static const char *const channel_prefix[KINDS] = {
    [KIND_RW] = "redisson_rwlock:",
    [KIND_SEMAPHORE] = "redisson_sc:",
};

/* As prefixName() of Redisson: puts braces around a key without an opening brace. */
void
call_channel(enum kind kind, struct slice key, struct buf *out)
{
    bool braces = memchr(key.p, '{', key.n) == NULL;

    buf_adds(out, channel_prefix[kind] != NULL ? channel_prefix[kind] : "redisson_lock__channel:");
    buf_adds(out, braces ? "{" : "");
    buf_add_slice(out, key);
    buf_adds(out, braces ? "}" : "");
}

/* The value of a term as a number; 0 for a column that is no term. */
static int64_t
term_of(enum column column, const struct core_op *op)
{
    switch (column) {
    case COLUMN_LEASE:
        return op->lease_us / US_PER_MS;
    case COLUMN_HOLDS:
        return op->holds;
    case COLUMN_REENTRY: /* of a reclaim the token; no Redis gives one of a single digit */
        return op->reclaim && op->token > 9 ? (int64_t)op->token : op->reentry;
    case COLUMN_EXACT:
        return op->exact;
    case COLUMN_MODE:
        return op->shared;
    case COLUMN_TICKET:
        return op->ticket;
    case COLUMN_LIMIT:
        return op->limit;
    case COLUMN_REST:
        return op->other_sort;
    case COLUMN_DECLARED:
        return op->declared;
    case COLUMN_PATTERN:
        return op->value;
    case COLUMN_WAKES:
        return op->wakes;
    case COLUMN_OWNER:
    case COLUMN_VALUE:
    case COLUMN_EXPIRY:
    case COLUMN_PERMIT:
    case COLUMN_CHANNEL:
        break;
    }
    return 0;
}

static void
put_column(enum column column, const struct core_op *op, const char *uuid, const struct hash_key *secret,
           struct buf *text)
{
    unsigned char permit[VALUE_BYTES];
    char value[VALUE_ROOM];

    switch (column) {
    case COLUMN_OWNER:
        buf_adds(text, uuid);
        buf_add(text, ":", 1);
        buf_add_u64(text, op->owner);
        break;
    case COLUMN_VALUE:
        buf_add(text, value, value_of_claim(secret, op->claim, op->owner, op->value, value));
        break;
    case COLUMN_EXPIRY:
        buf_add_i64(text, op->expiry_ms);
        break;
    case COLUMN_PERMIT:
        value_bytes(secret, op->claim, op->owner, permit);
        buf_add(text, permit, sizeof(permit));
        break;
    case COLUMN_CHANNEL:
        call_channel(op->kind, op->key, text);
        break;
    case COLUMN_MODE:
        buf_adds(text, op->shared ? "read" : "write");
        break;
    case COLUMN_PATTERN:
        buf_adds(text, value_format_pattern(op->value));
        break;
    default:
        buf_add_i64(text, term_of(column, op));
        break;
    }
}

void
call_put_holder(const struct core_op *op, const struct call_sender *sender, struct buf *text)
{
    bool by_value = (kind_rows[op->kind].flags & KIND_F_STRING) != 0;

    put_column(by_value ? COLUMN_VALUE : COLUMN_OWNER, op, sender->uuid, sender->secret, text);
}

/* Tokens reserved for hand-offs: the largest reserve that a name of the call wants. */
static uint32_t
token_reserve(const struct call *c)
{
    struct list *pos, *nxt;
    uint32_t reserve = 0;

    list_for_each_safe(pos, nxt, &c->items)
    {
        const struct item *it = container_of(pos, struct item, node);

        reserve = it->op.reserve > reserve ? it->op.reserve : reserve;
    }
    return reserve;
}

/* The highest known token: that of the continuity (`floor`), or of an operation of the call. */
static uint64_t
token_floor(const struct call *c, uint64_t floor)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->items)
    {
        const struct item *it = container_of(pos, struct item, node);

        floor = it->op.token_floor > floor ? it->op.token_floor : floor;
    }
    return floor;
}

/* Of an attempt at a node of a quorum: the proposed tokens of the names, or one if that is the same for all names. */
static void
put_proposals(const struct call *c, struct buf *text)
{
    uint64_t first = container_of(c->items.next, struct item, node)->op.token_floor;
    struct list *pos, *nxt;
    bool same = true;

    list_for_each_safe(pos, nxt, &c->items)
    {
        same = same && container_of(pos, struct item, node)->op.token_floor == first;
    }
    buf_add_u64(text, first);
    list_for_each_safe(pos, nxt, &c->items)
    {
        if (!same && pos != c->items.next) {
            buf_adds(text, " ");
            buf_add_u64(text, container_of(pos, struct item, node)->op.token_floor);
        }
    }
}

/* The derived words of a command, one behind the other in the text: where each of them ends. */
struct derived {
    const struct call_sender *sender;
    struct buf *text;
    size_t end[LINK_WORDS_MAX];
    int n;
};

static void
end_word(struct derived *m)
{
    m->end[m->n++] = m->text->n;
}

static void
put_columns(struct derived *m, const struct script_row *s, unsigned from, unsigned to, const struct core_op *op)
{
    for (unsigned i = from; i < to; i++) {
        put_column(s->column[i], op, m->sender->uuid, m->sender->secret, m->text);
        end_word(m);
    }
}

static bool
have_same_terms(const struct call *c, const struct script_row *s)
{
    const struct core_op *first = &container_of(c->items.next, struct item, node)->op;
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->items)
    {
        const struct core_op *op = &container_of(pos, struct item, node)->op;

        for (unsigned i = 0; i < s->terms_n; i++) {
            if (term_of(s->column[i], op) != term_of(s->column[i], first)) {
                return false;
            }
        }
    }
    return true;
}

/* The columns of all names, in the order that common.lua asks for. */
static void
put_names(const struct call *c, const struct script_row *s, struct derived *m)
{
    bool same = have_same_terms(c, s);
    struct list *pos, *nxt;

    if (same) {
        put_columns(m, s, 0, s->terms_n, &container_of(c->items.next, struct item, node)->op);
    }
    list_for_each_safe(pos, nxt, &c->items)
    {
        put_columns(m, s, same ? s->terms_n : 0, s->columns_n, &container_of(pos, struct item, node)->op);
    }
}

int
call_words(const struct call *c, const struct call_sender *sender, struct buf *text, struct slice *words)
{
    const struct script_row *s = &scripts[c->verb][c->kind];
    struct derived derived;
    struct list *pos, *nxt;
    size_t at;
    int n = 0;

    derived.sender = sender;
    derived.text = text;
    derived.n = 0;
    words[n++] = c->with_text ? SLICE_LIT("EVAL") : SLICE_LIT("EVALSHA");
    words[n++] = c->with_text ? slice_of(sender->text) : slice_of(sender->sha);
    buf_add_u64(text, c->n + (c->one_key ? 0 : 2));
    end_word(&derived);
    n++; /* the number of keys, the first derived word */
    if (!c->one_key) {
        words[n++] = sender->keys.clock;
        words[n++] = sender->keys.epoch;
    }
    list_for_each_safe(pos, nxt, &c->items)
    {
        words[n++] = container_of(pos, struct item, node)->op.key;
    }
    buf_add_i64(text, c->guard_us == 0 ? 0 : c->guard_us + sender->offset_us);
    end_word(&derived);
    if (c->of_quorum && c->verb == VERB_ACQUIRE) {
        put_proposals(c, text);
    } else {
        buf_add_u64(text, token_floor(c, sender->floor));
    }
    end_word(&derived);
    buf_add_slice(text, sender->epoch);
    end_word(&derived);
    buf_add_u64(text, token_reserve(c));
    end_word(&derived);
    put_names(c, s, &derived);
    /* The words point into the text only now: it may have moved while it grew. */
    words[2] = (struct slice){text->p, derived.end[0]};
    at = derived.end[0];
    for (int i = 1; i < derived.n; i++) {
        words[n++] = (struct slice){text->p + at, derived.end[i] - at};
        at = derived.end[i];
    }
    assert(n <= LINK_WORDS_MAX);
    return n;
}
