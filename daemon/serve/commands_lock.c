/*
 * commands_lock.c -- LOCK, UNLOCK, RENEW, CANCEL, MLOCK, MUNLOCK, BREAK.
 *
 * Owns the way from words to a core request; the way from a core reply to bytes is commands_reply.c's. Decides nothing
 * about locks: every answer but an -ERR is the core's. Invariant: a handler that stepped the core returns
 * CMD_LATER and has written nothing; the core's one reply reaches the slot by slots_begin_reply().
 *
 * This is the hot path: keys are built in engine.key, whose memory stays, and nothing is allocated for a request.
 */
#include "daemon/serve/cmd.h"
#include "daemon/serve/commands.h"
#include "daemon/serve/commands_check.h"
#include "daemon/serve/fields.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/step.h"
#include "proto/options.h"

/* Accepts names longer than limits.name_bytes that are in use: a reload may have lowered the limit. */
static bool
read_long_names(const struct cmd *c, struct lock_options *o)
{
    char error[OPTIONS_ERROR_BYTES];

    return options_parse(c->id, c->words, CONF_NAME_BYTES_MAX, o, error) &&
           command_names_allowed(c, o->name, o->names);
}

/* False: the error is written. */
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

/*
 * True: the name is in use with a kind that takes the option, though its rule has another kind now. The request gets
 * the kind in use.
 */
static bool
is_kind_in_use(const struct cmd *c, const struct lock_options *o, struct core_request *rq, unsigned flag)
{
    enum kind kind;

    if (o->has_kind || !core_name_in_use(c->session->engine->core, rq->name, &kind) ||
        (kind_rows[kind].flags & flag) == 0) {
        return false;
    }
    rq->spec.kind = kind;
    return true;
}

/* Refuses options that the kind does not have. The error names the kind: a client may not know which a rule chose. */
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
            fields_quote_name(rq->name, &text);
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
    const char *refusal = conf_key_refusal(rq->spec.key);
    struct buf name;
    enum kind kind;
    char why[160];

    if (refusal == NULL && !backend_can_lock(c->session->engine->backend, rq->spec.kind, rq->spec.key, why)) {
        refusal = why;
    }
    if (refusal == NULL || core_name_in_use(c->session->engine->core, rq->name, &kind)) {
        return true;
    }
    buf_init(&name, 0);
    fields_quote_name(rq->name, &name);
    command_print_usage(c->id, usage);
    writer_error(c->out, ERR_SYNTAX, "the key of %.*s in Redis %s; usage: %s", (int)name.n,
                 name.p == NULL ? "" : name.p, refusal, usage);
    buf_fini(&name);
    return false;
}

/* Applies the options of LOCK or MLOCK to one of its names; they override the rules. False: the refusal is written. */
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
    engine_specs(c->session->engine, rq, o->names);
    for (i = 0; i < o->names; i++) {
        if (!apply_options(c, o, &rq[i]) || !command_check_key(c, &rq[i])) {
            return false;
        }
    }
    return true;
}

enum cmd_result
cmd_lock(struct cmd *c)
{
    struct core_event ev; /* only the member of the union that `type` names is set */
    struct lock_options o;

    ev.type = CORE_LOCK;
    if (!read_locks(c, &o, &ev.request)) {
        return CMD_DONE;
    }
    engine_step(c->session->engine, &ev);
    return CMD_LATER;
}

_Static_assert(CORE_MULTILOCK_MAX >= READER_WORDS_MAX, "the core takes as many names as a request can say");

enum cmd_result
cmd_mlock(struct cmd *c)
{
    struct core_request many[CORE_MULTILOCK_MAX];
    struct core_event ev = {.type = CORE_MLOCK};
    struct lock_options o;

    if (!read_locks(c, &o, many)) {
        return CMD_DONE;
    }
    ev.multilock.request = many;
    ev.multilock.n = o.names;
    engine_step(c->session->engine, &ev);
    return CMD_LATER;
}

/* The request of UNLOCK, RENEW and others about a held lock; the core knows the lock's settings. */
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
    struct core_event ev; /* only the member of the union that `type` names is set */
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
    struct core_request many[CORE_MULTILOCK_MAX];
    struct core_event ev = {.type = CORE_MUNLOCK};
    struct lock_options o;
    unsigned i;

    if (!read_options(c, &o)) {
        return CMD_DONE;
    }
    for (i = 0; i < o.names; i++) {
        many[i] = held_request(c, &o, o.name[i]);
    }
    ev.multilock.request = many;
    ev.multilock.n = o.names;
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
    engine_specs(e, &ev.request, 1);
    if (!command_check_key(c, &ev.request)) {
        return CMD_DONE;
    }
    engine_step(e, &ev);
    return CMD_LATER;
}
