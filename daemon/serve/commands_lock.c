/*
 * commands_lock.c -- LOCK, UNLOCK, RENEW, CANCEL, MLOCK, MUNLOCK, BREAK.
 *
 * Owns the way from words to a core request and from a core reply to bytes.
 * Decides nothing about locks: every answer but a syntax error is the core's.
 * Invariant: a handler that stepped the core returns CMD_LATER and has written
 * nothing; the core's one reply reaches the slot by session_answer().
 *
 * This is the hot path: Redis keys are built in engine.key, nothing else is allocated.
 */
#include "daemon/serve/commands_private.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/clock.h"
#include "proto/options.h"

/* ---- replies ---- */

/* How each refusal of the core is said; `text` NULL = the usual text of its row. */
static const struct {
    bool error;
    enum error_code code;
    const char *text;
} core_errors[CORE_ANSWERS] = {
    [CORE_NOT_HELD] = {true, ERR_NOT_HELD, NULL},
    [CORE_STALE] = {true, ERR_STALE, NULL},
    [CORE_WAS_LOST] = {true, ERR_LOST, NULL},
    [CORE_WRONG_KIND] = {true, ERR_WRONG_KIND, NULL},
    [CORE_KEY_IN_USE] = {true, ERR_WRONG_KIND, NULL},
    [CORE_DEADLOCK] = {true, ERR_DEADLOCK, NULL},
    [CORE_TOO_MANY_WAITERS] = {true, ERR_LIMIT, "too many waiters"},
    [CORE_TOO_MANY_LOCKS] = {true, ERR_LIMIT, "this owner holds or wants too many locks"},
    [CORE_LOCKS_FULL] = {true, ERR_LIMIT, "too many locks, of all clients or of this user"},
    [CORE_TOO_MANY_REQUESTS] = {true, ERR_LIMIT, "too many requests of this connection wait behind this one"},
    [CORE_DRAINING] = {true, ERR_DRAINING, NULL},
    [CORE_UNAVAILABLE] = {true, ERR_UNAVAILABLE, NULL},
    [CORE_REDIS_FULL] = {true, ERR_UNAVAILABLE, "Redis is out of memory"},
    [CORE_FORBIDDEN] = {true, ERR_NO_PERM, "Redis's ACL keeps rlockd from the key of this name"},
    [CORE_NO_MEMORY] = {true, ERR_LIMIT, "the daemon is out of memory"},
};

bool
command_core_error(enum core_answer answer, enum error_code *code)
{
    *code = core_errors[answer].code;
    return core_errors[answer].error;
}

void
owner_print(const struct engine *e, uint64_t number, char out[OWNER_BYTES])
{
    snprintf(out, OWNER_BYTES, "%s:%" PRIu64, e->uuid, number);
}

/* ms: where "lease_ms" stands. */
static void
write_full(const struct engine *e, struct writer *out, const struct core_reply *r, struct fields_spot *ms)
{
    struct fields f = {.n = 0};
    char owner[OWNER_BYTES];

    owner_print(e, r->owner, owner);
    fields_text(&f, "name", r->name);
    fields_number(&f, "token", (int64_t)r->token);
    fields_text(&f, "owner", slice_of(owner));
    fields_text(&f, "kind", slice_of(kind_rows[r->kind].name));
    fields_number(&f, "holds", r->holds);
    fields_ms(&f, "lease_ms", r->lease_us);
    fields_find(&f, ms);
    fields_ms(&f, "waited_ms", r->waited_us);
    fields_write_map(&f, out);
}

/* ---- the cycle of a deadlock ---- */

#define HOPS_SHOWN 8

static void
add_quoted(struct buf *out, struct slice name)
{
    buf_adds(out, "\"");
    name_print(name, out);
    buf_adds(out, "\"");
}

static void
add_hop_owner(struct buf *out, const struct core_hop *hop)
{
    if (hop->owner_name.n > 0) {
        buf_adds(out, "owner ");
        add_quoted(out, hop->owner_name);
    } else {
        buf_printf(out, "session %" PRIu64, hop->owner);
    }
    if (hop->daemon.n > 0) {
        buf_adds(out, " of daemon ");
        name_print(hop->daemon, out);
    }
}

/* A waits for "x", held by B, which waits for "y", held by A. */
static void
add_cycle(struct buf *out, const struct core_hop *hop, size_t n)
{
    size_t i;

    add_hop_owner(out, &hop[0]);
    buf_adds(out, " waits for ");
    add_quoted(out, hop[0].name);
    for (i = 1; i < n && i < HOPS_SHOWN; i++) {
        buf_adds(out, ", held by ");
        add_hop_owner(out, &hop[i]);
        buf_adds(out, ", which waits for ");
        add_quoted(out, hop[i].name);
    }
    if (i < n) {
        buf_printf(out, ", and so on over %zu more owners", n - i);
    }
    buf_adds(out, ", held by ");
    add_hop_owner(out, &hop[0]);
}

static void
add_self(struct buf *out, const struct core_reply *r)
{
    if (r->hops == 1) {
        add_hop_owner(out, &r->hop[0]);
    } else {
        buf_printf(out, "%s %" PRIu64, r->owner == r->session ? "session" : "owner", r->owner);
    }
    buf_adds(out, " already holds ");
    add_quoted(out, r->name);
    buf_adds(out, " and would wait for itself");
}

/* One line, whatever the names: each is escaped and cut, and so is the cycle. */
static void
write_deadlock(struct writer *out, const struct core_reply *r)
{
    struct buf text;

    buf_init(&text, 0);
    if (r->hops > 1) {
        add_cycle(&text, r->hop, r->hops);
    } else {
        add_self(&text, r);
    }
    writer_error(out, ERR_DEADLOCK, "%.*s", (int)text.n, text.p == NULL ? "" : text.p);
    buf_fini(&text);
}

/* Both names: one of them, or the rules, have to change. */
static void
write_key_in_use(struct writer *out, const struct core_reply *r)
{
    struct buf text;

    buf_init(&text, 0);
    add_quoted(&text, r->name);
    buf_adds(&text, " has a key in Redis that is in use by another name, ");
    add_quoted(&text, r->other);
    writer_error(out, ERR_WRONG_KIND, "%.*s", (int)text.n, text.p == NULL ? "" : text.p);
    buf_fini(&text);
}

/* ---- the core's reply as bytes ---- */

/* Why Redis is away, as INFO redis has it; nothing while it is there. */
static void
add_reason(const struct engine *e, struct buf *text)
{
    struct backend_status st;

    if (e->backend == NULL || e->redis_up) {
        return;
    }
    backend_status(e->backend, &st);
    if (st.last_error[0] != '\0') {
        buf_printf(text, ": %s: %s", st.address, st.last_error);
    }
}

/* `named`: of several names, this is the one it is about. */
static void
write_refusal(const struct engine *e, struct writer *out, const struct core_reply *r, bool named)
{
    enum error_code code = core_errors[r->answer].code;
    const char *text = core_errors[r->answer].text;
    struct buf name;

    if (r->answer == CORE_DEADLOCK) {
        write_deadlock(out, r);
        return;
    }
    if (r->answer == CORE_KEY_IN_USE) {
        write_key_in_use(out, r);
        return;
    }
    buf_init(&name, 0);
    if (r->answer == CORE_UNAVAILABLE) {
        add_reason(e, &name);
    }
    if (named || r->answer == CORE_FORBIDDEN) {
        buf_adds(&name, ": ");
        add_quoted(&name, r->name);
    }
    writer_error(out, code, "%s%.*s", text != NULL ? text : error_rows[code].text, (int)name.n,
                 name.p == NULL ? "" : name.p);
    buf_fini(&name);
}

/* Where an answer is written, and what it relies on is noted. */
struct answer {
    const struct engine *engine;
    struct outbox *box;
    struct outbox_claim claim;
    struct writer *out;
};

/* Granted, or there are holds left; of a RENEW, ms. */
static void
write_held(const struct answer *a, const struct core_reply *r, bool full)
{
    struct fields_spot ms = {0, 0};
    int64_t told_ms = r->left;
    size_t before = a->out->out->n;

    if (full && r->answer == CORE_GRANTED) {
        write_full(a->engine, a->out, r, &ms);
        told_ms = r->lease_us / US_PER_MS;
    } else {
        writer_int(a->out, r->answer == CORE_GRANTED ? (int64_t)r->token : r->left);
    }
    if (r->answer == CORE_LEFT && r->ms && !a->out->out->failed) {
        ms = (struct fields_spot){before + 1, a->out->out->n - 2};
    }
    outbox_rely(a->box, &r->relies, a->engine->metrics.lost);
    if (r->relies.claim != 0 && ms.to > ms.from) {
        outbox_tells_ms(a->box, a->claim, ms.from, ms.to, told_ms);
    }
}

/* One name's. */
static void
write_answer(const struct answer *a, const struct core_reply *r, bool full, bool named)
{
    switch (r->answer) {
    case CORE_GRANTED:
    case CORE_LEFT:
        write_held(a, r, full);
        break;
    case CORE_NOT_GRANTED:
    case CORE_CANCELLED:
        writer_null(a->out);
        break;
    default:
        write_refusal(a->engine, a->out, r, named);
    }
}

/* One for each name, or the refusal of the first that was refused. */
static void
write_parts(const struct answer *a, const struct core_reply *r)
{
    size_t i;

    for (i = 0; i < r->parts; i++) {
        if (core_errors[r->part[i].answer].error) {
            write_refusal(a->engine, a->out, &r->part[i], true);
            return;
        }
    }
    writer_array(a->out, r->parts);
    for (i = 0; i < r->parts; i++) {
        write_answer(a, &r->part[i], r->full, true);
    }
}

void
command_write_reply(struct engine *e, struct outbox *box, struct writer *out, const struct core_reply *r)
{
    struct answer a = {.engine = e, .box = box, .claim = outbox_begin(box), .out = out};

    if (r->parts > 0 && (r->answer == CORE_GRANTED || r->answer == CORE_LEFT)) {
        write_parts(&a, r);
    } else {
        write_answer(&a, r, r->full, r->parts > 0);
    }
}

/* ---- requests about locks ---- */

/* Too long for a new name, but it is in use: see limits.name_bytes. */
static bool
read_long_names(const struct cmd *c, struct lock_options *o)
{
    char error[OPTIONS_ERROR_BYTES];

    return options_parse(c->id, c->words, CONF_NAME_BYTES_MAX, o, error) &&
           command_names_allowed(c, o->name, o->names);
}

/* False: the sentence about what is wrong is written. */
static bool
read_options(struct cmd *c, struct lock_options *o)
{
    char error[OPTIONS_ERROR_BYTES];

    if (options_parse(c->id, c->words, (size_t)c->session->engine->conf->limit_name_bytes, o, error) ||
        read_long_names(c, o)) {
        return true;
    }
    writer_error(c->out, ERR_SYNTAX, "%s", error);
    return false;
}

struct core_request
command_request(const struct cmd *c, struct slice name)
{
    return (struct core_request){.session = c->session->id, .id = c->slot, .name = name};
}

/* The kinds that have the flag, for an error. */
static void
add_kinds(struct buf *out, unsigned flag)
{
    const char *between = "";
    int k;

    for (k = 0; k < KINDS; k++) {
        if ((kind_rows[k].flags & flag) != 0) {
            buf_printf(out, "%s%s", between, kind_rows[k].name);
            between = " or ";
        }
    }
}

/* The rule says another kind than the name is in use as, and the options are for that one. */
static bool
is_kind_in_use(const struct cmd *c, const struct lock_options *o, struct core_request *rq, unsigned flag)
{
    enum kind kind;

    if (o->has_kind || !core_knows(c->session->engine->core, rq->name, &kind) ||
        (kind_rows[kind].flags & flag) == 0) {
        return false;
    }
    rq->spec.kind = kind;
    return true;
}

/* An option that the kind knows nothing of is refused: a rule may have said the kind, so the client may not know it. */
static bool
check_kind(struct cmd *c, const struct lock_options *o, struct core_request *rq)
{
    const struct {
        const char *word;
        bool given;
        unsigned flag;
    } needs[] = {{"SHARED", o->shared, KIND_F_SHARED}, {"LIMIT", o->limit > 0, KIND_F_PERMITS}};
    const struct kind_row *kind = &kind_rows[rq->spec.kind];
    char usage[COMMAND_USAGE_BYTES];
    struct buf text;
    size_t i;

    for (i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
        if (needs[i].given && (kind->flags & needs[i].flag) == 0 && !is_kind_in_use(c, o, rq, needs[i].flag)) {
            buf_init(&text, 0);
            buf_printf(&text, "%s is for kind ", needs[i].word);
            add_kinds(&text, needs[i].flag);
            buf_adds(&text, ", and ");
            add_quoted(&text, rq->name);
            command_print_usage(c->id, usage);
            buf_printf(&text, " is of kind %s; usage: %s", kind->name, usage);
            writer_error(c->out, ERR_SYNTAX, "%.*s", (int)text.n, text.p == NULL ? "" : text.p);
            buf_fini(&text);
            return false;
        }
    }
    return true;
}

bool
command_check_key(struct cmd *c, const struct core_request *rq)
{
    char usage[COMMAND_USAGE_BYTES];
    const char *taken = conf_key_taken(rq->spec.key);
    struct buf name;
    enum kind kind;

    if (taken == NULL || core_knows(c->session->engine->core, rq->name, &kind)) {
        return true;
    }
    buf_init(&name, 0);
    add_quoted(&name, rq->name);
    command_print_usage(c->id, usage);
    writer_error(c->out, ERR_SYNTAX, "the key of %.*s in Redis %s; usage: %s", (int)name.n,
                 name.p == NULL ? "" : name.p, taken, usage);
    buf_fini(&name);
    return false;
}

/* What LOCK or MLOCK says about one of its names, over what the rules say. False: the refusal is written. */
static bool
apply_options(struct cmd *c, const struct lock_options *o, struct core_request *rq)
{
    if (o->has_kind) {
        rq->spec.declared = o->kind == rq->spec.kind;
        rq->spec.kind = o->kind;
    }
    if (o->limit > 0) {
        rq->spec.limit = o->limit;
    }
    rq->owner = o->owner;
    rq->wait_us = o->has_wait ? o->wait_us : conf_locks_for(c->session->engine->conf, rq->name)->wait_us;
    rq->lease_us = o->has_lease ? o->lease_us : 0;
    rq->owner_grace_us = o->grace_us;
    rq->shared = o->shared;
    rq->once = o->once;
    rq->full = o->full;
    return check_kind(c, o, rq);
}

/* The requests of LOCK or MLOCK, one for each name. False: the refusal is written. */
static bool
read_locks(struct cmd *c, struct lock_options *o, struct core_request *rq)
{
    unsigned i;

    if (!read_options(c, o)) {
        return false;
    }
    for (i = 0; i < o->names; i++) {
        rq[i] = command_request(c, o->name[i]);
    }
    if (!engine_specs(c->session->engine, rq, o->names)) {
        writer_error(c->out, ERR_LIMIT, "%s", core_errors[CORE_NO_MEMORY].text);
        return false;
    }
    for (i = 0; i < o->names; i++) {
        if (!command_check_key(c, &rq[i]) || !apply_options(c, o, &rq[i])) {
            return false;
        }
    }
    return true;
}

enum cmd_result
cmd_lock(struct cmd *c)
{
    struct core_event ev; /* of its union there is what the type says */
    struct lock_options o;

    ev.type = CORE_LOCK;
    if (!read_locks(c, &o, &ev.request)) {
        return CMD_DONE;
    }
    engine_step(c->session->engine, &ev);
    return CMD_LATER;
}

_Static_assert(CORE_MANY_MAX >= READER_WORDS_MAX, "the core takes as many names as a request can say");

enum cmd_result
cmd_mlock(struct cmd *c)
{
    struct core_request many[CORE_MANY_MAX];
    struct core_event ev = {.type = CORE_MLOCK};
    struct lock_options o;

    if (!read_locks(c, &o, many)) {
        return CMD_DONE;
    }
    ev.many.request = many;
    ev.many.n = o.names;
    engine_step(c->session->engine, &ev);
    return CMD_LATER;
}

/* UNLOCK, RENEW and their like: about what is held, so the core knows the rest. */
static struct core_request
held_request(const struct cmd *c, const struct lock_options *o, struct slice name)
{
    struct core_request rq = command_request(c, name);

    rq.owner = o->owner;
    rq.token = o->token;
    rq.lease_us = o->lease_us;
    rq.shared = o->shared;
    return rq;
}

static enum cmd_result
step_held(struct cmd *c, enum core_event_type type)
{
    struct core_event ev; /* of its union there is what the type says */
    struct lock_options o;

    if (!read_options(c, &o)) {
        return CMD_DONE;
    }
    ev.type = type;
    ev.request = held_request(c, &o, o.name[0]);
    engine_step(c->session->engine, &ev);
    return CMD_LATER;
}

enum cmd_result
cmd_unlock(struct cmd *c)
{
    return step_held(c, CORE_UNLOCK);
}

enum cmd_result
cmd_renew(struct cmd *c)
{
    return step_held(c, CORE_RENEW);
}

enum cmd_result
cmd_cancel(struct cmd *c)
{
    return step_held(c, CORE_CANCEL);
}

enum cmd_result
cmd_munlock(struct cmd *c)
{
    struct core_request many[CORE_MANY_MAX];
    struct core_event ev = {.type = CORE_MUNLOCK};
    struct lock_options o;
    unsigned i;

    if (!read_options(c, &o)) {
        return CMD_DONE;
    }
    for (i = 0; i < o.names; i++) {
        many[i] = held_request(c, &o, o.name[i]);
    }
    ev.many.request = many;
    ev.many.n = o.names;
    engine_step(c->session->engine, &ev);
    return CMD_LATER;
}

enum cmd_result
cmd_break(struct cmd *c)
{
    struct engine *e = c->session->engine;
    struct slice name = c->words->word[1];
    struct core_event ev = {.type = CORE_BREAK, .request = command_request(c, name)};

    if (!command_check_name(c)) {
        return CMD_DONE;
    }
    if (!engine_specs(e, &ev.request, 1)) { /* half of a key could be somebody's */
        writer_error(c->out, ERR_LIMIT, "%s", core_errors[CORE_NO_MEMORY].text);
        return CMD_DONE;
    }
    if (!command_check_key(c, &ev.request)) {
        return CMD_DONE;
    }
    engine_step(e, &ev);
    return CMD_LATER;
}
