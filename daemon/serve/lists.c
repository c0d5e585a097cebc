/*
 * lists.c -- LOCKS, WAITERS, SESSIONS: arrays of maps, made in slices.
 *
 * Owns what such an answer needs while it is made. The records themselves are described in look.c.
 */
#include "daemon/serve/commands_private.h"

#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/serve/listing.h"

enum what { LOCKS_LISTED, WAITERS_LISTED, SESSIONS_LISTED };

enum { STEP_BYTES = 512, STEP_SESSIONS = 8 };

struct list_work {
    struct listing_work work;
    enum what what;
    const struct engine *engine; /* borrowed */
    int64_t now_us;              /* of the step */
    struct core_walk walk;
    uint64_t session, newest;    /* the last one that was looked at; the last one to be */
    struct rows rows;
    struct outbox aside;         /* owned; what the rows rely on, counted in bytes of their own buffer */
    size_t glob_n;
    char glob[];
};

struct session *
session_after(struct engine *e, uint64_t id)
{
    struct session *s = id != 0 ? session_find(e, id) : NULL;
    struct list *node;

    if (s != NULL && !s->closed) {
        node = s->node.next;
        return node != &e->sessions ? container_of(node, struct session, node) : NULL;
    }
    for (node = e->sessions.next; node != &e->sessions; node = node->next) {
        s = container_of(node, struct session, node);
        if (s->id > id) {
            return s;
        }
    }
    return NULL;
}

uint64_t
session_newest(const struct engine *e)
{
    return list_empty(&e->sessions) ? 0 : container_of(e->sessions.prev, struct session, node)->id;
}

static void
send_row(struct list_work *l, const struct fields *f)
{
    fields_write_map(f, &l->rows.w);
    l->rows.n++;
}

static void
send_lock(void *ctx, const struct core_lock_view *v)
{
    struct list_work *l = ctx;
    struct look_text text;
    struct fields_spot state = {0, 0};
    struct fields f = {.n = 0};

    if (!l->rows.buf.failed) {
        look_lock(l->engine, v, l->now_us, &text, &f, &state);
        send_row(l, &f);
        look_says_held(l->engine, &l->aside, v, state);
    }
}

static void
send_waiter(void *ctx, const struct core_waiter_view *v)
{
    struct list_work *l = ctx;
    struct look_text text;
    struct fields f = {.n = 0};

    if (!l->rows.buf.failed) {
        look_waiter(l->engine, v, l->now_us, &text, &f);
        send_row(l, &f);
    }
}

static bool
step_sessions(struct list_work *l, struct engine *e)
{
    struct session *s = session_after(e, l->session);
    struct look_text text;

    for (int i = 0; i < STEP_SESSIONS; i++) {
        struct fields f = {.n = 0};

        if (s == NULL || s->id > l->newest) {
            return false;
        }
        look_session(s, l->now_us, &text, &f);
        send_row(l, &f);
        l->session = s->id;
        s = session_after(e, s->id);
    }
    return true;
}

/* So many records take some tens of microseconds, all of them compared with the glob. */
unsigned
look_step_records(struct slice glob)
{
    return 1 + STEP_BYTES / (16 + (unsigned)(glob.n < STEP_BYTES ? glob.n : STEP_BYTES));
}

static bool
step(struct listing_work *w, struct engine *e)
{
    struct list_work *l = container_of(w, struct list_work, work);
    struct slice glob = {l->glob, l->glob_n};
    unsigned n = look_step_records(glob);

    l->now_us = clock_now_us();
    if (l->rows.buf.failed) { /* too long */
        return false;
    }
    switch (l->what) {
    case LOCKS_LISTED:
        return core_walk_locks(e->core, &l->walk, l->now_us, glob, n, send_lock, l);
    case WAITERS_LISTED:
        return core_walk_waiters(e->core, &l->walk, l->now_us, glob, n, send_waiter, l);
    case SESSIONS_LISTED:
        break;
    }
    return step_sessions(l, e);
}

static void
finish(struct listing_work *w, struct engine *e, struct outbox *box, struct writer *out)
{
    struct list_work *l = container_of(w, struct list_work, work);
    size_t n;

    (void)e;
    l->rows.buf.failed = l->rows.buf.failed || l->aside.bytes.failed;
    n = l->rows.buf.failed ? 0 : l->rows.buf.n;
    rows_send(&l->rows, out, false);
    if (n > 0 && !out->out->failed) {
        outbox_take_marks(box, &l->aside, out->out->n - n);
    }
}

static void
drop(struct listing_work *w, struct engine *e)
{
    struct list_work *l = container_of(w, struct list_work, work);

    (void)e;
    core_walk_end(&l->walk);
    buf_fini(&l->rows.buf);
    outbox_fini(&l->aside);
    free(l);
}

static enum cmd_result
list_all(struct cmd *c, enum what what)
{
    struct slice glob = c->words->n > 1 ? c->words->word[1] : SLICE_LIT("");
    struct list_work *l = malloc(sizeof(*l) + glob.n);

    if (l == NULL) {
        return listing_run(c, NULL);
    }
    *l = (struct list_work){.work = {step, finish, drop}, .what = what, .engine = c->session->engine,
                            .newest = session_newest(c->session->engine), .glob_n = glob.n};
    memcpy(l->glob, glob.p, glob.n);
    outbox_init(&l->aside);
    rows_init(&l->rows, c->out, command_answer_bytes_max(c));
    core_walk_begin(c->session->engine->core, &l->walk);
    return listing_run(c, &l->work);
}

enum cmd_result
cmd_locks(struct cmd *c)
{
    return list_all(c, LOCKS_LISTED);
}

enum cmd_result
cmd_waiters(struct cmd *c)
{
    return list_all(c, WAITERS_LISTED);
}

enum cmd_result
cmd_sessions(struct cmd *c)
{
    return list_all(c, SESSIONS_LISTED);
}
