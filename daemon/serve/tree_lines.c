/*
 * tree_lines.c -- INFO tree: its lines, from the notes of tree.c.
 */
#include "daemon/serve/tree_private.h"

#include <inttypes.h>

#include "daemon/serve/fields.h"
#include "daemon/serve/sessions.h"

const struct owner_entry *
tree_first_entry(const struct records *index, uint64_t owner, const struct owner_entry **end)
{
    const struct owner_entry *o = index->p;
    size_t low = 0, high = index->n;

    if (high == 0) { /* then there may be no array */
        return *end = NULL;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (o[middle].owner < owner) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (high = low; high < index->n && o[high].owner == owner; high++) {
    }
    *end = o + high;
    return o + low;
}

#define DEPTH_MAX 32 /* names, one below the other */

static bool
waits(const struct tree *t, uint64_t owner)
{
    const struct owner_entry *end, *o = tree_first_entry(&t->waits_by_owner, owner, &end);

    return o < end;
}

/* False: there are enough lines. */
static bool
begin_line(struct tree *t, unsigned depth)
{
    if (t->rows == t->rows_max) {
        t->left_out++;
        return false;
    }
    t->rows++;
    buf_printf(t->out, "%*s", (int)depth * 2, "");
    return true;
}

static void
end_line(struct tree *t)
{
    buf_adds(t->out, "\r\n");
}

static void
print_owner(const struct tree *t, const struct tree_owner *owner)
{
    const struct session *s = session_find(t->engine, owner->session);

    if (owner->n > 0) {
        buf_adds(t->out, "owner \"");
        fields_print_name(bytes_of(t, owner->at, owner->n), t->out);
        buf_printf(t->out, "\" by session %" PRIu64, owner->session);
    } else {
        buf_printf(t->out, "session %" PRIu64, owner->session);
    }
    if (s != NULL) {
        buf_printf(t->out, " (%s)", s->name != NULL ? s->name : s->peer);
    }
}

static void
print_name(const struct tree *t, const struct contended *c)
{
    fields_print_name(bytes_of(t, c->at, c->n), t->out);
}

static void
print_span(const struct tree *t, const char *before, int64_t us, const char *behind)
{
    char span[24];

    fields_print_duration(us > 0 ? us / 1000 : 0, span);
    buf_printf(t->out, "%s%s%s", before, span, behind);
}

static void print_held_by(struct tree *t, uint64_t owner, unsigned depth);

static void
print_queue(struct tree *t, struct contended *c, unsigned depth)
{
    size_t i;

    c->printed = true;
    c->open = true;
    for (i = c->wait; i < c->wait + c->waits_n; i++) {
        const struct wait *w = wait_of(t, i);

        if (begin_line(t, depth)) {
            buf_printf(t->out, "%" PRIu32 ". ", w->position);
            print_owner(t, &w->owner);
            buf_adds(t->out, w->shared ? ", shared" : "");
            print_span(t, ", waiting ", w->waited_us, "");
            if (w->kept) {
                buf_adds(t->out, ", place kept");
            } else if (w->due_us != CORE_FOREVER) {
                print_span(t, ", ", w->due_us - t->now_us, " more");
            }
            end_line(t);
        }
        if (!w->kept) {
            print_held_by(t, w->owner.id, depth + 1);
        }
    }
    c->open = false;
}

/* `n` permits or holds of one owner, of which this is the first. */
static void
print_hold(struct tree *t, const struct hold *h, size_t n, unsigned depth)
{
    struct contended *c = name_of(t, h->name);

    c->deep = c->deep || (!c->printed && depth >= 2 * DEPTH_MAX);
    if (begin_line(t, depth)) {
        buf_adds(t->out, "holds ");
        print_name(t, c);
        if (c->limit > 0) {
            buf_printf(t->out, ", %zu of %" PRIu32 " permits,", n, c->limit);
        } else if (h->shared) {
            buf_adds(t->out, " shared");
        }
        print_span(t, " for ", h->held_us, "");
        buf_printf(t->out, ", token %" PRIu64, h->grant.token);
        outbox_rely(t->box, &h->grant, t->losses);
        buf_adds(t->out, c->open      ? " (a cycle: it stands above)"
                         : c->printed ? " (its queue stands above)"
                         : c->deep    ? " (its queue stands below)"
                                      : "");
        end_line(t);
    }
    if (!c->printed && !c->deep) {
        print_queue(t, c, depth + 1);
    }
}

/* The names that the owner holds and others wait for. */
static void
print_held_by(struct tree *t, uint64_t owner, unsigned depth)
{
    const struct owner_entry *end, *o = tree_first_entry(&t->holds_by_owner, owner, &end), *next;

    for (; o < end; o = next) {
        for (next = o; next < end && next->name == o->name; next++) {
            hold_of(t, next->i)->printed = true;
        }
        if (name_of(t, o->name)->wanted) {
            print_hold(t, hold_of(t, o->i), (size_t)(next - o), depth);
        }
    }
}

static void
print_root(struct tree *t, const struct hold *h, const char *remark)
{
    if (begin_line(t, 0)) {
        print_owner(t, &h->owner);
        buf_adds(t->out, remark);
        end_line(t);
    }
    print_held_by(t, h->owner.id, 1);
}

/* Prints a name that no owner here holds. */
static void
print_elsewhere(struct tree *t, struct contended *c)
{
    bool taken = strcmp(c->state, "taken") == 0;

    if (begin_line(t, 0)) {
        print_name(t, c);
        buf_printf(t->out, " is %s", taken ? "taken elsewhere" : c->state);
        if (taken && c->deadline_us > t->now_us) {
            print_span(t, ", for ", c->deadline_us - t->now_us, " at most");
        }
        end_line(t);
    }
    print_queue(t, c, 1);
}

/* Prints each queue that was too deep as a tree of its own, which may have such queues again. */
static void
print_deep(struct tree *t)
{
    size_t i, n;

    do {
        for (i = n = 0; i < t->names.n && t->rows < t->rows_max; i++) {
            struct contended *c = name_of(t, i);

            if (c->deep && !c->printed) {
                begin_line(t, 0);
                print_name(t, c);
                buf_adds(t->out, ", from above\r\n");
                print_queue(t, c, 1);
                n++;
            }
        }
    } while (n > 0);
}

void
tree_draw(struct tree *t)
{
    size_t i, k;

    for (i = 0; i < t->names.n; i++) {
        const struct contended *c = name_of(t, i);

        for (k = c->hold; c->wanted && k < c->hold + c->holds_n; k++) {
            if (!hold_of(t, k)->printed && !waits(t, hold_of(t, k)->owner.id)) {
                print_root(t, hold_of(t, k), "");
            }
        }
    }
    for (i = 0; i < t->names.n; i++) {
        struct contended *c = name_of(t, i);

        if (c->wanted && !c->printed && c->holds_n == 0) {
            print_elsewhere(t, c);
        }
    }
    print_deep(t);
    for (i = 0; i < t->names.n; i++) {
        const struct contended *c = name_of(t, i);

        if (c->wanted && !c->printed && t->rows < t->rows_max) {
            print_root(t, hold_of(t, c->hold), ", in a cycle");
            print_deep(t);
        }
    }
}
