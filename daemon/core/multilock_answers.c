/*
 * multilock_answers.c -- the answers of the members of a multilock, and the one answer made of them.
 *
 * What follows for the other members is done later in the step: multilocks_advance().
 */
#include <stdlib.h>

#include "daemon/core/core.h"
#include "daemon/core/ends.h"
#include "daemon/core/multilock_record.h"
#include "daemon/core/request.h"
#include "daemon/core/state.h"

/* The request is no member any more; with the last one the multilock is freed. */
void
multilock_remove(struct multilock *m, struct request *r)
{
    m->member[r->part] = NULL;
    r->multilock = NULL;
    if (--m->alive_n == 0) {
        list_remove(&m->dirty_node);
        free(m);
    }
}

static void
note_part(struct multilock *m, size_t i, const struct core_reply *rp)
{
    struct slice name = m->part[i].name;

    m->part[i] = *rp;
    m->part[i].name = name; /* the lock's own may go before the answer does */
    m->answered_n++;
}

void
multilock_send(struct core *c, const struct multilock *m, const struct core_reply *rp)
{
    struct core_reply whole = *rp;

    whole.session = m->session;
    whole.id = m->id;
    whole.full = m->full;
    whole.part = m->part;
    whole.parts = m->names_n;
    request_reply(c, &whole);
}

static void
mark_dirty(struct core *c, struct multilock *m)
{
    if (!list_linked(&m->dirty_node)) {
        list_push_back(&c->dirty_multilocks, &m->dirty_node);
    }
}

static void
lock_answers(struct core *c, struct multilock *m, struct request *r, const struct core_reply *rp)
{
    if (rp->answer == CORE_GRANTED) {
        note_part(m, r->part, rp);
        r->other_holds = rp->holds > 1;
        request_stop_waiting(c, r);
        if (m->answered_n == m->names_n) {
            mark_dirty(c, m);
        }
        return;
    }
    if (!m->failed) {
        m->failed = true;
        multilock_send(c, m, rp);
        mark_dirty(c, m);
    }
    multilock_remove(m, r);
    request_drop(c, r);
}

void
multilock_note_answer(struct core *c, struct multilock *m, size_t i, const struct core_reply *rp)
{
    note_part(m, i, rp);
    if (m->answered_n == m->names_n) {
        multilock_send(c, m, &(struct core_reply){.answer = CORE_LEFT, .name = m->part[0].name});
    }
}

void
multilock_answer(struct core *c, struct request *r, const struct core_reply *rp)
{
    struct multilock *m = r->multilock;

    if (m->verb == CORE_MLOCK) {
        lock_answers(c, m, r, rp);
    } else {
        multilock_note_answer(c, m, r->part, rp);
        multilock_remove(m, r);
        request_drop(c, r);
    }
}
