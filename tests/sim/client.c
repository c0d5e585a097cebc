/*
 * client.c -- sessions at their daemons: they lock, hold, unlock, renew, wait, give up and vanish, with the habits of
 * the seed.
 */
#include <string.h>

#include "daemon/backend/slot.h"
#include "tests/sim/sim.h"

static const char *const owners[] = {"alice", "bob", "carol"};

#define BY_ANOTHER_NAME UINT64_MAX /* the id of a request, see asks_by_another_name() */

static bool
name_has(const struct name *n, unsigned flag)
{
    return (kind_rows[n->kind].flags & flag) != 0;
}

struct slice
clients_owner(struct slice name)
{
    for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); i++) {
        if (slice_eq(name, slice_of(owners[i]))) {
            return slice_of(owners[i]);
        }
    }
    return (struct slice){NULL, 0};
}

/* ---- requests ---- */

/* A slot for a new request; NULL: there are enough, or the session may send no more. */
static struct asked *
free_slot(struct session *s)
{
    for (int i = 0; i < ASKED && !s->eof; i++) {
        if (s->asked[i].id == 0) {
            return &s->asked[i];
        }
    }
    return NULL;
}

static int64_t
draw_wait(struct world *w)
{
    if (chance(w, (uint32_t)w->habit.nowait)) {
        return 0;
    }
    return chance(w, (uint32_t)w->habit.forever) ? CORE_FOREVER : between(w, 20, 8000) * US_PER_MS;
}

static struct core_request
draw_request(struct world *w, const struct session *s, enum core_event_type type, const struct name *n)
{
    bool locks = type == CORE_LOCK || type == CORE_MLOCK, renews = type == CORE_RENEW || type == CORE_MRENEW;
    struct core_request r = {.session = s->id,
                             .id = s->next_request,
                             .name = slice_of(n->text),
                             .spec = {.kind = n->kind,
                                      .limit = n->limit,
                                      .declared = n->limit == 2, /* else a KIND of the request itself */
                                      .lease_us = w->habit.lease_us,
                                      .linger_us = w->habit.linger_us,
                                      .replicas = (n - w->name) % 2 == 1 ? (uint32_t)w->habit.replicas : 0,
                                      .owner_grace_us = w->habit.owner_grace_us,
                                      .queue_grace_us = w->habit.queue_grace_us,
                                      .domain = w->shape == SHAPE_CLUSTER ? slot_of(slice_of(n->text)) : 0,
                                      .key = slice_of(n->text)}};

    if (chance(w, (uint32_t)w->habit.named)) {
        r.owner = slice_of(owners[below(w, 3)]);
    }
    r.wait_us = locks ? draw_wait(w) : 0;
    if (renews || (locks && chance(w, (uint32_t)w->habit.leased))) {
        r.lease_us = between(w, 500, LEASE_MAX_US / US_PER_MS) * US_PER_MS;
    }
    r.once = locks && chance(w, 10000);
    r.shared = name_has(n, KIND_F_SHARED) && chance(w, (uint32_t)w->habit.shared);
    return r;
}

static void
begin_asking(struct daemon *d, struct session *s, struct asked *a, enum core_event_type type)
{
    struct world *w = d->world;
    bool first = s->asked_n == 0;

    for (int i = 0; i < ASKED; i++) {
        s->asked[i].sole = false;
    }
    s->asked_n++;
    *a = (struct asked){.id = ++s->next_request, .turn = ++d->asked_n, .type = type, .at_us = w->now_us, .first = first,
                        .sole = first};
    outbox_init(&a->box);
}

static void
note_asked(struct asked *a, const struct core_request *r)
{
    a->wait_us = r->wait_us;
    a->once = r->once;
    a->shared = r->shared;
    a->owner = r->owner;
}

/* The session has as many unanswered requests as it may, and sends one more: the oldest is refused if it waits. */
static void
crowds(struct daemon *d, const struct session *s)
{
    struct core_event ev = {.type = CORE_CROWDED, .oldest = {s->id, UINT64_MAX}};

    for (int i = 0; i < ASKED && !s->eof; i++) {
        ev.oldest.id = s->asked[i].id != 0 && s->asked[i].id < ev.oldest.id ? s->asked[i].id : ev.oldest.id;
    }
    if (ev.oldest.id != UINT64_MAX) {
        daemon_step(d, &ev);
    }
}

/* owner NULL, wait_us < 0: drawn by the habits. */
static void
ask(struct daemon *d, struct session *s, enum core_event_type type, int name, const struct slice *owner,
    int64_t wait_us)
{
    struct world *w = d->world;
    struct core_event ev = {.type = type};
    struct asked *a = free_slot(s);

    if (a == NULL) {
        crowds(d, s);
        return;
    }
    begin_asking(d, s, a, type);
    a->name[0] = name;
    ev.request = draw_request(w, s, type, &w->name[name]);
    ev.request.owner = owner != NULL ? *owner : ev.request.owner;
    ev.request.wait_us = wait_us < 0 ? ev.request.wait_us : wait_us;
    note_asked(a, &ev.request);
    trace(w, d->clients, "session %d asks %d: %s %s%s%.*s wait %lld lease %lld%s%s", (int)s->id, (int)a->id,
          type == CORE_LOCK ? "LOCK" : type == CORE_UNLOCK ? "UNLOCK" : type == CORE_RENEW ? "RENEW" : "BREAK",
          w->name[name].text, a->owner.n > 0 ? " of " : "", (int)ev.request.owner.n, ev.request.owner.p,
          (long long)a->wait_us, (long long)ev.request.lease_us, a->shared ? " shared" : "", a->once ? " once" : "");
    check_asks(d, s, &ev.request, type);
    daemon_step(d, &ev);
    a->queued = has_ticket(d, &w->name[name], s->id);
}

/* owner n == 0: drawn by the habits. */
void
clients_ask(struct daemon *d, struct session *s, enum core_event_type type, int name, struct slice owner)
{
    ask(d, s, type, name, owner.n > 0 ? &owner : NULL, -1);
}

/* owner n == 0: the session's own. */
void
clients_ask_at_once(struct daemon *d, struct session *s, enum core_event_type type, int name, struct slice owner)
{
    ask(d, s, type, name, &owner, 0);
}

/* The session of a named owner, or its daemon, may end in the middle of an MLOCK. */
static void
draw_doom(struct daemon *d, const struct session *s, const struct asked *a)
{
    struct world *w = d->world;

    if (a->owner.n > 0 && w->doomed == NULL && chance(w, 20000)) {
        w->doomed = d;
        w->doomed_session = s->id;
        w->doomed_request = a->id;
        w->doom_daemon = w->faults_on && chance(w, 10000);
        schedule(w, &w->doom, w->now_us + below(w, chance(w, 70000) ? 6 * w->habit.delay_us : 2 * US_PER_S));
    }
}

/* Several names with one owner, wait and lease. */
static void
ask_many(struct daemon *d, struct session *s, enum core_event_type type)
{
    struct world *w = d->world;
    struct core_request many[MANY];
    int most = w->habit.names < MANY ? w->habit.names : MANY, first = (int)below(w, w->habit.names);
    struct core_event ev = {.type = type};
    struct asked *a = free_slot(s);

    if (a == NULL) {
        return;
    }
    begin_asking(d, s, a, type);
    a->n = (size_t)between(w, 1, most);
    ev.multilock.request = many;
    ev.multilock.n = a->n;
    for (size_t i = 0; i < a->n; i++) {
        a->name[i] = (first + (int)i) % w->habit.names;
        many[i] = draw_request(w, s, type, &w->name[a->name[i]]);
        many[i].owner = many[0].owner;
        many[i].wait_us = many[0].wait_us;
        many[i].lease_us = many[0].lease_us;
        many[i].once = many[0].once;
        many[i].shared = false;
        check_asks(d, s, &many[i], type);
    }
    note_asked(a, &many[0]);
    trace(w, d->clients, "session %d asks %d: %s, %d names from %s", (int)s->id, (int)a->id,
          type == CORE_MLOCK ? "MLOCK" : type == CORE_MUNLOCK ? "MUNLOCK" : "MRENEW", (int)a->n,
          w->name[a->name[0]].text);
    if (type == CORE_MLOCK) {
        draw_doom(d, s, a);
    }
    daemon_step(d, &ev);
}

static void
session_ends(struct daemon *d, struct session *s)
{
    struct world *w = d->world;
    struct core_event ev = {.type = CORE_SESSION_GONE, .session = s->id};
    bool holds = false;

    for (int i = 0; i < NAMES; i++) {
        holds = holds || s->held[i] > 0;
    }
    w->totals->faults[s->asked_n > 0 ? FAULT_GONE_WAITING : holds ? FAULT_GONE_HOLDING : FAULT_GONE_IDLE]++;
    trace(w, d->clients, "session %d goes", (int)s->id);
    check_session_ends(d, s);
    replies_drop(s);
    memset(s, 0, sizeof(*s)); /* from now on a reply to it is an error */
    daemon_step(d, &ev);
}

void
clients_cut(struct daemon *d, struct session *s)
{
    session_ends(d, s);
}

void
clients_leave(struct daemon *d)
{
    if (!d->alive) {
        return;
    }
    daemon_begins(d);
    for (int s = 0; s < SESSIONS; s++) {
        if (d->session[s].open) {
            session_ends(d, &d->session[s]);
        }
    }
}

void
clients_doom(struct world *w)
{
    struct daemon *d = w->doomed;

    w->doomed = NULL;
    for (int i = 0; i < SESSIONS && d->alive && w->now_us >= d->paused_until_us; i++) {
        struct session *s = &d->session[i];
        bool waits = false;

        for (int k = 0; k < ASKED && s->open && s->id == w->doomed_session; k++) {
            waits = waits || s->asked[k].id == w->doomed_request;
        }
        if (waits && w->doom_daemon && w->faults_on) {
            w->totals->faults[FAULT_DIES_MULTILOCK]++;
            nature_crash(d);
        } else if (waits) {
            w->totals->faults[FAULT_GONE_MULTILOCK]++;
            daemon_begins(d);
            session_ends(d, s);
        }
    }
}

void
clients_lost(struct daemon *d)
{
    for (int i = 0; i < SESSIONS; i++) {
        replies_drop(&d->session[i]);
    }
    memset(d->session, 0, sizeof(d->session));
}

/* ---- acting ---- */

/* A name that the session holds, searched from a random one on; -1: none. */
static int
held_name(struct world *w, const struct session *s)
{
    int from = (int)below(w, w->habit.names);

    for (int i = 0; i < w->habit.names; i++) {
        int name = (from + i) % w->habit.names;

        if (s->held[name] > 0) {
            return name;
        }
    }
    return -1;
}

static void
ends_input(struct daemon *d, struct session *s)
{
    struct core_event ev = {.type = CORE_EOF, .session = s->id};

    s->eof = true;
    d->world->totals->faults[FAULT_EOF_WAITING] += s->asked_n > 0;
    trace(d->world, d->clients, "session %d: end of input", (int)s->id);
    daemon_step(d, &ev);
}

void
clients_open(struct daemon *d, struct session *s)
{
    if (!d->draining) {
        s->id = core_session_open(d->core, 0);
        s->open = true;
        replies_open(s);
        trace(d->world, d->clients, "session %d comes", (int)s->id);
    }
}

/*
 * A request for a name by another name with the same key, while the key is in use: it must be refused, and have no
 * other effect. No dice are thrown, so that all other events stay the same.
 */
static void
asks_by_another_name(struct daemon *d, struct session *s, const struct name *n)
{
    struct core_event ev = {.type = (s->next_request + s->id) % 5 == 0 ? CORE_BREAK : CORE_LOCK};
    enum kind kind;

    if (!core_name_in_use(d->core, slice_of(n->text), &kind)) {
        return;
    }
    ev.request = (struct core_request){.session = s->id, .id = BY_ANOTHER_NAME, .name = SLICE_LIT("by another name"),
                                       .spec = {.kind = n->kind, .limit = n->limit, .lease_us = LEASE_MAX_US,
                                                .key = slice_of(n->text)}};
    daemon_step(d, &ev);
}

static void
receives_by_another_name(struct daemon *d, const struct core_reply *r)
{
    sight(d->world, SIGHT_ANOTHER_NAME);
    if (r->answer != CORE_KEY_IN_USE && r->answer != CORE_TOO_MANY_WAITERS) {
        violated(d->world, "S8", "a key that is in use is had by another name: answer %d", r->answer);
    }
}

static void
session_acts(struct daemon *d, struct session *s)
{
    struct world *w = d->world;
    int name = (int)below(w, w->habit.names), held = held_name(w, s);
    struct slice empty_queue = {NULL, 0};
    enum core_event_type many;

    if (s->open && (s->next_request + s->id) % 7 == 0) {
        asks_by_another_name(d, s, &w->name[name]);
    }
    if (s->open && !s->eof && (s->next_request + s->id) % 41 == 4) {
        cancels_act(d, s);
    }
    if (s->open && !s->eof && (s->next_request + s->id) % 17 == 6) {
        pipelines_act(d, s);
        return;
    }
    if (!s->open) {
        clients_open(d, s);
    } else if (chance(w, (uint32_t)w->habit.gone)) {
        session_ends(d, s);
    } else if (!s->eof && chance(w, (uint32_t)w->habit.eof)) {
        ends_input(d, s);
    } else if (chance(w, (uint32_t)w->habit.many)) {
        many = chance(w, 60000) ? CORE_MLOCK : chance(w, 80000) ? CORE_MUNLOCK : CORE_MRENEW;
        ask_many(d, s, many);
    } else if (chance(w, (uint32_t)w->habit.renew)) {
        clients_ask(d, s, CORE_RENEW, held >= 0 ? held : name, empty_queue);
    } else if (held >= 0 && chance(w, (uint32_t)w->habit.unlock)) {
        s->held[held]--;
        clients_ask(d, s, CORE_UNLOCK, held, empty_queue);
    } else if (w->name[name].broken && chance(w, 5000)) {
        sight(w, SIGHT_BROKEN);
        clients_ask(d, s, CORE_BREAK, name, empty_queue);
    } else if (chance(w, 3000)) {
        clients_ask(d, s, CORE_UNLOCK, name, empty_queue);
    } else if (chance(w, (uint32_t)w->habit.lock)) {
        clients_ask(d, s, CORE_LOCK, name, empty_queue);
    }
}

/* Named owners that the process before has granted something come back, and ask again. */
static void
named_ones_return(struct daemon *d)
{
    struct world *w = d->world;

    w->returning = NULL;
    for (int k = 0; k < w->habit.names && d->alive && w->now_us >= d->paused_until_us; k++) {
        struct name *n = &w->name[k];

        for (int i = 0; i < n->promises_n; i++) {
            const struct promise *p = &n->promise[i];
            struct session *s = &d->session[below(w, w->habit.sessions)];

            if (p->daemon != d->index || p->self != d->state.self || p->life == d->life || p->until_us == 0 ||
                p->owner_name.n == 0) {
                continue;
            }
            daemon_begins(d);
            if (!s->open) {
                clients_open(d, s);
            }
            if (s->open && chance(w, 80000)) {
                clients_ask(d, s, CORE_LOCK, k, p->owner_name);
                break; /* promises may have moved */
            }
        }
    }
}

void
clients_return(struct daemon *d)
{
    struct world *w = d->world;

    if (w->returning == NULL && !w->leaving) {
        w->returning = d;
        schedule(w, &w->act, w->now_us + below(w, w->habit.owner_grace_us + 1));
    }
}

/* Acts for one session, or in a burst for several sessions of one daemon at the same moment. */
void
clients_act(struct world *w)
{
    struct daemon *d = &w->daemon[below(w, w->habit.busy)];
    int64_t n = chance(w, (uint32_t)w->habit.burst) ? between(w, 2, 10) : 1;

    if (w->returning != NULL) {
        named_ones_return(w->returning);
        return;
    }
    if (!d->alive || w->now_us < d->paused_until_us) {
        return;
    }
    daemon_begins(d);
    for (int64_t i = 0; i < n && !w->failed; i++) {
        struct session *s = &d->session[below(w, w->habit.sessions)];

        if (w->now_us >= s->paused_until_us) {
            session_acts(d, s);
        }
    }
}

/* ---- replies ---- */

static void
receives_answer(struct daemon *d, struct session *s, struct asked *a, const struct core_reply *r)
{
    struct world *w = d->world;
    static const enum sight sights[CORE_ANSWERS] = {
        [CORE_NOT_GRANTED] = SIGHT_NOT_GRANTED, [CORE_NOT_HELD] = SIGHT_NOT_HELD, [CORE_WAS_LOST] = SIGHT_WAS_LOST,
        [CORE_DEADLOCK] = SIGHT_DEADLOCK,       [CORE_DRAINING] = SIGHT_DRAINING, [CORE_REDIS_FULL] = SIGHT_FULL,
        [CORE_UNAVAILABLE] = SIGHT_UNAVAILABLE, [CORE_TOO_MANY_REQUESTS] = SIGHT_CROWDED,
        [CORE_CANCELLED] = SIGHT_CANCELLED,     [CORE_NO_REPLICAS] = SIGHT_NO_REPLICAS};

    if (r->answer == CORE_GRANTED) {
        int name = name_find(w, r->name);

        s->held[name]++;
        check_granted(d, s, a, r);
    } else if (r->answer == CORE_LEFT) {
        check_left(d, s, a, r);
    } else if (sights[r->answer] != 0) {
        sight(w, sights[r->answer]);
    }
}

void
clients_refused(struct daemon *d, struct session *s, const struct asked *a)
{
    bool refused = a->reply.answer == CORE_UNAVAILABLE || a->reply.answer == CORE_WAS_LOST;

    for (size_t i = 0; refused && i < (a->n > 0 ? a->n : 1); i++) {
        s->unavailable_us[a->name[i]] = d->world->now_us;
    }
    if (a->reply.answer == CORE_CANCELLED && a->type == CORE_LOCK && a->owner.n == 0) {
        s->cancelled_us[a->name[0]] = d->world->now_us;
    }
}

void
clients_receive(struct daemon *d, const struct core_reply *r)
{
    struct world *w = d->world;
    struct session *s = NULL;
    struct asked *a = NULL;

    for (int i = 0; i < SESSIONS; i++) {
        if (d->session[i].open && d->session[i].id == r->session) {
            s = &d->session[i];
        }
    }
    for (int i = 0; s != NULL && i < ASKED; i++) {
        if (s->asked[i].id == r->id) {
            a = &s->asked[i];
        }
    }
    trace(w, d->clients, "session %d is answered %d: answer %d token %llu holds %d left %lld lease %lld",
          (int)r->session, (int)r->id, r->answer, (unsigned long long)r->token, (int)r->holds, (long long)r->left,
          (long long)r->lease_us);
    if (r->id == BY_ANOTHER_NAME) {
        receives_by_another_name(d, r);
        return;
    }
    if (cancels_receive(d, r)) {
        return;
    }
    if (a == NULL) {
        violated(w, "S3", "a reply without a request: request %d of session %d, answer %d", (int)r->id,
                 (int)r->session, r->answer);
        return;
    }
    if (r->parts > 0 && (a->type != CORE_MLOCK || r->answer == CORE_GRANTED)) {
        if (r->parts != a->n) {
            violated(w, "S3", "%d parts for %d names", (int)r->parts, (int)a->n);
        }
        for (size_t i = 0; i < r->parts && i < a->n; i++) {
            receives_answer(d, s, a, &r->part[i]);
        }
        if (a->type == CORE_MLOCK) {
            sight(w, SIGHT_MULTILOCK);
        }
    } else if (a->n == 0 || r->answer != CORE_GRANTED) {
        receives_answer(d, s, a, r);
    }
    a->id = 0;
    s->asked_n--;
}
