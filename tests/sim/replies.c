/*
 * replies.c -- the way of the core's REPLY to the client: slots, the daemon's own outbox (serve/outbox.c), and the
 * write.
 *
 * A reply is a line: "G", then for each grant the ms that are left; "L" is the answer for a lost lock. A third of the
 * sessions are answered in the order of their requests, as on one connection; the others as if each request had a
 * connection of its own. Replies leave at the end of a turn. There the process may stand still
 * (FAULT_STOPPED_AT_WRITE), and go on with the write unawares; the socket of a paused client is full; and a socket may
 * take only a part.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

void
replies_open(struct session *s)
{
    outbox_init(&s->out);
    buf_init(&s->received, 0);
}

void
replies_drop(struct session *s)
{
    for (int i = 0; i < ASKED; i++) {
        outbox_fini(&s->asked[i].box);
    }
    outbox_fini(&s->out);
    buf_fini(&s->received);
}

/* ---- the core's reply, in its slot ---- */

static struct session *
session_of(struct daemon *d, uint64_t id)
{
    for (int i = 0; i < SESSIONS; i++) {
        if (d->session[i].open && d->session[i].id == id) {
            return &d->session[i];
        }
    }
    return NULL;
}

static struct asked *
asked_of(struct session *s, uint64_t id)
{
    for (int i = 0; s != NULL && i < ASKED; i++) {
        if (s->asked[i].id == id) {
            return &s->asked[i];
        }
    }
    return NULL;
}

/* Names live for ever. */
static struct slice
lasting(const struct world *w, struct slice name)
{
    return name.n > 0 ? slice_of(w->name[name_find(w, name)].text) : name;
}

static void
keep(const struct world *w, struct asked *a, const struct core_reply *r)
{
    a->answered = true;
    a->reply = *r;
    a->reply.name = lasting(w, r->name);
    a->reply.part = a->part;
    a->reply.parts = r->parts < MANY ? r->parts : MANY;
    a->reply.hop = NULL;
    a->reply.hops = 0;
    for (size_t i = 0; i < a->reply.parts; i++) {
        a->part[i] = r->part[i];
        a->part[i].name = lasting(w, r->part[i].name);
    }
}

static void
report_grant(const struct daemon *d, struct outbox *box, struct outbox_group group, const struct core_reply *r)
{
    int64_t ms = r->answer == CORE_GRANTED ? r->lease_us / US_PER_MS : r->left;
    size_t from;

    buf_adds(&box->bytes, " ");
    from = box->bytes.n;
    buf_add_i64(&box->bytes, ms);
    outbox_rely(box, &r->grant, d->metrics.lost);
    if (r->grant.claim != 0 && (r->answer == CORE_GRANTED || r->left_is_ms)) {
        outbox_mark_ms(box, group, from, box->bytes.n, ms);
    }
}

static void
write_line(const struct daemon *d, struct asked *a)
{
    struct outbox_group group = outbox_begin(&a->box);
    bool yes = a->reply.answer == CORE_GRANTED || a->reply.answer == CORE_LEFT; /* as in serve/commands_reply.c */
    size_t i;

    buf_adds(&a->box.bytes, "G");
    for (i = 0; i < a->reply.parts && yes; i++) {
        report_grant(d, &a->box, group, &a->part[i]);
    }
    if (a->reply.parts == 0) {
        report_grant(d, &a->box, group, &a->reply);
    }
    buf_adds(&a->box.bytes, "\n");
    outbox_end(&a->box, group, OUTBOX_LOST, 0, 2);
}

static bool
in_order(const struct session *s)
{
    return s->id % 3 == 0;
}

/* The oldest request that is not written, if it is answered. */
static struct asked *
next_to_write(struct session *s)
{
    struct asked *next = NULL;

    for (int i = 0; i < ASKED; i++) {
        struct asked *a = &s->asked[i];

        if (a->id != 0 && !a->written && (next == NULL || a->id < next->id)) {
            next = a;
        }
    }
    return next != NULL && next->answered ? next : NULL;
}

static void
move(struct session *s, struct asked *a)
{
    outbox_move(&s->out, &a->box);
    a->written = true;
    s->order[s->order_n++] = a->id;
}

void
replies_note(struct daemon *d, const struct core_reply *r)
{
    struct session *s = session_of(d, r->session);
    struct asked *a = asked_of(s, r->id);

    d->cancelled_n += r->answer == CORE_CANCELLED;
    if (a == NULL) {
        clients_receive(d, r); /* clients_receive() knows the requests that have no slot */
        return;
    }
    if (a->answered) {
        violated(d->world, "S3", "a second reply: request %d of session %d, answer %d", (int)r->id, (int)r->session,
                 r->answer);
        return;
    }
    keep(d->world, a, r);
    pipelines_answered(d, s, a);
    clients_refused(d, s, a);
    write_line(d, a);
    if (!in_order(s)) {
        move(s, a);
        return;
    }
    while ((a = next_to_write(s)) != NULL) {
        move(s, a);
    }
}

/* ---- the write ---- */

static void
step(void *ctx, const struct core_event *ev)
{
    daemon_step(ctx, ev);
}

static void
rewrite(void *ctx, const struct outbox_mark *m, struct buf *out)
{
    (void)ctx;
    (void)m;
    buf_adds(out, "L\n");
}

/* One line has arrived. */
static void
receive_line(struct daemon *d, struct session *s, char *line)
{
    struct asked *a = asked_of(s, s->order[0]);
    struct core_reply r = a->reply;
    char *p = line + 1;

    s->order_n--;
    memmove(s->order, s->order + 1, (size_t)s->order_n * sizeof(s->order[0]));
    if (line[0] == 'L') {
        r = (struct core_reply){.session = r.session, .id = r.id, .answer = CORE_WAS_LOST, .name = r.name};
        sight(d->world, SIGHT_REPLIED_LATE);
    }
    for (size_t i = 0; line[0] == 'G' && i < (r.parts > 0 ? r.parts : 1); i++) {
        struct core_reply *part = r.parts > 0 ? &a->part[i] : &r;
        int64_t ms = strtoll(p, &p, 10);

        part->lease_us = part->answer == CORE_GRANTED ? ms * US_PER_MS : part->lease_us;
        part->left = part->answer == CORE_GRANTED ? part->left : ms;
    }
    clients_receive(d, &r);
}

static void
receive(struct daemon *d, struct session *s)
{
    uint64_t id = s->id;

    while (s->open && s->id == id && s->received.n > 0) {
        char *end = memchr(s->received.p, '\n', s->received.n);
        char line[128];
        size_t n;

        if (end == NULL) {
            return;
        }
        n = (size_t)(end - s->received.p) + 1;
        memcpy(line, s->received.p, n < sizeof(line) ? n : sizeof(line) - 1);
        line[n < sizeof(line) ? n : sizeof(line) - 1] = '\0';
        buf_drop(&s->received, n);
        receive_line(d, s, line);
    }
}

/* The session's socket takes all bytes, or a part of them. */
static void
write_to(struct daemon *d, struct session *s)
{
    struct world *w = d->world;
    int64_t now_us = daemon_clock(d, w->now_us);
    struct outbox_env env = {.core = d->core, .losses = &d->metrics.lost, .late = &d->metrics.late_replies,
                             .step = step, .rewrite = rewrite, .ctx = d};
    bool checks = w->options->control != CONTROL_NO_RECHECK;
    bool fit = !checks || outbox_is_valid(&s->out, now_us, d->metrics.lost);
    size_t n;

    if (!fit && outbox_validate(&s->out, now_us, &env) == OUTBOX_TORN) {
        sight(w, SIGHT_TORN);
        clients_cut(d, s);
        return;
    }
    n = fit ? s->out.bytes.n : s->out.valid_n;
    if (w->faults_on && (w->now_us + (int64_t)s->id) % 16 == 0) { /* no dice: a full socket stays full for a while */
        n = n / 2;
        s->paused_until_us = s->paused_until_us > w->now_us ? s->paused_until_us : w->now_us + w->habit.lease_us / 4;
    }
    buf_add(&s->received, s->out.bytes.p, n);
    outbox_sent(&s->out, n);
    receive(d, s);
}

static bool
claims(const struct daemon *d)
{
    for (int i = 0; i < SESSIONS; i++) {
        if (d->session[i].open && d->session[i].out.marks != NULL) {
            return true;
        }
    }
    return false;
}

/* Makes the process stand still at this point, unawares. */
static bool
stops_here(struct daemon *d)
{
    struct world *w = d->world;

    d->stops_at_write = d->stops_at_write && w->faults_on;
    if (!d->stops_at_write || d->unwritten || d->dying || !claims(d)) {
        return false;
    }
    d->stops_at_write = false;
    d->unwritten = true;
    d->paused_until_us = w->now_us + between(w, 100, 2 * w->habit.lease_us / US_PER_MS) * US_PER_MS;
    last_failure(w, d->paused_until_us - w->now_us);
    sight(w, SIGHT_STOPPED_AT_WRITE);
    trace(w, "nature", "daemon %d stops before it writes", d->index);
    return true;
}

void
replies_write(struct daemon *d)
{
    if (stops_here(d)) {
        return;
    }
    d->unwritten = false;
    for (int i = 0; i < SESSIONS && !d->dying && d->alive && !d->world->failed; i++) {
        struct session *s = &d->session[i];

        if (s->open && s->out.bytes.n > 0 && d->world->now_us >= s->paused_until_us) {
            write_to(d, s);
        }
    }
}
