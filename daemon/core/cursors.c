/*
 * cursors.c -- where cursors go on in their next slice.
 *
 * There may be as many cursors as sessions, and as many records may go at once as a session holds, so a record that
 * goes must not look for the cursors at it. Hence bookmarks, which cursors share:
 *
 * K1  A place (a lock, a claim in a queue, the end of a domain) has one bookmark, or none if no cursor needs it; the
 *     has_cursor of the record says which. A bookmark lives while cursors, or bookmarks behind it, refer to it.
 * K2  Before a record goes, its bookmark moves to the place behind it, or leads to the bookmark that is already there
 *     (onward). A cursor follows `onward` when it resumes, and shortens the way for all others (bookmark_find()).
 */
#include "daemon/core/cursors.h"

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/freelist.h"
#include "daemon/base/map.h"
#include "daemon/core/claim.h"
#include "daemon/core/domain.h"
#include "daemon/core/jobs.h"
#include "daemon/core/lock.h"
#include "daemon/core/state.h"

/* One of the three is set; none: behind the last claim of a queue. */
struct place {
    struct lock *lock;
    struct claim *claim;
    struct domain *end; /* behind the last lock of this domain: at the next one that joins it */
};

struct bookmark {
    struct map_node by_record; /* core.bookmarks, of locks and claims: place_number() */
    struct place place;
    struct bookmark *onward; /* the bookmark of the place to which this one has moved; NULL: it is at `place` itself */
    uint32_t refs;           /* cursors and bookmarks that refer to it */
    uint32_t moves;          /* how often its record has gone */
};

static uint64_t
place_number(struct place p)
{
    return p.claim != NULL ? claim_id(p.claim) : p.lock->by_name.number;
}

/* The bookmark at the place; NULL: there is none. */
static struct bookmark *
bookmark_at(const struct core *c, struct place p)
{
    struct map_node *n;

    if (p.end != NULL) {
        return p.end->end_bookmark;
    }
    if (p.claim != NULL ? !p.claim->has_cursor : !p.lock->has_cursor) {
        return NULL;
    }
    for (n = map_find(&c->bookmarks, place_number(p)); n != NULL; n = map_next(n)) {
        struct bookmark *b = container_of(n, struct bookmark, by_record);

        if (b->place.lock == p.lock && b->place.claim == p.claim) {
            return b;
        }
    }
    return NULL;
}

static bool
place_has_record(struct place p)
{
    return p.lock != NULL || p.claim != NULL;
}

/* Says at the place which bookmark it has; b NULL: none. */
static void
place_note(struct place p, struct bookmark *b)
{
    if (p.end != NULL) {
        p.end->end_bookmark = b;
    } else if (p.claim != NULL) {
        p.claim->has_cursor = b != NULL;
    } else if (p.lock != NULL) {
        p.lock->has_cursor = b != NULL;
    }
}

static void
bookmark_put(struct core *c, struct bookmark *b, struct place p)
{
    b->place = p;
    place_note(p, b);
    if (place_has_record(p)) {
        map_add(&c->bookmarks, &b->by_record, place_number(p));
    }
}

static void
bookmark_lift(struct core *c, struct bookmark *b)
{
    if (place_has_record(b->place)) {
        map_remove(&c->bookmarks, &b->by_record);
    }
    place_note(b->place, NULL);
    b->place = (struct place){.lock = NULL};
}

/* Its record goes: moves the bookmark to the place behind it. */
static void
bookmark_move(struct core *c, struct bookmark *b, struct place to)
{
    struct bookmark *there = place_has_record(to) || to.end != NULL ? bookmark_at(c, to) : NULL;

    bookmark_lift(c, b);
    b->moves++;
    if (there != NULL) {
        b->onward = there;
        there->refs++;
    } else {
        bookmark_put(c, b, to);
    }
}

/* A reference to the bookmark of the place. */
static struct bookmark *
bookmark_take(struct core *c, struct place p)
{
    struct bookmark *b = bookmark_at(c, p);

    if (b == NULL) {
        b = freelist_take_zeroed(&c->freelist, sizeof(*b));
        bookmark_put(c, b, p);
    }
    b->refs++;
    return b;
}

/* Gives a reference back. */
static void
bookmark_let_go(struct core *c, struct bookmark **ref)
{
    struct bookmark *b = *ref;

    *ref = NULL;
    while (b != NULL && --b->refs == 0) {
        struct bookmark *onward = b->onward;

        bookmark_lift(c, b);
        freelist_give(&c->freelist, b, sizeof(*b));
        b = onward;
    }
}

/* The bookmark to which this one leads; `*ref`, and all references on the way, are to that one now. */
static struct bookmark *
bookmark_find(struct core *c, struct bookmark **ref)
{
    struct bookmark *found = *ref, *of_freed = NULL;

    while (found->onward != NULL) {
        found = found->onward;
    }
    while (*ref != found) {
        struct bookmark *b = *ref;

        if (ref != &of_freed) {
            *ref = found;
            found->refs++;
        }
        if (--b->refs > 0) {
            ref = &b->onward;
        } else { /* takes over its reference */
            of_freed = b->onward;
            ref = &of_freed;
            freelist_give(&c->freelist, b, sizeof(*b));
        }
    }
    found->refs -= ref == &of_freed;
    return found;
}

/* ---- cursors ---- */

static struct claim *
first_waiter(const struct lock *l)
{
    const struct list *queue = l != NULL ? &l->queue->claims : NULL;

    return queue == NULL || list_empty(queue) ? NULL : container_of(queue->next, struct claim, node);
}

/* The first lock of the first domain, `from` or above, that has any. NULL: none has. */
static struct lock *
enter_domain(struct core *c, struct core_cursor *w, uint32_t from)
{
    uint32_t i = domain_with_locks(c, from);

    w->position = 0;
    bookmark_let_go(c, &w->last);
    if (i == c->domains_n) {
        return NULL;
    }
    w->domain = i;
    w->last = bookmark_take(c, (struct place){.end = &c->domain[i]});
    return container_of(c->domain[i].locks.next, struct lock, all);
}

struct lock *
cursor_resume(struct core *c, struct core_cursor *w, struct claim **waiter)
{
    struct lock *l;
    bool same;

    *waiter = NULL;
    if (w->next == NULL) {
        return NULL;
    }
    same = w->next->onward == NULL && w->next->moves == w->moves;
    l = bookmark_find(c, &w->next)->place.lock;
    if (bookmark_find(c, &w->last) == w->next) {
        l = enter_domain(c, w, w->domain + 1);
    } else if (!same) {
        w->position = 0;
    }
    if (same && w->waiter != NULL) {
        *waiter = bookmark_find(c, &w->waiter)->place.claim;
    } else {
        *waiter = first_waiter(l);
    }
    bookmark_let_go(c, &w->next);
    bookmark_let_go(c, &w->waiter);
    return l;
}

struct lock *
cursor_next(struct core *c, struct core_cursor *w, const struct lock *l, struct claim **waiter)
{
    const struct lock *end = bookmark_find(c, &w->last)->place.lock;
    struct list *behind = l->all.next;
    struct lock *next;

    w->position = 0;
    if (behind == &lock_domain(c, l)->locks || container_of(behind, struct lock, all) == end) {
        next = enter_domain(c, w, w->domain + 1);
    } else {
        next = container_of(behind, struct lock, all);
    }
    *waiter = first_waiter(next);
    return next;
}

void
cursor_suspend(struct core *c, struct core_cursor *w, struct lock *l, struct claim *waiter)
{
    if (l == NULL) {
        return;
    }
    w->next = bookmark_take(c, (struct place){.lock = l});
    w->moves = w->next->moves;
    if (waiter != NULL) {
        w->waiter = bookmark_take(c, (struct place){.claim = waiter});
    }
}

void
cursor_begin(struct core *c, struct core_cursor *w)
{
    *w = (struct core_cursor){.next = NULL};
    cursor_suspend(c, w, enter_domain(c, w, 0), NULL);
}

void
cursor_end(struct core *c, struct core_cursor *w)
{
    bookmark_let_go(c, &w->next);
    bookmark_let_go(c, &w->last);
    bookmark_let_go(c, &w->waiter);
}

/* ---- records come and go ---- */

void
cursors_join(struct core *c, struct lock *l)
{
    bookmark_move(c, lock_domain(c, l)->end_bookmark, (struct place){.lock = l});
}

void
cursors_leave(struct core *c, struct lock *l)
{
    struct domain *d = lock_domain(c, l);
    struct place p = {.lock = l}, behind = {.end = d};

    if (!l->has_cursor) {
        return;
    }
    if (l->all.next != &d->locks) {
        behind = (struct place){.lock = container_of(l->all.next, struct lock, all)};
    }
    bookmark_move(c, bookmark_at(c, p), behind);
}

void
cursors_pass(struct core *c, struct claim *cl)
{
    struct list *next = cl->node.next;
    struct place behind = {.claim = NULL};

    if (!cl->has_cursor) {
        return;
    }
    if (next != &cl->lock->queue->claims) {
        behind.claim = container_of(next, struct claim, node);
    }
    bookmark_move(c, bookmark_at(c, (struct place){.claim = cl}), behind);
}
