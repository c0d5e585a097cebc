/*
 * slots.c -- the reply slots of a session: one for each request, so that replies leave in order. Owns session.slot.
 *
 * Does not touch the socket, and runs nothing: that is requests.c. A slot is opened for every request before it runs,
 * so an immediate reply of the core has its slot; the reply of the oldest slot goes straight to the output, any other
 * reply waits in its slot. Requests are numbered as they come, so slots are a ring in which a number is found at once.
 * Without pipelining the ring is the one slot in the session itself.
 * SL1 Once a function here returns, the oldest slot is WAITING or DEFERRED: replies of READY slots at the head were
 *     moved to the output.
 * SL2 Once the session is closed, nothing here writes any more.
 */
#include "daemon/serve/slots.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/memory.h"
#include "daemon/serve/long_replies.h"
#include "daemon/serve/replies.h"
#include "daemon/serve/session_out.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"
#include "daemon/serve/step.h"

#define RING 16 /* slots of the smallest ring that is not `first`; rings of that size come from the pool */

/* ---- the ring ---- */

void
slots_init(struct session *s)
{
    s->slot = &s->first;
    s->slots_room = 1;
}

static void
drop_ring(struct session *s)
{
    if (s->slots_room == RING) {
        pool_take_back_ring(&s->engine->pool, s->slot);
    } else if (s->slots_room > RING) {
        free(s->slot);
    }
    slots_init(s);
}

/* Slots move. */
static void
widen(struct session *s)
{
    uint32_t room = s->slots_room < RING ? RING : 2 * s->slots_room;
    struct slot *ring = room == RING ? pool_lend_ring(&s->engine->pool) : NULL;
    uint64_t id;

    ring = ring != NULL ? ring : mem_alloc(room * sizeof(*ring));
    for (id = slots_first_id(s); id != s->next_slot; id++) {
        ring[id & (room - 1)] = *slot_at(s, id);
    }
    drop_ring(s);
    s->slot = ring;
    s->slots_room = room;
}

struct slot *
slots_open(struct session *s)
{
    struct slot *sl;

    if (s->slots_n == s->slots_room) {
        widen(s);
    }
    sl = slot_at(s, s->next_slot++);
    s->slots_n++;
    *sl = (struct slot){.state = SLOT_WAITING};
    outbox_init(&sl->box);
    sl->box.pool = &s->engine->pool;
    return sl;
}

void
slots_count(struct session *s, struct slot *sl)
{
    size_t bytes = outbox_memory(&sl->box);

    s->slots_bytes += bytes - sl->counted;
    sl->counted = bytes;
}

/* True: the slot holds no bytes, because the reply went straight to the output. */
static bool
is_bare(const struct slot *sl)
{
    return sl->counted == 0 && sl->box.bytes.p == NULL && sl->box.marks == NULL;
}

static void
drop_head(struct session *s)
{
    struct slot *sl = slots_first(s);

    if (!is_bare(sl)) {
        outbox_fini(&sl->box);
        slots_count(s, sl);
    }
    if (--s->slots_n == 0 && s->slots_room > 1) {
        drop_ring(s);
    }
}

/* ---- requests and replies ---- */

/* Restores SL1: moves to the output the replies that have no unanswered request before them. */
static void
send_ready(struct session *s)
{
    struct slot *sl;

    for (sl = slots_first(s); sl != NULL && sl->state == SLOT_READY; sl = slots_first(s)) {
        if (!is_bare(sl)) {
            outbox_move(session_out_end(s), &sl->box);
        }
        drop_head(s);
    }
    session_wake(s);
}

void
slots_done(struct session *s, struct slot *sl)
{
    sl->state = SLOT_READY;
    if (!is_bare(sl)) {
        slots_count(s, sl);
    }
    send_ready(s);
}

bool
slots_at_limit(const struct session *s)
{
    const struct conf *cf = s->engine->conf;

    return s->slots_n >= (uint64_t)cf->limit_pipeline || s->slots_bytes >= (size_t)cf->limit_pipeline_bytes;
}

void
slots_refuse_oldest(struct session *s)
{
    struct core_event ev = {.type = CORE_CROWDED, .oldest = {s->id, slots_first_id(s)}};

    if (slots_first(s)->state == SLOT_WAITING) { /* SL1: else it is DEFERRED, and runs soon */
        engine_step(s->engine, &ev);
    }
}

void
slots_protocol_error(struct session *s, const char *why)
{
    struct slot *sl = slots_open(s);
    struct writer writer;

    writer = (struct writer){.out = &slots_box(s, sl)->bytes, .proto = s->proto};
    writer_error(&writer, ERR_SYNTAX, "Protocol error: %s", why);
    slots_done(s, sl);
}

bool
slots_last_holds_up(const struct session *s)
{
    const struct slot *sl = slot_at(s, s->next_slot - 1);
    bool decides = sl->cmd == CMD_HELLO || sl->cmd == CMD_AUTH || sl->cmd == CMD_RESET || sl->cmd == CMD_QUIT;

    return sl->state == SLOT_DEFERRED && decides;
}

void
slots_fini(struct session *s)
{
    while (s->slots_n > 0) {
        drop_head(s);
    }
}

/* NULL when it is answered already, or was never there. */
static struct slot *
find_waiting(const struct session *s, uint64_t id)
{
    struct slot *sl = slot_at(s, id);

    return id - slots_first_id(s) < s->slots_n && sl->state == SLOT_WAITING ? sl : NULL;
}

struct outbox *
slots_begin_reply(struct session *s, uint64_t id, enum reply_form *form)
{
    struct slot *sl = find_waiting(s, id);

    if (sl == NULL) {
        return NULL;
    }
    *form = sl->form;
    return slots_box(s, sl);
}

void
slots_end_reply(struct session *s, uint64_t id)
{
    slots_done(s, slot_at(s, id));
}

void
slots_append(struct session *s, struct chunks *more)
{
    if (more != NULL) {
        long_replies_wait(s, chunks_bytes(more));
        chunks_move(&s->later, more);
    }
}

void
slots_put_reply(struct engine *e, uint64_t session, uint64_t id, struct outbox *reply, struct chunks *more)
{
    struct session *s = session_find(e, session);
    enum reply_form form;
    struct outbox *out = s != NULL ? slots_begin_reply(s, id, &form) : NULL;

    if (out != NULL) {
        outbox_move(out, reply);
        assert(more == NULL || id == slots_first_id(s));
        slots_append(s, more);
        slots_end_reply(s, id);
    }
}
