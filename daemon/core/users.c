/*
 * users.c -- users: the shares and counts that all sessions of one Unix uid, or of one address, have together.
 *
 * Owns the records. A user lives as long as it has a session or an owner. An owner counts for the user whose session
 * used it first; one that was restored counts for no user until then. User 0 is not counted.
 */
#include <stdlib.h>

#include "daemon/base/memory.h"
#include "daemon/core/core.h"
#include "daemon/core/owners.h"
#include "daemon/core/state.h"

/* NULL: the user has neither a session nor an owner. */
static struct user *
user_find(const struct core *c, uint64_t key)
{
    struct map_node *n = map_find(&c->users, key);

    return n != NULL ? container_of(n, struct user, by_key) : NULL;
}

static struct user *
user_new(struct core *c, uint64_t key)
{
    struct user *u = mem_zalloc(sizeof(*u));

    map_add(&c->users, &u->by_key, key);
    return u;
}

static void
user_drop(struct core *c, struct user *u)
{
    if (--u->refs == 0) {
        map_remove(&c->users, &u->by_key);
        free(u);
    }
}

void
user_enter(struct core *c, struct core_session *s, uint64_t key)
{
    struct user *u = user_find(c, key);

    if (key == 0) {
        return;
    }
    u = u != NULL ? u : user_new(c, key);
    u->refs++;
    u->sessions_n++;
    s->user = u;
    user_add_owner(s->owner, u);
}

void
user_leave(struct core *c, struct core_session *s)
{
    if (s->user != NULL) {
        s->user->sessions_n--;
        s->user->session_owners_n -= s->session_owners_n; /* the session's job frees them later */
        user_drop(c, s->user);
        s->user = NULL;
    }
}

void
user_add_owner(struct owner *o, struct user *u)
{
    if (o->user == NULL && u != NULL) {
        o->user = u;
        u->refs++;
        u->claims_n += o->claims_n;
    }
}

void
user_remove_owner(struct core *c, struct owner *o)
{
    if (o->user != NULL) {
        user_drop(c, o->user);
        o->user = NULL;
    }
}

void
user_count_claim(const struct owner *o, int by)
{
    if (o->user != NULL) {
        o->user->claims_n += (uint64_t)(int64_t)by;
    }
}

uint64_t
user_claims(const struct owner *o)
{
    return o->user != NULL ? o->user->claims_n : 0;
}

void
user_count_blocking(const struct core_session *s, int by)
{
    if (s->user != NULL) {
        s->user->blocking_n += (uint32_t)by;
    }
}

void
user_count_session_owner(struct core_session *s, int by)
{
    s->session_owners_n += (uint64_t)(int64_t)by;
    if (s->user != NULL) {
        s->user->session_owners_n += (uint64_t)(int64_t)by;
    }
}

uint64_t
user_session_owners(const struct core_session *s)
{
    return s->user != NULL ? s->user->session_owners_n : 0;
}

bool
core_share_has_room(uint64_t limit, unsigned percent, uint64_t used, uint64_t mine)
{
    uint64_t left = limit > used ? limit - used : 0;

    return left > 0 && (left > limit * (100 - percent) / 100 || mine < left);
}

bool
user_has_room(struct core *c, const struct user *u, uint64_t limit, uint64_t used, uint64_t mine)
{
    bool room = limit == 0 || used < limit;
    bool may = u == NULL || limit == 0 || core_share_has_room(limit, c->conf.user_percent, used, mine);

    c->metrics->user_shares += room && !may;
    return room && may;
}

uint64_t
core_user_sessions(const struct core *c, uint64_t user)
{
    const struct user *u = user_find(c, user);

    return u != NULL ? u->sessions_n : 0;
}
