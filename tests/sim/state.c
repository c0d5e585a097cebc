/*
 * state.c -- the state that outlives a process of a daemon: the state directory of serve/identity.c and
 * serve/state_file.c, as serve/state_store.c uses it.
 *
 * A checkpoint is kept or not, since a slot counts only when it is whole, and all writes are in the order of the
 * program. So a process that dies leaves the state up to some action, and the dice choose which (daemon_does). When the
 * machine loses its power each slot may also be as it was last written to the disk, or broken; and the clock begins
 * anew, after which no deadline is valid.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/slot.h"
#include "tests/sim/sim.h"

/* As in state_file.c. */
enum { STATE_FILE_IDS = 1 << 20, POWER_LOSS_IDS = 64 * STATE_FILE_IDS };

static struct core_checkpoint *
room_for(struct core_checkpoint **checkpoint, size_t *room, size_t n)
{
    if (n > *room) {
        *room = 2 * n;
        *checkpoint = realloc(*checkpoint, *room * sizeof(**checkpoint));
        if (*checkpoint == NULL) {
            abort();
        }
    }
    return *checkpoint;
}

static struct core_checkpoint *
find(struct core_checkpoint *checkpoint, size_t n, uint64_t claim)
{
    for (size_t i = n; i-- > 0;) {
        if (checkpoint[i].part.claim == claim) {
            return &checkpoint[i];
        }
    }
    return NULL;
}

void
state_put(struct daemon *d, const struct core_checkpoint *k)
{
    struct state *s = &d->state;
    struct core_checkpoint *r = find(s->checkpoint, s->n, k->part.claim);

    if (r == NULL) {
        (void)room_for(&s->checkpoint, &s->room, s->n + 1);
        r = &s->checkpoint[s->n++];
        *r = *k;
        r->name = slice_of(d->world->name[name_find(d->world, k->name)].text); /* which stays */
        r->key = r->name;
        r->owner = clients_owner(k->owner);
    }
    r->part = k->part; /* the texts of a slot, and the fields that go with them, never change */
    s->token = k->part.token > s->token ? k->part.token : s->token;
}

void
state_drop(struct daemon *d, uint64_t claim)
{
    struct state *s = &d->state;
    struct core_checkpoint *r = find(s->checkpoint, s->n, claim);

    if (r != NULL) {
        *r = s->checkpoint[--s->n];
    }
}

void
state_put_owner(struct daemon *d, const struct core_owner_checkpoint *k)
{
    struct state *s = &d->state;

    if (s->owners_n == s->owners_room) {
        s->owners_room = 2 * s->owners_room + 8;
        s->owner = realloc(s->owner, s->owners_room * sizeof(*s->owner));
        if (s->owner == NULL) {
            abort();
        }
    }
    s->owner[s->owners_n] = *k;
    s->owner[s->owners_n++].name = clients_owner(k->name);
}

void
state_drop_owner(struct daemon *d, uint64_t id)
{
    struct state *s = &d->state;

    for (size_t i = 0; i < s->owners_n; i++) {
        if (s->owner[i].id == id) {
            s->owner[i] = s->owner[--s->owners_n];
            return;
        }
    }
}

/* A daemon without a state directory has a new identity with every process. */
void
state_begin(struct daemon *d)
{
    struct state *s = &d->state;

    if (!d->keeps || s->self == 0) {
        s->self = d->life;
        memset(s->nonce, 0, sizeof(s->nonce));
    }
    memmove(&s->nonce[1], &s->nonce[0], sizeof(s->nonce) - sizeof(s->nonce[0]));
    s->nonce[0] = d->life * 1000 + (uint64_t)d->index + 1;
}

/* Notes the restored locks that have to be given back. */
static void
note_to_free(struct daemon *d)
{
    d->to_free_n = 0;
    for (size_t i = 0; i < d->state.n && d->to_free_n < LEFT_MAX; i++) {
        if (d->state.checkpoint[i].part.state == CORE_CHECKPOINT_RELEASING) {
            d->to_free[d->to_free_n++] = d->state.checkpoint[i].part.claim;
        }
    }
}

/*
 * The time until which Redis may have locks of the former process whose kind only the expiry proves: those that the
 * former process may have given back already (op_release), and those of operations without an answer.
 */
static int64_t
expires_us(const struct daemon *d, const struct core_checkpoint *k)
{
    int64_t now_us = daemon_clock(d, d->world->now_us), lease_us = k->part.lease_us + k->part.lease_us / 50;
    int64_t from_us = k->part.deadline_us > now_us ? k->part.deadline_us : now_us;

    return (kind_rows[k->kind].flags & KIND_F_BY_EXPIRY) != 0 ? daemon_true(d, from_us + lease_us + 10 * US_PER_MS) : 0;
}

/* Deadlines of another boot are invalid (state_file_load). */
void
state_restore(struct daemon *d)
{
    struct state *s = &d->state;
    struct core_restored a = {.serial = s->serial, .token = s->token, .n = s->n};
    struct core_owner_checkpoint *owners;
    size_t room = 0;

    if (!d->keeps) {
        return;
    }
    if (d->world->options->control == CONTROL_NO_RECORDS) {
        s->n = 0;
        a.n = 0;
    }
    a.serial += s->other_boot && s->serial != 0 ? POWER_LOSS_IDS : 0;
    s->owners_n = s->other_boot ? 0 : s->owners_n;
    a.owners_n = s->owners_n;
    a.owner = owners = calloc(s->owners_n + 1, sizeof(*owners)); /* the step changes the state's own array */
    if (owners == NULL) {
        abort();
    }
    if (s->owners_n > 0) {
        memcpy(owners, s->owner, s->owners_n * sizeof(*owners));
    }
    (void)room_for(&a.checkpoint, &room, s->n + 1);
    d->expires_us = 0;
    for (size_t i = 0; i < s->n; i++) {
        int64_t us;

        a.checkpoint[i] = s->checkpoint[i];
        a.checkpoint[i].domain = d->world->shape == SHAPE_CLUSTER ? slot_of(a.checkpoint[i].key) : 0;
        if (s->other_boot) {
            a.checkpoint[i].part.deadline_us = a.checkpoint[i].part.granted_us = 0;
        }
        us = expires_us(d, &a.checkpoint[i]);
        d->expires_us = us > d->expires_us ? us : d->expires_us;
    }
    s->serial = a.serial + 2 * STATE_FILE_IDS;
    check_restored(d, s->other_boot);
    daemon_step(d, &(struct core_event){.type = CORE_RESTORE, .restore = &a});
    trace(d->world, d->name, "adopts %d records: %d held, %d places, %d to free, %d lost, %d left", (int)a.n,
          (int)a.held, (int)a.positions, (int)a.released, (int)a.lost, (int)a.failed);
    if (a.failed > 0) {
        violated(d->world, "A1", "daemon %d could not restore %d checkpoints of its own", d->index, (int)a.failed);
    }
    for (size_t i = 0; i < a.held; i++) {
        sight(d->world, SIGHT_RESTORED);
    }
    for (size_t i = 0; i < a.positions; i++) {
        sight(d->world, SIGHT_RESTORED_POSITION);
    }
    note_to_free(d);
    d->releasing = a.released + a.lost > 0;
    if (a.held > 0) {
        clients_return(d);
    }
    s->other_boot = false;
    free(a.checkpoint);
    free(owners);
}

/* Some of the restored locks are not given back yet; locks that are given back since do not count. */
static bool
is_left(struct daemon *d)
{
    bool left = false;

    for (size_t i = 0; i < d->to_free_n && !left; i++) {
        left = find(d->state.checkpoint, d->state.n, d->to_free[i]) != NULL;
    }
    return left;
}

/* As state_store_turn() and state_file_serial(). */
void
state_turn(struct daemon *d)
{
    struct core_totals t;

    if (!d->keeps) {
        return;
    }
    t = core_totals(d->core);
    if (t.serial + STATE_FILE_IDS > d->state.serial) {
        d->state.serial = t.serial + 2 * STATE_FILE_IDS;
    }
    if (d->releasing && (t.releasing_claims == 0 || !is_left(d))) {
        d->releasing = false;
        sight(d->world, SIGHT_FREED_AFTER);
    }
}

static void
state_write(struct daemon *d)
{
    struct state *s = &d->state;

    (void)room_for(&s->written, &s->written_room, s->n);
    if (s->n > 0) {
        memcpy(s->written, s->checkpoint, s->n * sizeof(s->checkpoint[0]));
    }
    s->written_n = s->n;
}

/* Now and then the kernel writes the pages of the state directory to the disk. */
void
state_pages(struct daemon *d)
{
    if (d->keeps && d->world->rate[FAULT_POWER_LOSS] > 0 && chance(d->world, 2000)) {
        state_write(d);
    }
}

/* Each slot as it is now or as it was last written, or broken. Reserved ids were written to the disk at once. */
void
state_power_lost(struct daemon *d)
{
    struct world *w = d->world;
    struct state *s = &d->state;
    size_t n = 0;

    for (size_t i = 0; i < s->written_n; i++) {
        struct core_checkpoint *r = find(s->checkpoint, s->n, s->written[i].part.claim);

        if (chance(w, 50000)) {
            continue;
        } else if (r != NULL) {
            r->part = s->written[i].part;
        } else {
            (void)room_for(&s->checkpoint, &s->room, s->n + 1);
            s->checkpoint[s->n++] = s->written[i];
        }
    }
    for (size_t i = 0; i < s->n; i++) {
        bool written = find(s->written, s->written_n, s->checkpoint[i].part.claim) != NULL;

        if (!chance(w, written ? 10000 : 50000)) {
            s->checkpoint[n++] = s->checkpoint[i];
        }
    }
    trace(w, d->name, "the machine loses its power: %d of %d records are left", (int)n, (int)s->n);
    s->n = n;
    s->other_boot = true;
    d->boot_us = between(w, 1, 100) * US_PER_S - w->now_us;
}

void
state_free(struct daemon *d)
{
    free(d->state.checkpoint);
    free(d->state.owner);
    free(d->state.written);
    d->state = (struct state){.n = 0};
}
