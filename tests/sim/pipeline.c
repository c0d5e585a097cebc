/*
 * pipeline.c -- a session sends many requests at once, and the order of the answers to its owner. S10 of check.c.
 *
 * No dice are thrown, except those of the requests.
 */
#include "tests/sim/sim.h"

/* ---- requests ---- */

static bool
may_go_on(const struct daemon *d, const struct session *s, uint64_t id)
{
    return d->alive && !d->world->failed && s->open && s->id == id && !s->eof;
}

/* Requests of one owner: held names are released or renewed, other names are locked. */
void
pipelines_act(struct daemon *d, struct session *s)
{
    struct world *w = d->world;
    uint64_t id = s->id, sort = s->next_request % 4, n = 2 + s->next_request % 7;
    bool named = w->habit.named > 0 && s->id % 2 == 0;
    struct slice owner = named ? clients_owner(SLICE_LIT("alice")) : (struct slice){NULL, 0};
    int from = (int)(s->next_request % (uint64_t)w->habit.names);

    for (uint64_t i = 0; i < n && may_go_on(d, s, id); i++) {
        int name = (from + (int)i) % w->habit.names;

        if (s->held[name] > 0 && sort == 1) {
            clients_ask_at_once(d, s, CORE_RENEW, name, owner);
        } else if (s->held[name] > 0 && sort != 0) {
            s->held[name]--;
            clients_ask_at_once(d, s, CORE_UNLOCK, name, owner);
        } else if (i == 3 && sort == 3) {
            clients_ask(d, s, CORE_LOCK, name, owner); /* this one may wait */
        } else {
            clients_ask_at_once(d, s, CORE_LOCK, name, owner);
        }
    }
}

/* ---- requests that go side by side ---- */

static bool
is_of(enum core_event_type type, enum core_event_type one, enum core_event_type many)
{
    return type == one || type == many;
}

static bool
may_wait(const struct asked *a)
{
    return a->type == CORE_MLOCK || (a->type == CORE_LOCK && a->wait_us != 0);
}

/* Of several names some may have been refused at once; core_check() covers the others. */
static bool
are_of_one_name(const struct asked *a, const struct asked *b)
{
    return a->n == 0 && b->n == 0 && a->name[0] == b->name[0];
}

/* PROTOCOL.md, Order: whether the later request may be answered while the earlier one has no answer. */
static bool
go_together(const struct world *w, const struct asked *earlier, const struct asked *later)
{
    bool locks = later->type == CORE_LOCK, behind_unlock = is_of(earlier->type, CORE_UNLOCK, CORE_MUNLOCK);

    if (may_wait(earlier) || may_wait(later) || are_of_one_name(earlier, later) ||
        (behind_unlock && w->habit.links > 1)) {
        return false;
    }
    if (locks) {
        return earlier->type == CORE_LOCK || behind_unlock;
    }
    return is_of(later->type, CORE_UNLOCK, CORE_MUNLOCK) ? behind_unlock
                                                         : is_of(earlier->type, CORE_RENEW, CORE_MRENEW);
}

/*
 * The request had its turn. Other answers are refusals, or come from another session's request; for these the order
 * does not count.
 */
static bool
has_run(const struct core_reply *r)
{
    bool ran = r->answer == CORE_GRANTED || r->answer == CORE_NOT_GRANTED || r->answer == CORE_WAS_LOST ||
               r->answer == CORE_DEADLOCK || r->answer == CORE_UNAVAILABLE;

    for (size_t i = 0; i < r->parts; i++) {
        ran = ran || r->part[i].answer == CORE_LEFT;
    }
    return ran || (r->answer == CORE_LEFT && r->parts == 0);
}

static bool
has_order(const struct asked *a)
{
    return a->id != 0 && a->type != CORE_BREAK && !a->once;
}

void
pipelines_answered(struct daemon *d, const struct session *s, const struct asked *a)
{
    struct world *w = d->world;

    if (!has_order(a) || !has_run(&a->reply)) {
        return;
    }
    for (int i = 0; i < SESSIONS; i++) {
        const struct session *other = &d->session[i];

        for (int k = 0; k < ASKED && other->open; k++) {
            const struct asked *b = &other->asked[k];

            if (!has_order(b) || b->answered || b->turn >= a->turn || !slice_eq(a->owner, b->owner) ||
                (a->owner.n == 0 && other != s)) {
                continue;
            }
            if (!go_together(w, b, a)) {
                violated(w, "S10", "request %d of session %d is answered %d before request %d of session %d",
                         (int)a->id, (int)s->id, a->reply.answer, (int)b->id, (int)other->id);
            }
            sight(w, SIGHT_SIDE_BY_SIDE);
        }
    }
}
