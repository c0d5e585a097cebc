/*
 * show.c -- the state for programs: the fields of a lock, a waiter, a holder, a session.
 *
 * LOCKS, WAITERS, SESSIONS (commands_list.c), LOCKINFO and INFO's tables are made of these. An unknown value is null.
 * Of a lock that no owner here holds, `holds` is 0.
 */
#include "daemon/serve/show.h"

#include <stdio.h>

#include "daemon/core/core.h"
#include "daemon/core/view.h"
#include "daemon/serve/commands_reply.h"
#include "daemon/serve/engine_record.h"
#include "daemon/serve/fields.h"
#include "daemon/serve/outbox.h"
#include "daemon/serve/pubsub.h"
#include "daemon/serve/session_record.h"

/* The id that the client chose, or the session's own owner as Redis has it. */
static void
add_owner(const struct engine *e, const struct core_owner_view *v, struct show_text *text, struct fields *f)
{
    if (v->redis_owner == 0) {
        fields_none(f, "owner");
    } else if (v->name.n > 0) {
        fields_text(f, "owner", v->name);
    } else {
        command_print_owner(e, v->redis_owner, text->owner);
        fields_text(f, "owner", slice_of(text->owner));
        fields_brief(f, "(session)"); /* its number is in the column beside */
    }
}

/* 0 = there is none. */
static void
add_id(struct fields *f, const char *key, uint64_t id)
{
    if (id == 0) {
        fields_none(f, key);
    } else {
        fields_number(f, key, (int64_t)id);
    }
}

static int64_t
left_us(int64_t deadline_us, int64_t now_us)
{
    return deadline_us > now_us ? deadline_us - now_us : 0;
}

static void
add_mode(struct fields *f, bool known, bool shared)
{
    if (known) {
        fields_text(f, "mode", shared ? SLICE_LIT("shared") : SLICE_LIT("exclusive"));
    } else {
        fields_none(f, "mode");
    }
}

/* 0 or less, or CORE_FOREVER = not known. */
static void
add_lease(struct fields *f, int64_t deadline_us, int64_t now_us)
{
    if (deadline_us <= 0 || deadline_us == CORE_FOREVER) {
        fields_none(f, "lease_ms");
    } else {
        fields_ms(f, "lease_ms", left_us(deadline_us, now_us));
    }
}

void
show_lock(const struct engine *e, const struct core_lock_view *v, int64_t now_us, struct show_text *text,
          struct fields *f, struct fields_range *state)
{
    bool permits = (kind_rows[v->kind].flags & KIND_F_PERMITS) != 0;

    fields_text(f, "name", v->name);
    fields_text(f, "kind", slice_of(kind_rows[v->kind].name));
    fields_text(f, "state", slice_of(v->state));
    fields_note_range(f, state);
    add_mode(f, v->holders > 0 && !permits, v->shared);
    fields_number(f, "holders", v->holders);
    if (permits && v->limit > 0) {
        fields_number(f, "limit", v->limit);
    } else {
        fields_none(f, "limit");
    }
    add_owner(e, &v->owner, text, f);
    add_id(f, "session", v->owner.redis_owner == 0 ? 0 : v->owner.session);
    add_id(f, "token", v->token);
    fields_number(f, "holds", v->holds);
    add_lease(f, v->deadline_us, now_us);
    if (v->holders > 0) {
        fields_ms(f, "held_ms", v->held_us);
    } else {
        fields_none(f, "held_ms");
    }
    fields_number(f, "waiters", v->waiters);
    fields_ms(f, "oldest_wait_ms", v->oldest_wait_us);
    fields_text(f, "key", v->key);
    fields_map_only(f);
}

void
show_mark_held(const struct engine *e, struct outbox *box, const struct core_lock_view *v, struct fields_range state)
{
    struct core_grant g = {.claim = v->claim, .token = v->token, .deadline_us = v->deadline_us};

    if (state.to > state.from) {
        outbox_mark_held(box, &g, state.from, e->metrics.lost);
    }
}

void
show_holder(const struct engine *e, const struct core_holder_view *v, int64_t now_us, struct show_text *text,
            struct fields *f)
{
    add_owner(e, &v->owner, text, f);
    add_id(f, "session", v->owner.session);
    add_mode(f, true, v->shared);
    add_id(f, "token", v->token);
    fields_number(f, "holds", v->holds);
    add_lease(f, v->deadline_us, now_us);
    fields_ms(f, "held_ms", v->held_us);
}

void
show_waiter(const struct engine *e, const struct core_waiter_view *v, int64_t now_us, struct show_text *text,
            struct fields *f)
{
    fields_text(f, "name", v->name);
    add_owner(e, &v->owner, text, f);
    add_id(f, "session", v->owner.session);
    fields_number(f, "position", v->position);
    fields_ms(f, "waited_ms", v->waited_us);
    fields_ms(f, "deadline_ms", v->due_us == CORE_FOREVER ? -1 : left_us(v->due_us, now_us));
    fields_number(f, "shared", v->shared);
    fields_number(f, "kept", v->kept);
}

static void
add_text_or_none(struct fields *f, const char *key, const char *text)
{
    if (text == NULL || text[0] == '\0') {
        fields_none(f, key);
    } else {
        fields_text(f, key, slice_of(text));
    }
}

static void
add_peer_ids(const struct session *s, struct fields *f)
{
    const struct {
        const char *key;
        int64_t id;
        bool known;
    } ids[] = {
        {"pid", s->pid, s->is_unix && s->pid != 0},
        {"uid", s->uid, s->is_unix && s->uid != (uid_t)-1},
        {"gid", s->gid, s->is_unix && s->gid != (gid_t)-1},
    };
    size_t i;

    for (i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        if (ids[i].known) {
            fields_number(f, ids[i].key, ids[i].id);
        } else {
            fields_none(f, ids[i].key);
        }
        fields_map_only(f); /* the text of the peer has it */
    }
}

void
show_session(const struct session *s, int64_t now_us, struct show_text *text, struct fields *f)
{
    struct core_session_counts counts = core_session_count(s->engine->core, s->id);

    fields_number(f, "id", (int64_t)s->id);
    fields_text(f, "peer", slice_of(s->peer));
    add_peer_ids(s, f);
    fields_text(f, "addr", slice_of(s->addr));
    fields_map_only(f);
    add_text_or_none(f, "name", s->name);
    snprintf(text->lib, sizeof(text->lib), "%s%s%s", s->lib_name != NULL ? s->lib_name : "",
             s->lib_ver != NULL ? "/" : "", s->lib_ver != NULL ? s->lib_ver : "");
    add_text_or_none(f, "lib", text->lib);
    fields_ms(f, "age_ms", now_us - s->opened_us);
    fields_ms(f, "idle_ms", now_us - s->active_us);
    fields_number(f, "requests", (int64_t)s->requests_n);
    fields_number(f, "held", counts.held);
    fields_number(f, "waiting", counts.waiting);
    fields_number(f, "subscriptions", pubsub_count(s));
    fields_number(f, "proto", s->proto);
    fields_text(f, "role", slice_of(s->admin ? "admin" : s->authed ? "client" : "none"));
    add_text_or_none(f, "last_command", s->last_command);
}
