/*
 * state_store.c -- the identity and the state file of the engine, and the restore at its start.
 */
#include "daemon/serve/state_store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/serve/engine_record.h"
#include "daemon/serve/step.h"

/* Called once, at the start: what was stored cannot be compared with the clock. */
static void
warn_unknown_boot(const struct engine *e, int why)
{
    char cause[160];

    snprintf(cause, sizeof(cause), IDENTITY_BOOT_FILE ": %s", strerror(why));
    log_event(e->log, LOG_WARN, "state", "the boot of this host is not known", "error", LOG_S(cause), "effect",
              LOG_S("a restart counts as a reboot: named owners lose their locks, and after a crash no lock is granted "
                    "until the registration of the former process in Redis ends"),
              "remedy", LOG_S("let rlockd read that file; in a systemd unit: no ProcSubset=pid"), NULL);
}

bool
state_store_open(struct engine *e, char error[160])
{
    char dir[IDENTITY_DIR_BYTES], boot[STATE_FILE_BOOT_BYTES], why[160] = "no random bytes";
    struct state_store *store = &e->state_store;

    store->identity.lock = store->identity.dir = -1;
    if (!identity_dir(e->conf->state_dir, dir)) {
        snprintf(error, 160, "%s", why);
        if (!identity_draw(&store->identity)) {
            return false;
        }
        memcpy(e->uuid, store->identity.uuid, sizeof(e->uuid));
        return true;
    }
    if (identity_take(&store->identity, dir, why)) {
        if (!state_file_boot(boot)) {
            warn_unknown_boot(e, errno);
        }
        store->file = state_file_open(store->identity.dir, boot, why);
    }
    if (store->file == NULL) {
        snprintf(error, 160, "state directory %.60s: %.80s", dir, why);
        return false;
    }
    memcpy(e->uuid, store->identity.uuid, sizeof(e->uuid));
    log_event(e->log, LOG_INFO, "state", "opened", "dir", LOG_S(dir), "uuid", LOG_S(store->identity.uuid), NULL);
    return true;
}

void
state_store_close(struct state_store *store)
{
    state_file_close(&store->file);
    identity_release(&store->identity);
}

/*
 * Restored holds are renewed with their old leases: for that long other daemons must wait if this one is cut off.
 */
static void
announce_leases(struct engine *e, const struct core_restored *rs)
{
    int64_t longest_us = 0;

    for (size_t i = 0; i < rs->n; i++) {
        const struct core_checkpoint_part *p = &rs->checkpoint[i].part;

        longest_us = p->watchdog && p->lease_us > longest_us ? p->lease_us : longest_us;
    }
    backend_configure(e->backend, longest_us); /* which never makes it shorter */
}

static void
log_restored(const struct engine *e, const struct core_restored *rs)
{
    bool is_bad = rs->failed > 0 || rs->lost > 0;

    log_event(e->log, is_bad ? LOG_WARN : LOG_INFO, "state", "restored", "held", LOG_N(rs->held), "positions",
              LOG_N(rs->positions), "releasing", LOG_N(rs->released), "lost", LOG_N(rs->lost), "not_restored",
              LOG_N(rs->failed), "torn", LOG_N(state_file_count(e->state_store.file).torn), is_bad ? "reason" : NULL,
              LOG_S("lost: the lease ended while no daemon ran; not_restored: the checkpoint is unusable"), "remedy",
              LOG_S("a shorter restart, or longer leases; a lock that is not restored is free when its lease ends"),
              NULL);
}

/* Twice the timeout: see uncertain_latest_guard_us(). */
static void
note_timeout(struct engine *e, int64_t former_us)
{
    bool was_longer = former_us > e->op_timeout_us;

    state_file_set_timeout(e->state_store.file, was_longer ? former_us : e->op_timeout_us);
    e->state_store.timeout_until_us = was_longer ? clock_now_us() + 2 * former_us : 0;
}

bool
state_store_restore(struct engine *e, char error[160])
{
    struct state_store *store = &e->state_store;
    struct core_restored rs;

    if (store->file == NULL) {
        return true;
    }
    if (!state_file_load(store->file, &rs)) {
        snprintf(error, 160, "state directory: msync: %s", strerror(errno));
        state_file_loaded_free(&rs);
        return false;
    }
    note_timeout(e, rs.op_timeout_us);
    for (size_t i = 0; i < rs.n; i++) {
        struct core_spec spec;

        engine_spec(e, rs.checkpoint[i].name, &spec);
        rs.checkpoint[i].declared = spec.kind == rs.checkpoint[i].kind;
        rs.checkpoint[i].wakes = spec.wakes;
        rs.checkpoint[i].domain = spec.domain;
    }
    engine_step(e, &(struct core_event){.type = CORE_RESTORE, .restore = &rs});
    state_file_restored(store->file);
    announce_leases(e, &rs);
    store->restored = rs.held + rs.positions;
    store->released = rs.released;
    store->lost = rs.lost;
    store->releasing = rs.released + rs.lost > 0;
    log_restored(e, &rs);
    state_file_loaded_free(&rs);
    return true;
}

void
state_store_keep(struct engine *e, const struct core_checkpoint *what)
{
    struct state_store *store = &e->state_store;

    if (!state_file_keep(store->file, what) && !store->warned) {
        store->warned = true;
        log_event(e->log, LOG_WARN, "state",
                  "a checkpoint cannot be kept: after a crash its lock stays taken until the lease ends", "name",
                  LOG_B(what->name), "remedy", LOG_S("space on the file system of the state directory; shorter names"),
                  NULL);
    }
}

uint64_t
state_store_epoch(const struct state_store *store, uint16_t domain)
{
    return store->file != NULL ? state_file_epoch(store->file, domain) : 0;
}

void
state_store_reclaimed(struct state_store *store, uint16_t domain, uint64_t epoch)
{
    if (store->file != NULL) {
        state_file_set_epoch(store->file, domain, epoch);
    }
}

bool
state_store_others(const struct state_store *store)
{
    return store->file != NULL && state_file_others(store->file);
}

void
state_store_others_changed(struct state_store *store, bool others)
{
    if (store->file != NULL) {
        state_file_set_others(store->file, others);
    }
}

void
state_store_reached(struct engine *e)
{
    struct state_store *store = &e->state_store;

    store->reached_us = store->reached_us != 0 ? store->reached_us : clock_now_us();
    engine_step(e, &(struct core_event){.type = CORE_REACHED});
}

bool
state_store_turn(struct engine *e)
{
    struct state_store *store = &e->state_store;
    struct core_totals t;

    if (store->file == NULL) {
        return false;
    }
    t = core_totals(e->core);
    state_file_serial(store->file, t.serial);
    if (store->releasing && t.releasing_claims == 0) { /* other locks that were released meanwhile included */
        store->releasing = false;
        log_event(e->log, LOG_INFO, "state", "released", "locks", LOG_N(store->released + store->lost), "start_us",
                  LOG_N(clock_now_us() - e->started_us), store->reached_us != 0 ? "redis_us" : NULL,
                  LOG_N(clock_now_us() - store->reached_us), NULL); /* perhaps all leases had ended before */
    }
    if (store->timeout_until_us != 0 && clock_now_us() >= store->timeout_until_us) {
        note_timeout(e, 0);
    }
    return state_file_tidy(store->file);
}
