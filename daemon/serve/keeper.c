/*
 * keeper.c -- identity and table of the engine, and the adoption at its start.
 */
#include "daemon/serve/keeper.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/serve/engine.h"

bool
keeper_open(struct engine *e, char error[160])
{
    char dir[IDENTITY_DIR], boot[HELD_BOOT], why[160] = "no random bytes";
    struct keeper *k = &e->keeper;

    k->identity.lock = k->identity.dir = -1;
    if (!identity_dir(e->conf->state_dir, dir)) {
        snprintf(error, 160, "%s", why);
        if (!identity_draw(&k->identity)) {
            return false;
        }
        memcpy(e->uuid, k->identity.uuid, sizeof(e->uuid));
        return true;
    }
    if (identity_take(&k->identity, dir, why)) {
        held_boot(boot);
        k->held = held_open(k->identity.dir, boot, why);
    }
    if (k->held == NULL) {
        snprintf(error, 160, "state directory %.60s: %.80s", dir, why);
        return false;
    }
    memcpy(e->uuid, k->identity.uuid, sizeof(e->uuid));
    log_event(e->log, LOG_INFO, "state", "opened", "dir", LOG_S(dir), "uuid", LOG_S(k->identity.uuid), NULL);
    return true;
}

void
keeper_close(struct keeper *k)
{
    held_close(&k->held);
    identity_release(&k->identity);
}

/* Named owners' holds go on being renewed with the lease they have: others wait as long for us if we are cut off. */
static void
tell_leases(struct engine *e, const struct core_adoption *a)
{
    int64_t longest_us = 0;

    for (size_t i = 0; i < a->n; i++) {
        const struct core_kept_part *p = &a->kept[i].part;

        longest_us = p->watchdog && p->lease_us > longest_us ? p->lease_us : longest_us;
    }
    backend_configure(e->backend, longest_us); /* which never makes it less */
}

bool
keeper_adopt(struct engine *e, char error[160])
{
    struct keeper *k = &e->keeper;
    struct core_adoption a;

    if (k->held == NULL) {
        return true;
    }
    if (!held_load(k->held, &a)) {
        snprintf(error, 160, "state directory: the table cannot be read: out of memory");
        return false;
    }
    for (size_t i = 0; i < a.n; i++) {
        struct core_spec spec;

        engine_spec(e, a.kept[i].name, &spec);
        a.kept[i].declared = spec.kind == a.kept[i].kind;
        a.kept[i].wakes = spec.wakes;
    }
    engine_step(e, &(struct core_event){.type = CORE_ADOPT, .adopt = &a});
    held_adopted(k->held);
    tell_leases(e, &a);
    k->adopted = a.held + a.places;
    k->freed = a.freed;
    k->lost = a.lost;
    k->freeing = a.freed + a.lost > 0;
    log_event(e->log, a.failed > 0 || a.lost > 0 ? LOG_WARN : LOG_INFO, "state", "adopted", "held", LOG_N(a.held),
              "places", LOG_N(a.places), "to_free", LOG_N(a.freed), "lost", LOG_N(a.lost), "left", LOG_N(a.failed),
              "torn", LOG_N(held_count(k->held).torn), NULL);
    held_loaded_free(&a);
    return true;
}

void
keeper_keep(struct engine *e, const struct core_kept *what)
{
    struct keeper *k = &e->keeper;

    if (!held_keep(k->held, what) && !k->warned) {
        k->warned = true;
        log_event(e->log, LOG_WARN, "state",
                  "not everything can be kept: after a crash some locks wait for their lease", "name",
                  LOG_B(what->name), NULL);
    }
}

void
keeper_keep_owner(struct engine *e, const struct core_kept_owner *what)
{
    (void)held_keep_owner(e->keeper.held, what); /* counted; after a crash it has its grace anew */
}

void
keeper_forget_owner(struct engine *e, uint64_t id)
{
    held_forget_owner(e->keeper.held, id);
}

void
keeper_forget(struct engine *e, uint64_t claim)
{
    held_forget(e->keeper.held, claim);
}

uint64_t
keeper_epoch(const struct keeper *k)
{
    return k->held != NULL ? held_epoch(k->held) : 0;
}

void
keeper_reclaimed(struct keeper *k, uint64_t epoch)
{
    if (k->held != NULL) {
        held_set_epoch(k->held, epoch);
    }
}

bool
keeper_others(const struct keeper *k)
{
    return k->held != NULL && held_others(k->held);
}

void
keeper_met(struct keeper *k, bool others)
{
    if (k->held != NULL) {
        held_set_others(k->held, others);
    }
}

void
keeper_reached(struct engine *e)
{
    struct keeper *k = &e->keeper;

    k->reached_us = k->reached_us != 0 ? k->reached_us : clock_now_us();
    engine_step(e, &(struct core_event){.type = CORE_REACHED});
}

bool
keeper_turn(struct engine *e)
{
    struct keeper *k = &e->keeper;
    struct core_totals t;

    if (k->held == NULL) {
        return false;
    }
    t = core_totals(e->core);
    held_serial(k->held, t.serial);
    if (k->freeing && t.freeing == 0) { /* those that were freed for other reasons meanwhile, too */
        k->freeing = false;
        log_event(e->log, LOG_INFO, "state", "freed", "locks", LOG_N(k->freed + k->lost), "start_us",
                  LOG_N(clock_now_us() - e->started_us), k->reached_us != 0 ? "redis_us" : NULL,
                  LOG_N(clock_now_us() - k->reached_us), NULL); /* all of it may have run out without Redis */
    }
    return held_tidy(k->held);
}
