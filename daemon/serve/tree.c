/*
 * tree.c -- INFO tree: which owner waits for which, as a forest. Waits and holds are noted here; tree_lines.c draws
 * them.
 *
 * A root is an owner that holds what others wait for, and waits for nothing itself. Below an owner are the names that
 * it holds, below a name its queue, below a waiter the names that it holds in turn. Behind these trees come names
 * without a holder here, and last the cycles. Each queue is printed once; where its name comes again, a remark replaces
 * it.
 *
 * Each tree_advance() copies some records, because the core lends its bytes for one callback only, and there may be a
 * million records.
 */
#include "daemon/serve/tree.h"

#include <stdlib.h>

#include "daemon/base/glob.h"
#include "daemon/base/memory.h"
#include "daemon/serve/tree_private.h"

#define RECORDS_MAX 20000 /* of each sort; further ones are only counted. Drawing them takes some milliseconds */
#define SLICE_RECORDS 16   /* records in one tree_advance() */
#define HOLDERS_MAX 1000  /* of one name */

/* ---- taking notes ---- */

/* Room for one more; NULL: it is counted as left out. */
static void *
add_record(struct tree *t, struct records *r, size_t size)
{
    if (r->n == RECORDS_MAX) {
        t->left_out++;
        return NULL;
    }
    if ((r->n & (r->n - 1)) == 0) { /* the room is the next power of two */
        r->p = mem_array(r->p, r->n == 0 ? 1 : 2 * r->n, size);
    }
    r->n++;
    return (char *)r->p + (r->n - 1) * size;
}

static size_t
keep_bytes(struct tree *t, struct slice s)
{
    size_t at = t->bytes.n;

    buf_add_slice(&t->bytes, s);
    return at;
}

static struct tree_owner
copy_owner(struct tree *t, const struct core_owner_view *v)
{
    return (struct tree_owner){.id = v->id, .session = v->session, .at = keep_bytes(t, v->name), .n = v->name.n};
}

static void
add_entry(struct tree *t, struct records *index, uint64_t owner, size_t name, size_t i)
{
    struct owner_entry *o = add_record(t, index, sizeof(*o));

    if (o != NULL) {
        *o = (struct owner_entry){owner, name, i};
    }
}

/* Waiters come name by name. */
static void
note_wait(void *ctx, const struct core_waiter_view *v)
{
    struct tree *t = ctx;
    struct contended *c = t->names.n > 0 ? name_of(t, t->names.n - 1) : NULL;
    struct wait *w;

    if (c == NULL || !slice_eq(bytes_of(t, c->at, c->n), v->name)) {
        c = add_record(t, &t->names, sizeof(*c));
        if (c == NULL) {
            return;
        }
        *c = (struct contended){.at = keep_bytes(t, v->name), .n = v->name.n, .wait = t->waits.n};
    }
    w = add_record(t, &t->waits, sizeof(*w));
    if (w == NULL) {
        return;
    }
    *w = (struct wait){.owner = copy_owner(t, &v->owner), .name = t->names.n - 1, .position = v->position,
                       .waited_us = v->waited_us, .due_us = v->due_us, .shared = v->shared, .kept = v->kept};
    c->waits_n++;
    if (!v->kept) { /* an owner without a request, whose position is kept, waits for nothing */
        add_entry(t, &t->waits_by_owner, w->owner.id, w->name, t->waits.n - 1);
    }
}

struct noting {
    struct tree *tree;
    size_t name;
};

static void
note_hold(void *ctx, const struct core_holder_view *v)
{
    struct noting *note = ctx;
    struct tree *t = note->tree;
    struct hold *h = add_record(t, &t->holds, sizeof(*h));

    if (h == NULL) {
        return;
    }
    *h = (struct hold){.owner = copy_owner(t, &v->owner),
                       .name = note->name,
                       .grant = {.claim = v->claim, .token = v->token, .deadline_us = v->deadline_us},
                       .held_us = v->held_us,
                       .shared = v->shared};
    name_of(t, note->name)->holds_n++;
    add_entry(t, &t->holds_by_owner, h->owner.id, h->name, t->holds.n - 1);
}

static void
note_holders(struct tree *t, size_t i)
{
    struct contended *c = name_of(t, i);
    struct noting note = {.tree = t, .name = i};
    struct slice name = bytes_of(t, c->at, c->n);
    struct core_lock_view v;

    c->hold = t->holds.n;
    c->state = "idle";
    if (!core_lock_info(t->engine->core, t->now_us, name, &v)) {
        return;
    }
    c->state = v.state;
    c->deadline_us = v.deadline_us;
    c->limit = (kind_rows[v.kind].flags & KIND_F_PERMITS) != 0 ? v.limit : 0;
    core_holders_of(t->engine->core, t->now_us, v.name, HOLDERS_MAX, note_hold, &note);
}

static int
by_owner(const void *a, const void *b)
{
    const struct owner_entry *x = a, *y = b;

    if (x->owner != y->owner) {
        return x->owner < y->owner ? -1 : 1;
    }
    return x->i < y->i ? -1 : x->i > y->i;
}

static void
sort(struct records *r)
{
    if (r->n > 0) {
        qsort(r->p, r->n, sizeof(struct owner_entry), by_owner);
    }
}

/* ---- the choice of names ---- */

/* Marks the name; true when it was not marked before. */
static bool
mark_wanted(struct contended *c)
{
    bool first_time = !c->wanted;

    c->wanted = true;
    return first_time;
}

static bool
is_asked_for(const struct tree *t, const struct contended *c)
{
    struct slice glob = {t->glob, t->glob_n};

    return glob.n == 0 || glob_match(glob, bytes_of(t, c->at, c->n));
}

/* Marks the names above those that match: the names for which their holders wait, up to the roots. */
static void
choose(struct tree *t)
{
    size_t *todo = mem_alloc((t->names.n + 1) * sizeof(*todo)), n = 0, i;

    for (i = 0; i < t->names.n; i++) {
        if (name_of(t, i)->wanted) {
            todo[n++] = i;
        }
    }
    while (n > 0) { /* each name is put there once */
        const struct contended *c = name_of(t, todo[--n]);

        for (i = c->hold; i < c->hold + c->holds_n; i++) {
            const struct owner_entry *end, *o = tree_first_entry(&t->waits_by_owner, hold_of(t, i)->owner.id, &end);

            for (; o < end; o++) {
                if (mark_wanted(name_of(t, o->name))) {
                    todo[n++] = o->name;
                }
            }
        }
    }
    free(todo);
}

struct tree *
tree_new(struct engine *e, struct slice glob, size_t rows_max)
{
    struct tree *t = mem_zalloc(sizeof(*t) + glob.n);

    t->engine = e;
    t->losses = e->metrics.lost;
    t->rows_max = rows_max;
    t->glob_n = glob.n;
    memcpy(t->glob, glob.n > 0 ? glob.p : "", glob.n);
    buf_init(&t->bytes, 0);
    return t;
}

void
tree_free(struct tree *t)
{
    core_cursor_end(t->engine->core, &t->cursor);
    buf_fini(&t->bytes);
    free(t->names.p);
    free(t->waits.p);
    free(t->holds.p);
    free(t->waits_by_owner.p);
    free(t->holds_by_owner.p);
    free(t);
}

bool
tree_advance(struct tree *t, int64_t now_us)
{
    t->now_us = now_us;
    if (!t->begun) {
        core_cursor_begin(t->engine->core, &t->cursor);
        t->begun = true;
    }
    if (core_cursor_waiters(t->engine->core, &t->cursor, now_us, SLICE_LIT(""), SLICE_RECORDS, note_wait, t)) {
        return true;
    }
    if (t->noted < t->names.n) {
        note_holders(t, t->noted++);
        return true;
    }
    if (t->compared < t->names.n) {
        name_of(t, t->compared)->wanted = is_asked_for(t, name_of(t, t->compared));
        t->compared++;
        return true;
    }
    return false;
}

void
tree_print(struct tree *t, struct buf *out, struct outbox *box)
{
    t->out = out;
    t->box = box;
    sort(&t->waits_by_owner);
    sort(&t->holds_by_owner);
    choose(t);
    tree_draw(t);
    if (t->rows == 0) {
        buf_adds(out, "nobody waits\r\n");
    }
    if (t->left_out > 0) {
        buf_printf(out, "... and %zu more, not shown\r\n", t->left_out);
    }
}
