/*
 * tree.c -- INFO tree: per contended name its holder, and who waits, in queue order.
 *
 * A holder that waits for another name is followed to the root: the one whose
 * unlocking would move everybody. Changes nothing; what was gathered is copied,
 * because the core's bytes are only lent for a callback.
 */
#include "daemon/serve/commands_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CHAIN_MAX 16 /* holders followed up to the root */

/* One owner and the name it waits for. */
struct wait {
    uint64_t owner;
    size_t name_at, name_n; /* in tree.names */
};

struct tree {
    struct engine *engine;
    int64_t now_us;
    struct buf *out;
    struct wait *waits; /* owned; sorted by owner once all are in */
    size_t waits_n, rows_max, rows, left_out;
    struct buf names;   /* owned */
    struct buf current; /* owned: the name whose waiters are being printed */
    bool begun;
};

/* ---- first pass: who waits for what ---- */

static void
note_wait(void *ctx, const struct core_waiter_view *v)
{
    struct tree *t = ctx;

    if (t->waits_n < t->rows_max) {
        t->waits[t->waits_n++] = (struct wait){v->owner.id, t->names.n, v->name.n};
        buf_add_slice(&t->names, v->name);
    }
}

static int
by_owner(const void *a, const void *b)
{
    uint64_t x = ((const struct wait *)a)->owner, y = ((const struct wait *)b)->owner;

    return x < y ? -1 : x > y;
}

/* False: the owner waits for nothing. */
static bool
waits_for(const struct tree *t, uint64_t owner, struct slice *name)
{
    struct wait key = {.owner = owner};
    const struct wait *w = bsearch(&key, t->waits, t->waits_n, sizeof(*t->waits), by_owner);

    if (w == NULL || t->names.failed) {
        return false;
    }
    *name = (struct slice){t->names.p + w->name_at, w->name_n};
    return true;
}

/* ---- second pass: the lines ---- */

static void
print_owner(const struct tree *t, const struct core_owner_view *o)
{
    const struct session *s = session_find(t->engine, o->session);

    if (o->name.n > 0) {
        buf_adds(t->out, "owner \"");
        name_print(o->name, t->out);
        buf_printf(t->out, "\" by session %" PRIu64, o->session);
    } else {
        buf_printf(t->out, "session %" PRIu64, o->session);
    }
    if (s != NULL) {
        buf_printf(t->out, " (%s)", s->name != NULL ? s->name : s->peer);
    }
}

static void
print_holder(const struct tree *t, const struct core_lock_view *v)
{
    bool held = v->owner.id != 0;
    char span[24];

    if (held) {
        buf_printf(t->out, "%s by ", v->state);
        print_owner(t, &v->owner);
        span_print(v->held_us / 1000, span);
        buf_printf(t->out, " for %s, token %" PRIu64, span, v->token);
    } else if (strcmp(v->state, "taken") == 0 && v->deadline_us > t->now_us) {
        span_print((v->deadline_us - t->now_us) / 1000, span);
        buf_printf(t->out, "taken elsewhere, for %s at most", span);
    } else {
        buf_adds(t->out, strcmp(v->state, "taken") == 0 ? "taken elsewhere" : v->state);
    }
}

/* The holder waits too: for what, held by whom, and so on to the root. */
static void
print_chain(const struct tree *t, const struct core_lock_view *v)
{
    uint64_t start = v->owner.id;
    struct core_lock_view at = *v;
    struct slice name;
    int i;

    for (i = 0; i < CHAIN_MAX && at.owner.id != 0 && waits_for(t, at.owner.id, &name); i++) {
        if (!core_lock_info(t->engine->core, t->now_us, name, &at)) {
            return;
        }
        buf_adds(t->out, "  ^ which waits for ");
        name_print(name, t->out);
        buf_adds(t->out, ", ");
        print_holder(t, &at);
        buf_adds(t->out, at.owner.id == start ? "  (a cycle)\r\n" : "\r\n");
        if (at.owner.id == start) {
            return;
        }
    }
}

static void
begin_name(struct tree *t, struct slice name)
{
    struct core_lock_view v;

    t->begun = true;
    buf_clear(&t->current, t->current.room);
    buf_add_slice(&t->current, name);
    name_print(name, t->out);
    buf_adds(t->out, "  ");
    if (core_lock_info(t->engine->core, t->now_us, name, &v)) {
        print_holder(t, &v);
        buf_adds(t->out, "\r\n");
        print_chain(t, &v);
    } else {
        buf_adds(t->out, "\r\n");
    }
}

static void
print_wait(void *ctx, const struct core_waiter_view *v)
{
    struct tree *t = ctx;
    char span[24];

    if (t->rows == t->rows_max) {
        t->left_out++;
        return;
    }
    t->rows++;
    if (!t->begun || !slice_eq(buf_slice(&t->current), v->name)) {
        begin_name(t, v->name);
    }
    span_print(v->waited_us / 1000, span);
    buf_printf(t->out, "  %3" PRIu32 ". %-7s ", v->position, span);
    print_owner(t, &v->owner);
    if (v->kept) {
        buf_adds(t->out, ", place kept");
    } else if (v->deadline_us != CORE_FOREVER) {
        span_print(v->deadline_us > t->now_us ? (v->deadline_us - t->now_us) / 1000 : 0, span);
        buf_printf(t->out, ", %s more", span);
    }
    buf_adds(t->out, "\r\n");
}

void
tree_print(struct engine *e, int64_t now_us, struct slice glob, size_t rows_max, struct buf *out)
{
    struct tree t = {.engine = e, .now_us = now_us, .out = out, .rows_max = rows_max};

    t.waits = malloc(rows_max * sizeof(*t.waits));
    if (t.waits == NULL) {
        out->failed = true;
        return;
    }
    buf_init(&t.names, 0);
    buf_init(&t.current, 0);
    core_each_waiter(e->core, now_us, SLICE_LIT(""), note_wait, &t);
    qsort(t.waits, t.waits_n, sizeof(*t.waits), by_owner);
    core_each_waiter(e->core, now_us, glob, print_wait, &t);
    if (t.rows == 0) {
        buf_adds(out, "nobody waits\r\n");
    }
    if (t.left_out > 0) {
        buf_printf(out, "... and %zu more, not shown\r\n", t.left_out);
    }
    buf_fini(&t.names);
    buf_fini(&t.current);
    free(t.waits);
}
