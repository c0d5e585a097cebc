/*
 * state_store.c -- the identity and the state file of the engine, and the restore at its start.
 */
#include "daemon/serve/state_store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/serve/engine.h"

bool
state_store_open(struct engine *e, char error[160])
{
    char dir[IDENTITY_DIR], boot[STATE_FILE_BOOT], why[160] = "no random bytes";
    struct state_store *k = &e->state_store;

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
        state_file_boot(boot);
        k->held = state_file_open(k->identity.dir, boot, why);
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
state_store_close(struct state_store *k)
{
    state_file_close(&k->held);
    identity_release(&k->identity);
}

/* Restored holds are renewed with their old leases: other daemons must wait that long for us if we are cut off. */
static void
announce_leases(struct engine *e, const struct core_restored *a)
{
    int64_t longest_us = 0;

    for (size_t i = 0; i < a->n; i++) {
        const struct core_record_part *p = &a->kept[i].part;

        longest_us = p->watchdog && p->lease_us > longest_us ? p->lease_us : longest_us;
    }
    backend_configure(e->backend, longest_us); /* which never makes it shorter */
}

bool
state_store_restore(struct engine *e, char error[160])
{
    struct state_store *k = &e->state_store;
    struct core_restored a;

    if (k->held == NULL) {
        return true;
    }
    if (!state_file_load(k->held, &a)) {
        snprintf(error, 160, "state directory: msync: %s", strerror(errno));
        state_file_loaded_free(&a);
        return false;
    }
    for (size_t i = 0; i < a.n; i++) {
        struct core_spec spec;

        engine_spec(e, a.kept[i].name, &spec);
        a.kept[i].declared = spec.kind == a.kept[i].kind;
        a.kept[i].wakes = spec.wakes;
        a.kept[i].domain = spec.domain;
    }
    engine_step(e, &(struct core_event){.type = CORE_RESTORE, .restore = &a});
    state_file_restored(k->held);
    announce_leases(e, &a);
    k->adopted = a.held + a.positions;
    k->freed = a.freed;
    k->lost = a.lost;
    k->freeing = a.freed + a.lost > 0;
    log_event(e->log, a.failed > 0 || a.lost > 0 ? LOG_WARN : LOG_INFO, "state", "adopted", "held", LOG_N(a.held),
              "places", LOG_N(a.positions), "to_free", LOG_N(a.freed), "lost", LOG_N(a.lost), "left", LOG_N(a.failed),
              "torn", LOG_N(state_file_count(k->held).torn), NULL);
    state_file_loaded_free(&a);
    return true;
}

void
state_store_keep(struct engine *e, const struct core_record *what)
{
    struct state_store *k = &e->state_store;

    if (!state_file_keep(k->held, what) && !k->warned) {
        k->warned = true;
        log_event(e->log, LOG_WARN, "state",
                  "not everything can be kept: after a crash some locks wait for their lease", "name",
                  LOG_B(what->name), NULL);
    }
}

void
state_store_keep_owner(struct engine *e, const struct core_owner_record *what)
{
    /* a failure is counted; after a crash the owner has its grace anew */
    (void)state_file_keep_owner(e->state_store.held, what);
}

void
state_store_forget_owner(struct engine *e, uint64_t id)
{
    state_file_forget_owner(e->state_store.held, id);
}

void
state_store_forget(struct engine *e, uint64_t claim)
{
    state_file_forget(e->state_store.held, claim);
}

uint64_t
state_store_epoch(const struct state_store *k, uint16_t domain)
{
    return k->held != NULL ? state_file_epoch(k->held, domain) : 0;
}

void
state_store_reclaimed(struct state_store *k, uint16_t domain, uint64_t epoch)
{
    if (k->held != NULL) {
        state_file_set_epoch(k->held, domain, epoch);
    }
}

bool
state_store_others(const struct state_store *k)
{
    return k->held != NULL && state_file_others(k->held);
}

void
state_store_others_changed(struct state_store *k, bool others)
{
    if (k->held != NULL) {
        state_file_set_others(k->held, others);
    }
}

void
state_store_reached(struct engine *e)
{
    struct state_store *k = &e->state_store;

    k->reached_us = k->reached_us != 0 ? k->reached_us : clock_now_us();
    engine_step(e, &(struct core_event){.type = CORE_REACHED});
}

bool
state_store_turn(struct engine *e)
{
    struct state_store *k = &e->state_store;
    struct core_totals t;

    if (k->held == NULL) {
        return false;
    }
    t = core_totals(e->core);
    state_file_serial(k->held, t.serial);
    if (k->freeing && t.freeing == 0) { /* other locks that were freed meanwhile included */
        k->freeing = false;
        log_event(e->log, LOG_INFO, "state", "freed", "locks", LOG_N(k->freed + k->lost), "start_us",
                  LOG_N(clock_now_us() - e->started_us), k->reached_us != 0 ? "redis_us" : NULL,
                  LOG_N(clock_now_us() - k->reached_us), NULL); /* all leases may have ended before Redis was reached */
    }
    return state_file_tidy(k->held);
}
