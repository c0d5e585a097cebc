/*
 * lockinfo.c -- LOCKINFO: one name, as the daemon and as Redis have it.
 *
 * Owns the questions to Redis that LOCKINFO and GET wait for. Changes nothing.
 * LK1 A question is in engine.questions until its one answer has come or the engine ends; its session is found by id.
 */
#include "daemon/serve/lockinfo.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "daemon/serve/cmd.h"
#include "daemon/serve/commands.h"
#include "daemon/serve/commands_check.h"
#include "daemon/serve/fields.h"
#include "daemon/serve/replies.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"
#include "daemon/serve/show.h"
#include "daemon/serve/step.h"

struct question {
    struct map_node by_id; /* engine.questions */
    uint64_t session, slot;
    lockinfo_fn *write;
    size_t name_n;
    char name[];
};

static struct question *
add_question(struct cmd *c, struct slice name, lockinfo_fn *write)
{
    struct engine *e = c->session->engine;
    struct question *q = mem_alloc(sizeof(*q) + name.n);

    map_add(&e->questions, &q->by_id, ++e->questions_last);
    q->session = c->session->id;
    q->slot = c->slot;
    q->write = write;
    q->name_n = name.n;
    memcpy(q->name, name.p, name.n);
    return q;
}

static void
drop_question(struct engine *e, struct question *q)
{
    map_remove(&e->questions, &q->by_id);
    free(q);
}

void
lockinfo_drop_all(struct engine *e)
{
    struct map_node *n, *next;

    map_for_each_safe(n, next, &e->questions)
    {
        drop_question(e, container_of(n, struct question, by_id));
    }
    map_fini(&e->questions);
}

/* True: this daemon has waiters for the name, or a state of it other than idle. */
static bool
known_here(const struct engine *e, int64_t now_us, struct slice name, struct core_lock_view *v)
{
    return core_lock_info(e->core, now_us, name, v) && (v->waiters > 0 || strcmp(v->state, "idle") != 0);
}

enum cmd_result
lockinfo_ask(struct cmd *c, struct slice name, lockinfo_fn *write)
{
    struct engine *e = c->session->engine;
    struct core_lock_view v;
    struct core_spec spec;
    struct slice key;
    struct question *q = add_question(c, name, write);

    if (core_lock_info(e->core, clock_now_us(), name, &v)) {
        key = v.key; /* by the rules under which it was locked */
    } else {
        engine_spec(e, name, &spec);
        key = spec.key;
    }
    backend_inspect(e->backend, q->by_id.number, key);
    return CMD_LATER;
}

/* True: in this state the key in Redis is that of an owner here; or may be, while Redis is being asked. */
static bool
is_own_state(const char *state)
{
    static const char *const own[] = {"held", "freeing", "lingering", "trying"};

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (strcmp(state, own[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Does the key in Redis belong to an owner that is not one of this daemon? */
static bool
is_foreign(const struct engine *e, const struct core_lock_view *v, const struct inspected_key *found)
{
    size_t n = strlen(e->uuid);

    if (!found->ok) {
        return strcmp(v->state, "taken") == 0;
    }
    if (!found->exists) {
        return false;
    }
    if (strcmp(found->type, "hash") == 0) {
        return strncmp(found->owner, e->uuid, n) != 0 || found->owner[n] != ':';
    }
    return !is_own_state(v->state); /* the value of other kinds does not name the owner */
}

static void
add_found(const struct engine *e, const struct core_lock_view *v, const struct inspected_key *found, struct fields *f)
{
    bool has = found->ok && found->exists;

    if (has) {
        fields_text(f, "redis_type", slice_of(found->type));
    } else {
        fields_none(f, "redis_type");
    }
    if (has && (found->owner[0] != '\0' || strcmp(found->type, "string") == 0)) {
        fields_text(f, "redis_owner", slice_of(found->owner[0] != '\0' ? found->owner : found->digest));
    } else {
        fields_none(f, "redis_owner");
    }
    if (has && found->owner[0] != '\0') {
        fields_number(f, "redis_holds", found->holds);
    } else {
        fields_none(f, "redis_holds");
    }
    if (has) {
        fields_number(f, "redis_pttl_ms", found->pttl_ms);
    } else {
        fields_none(f, "redis_pttl_ms");
    }
    fields_number(f, "foreign", is_foreign(e, v, found));
}

static void
write_lockinfo(struct engine *e, struct slice name, const struct inspected_key *found, struct outbox *box,
               struct writer *w)
{
    int64_t now_us = clock_now_us();
    struct fields_range state = {0, 0};
    struct core_lock_view v;
    struct core_spec spec;
    struct show_text text;
    struct fields f = {.n = 0};

    if (!known_here(e, now_us, name, &v)) {
        if (found->ok && !found->exists) {
            writer_null(w);
            return;
        }
        engine_spec(e, name, &spec);
        v = (struct core_lock_view){.name = name, .key = spec.key, .kind = spec.kind};
        v.state = found->ok ? "taken" : "idle";
    }
    show_lock(e, &v, now_us, &text, &f, &state);
    add_found(e, &v, found, &f);
    fields_write_map(&f, w);
    show_mark_held(e, box, &v, state);
}

enum cmd_result
cmd_lockinfo(struct cmd *c)
{
    return command_check_name(c) ? lockinfo_ask(c, c->words->word[1], write_lockinfo) : CMD_DONE;
}

void
lockinfo_inspected(struct engine *e, uint64_t id, const struct inspected_key *found)
{
    struct map_node *n = map_find(&e->questions, id);
    struct question *q;
    struct session *s;
    struct outbox reply;
    struct writer w;

    assert(n != NULL); /* LK1: exactly one answer */
    q = container_of(n, struct question, by_id);
    s = session_find(e, q->session);
    if (s != NULL) {
        outbox_init(&reply);
        w = (struct writer){.out = &reply.bytes, .proto = s->proto};
        q->write(e, (struct slice){q->name, q->name_n}, found, &reply, &w);
        slots_put_reply(e, q->session, q->slot, &reply, NULL);
        outbox_fini(&reply);
    }
    drop_question(e, q);
}
