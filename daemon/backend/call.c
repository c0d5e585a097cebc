/*
 * call.c -- operations on their way to Redis, and the answers to script calls as outcomes.
 */
#include "daemon/backend/call.h"

#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/freelist.h"

/* Lua's numbers are exact up to here: no answer of a script has a larger one. */
#define NUMBER_MAX (INT64_C(1) << 53)

/* The first number of a row in a script's answer. */
enum { ANSWER_OK = 1, ANSWER_TAKEN, ANSWER_GONE, ANSWER_FOREIGN, ANSWER_FULL, ANSWER_STALE, ANSWER_GRACE };

enum call_verb
call_verb_of(enum core_action_type action)
{
    switch (action) {
    case CORE_ACQUIRE:
        return VERB_ACQUIRE;
    case CORE_EXTEND:
        return VERB_RENEW;
    case CORE_RELEASE:
        return VERB_RELEASE;
    case CORE_BREAK_KEY:
        return VERB_CLEAR;
    default:
        abort();
    }
}

struct item *
item_new(struct freelist *s, const struct core_op *op)
{
    struct item *it = freelist_take(s, sizeof(*it) + op->key.n);

    *it = (struct item){.op = *op};
    memcpy(it + 1, op->key.p, op->key.n);
    it->op.key.p = (char *)(it + 1);
    list_init(&it->node);
    return it;
}

void
item_free(struct freelist *s, struct item *it)
{
    list_remove(&it->node);
    freelist_give(s, it, sizeof(*it) + it->op.key.n);
}

/* The answer about some names in a row (proto/SCRIPTS.md). */
struct row {
    int64_t answer, a, b, n;
};

enum { ROW_NUMBERS = 4 };

static struct row
row_of(const struct reply *r, size_t row)
{
    struct reply *const *number = &r->item[1 + ROW_NUMBERS * row];

    return (struct row){number[0]->n, number[1]->n, number[2]->n, number[3]->n};
}

static bool
is_valid_row(const struct call *c, struct row row)
{
    bool token = row.answer == ANSWER_OK && c->verb != VERB_RELEASE;

    return row.answer >= ANSWER_OK && row.answer <= ANSWER_GRACE && row.n > 0 && row.a <= NUMBER_MAX - (row.n - 1) &&
           (!token || row.a >= 0);
}

/* The scripts put one number behind the rows if the reserve was denied: see token() of common.lua. */
static bool
is_reserve_denied(const struct reply *r)
{
    return r->count % ROW_NUMBERS == 2;
}

bool
call_answer_ok(const struct call *c, const struct reply *r, int64_t *time_us)
{
    size_t n = 0;

    if (r->type != REPLY_ARRAY || (r->count % ROW_NUMBERS != 1 && !(is_reserve_denied(r) && c->verb == VERB_ACQUIRE))) {
        return false;
    }
    for (size_t i = 0; i < r->count; i++) {
        if (r->item[i]->type != REPLY_INT || r->item[i]->n > NUMBER_MAX || r->item[i]->n < -NUMBER_MAX) {
            return false;
        }
    }
    for (size_t i = 0; i < r->count / ROW_NUMBERS; i++) {
        if (!is_valid_row(c, row_of(r, i))) {
            return false;
        }
        n += (size_t)row_of(r, i).n;
    }
    *time_us = r->item[0]->n;
    return n == c->n;
}

static void
fill_ok(const struct call *c, int64_t a, int64_t b, bool reserve_denied, struct core_done *done)
{
    switch (c->verb) {
    case VERB_ACQUIRE:
    case VERB_RENEW:
        done->token = (uint64_t)a;
        done->expiry_ms = b;
        done->reserve_denied = reserve_denied;
        break;
    case VERB_RELEASE:
        done->remote_subscribers = a;
        done->expiry_ms = b;
        break;
    default: /* CLEAR */
        done->token = (uint64_t)a;
        done->remote_subscribers = b;
        break;
    }
}

/* Reads b of TAKEN. */
static void
fill_taken(const struct call *c, int64_t b, struct core_done *done)
{
    unsigned flags = kind_rows[c->kind].flags;

    if (flags & (KIND_F_SHARED | KIND_F_PERMITS)) {
        done->holders = b;
    }
    done->has_ticket = (flags & KIND_F_TICKETS) != 0 && b == 1;
}

bool
call_is_stale(const struct reply *r)
{
    return r->item[1]->n == ANSWER_STALE;
}

void
call_outcome(const struct call *c, const struct reply *r, struct call_position *at, struct core_done *done)
{
    struct row row = row_of(r, at->row);
    int64_t answer = row.answer, a = row.a, b = row.b;

    if (c->verb == VERB_ACQUIRE && answer == ANSWER_OK && !c->of_quorum) { /* tokens rise by one */
        a += at->in_row;
    }
    if (++at->in_row == row.n) {
        *at = (struct call_position){.row = at->row + 1};
    }
    if (answer == ANSWER_GRACE && c->verb == VERB_CLEAR) { /* CLEAR names no owner, so it is done in any epoch */
        answer = ANSWER_GONE;
    }
    switch (answer) {
    case ANSWER_OK:
        done->outcome = CORE_OK;
        fill_ok(c, a, b, is_reserve_denied(r), done);
        done->expiry_ms = c->verb == VERB_CLEAR ? 1 : done->expiry_ms; /* BREAK: 1 = there was a key */
        break;
    case ANSWER_TAKEN:
    case ANSWER_FOREIGN:
        done->outcome = answer == ANSWER_TAKEN ? CORE_TAKEN : CORE_FOREIGN;
        done->pttl_us = a < 0 ? -1 : a * US_PER_MS;
        if (done->outcome == CORE_TAKEN) {
            fill_taken(c, b, done);
        }
        break;
    case ANSWER_GONE:
        done->outcome = c->verb == VERB_CLEAR ? CORE_OK : CORE_GONE_IN_REDIS;
        if (c->verb == VERB_CLEAR) { /* there was nothing: expiry_ms stays 0 */
            fill_ok(c, a, b, is_reserve_denied(r), done);
        }
        break;
    case ANSWER_GRACE:
        done->outcome = CORE_GRACE;
        done->pttl_us = a < 0 ? -1 : a * US_PER_MS;
        break;
    case ANSWER_FULL:
        done->outcome = CORE_FULL;
        break;
    default: /* STALE: too late, nothing was done */
        done->outcome = CORE_DOWN;
        break;
    }
}

static const struct {
    const char *prefix;
    enum core_outcome outcome;
    bool drop;
} error_words[] = {
    {"LOADING ", CORE_DOWN, false},    {"BUSY ", CORE_DOWN, false},        {"MASTERDOWN ", CORE_DOWN, false},
    {"CLUSTERDOWN ", CORE_DOWN, false}, {"TRYAGAIN ", CORE_DOWN, false},   {"NOREPLICAS ", CORE_DOWN, false},
    {"MISCONF ", CORE_DOWN, false},    {"NOSCRIPT ", CORE_DOWN, false},    {"READONLY ", CORE_DOWN, true},
    {"NOAUTH ", CORE_DOWN, true},            {"MOVED ", CORE_DOWN, false},
    {"ASK ", CORE_DOWN, false},        {"CROSSSLOT ", CORE_DOWN, false},   {"OOM ", CORE_FULL, false},
};

/* Redis 6 begins an error inside a script with the line: "@user_script: 12: -READONLY ...". */
static struct slice
without_line(struct slice text)
{
    static const char where[] = "@user_script: ";
    size_t n = sizeof(where) - 1;

    if (!slice_begins(text, where)) {
        return text;
    }
    while (n < text.n && text.p[n] >= '0' && text.p[n] <= '9') {
        n++;
    }
    if (text.n - n < 3 || memcmp(text.p + n, ": -", 3) != 0) {
        return text;
    }
    return (struct slice){text.p + n + 3, text.n - n - 3};
}

enum core_outcome
call_error(struct slice text, bool *drop_link)
{
    text = without_line(text);
    *drop_link = false;
    for (size_t i = 0; i < sizeof(error_words) / sizeof(error_words[0]); i++) {
        if (slice_begins(text, error_words[i].prefix)) {
            *drop_link = error_words[i].drop;
            return error_words[i].outcome;
        }
    }
    return CORE_UNKNOWN;
}

bool
call_is_redirected(struct slice error)
{
    static const char *const words[] = {"MOVED ", "ASK ", "TRYAGAIN ", "CLUSTERDOWN "};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (slice_begins(error, words[i])) {
            return true;
        }
    }
    return false;
}

/*
 * The error names a forbidden key of the call. For a key that a script derived Redis answers ERR and another text
 * (below), and other servers may answer NOPERM. For a forbidden command Redis 7.2 answers NOPERM, too, with the name of
 * the user, which may contain any word.
 */
bool
call_is_denied(const struct reply *r)
{
    return r->type == REPLY_ERROR && slice_begins(r->text, "NOPERM ") &&
           strstr(r->text.p, " in script") == NULL && strstr(r->text.p, " run the '") == NULL &&
           strstr(r->text.p, " key") != NULL;
}

/*
 * Redis 6 and 7.0: "The user executing the script can't access at least one of the keys mentioned in the command
 * arguments"; 7.2 and newer: "ACL failure in script: No permissions to access a key" (scripting.c, script.c and acl.c
 * of 6.0.20, 6.2.14, 7.0.15, 7.2.5, 7.4.1, 8.0). ERR stands in front, or in Redis 6 the line of the script. A forbidden
 * command or channel is refused likewise, without the word "key": sending the names alone would not help.
 */
bool
call_is_denied_inside(const struct reply *r)
{
    return r->type == REPLY_ERROR && r->text.n > 0 && strstr(r->text.p, " key") != NULL &&
           (strstr(r->text.p, "executing the script can't access") != NULL ||
            strstr(r->text.p, "ACL failure in script") != NULL);
}

bool
call_is_noscript(const struct reply *r)
{
    return r->type == REPLY_ERROR && slice_begins(r->text, "NOSCRIPT ");
}
