/*
 * slots.c -- one session's requests: run when they may, answered in order.
 *
 * Owns session.slots. Does not touch the socket. A slot is opened for every
 * request before it runs, so that a reply which the core gives at once finds
 * its place; the reply of the oldest slot goes straight to session.out, any
 * other waits in its slot.
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
#include "daemon/serve/commands.h"
#include "daemon/serve/front.h"

/* What a deferred request keeps: this, then each word as its length and its bytes. */
struct packed {
    size_t bytes;
    bool inline_form;
};

static struct slot *
slot_of(struct list *node)
{
    return container_of(node, struct slot, node);
}

static struct slot *
head_of(const struct session *s)
{
    return list_empty(&s->slots) ? NULL : slot_of(s->slots.next);
}

/* NULL when out of memory; the session is closed then. */
static struct slot *
open_slot(struct session *s)
{
    struct slot *sl = calloc(1, sizeof(*sl));

    if (sl == NULL) {
        session_close(s, CLOSE_MEMORY);
        return NULL;
    }
    sl->id = s->next_slot++;
    sl->state = SLOT_WAITING;
    buf_init(&sl->bytes, 0);
    list_push_back(&s->slots, &sl->node);
    s->slots_n++;
    return sl;
}

static void
drop_slot(struct session *s, struct slot *sl)
{
    assert(s->slots_n > 0);
    list_remove(&sl->node);
    s->slots_n--;
    buf_fini(&sl->bytes);
    free(sl);
}

/* Restores I1: the replies that nothing holds up any more go out. */
static void
send_ready(struct session *s)
{
    struct slot *sl;

    for (sl = head_of(s); sl != NULL && sl->state == SLOT_READY; sl = head_of(s)) {
        buf_add_slice(&s->out, buf_slice(&sl->bytes));
        s->out.failed = s->out.failed || sl->bytes.failed;
        drop_slot(s, sl);
    }
    session_wake(s);
}

/* The reply of sl is written, wherever reply_buf() said when it began. */
static void
done_slot(struct session *s, struct slot *sl)
{
    sl->state = SLOT_READY;
    send_ready(s);
}

/* Where a reply that begins now goes. */
static struct buf *
reply_buf(struct session *s, struct slot *sl)
{
    return sl == head_of(s) ? &s->out : &sl->bytes;
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
 * Runs an admitted command. The slot may be gone afterwards (answered at once),
 * and the session may be closed (KILL of itself).
 */
static void
run(struct session *s, struct slot *sl, const struct words *w, int id)
{
    struct buf *out = reply_buf(s, sl);
    struct writer writer = {.out = out, .proto = s->proto};
    struct cmd c = {.session = s, .words = w, .slot = sl->id, .id = (enum command_id)id, .out = &writer,
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
    buf_add(&sl->bytes, &head, sizeof(head));
    for (i = 0; i < w->n; i++) {
        buf_add(&sl->bytes, &w->word[i].n, sizeof(w->word[i].n));
        buf_add_slice(&sl->bytes, w->word[i]);
    }
    if (sl->bytes.failed) {
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
    struct writer writer = {.out = reply_buf(s, sl), .proto = s->proto};
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

void
slots_take(struct session *s, const struct words *w)
{
    struct slot *sl;
    int id;

    assert(!s->closed);
    s->requests_n++;
    s->engine->metrics.requests++;
    s->active_us = clock_now_us();
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
    } else {
        run(s, sl, w, id);
    }
}

bool
slots_can_settle(const struct session *s)
{
    const struct slot *sl = head_of(s);

    return sl != NULL && sl->state == SLOT_DEFERRED && !s->closed && !s->quit &&
           s->out.n <= (size_t)s->engine->conf->limit_output_bytes;
}

void
slots_settle(struct session *s)
{
    while (slots_can_settle(s)) {
        struct slot *sl = head_of(s);
        struct buf packed = sl->bytes;
        struct words w;
        int id;

        /* The words leave the slot first: the handler may answer at once, and the slot goes with its bytes. */
        buf_init(&sl->bytes, 0);
        unpack(&packed, sl->words_n, &w);
        id = admit(s, sl, &w);
        if (id != CMD_NONE) {
            run(s, sl, &w, id);
        }
        buf_fini(&packed);
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
    writer = (struct writer){.out = reply_buf(s, sl), .proto = s->proto};
    writer_error(&writer, ERR_SYNTAX, "Protocol error: %s", why);
    done_slot(s, sl);
}

bool
slots_ending(const struct session *s)
{
    const struct slot *sl = list_empty(&s->slots) ? NULL : slot_of(s->slots.prev);

    return sl != NULL && sl->state == SLOT_DEFERRED && sl->cmd == CMD_QUIT;
}

void
slots_fini(struct session *s)
{
    while (!list_empty(&s->slots)) {
        drop_slot(s, head_of(s));
    }
}

/* NULL when it is answered already, or was never there. */
static struct slot *
find_waiting(const struct session *s, uint64_t id)
{
    struct list *node, *next;

    list_each(node, next, &s->slots) {
        struct slot *sl = slot_of(node);

        if (sl->id == id && sl->state == SLOT_WAITING) {
            return sl;
        }
    }
    return NULL;
}

enum reply_form
session_form(const struct session *s, uint64_t id)
{
    const struct slot *sl = find_waiting(s, id);

    return sl != NULL ? sl->form : FORM_NATIVE;
}

void
session_answer(struct engine *e, uint64_t session, uint64_t id, struct slice bytes)
{
    struct session *s = session_find(e, session);
    struct slot *sl = s != NULL ? find_waiting(s, id) : NULL;

    if (sl != NULL) {
        buf_add_slice(reply_buf(s, sl), bytes);
        done_slot(s, sl);
    }
}
