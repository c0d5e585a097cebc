/*
 * slots.c -- one session's requests: run when they may, answered in order.
 *
 * Owns session.slots. Does not touch the socket. A slot is opened for every
 * request before it runs, so that a reply which the core gives at once finds
 * its place; the reply of the oldest slot goes straight to session.out, any
 * other waits in its slot. Requests are numbered as they come, so slots are a ring
 * in which a number is found at once. It is a single one, in the session itself,
 * as long as nobody pipelines.
 *
 * I1  The oldest slot is WAITING or DEFERRED once a function here returns: READY ones have left.
 * I2  A WHEN_TURN command runs only as the oldest slot, and writes only to session.out.
 * I3  Once the session is closed, nothing here runs or writes any more.
 */
#include "daemon/serve/slots.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/serve/auth_limit.h"
#include "daemon/serve/commands.h"
#include "daemon/serve/front.h"
#include "daemon/serve/longs.h"
#include "daemon/serve/session_out.h"

#define RING 16 /* slots of the first ring; those of that size come from the pool */

/* What a deferred request keeps: this, then each word as its length and its bytes. */
struct packed {
    size_t bytes;
    bool inline_form;
};

/* ---- the ring ---- */

static struct slot *
slot_at(const struct session *s, uint64_t id)
{
    return &s->slot[id & (s->slots_room - 1)];
}

static uint64_t
head_id(const struct session *s)
{
    return s->next_slot - s->slots_n;
}

static struct slot *
head_of(const struct session *s)
{
    return s->slots_n == 0 ? NULL : slots_head(s);
}

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
        pool_take_ring(&s->engine->pool, s->slot);
    } else if (s->slots_room > RING) {
        free(s->slot);
    }
    slots_init(s);
}

/* Slots move. False when out of memory. */
static bool
widen(struct session *s)
{
    uint32_t room = s->slots_room < RING ? RING : 2 * s->slots_room;
    struct slot *ring = room == RING ? pool_ring(&s->engine->pool) : NULL;
    uint64_t id;

    ring = ring != NULL ? ring : malloc(room * sizeof(*ring));
    if (ring == NULL) {
        return false;
    }
    for (id = head_id(s); id != s->next_slot; id++) {
        ring[id & (room - 1)] = *slot_at(s, id);
    }
    drop_ring(s);
    s->slot = ring;
    s->slots_room = room;
    return true;
}

/* NULL when out of memory; the session is closed then. */
static struct slot *
open_slot(struct session *s)
{
    struct slot *sl;

    if (s->slots_n == s->slots_room && !widen(s)) {
        session_close(s, CLOSE_MEMORY);
        return NULL;
    }
    sl = slot_at(s, s->next_slot++);
    s->slots_n++;
    *sl = (struct slot){.state = SLOT_WAITING};
    outbox_init(&sl->box);
    sl->box.pool = &s->engine->pool;
    return sl;
}

/* What it holds now is what the session answers for. */
static void
memory_usage(struct session *s, struct slot *sl)
{
    size_t bytes = outbox_memory(&sl->box);

    s->slots_bytes += bytes - sl->counted;
    sl->counted = bytes;
}

/* It never held anything: its reply went straight to session.out. */
static bool
is_bare(const struct slot *sl)
{
    return sl->counted == 0 && sl->box.bytes.p == NULL && sl->box.marks == NULL && !sl->box.bytes.failed;
}

static void
drop_head(struct session *s)
{
    struct slot *sl = head_of(s);

    if (!is_bare(sl)) {
        outbox_fini(&sl->box);
        memory_usage(s, sl);
    }
    if (--s->slots_n == 0 && s->slots_room > 1) {
        drop_ring(s);
    }
}

/* ---- requests and replies ---- */

/* Restores I1: the replies that nothing holds up any more go out. */
static void
send_ready(struct session *s)
{
    struct slot *sl;

    for (sl = head_of(s); sl != NULL && sl->state == SLOT_READY; sl = head_of(s)) {
        if (!is_bare(sl)) {
            outbox_move(session_out_end(s), &sl->box);
        }
        drop_head(s);
    }
    session_wake(s);
}

/* The reply of sl is written, wherever reply_box() said when it began. */
static void
done_slot(struct session *s, struct slot *sl)
{
    sl->state = SLOT_READY;
    if (!is_bare(sl)) {
        memory_usage(s, sl);
    }
    send_ready(s);
}

/* Where a reply that begins now goes. */
static struct outbox *
reply_box(struct session *s, struct slot *sl)
{
    return sl != head_of(s) ? &sl->box : session_out_end(s);
}

/* The role may have changed: other limits and another deadline apply. */
static void
follow_auth(struct session *s)
{
    struct engine *e = s->engine;
    const struct reader_limits *limits = s->authed ? &e->limits : &e->limits_unauthed;

    if (s->reader.limits == limits) {
        return;
    }
    s->reader.limits = limits;
    if (s->authed) {
        heap_remove(&e->due, &s->due);
    } else {
        heap_set(&e->due, &s->due, clock_now_us() + e->conf->auth_timeout_us);
    }
}

/*
 * Runs an admitted command, which is request `slot`. The slot may be gone afterwards (answered at once),
 * and the session may be closed (KILL of itself).
 */
static void
run(struct session *s, uint64_t slot, const struct words *w, int id)
{
    struct slot *sl = slot_at(s, slot);
    struct outbox *box = reply_box(s, sl);
    struct writer writer = {.out = &box->bytes, .proto = s->proto};
    struct cmd c = {.session = s, .words = w, .slot = slot, .id = (enum command_id)id, .out = &writer, .box = box,
                    .form = &sl->form};
    enum cmd_result res;

    sl->state = SLOT_WAITING;
    s->last_command = command_rows[id].name;
    res = command_run(&c);
    if (s->closed) {
        return;
    }
    follow_auth(s);
    if (res == CMD_DONE) {
        done_slot(s, sl);
    }
}

/* Copies the words into the slot; they run in its turn. */
static void
defer(struct session *s, struct slot *sl, const struct words *w)
{
    struct packed head = {.bytes = w->bytes, .inline_form = w->inline_form};
    unsigned i;

    sl->state = SLOT_DEFERRED;
    sl->words_n = w->n;
    buf_add(&sl->box.bytes, &head, sizeof(head));
    for (i = 0; i < w->n; i++) {
        buf_add(&sl->box.bytes, &w->word[i].n, sizeof(w->word[i].n));
        buf_add_slice(&sl->box.bytes, w->word[i]);
    }
    memory_usage(s, sl);
    if (sl->box.bytes.failed) {
        session_close(s, CLOSE_MEMORY);
    }
}

/* The words of a deferred slot, as slices into `bytes`. */
static void
unpack(const struct buf *bytes, unsigned words_n, struct words *out)
{
    struct packed head;
    const char *p = bytes->p;
    unsigned i;

    assert(words_n >= 1 && words_n <= READER_WORDS_MAX);
    memcpy(&head, p, sizeof(head));
    p += sizeof(head);
    out->n = words_n;
    out->bytes = head.bytes;
    out->inline_form = head.inline_form;
    for (i = 0; i < words_n; i++) {
        memcpy(&out->word[i].n, p, sizeof(out->word[i].n));
        p += sizeof(out->word[i].n);
        out->word[i].p = p;
        p += out->word[i].n;
    }
    assert(p == bytes->p + bytes->n);
}

/* A verb no client of ours would send: a browser or a proxy that was tricked into talking to us. */
static void
refuse_cross_protocol(struct session *s, const struct words *w)
{
    log_event(s->engine->log, LOG_WARN, "session", "cross-protocol", "session", LOG_N(s->id), "peer",
              LOG_S(s->peer), "verb", LOG_B(w->word[0]), NULL);
    session_close(s, CLOSE_CROSS_PROTOCOL);
}

/* Asks whether the command may run; its id, or CMD_NONE when it is answered (or the session closed). */
static int
admit(struct session *s, struct slot *sl, const struct words *w)
{
    struct writer writer = {.out = &reply_box(s, sl)->bytes, .proto = s->proto};
    bool close = false;
    int id = command_admit(s, w, &writer, &close);

    if (close) {
        refuse_cross_protocol(s, w);
        return CMD_NONE;
    }
    if (id == CMD_NONE) {
        done_slot(s, sl);
    }
    return id;
}

static bool
waits_its_turn(enum command_id id, const struct words *w)
{
    return command_rows[id].when == WHEN_TURN || front_in_turn(id, w);
}

/* Its password is not looked at, and the connection ends. */
static void
refuse_guess(struct session *s, struct slot *sl)
{
    struct writer writer = {.out = &reply_box(s, sl)->bytes, .proto = s->proto};

    writer_error(&writer, ERR_LIMIT, "too many wrong passwords from there");
    session_quit(s);
    done_slot(s, sl);
}

void
slots_take(struct session *s, const struct words *w)
{
    struct slot *sl;
    int id;

    assert(!s->closed);
    s->requests_n++;
    s->engine->metrics.requests++;
    s->active_us = s->engine->seen_us;
    sl = open_slot(s);
    if (sl == NULL) {
        return;
    }
    id = admit(s, sl, w);
    if (id == CMD_NONE) {
        return;
    }
    sl->cmd = (enum command_id)id;
    if (sl != head_of(s) && waits_its_turn((enum command_id)id, w)) {
        defer(s, sl, w);
        return;
    }
    switch (sl == head_of(s) ? auth_limit_ask(s, sl->cmd, w) : AUTH_LIMIT_GO) {
    case AUTH_LIMIT_WAIT:
        defer(s, sl, w);
        break;
    case AUTH_LIMIT_REFUSE:
        refuse_guess(s, sl);
        break;
    case AUTH_LIMIT_GO:
        run(s, s->next_slot - 1, w, id);
        break;
    }
}

bool
slots_head_may_run(const struct session *s)
{
    return !s->closed && !s->quit && !auth_limit_waits(s) && !session_out_over_limit(s);
}

void
slots_settle(struct session *s)
{
    while (slots_can_settle(s)) {
        struct slot *sl = head_of(s);
        struct buf packed = sl->box.bytes;
        struct words w;
        enum auth_limit limit;
        int id;

        unpack(&packed, sl->words_n, &w);
        limit = auth_limit_ask(s, sl->cmd, &w);
        if (limit == AUTH_LIMIT_WAIT) {
            return;
        }
        /* The words leave the slot first: the handler may answer at once, and the slot goes with its bytes. */
        buf_init(&sl->box.bytes, 0);
        memory_usage(s, sl);
        id = limit == AUTH_LIMIT_GO ? admit(s, sl, &w) : CMD_NONE;
        if (limit == AUTH_LIMIT_REFUSE) {
            refuse_guess(s, sl);
        } else if (id != CMD_NONE) {
            run(s, head_id(s), &w, id);
        }
        buf_fini(&packed);
    }
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
    struct core_event ev = {.type = CORE_CROWDED, .oldest = {s->id, head_id(s)}};

    if (head_of(s)->state == SLOT_WAITING) { /* I1: else it goes on by itself */
        engine_step(s->engine, &ev);
    }
}

void
slots_protocol_error(struct session *s, const char *why)
{
    struct slot *sl = open_slot(s);
    struct writer writer;

    if (sl == NULL) {
        return;
    }
    writer = (struct writer){.out = &reply_box(s, sl)->bytes, .proto = s->proto};
    writer_error(&writer, ERR_SYNTAX, "Protocol error: %s", why);
    done_slot(s, sl);
}

bool
slots_last_is_quit(const struct session *s)
{
    const struct slot *sl = slot_at(s, s->next_slot - 1);

    return sl->state == SLOT_DEFERRED && sl->cmd == CMD_QUIT;
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

    return id - head_id(s) < s->slots_n && sl->state == SLOT_WAITING ? sl : NULL;
}

struct outbox *
session_reply(struct session *s, uint64_t id, enum reply_form *form)
{
    struct slot *sl = find_waiting(s, id);

    if (sl == NULL) {
        return NULL;
    }
    *form = sl->form;
    return reply_box(s, sl);
}

void
session_replied(struct session *s, uint64_t id)
{
    done_slot(s, slot_at(s, id));
}

void
session_append(struct session *s, struct pieces *more)
{
    if (more != NULL) {
        longs_wait(s, pieces_bytes(more));
        pieces_move(&s->later, more);
    }
}

void
session_answer(struct engine *e, uint64_t session, uint64_t id, struct outbox *reply, struct pieces *more)
{
    struct session *s = session_find(e, session);
    enum reply_form form;
    struct outbox *out = s != NULL ? session_reply(s, id, &form) : NULL;

    if (out != NULL) {
        outbox_move(out, reply);
        assert(more == NULL || id == head_id(s));
        session_append(s, more);
        session_replied(s, id);
    }
}
