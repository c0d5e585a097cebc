/*
 * cancel.c -- a session ends waits: its own, or those of a named owner, whichever session began them. S9 of check.c.
 *
 * No dice are thrown: the numbers of requests decide which waits are ended.
 */
#include "tests/sim/sim.h"

#define CANCEL_ID (UINT64_MAX - 1) /* the id of the request */

static bool
is_wait(const struct session *s, const struct asked *a)
{
    return s->open && a->id != 0 && !a->answered && (a->type == CORE_LOCK || a->type == CORE_MLOCK);
}

static bool
is_about(const struct asked *a, int name)
{
    for (size_t i = 0; i < (a->n > 0 ? a->n : 1); i++) {
        if (a->name[i] == name) {
            return true;
        }
    }
    return false;
}

/* The number of waits of that owner (n == 0: of session s itself) for the name. */
static int64_t
count_waits(const struct daemon *d, const struct session *s, struct slice owner, int name)
{
    int64_t n = 0;

    for (int i = 0; i < SESSIONS; i++) {
        const struct session *other = &d->session[i];

        for (int k = 0; k < ASKED; k++) {
            const struct asked *a = &other->asked[k];

            n += is_wait(other, a) && is_about(a, name) && slice_eq(a->owner, owner) && (owner.n > 0 || other == s);
        }
    }
    return n;
}

/* A wait that s may end, searched from a slot that depends on s; NULL: there is none. */
static const struct asked *
find_wait(const struct daemon *d, const struct session *s)
{
    for (int i = 0; i < SESSIONS; i++) {
        const struct session *other = &d->session[(s->id + (uint64_t)i) % SESSIONS];

        for (int k = 0; k < ASKED; k++) {
            const struct asked *a = &other->asked[k];

            if (is_wait(other, a) && (a->owner.n > 0 || other == s)) {
                return a;
            }
        }
    }
    return NULL;
}

void
cancels_act(struct daemon *d, const struct session *s)
{
    const struct asked *a = find_wait(d, s);
    uint64_t before = d->cancelled_n;
    struct slice owner;
    int64_t waits;
    int name;

    if (a == NULL) {
        return;
    }
    name = a->name[a->n > 0 ? s->next_request % a->n : 0];
    owner = a->owner;
    waits = count_waits(d, s, owner, name);
    trace(d->world, "client", "session %d of daemon %d cancels %s of %.*s: %d waits", (int)s->id, d->index,
          d->world->name[name].text, (int)owner.n, owner.p, (int)waits);
    d->cancel_sent = -1;
    daemon_step(d, &(struct core_event){.type = CORE_CANCEL,
                                        .request = {.session = s->id, .id = CANCEL_ID, .owner = owner,
                                                    .name = slice_of(d->world->name[name].text)}});
    if (d->dying) {
        return; /* the client does not receive the answer */
    }
    if (count_waits(d, s, owner, name) != 0) {
        violated(d->world, "S9", "%s is waited for behind a CANCEL", d->world->name[name].text);
    }
    if (d->cancel_sent < 0 || d->cancel_sent > waits || (uint64_t)d->cancel_sent != d->cancelled_n - before) {
        violated(d->world, "S9", "a CANCEL of %d waits says %d, and %d were answered so", (int)waits,
                 (int)d->cancel_sent, (int)(d->cancelled_n - before));
    }
}

bool
cancels_receive(struct daemon *d, const struct core_reply *r)
{
    if (r->id == CANCEL_ID) {
        d->cancel_sent = r->answer == CORE_LEFT ? r->left : -1;
    }
    return r->id == CANCEL_ID;
}
