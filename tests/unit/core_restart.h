/*
 * core_restart.h -- a core_world.h whose process is killed, and the next process, which restores the checkpoints.
 */
#ifndef RLOCKD_TESTS_CORE_RESTART_H
#define RLOCKD_TESTS_CORE_RESTART_H

#include "tests/unit/core_world.h"

static const struct core_conf storing = {.op_timeout_us = US_PER_S,
                                         .max_poll_us = 5 * US_PER_S,
                                         .handoff_time_us = 10 * US_PER_MS,
                                         .handoff_max = 0, /* each UNLOCK asks Redis; see test_core_handoff.c */
                                         .waiters_max = 100000,
                                         .locks_max = 1000,
                                         .stores_checkpoints = true};

static inline void
open_storing(struct world *w)
{
    world_open_conf(w, &storing);
}

/* The process is killed, with its sessions and open operations. The next one restores the checkpoints, `us` later. */
static inline struct core_restored
restart_as(struct world *w, int64_t us, bool same_boot)
{
    static const struct hash_key key = {3, 4};
    struct core_checkpoint checkpoints[64];
    struct core_owner_checkpoint owner[64];
    char owner_text[64][WORLD_TEXT];
    struct core_restored a = {.checkpoint = checkpoints,
                              .n = w->checkpoints_n,
                              .owner = owner,
                              .owners_n = same_boot ? w->owner_checkpoints_n : 0,
                              .serial = core_totals(w->core).serial + 100};

    quiet(w);
    w->sessions_n = 0;
    core_free(&w->core);
    for (size_t i = 0; i < w->flights_n; i++) {
        w->flights[i].seen = w->flights[i].answered = true;
    }
    w->watches_n = 0;
    ck_assert_uint_lt(w->checkpoints_n, 64);
    for (size_t i = 0; i < w->checkpoints_n; i++) {
        struct claim_checkpoint *r = &w->checkpoints[i];

        checkpoints[i] = r->cp;
        checkpoints[i].name = slice_of(r->name);
        checkpoints[i].key = slice_of(r->key);
        checkpoints[i].owner = slice_of(r->owner);
        checkpoints[i].part.deadline_us = same_boot ? r->cp.part.deadline_us : 0;
    }
    ck_assert_uint_lt(w->owner_checkpoints_n, 64);
    for (size_t i = 0; i < w->owner_checkpoints_n; i++) {
        owner[i] = w->owner_checkpoints[i].cp;
        memcpy(owner_text[i], w->owner_checkpoints[i].name, WORLD_TEXT);
        owner[i].name = slice_of(owner_text[i]);
    }
    w->owner_checkpoints_n = same_boot ? w->owner_checkpoints_n : 0;
    w->now_us += us;
    w->core = core_new(&w->conf, &key, &w->metrics, (struct core_sink){world_sink, w});
    ck_assert_ptr_nonnull(w->core);
    world_step(w, &(struct core_event){.type = CORE_RESTORE, .restore = &a});
    return a;
}

#define restarts(w) restart_as(w, MS(50), true)

static inline void
restored(struct core_restored a, size_t held, size_t positions, size_t released, size_t lost)
{
    ck_assert_msg(a.held == held && a.positions == positions && a.released == released && a.lost == lost &&
                  a.failed == 0, "held %zu, positions %zu, released %zu, lost %zu, failed %zu", a.held, a.positions,
                  a.released, a.lost, a.failed);
}

static inline void
reached(struct world *w)
{
    happens(w, &(struct core_event){.type = CORE_REACHED});
}

/* So many claims are held, and Redis confirms each. */
static inline void
confirmed(struct world *w, int n)
{
    struct flight op[4];

    reached(w);
    for (int i = 0; i < n; i++) {
        op[i] = expect_op(w, CORE_EXTEND, "a");
    }
    for (int i = 0; i < n; i++) {
        redis_says(w, op[i], CORE_OK);
    }
}

#endif
