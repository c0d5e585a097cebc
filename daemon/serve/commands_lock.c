/*
 * commands_lock.c -- LOCK, UNLOCK, RENEW, and what an admin does to locks and sessions.
 *
 * Owns the way from words to a core request and from a core reply to bytes.
 * Decides nothing about locks: every answer but a syntax error is the core's.
 * Invariant: a handler that stepped the core returns CMD_LATER and has written
 * nothing; the core's one reply reaches the slot by session_answer().
 *
 * This is the hot path: the Redis key is built in engine.key, nothing else is allocated.
 */
#include "daemon/serve/commands_private.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/clock.h"
#include "daemon/base/units.h"
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
    [CORE_DEADLOCK] = {true, ERR_DEADLOCK, NULL},
    [CORE_TOO_MANY_WAITERS] = {true, ERR_LIMIT, "too many waiters"},
    [CORE_TOO_MANY_LOCKS] = {true, ERR_LIMIT, "this owner holds or wants too many locks"},
    [CORE_DRAINING] = {true, ERR_DRAINING, NULL},
    [CORE_UNAVAILABLE] = {true, ERR_UNAVAILABLE, NULL},
    [CORE_REDIS_FULL] = {true, ERR_UNAVAILABLE, "Redis is out of memory"},
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

static void
write_full(const struct engine *e, struct writer *out, const struct core_reply *r)
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
    fields_ms(&f, "waited_ms", r->waited_us);
    fields_write_map(&f, out);
}

static void
write_deadlock(struct writer *out, const struct core_reply *r)
{
    struct buf name;

    buf_init(&name, 0);
    name_print(r->name, &name);
    writer_error(out, ERR_DEADLOCK, "%s %" PRIu64 " already holds \"%.*s\" and would wait for itself",
                 r->owner == r->session ? "session" : "owner", r->owner, (int)name.n, name.p == NULL ? "" : name.p);
    buf_fini(&name);
}

void
command_write_reply(struct engine *e, struct writer *out, const struct core_reply *r)
{
    switch (r->answer) {
    case CORE_GRANTED:
        if (r->full) {
            write_full(e, out, r);
        } else {
            writer_int(out, (int64_t)r->token);
        }
        break;
    case CORE_NOT_GRANTED:
        writer_null(out);
        break;
    case CORE_LEFT:
        writer_int(out, r->left);
        break;
    case CORE_DEADLOCK:
        write_deadlock(out, r);
        break;
    default:
        if (core_errors[r->answer].text != NULL) {
            writer_error(out, core_errors[r->answer].code, "%s", core_errors[r->answer].text);
        } else {
            writer_error_plain(out, core_errors[r->answer].code);
        }
    }
}

/* ---- requests about locks ---- */

/* False: the sentence about what is wrong is written. */
static bool
read_options(struct cmd *c, struct lock_options *o)
{
    char error[256];

    if (options_parse(c->id, c->words, (size_t)c->session->engine->conf->limit_name_bytes, o, error)) {
        return true;
    }
    writer_error(c->out, ERR_SYNTAX, "%s", error);
    return false;
}

/* What every request of this slot says. */
static struct core_event
event_of(const struct cmd *c, enum core_event_type type, struct slice name)
{
    return (struct core_event){
        .type = type,
        .request = {.session = c->session->id, .id = c->slot, .name = name},
    };
}

enum cmd_result
cmd_lock(struct cmd *c)
{
    struct engine *e = c->session->engine;
    struct lock_options o;
    struct core_event ev;

    if (!read_options(c, &o)) {
        return CMD_DONE;
    }
    ev = event_of(c, CORE_LOCK, o.name);
    engine_spec(e, o.name, &ev.request.spec, &e->key);
    if (o.has_kind) {
        ev.request.spec.kind = o.kind;
    }
    ev.request.owner = o.owner;
    ev.request.wait_us = o.has_wait ? o.wait_us : conf_locks_for(e->conf, o.name)->wait_us;
    ev.request.lease_us = o.has_lease ? o.lease_us : 0;
    ev.request.once = o.once;
    ev.request.full = o.full;
    engine_step(e, &ev);
    return CMD_LATER;
}

/* UNLOCK and RENEW: about what is held, so the core knows the rest. */
static enum cmd_result
step_held(struct cmd *c, enum core_event_type type)
{
    struct lock_options o;
    struct core_event ev;

    if (!read_options(c, &o)) {
        return CMD_DONE;
    }
    ev = event_of(c, type, o.name);
    ev.request.owner = o.owner;
    ev.request.token = o.token;
    ev.request.lease_us = o.lease_us;
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

/* ---- what an admin may ---- */

enum cmd_result
cmd_break(struct cmd *c)
{
    struct engine *e = c->session->engine;
    struct slice name = c->words->word[1];
    struct core_event ev = event_of(c, CORE_BREAK, name);

    if (!command_check_name(c)) {
        return CMD_DONE;
    }
    engine_spec(e, name, &ev.request.spec, &e->key);
    engine_step(e, &ev);
    return CMD_LATER;
}

void
command_kill(struct session *victim, struct session *by)
{
    if (victim == by) {
        session_quit(victim);
    } else {
        session_close(victim, CLOSE_KILLED);
    }
}

enum cmd_result
cmd_kill(struct cmd *c)
{
    struct session *victim = NULL;
    int64_t id;

    if (number_parse(c->words->word[1], &id)) {
        victim = session_find(c->session->engine, (uint64_t)id);
    }
    if (victim == NULL) {
        writer_error(c->out, ERR_SYNTAX, "no such session");
        return CMD_DONE;
    }
    writer_simple(c->out, "OK");
    command_kill(victim, c->session);
    return CMD_DONE;
}

enum cmd_result
cmd_drain(struct cmd *c)
{
    writer_simple(c->out, "OK");
    engine_drain(c->session->engine);
    return CMD_DONE;
}

#ifdef RLOCKD_TEST_CLOCK
enum cmd_result
cmd_debug(struct cmd *c)
{
    struct core_event ev = {.type = CORE_TIME};
    int64_t us;

    if (!slice_is(c->words->word[1], "ADVANCE") || !duration_parse(c->words->word[2], &us)) {
        writer_error(c->out, ERR_SYNTAX, "usage: DEBUG ADVANCE duration");
        return CMD_DONE;
    }
    clock_advance_us(us);
    engine_step(c->session->engine, &ev);
    writer_simple(c->out, "OK");
    return CMD_DONE;
}
#endif
