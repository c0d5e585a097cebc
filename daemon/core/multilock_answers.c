/*
 * multilock_answers.c -- the answers of the members of a multilock, and the one answer made of them.
 *
 * What follows for the other members is done at the end of the step: multilocks_advance().
 */
#include <stdlib.h>

#include "daemon/core/core.h"
#include "daemon/core/multilock.h"
#include "daemon/core/request.h"
#include "daemon/core/requests.h"
#include "daemon/core/state.h"

/* The request is no member any more; with the last one the multilock is freed. */
void
multilock_forget(struct multilock *b, struct request *r)
{
    b->member[r->part] = NULL;
    r->multilock = NULL;
    if (--b->members_n == 0) {
        list_remove(&b->dirty_node);
        free(b);
    }
}

static void
note(struct multilock *b, size_t i, const struct core_reply *rp)
{
    struct slice name = b->part[i].name;

    b->part[i] = *rp;
    b->part[i].name = name; /* the lock's own may go before the answer does */
    b->answers_n++;
}

void
multilock_send(struct core *c, const struct multilock *b, const struct core_reply *rp)
{
    struct core_reply whole = *rp;

    whole.session = b->session;
    whole.id = b->id;
    whole.full = b->full;
    whole.part = b->part;
    whole.parts = b->n;
    request_reply(c, &whole);
}

static void
wake(struct core *c, struct multilock *b)
{
    if (!list_linked(&b->dirty_node)) {
        list_push_back(&c->dirty_multilocks, &b->dirty_node);
    }
}

static void
lock_answers(struct core *c, struct multilock *b, struct request *r, const struct core_reply *rp)
{
    if (rp->answer == CORE_GRANTED) {
        note(b, r->part, rp);
        r->other_holds = rp->holds > 1;
        request_stop_waiting(c, r);
        if (b->answers_n == b->n) {
            wake(c, b);
        }
        return;
    }
    if (!b->failed) {
        b->failed = true;
        multilock_send(c, b, rp);
        wake(c, b);
    }
    multilock_forget(b, r);
    request_drop(c, r);
}

void
multilock_note_held(struct core *c, struct multilock *b, size_t i, const struct core_reply *rp)
{
    note(b, i, rp);
    if (b->answers_n == b->n) {
        multilock_send(c, b, &(struct core_reply){.answer = CORE_LEFT, .name = b->part[0].name});
    }
}

void
multilock_answer(struct core *c, struct request *r, const struct core_reply *rp)
{
    struct multilock *b = r->multilock;

    if (b->verb == CORE_MLOCK) {
        lock_answers(c, b, r, rp);
    } else {
        multilock_note_held(c, b, r->part, rp);
        multilock_forget(b, r);
        request_drop(c, r);
    }
}
