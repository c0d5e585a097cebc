/*
 * cluster_slots.c -- generations.h with the daemon's clock and leases.
 */
#include "daemon/backend/cluster_slots.h"

#include "daemon/backend/generation_sends.h"
#include "daemon/base/clock.h"

#define BEATS_US (GENERATION_FRESH_BEATS * GENERATION_BEAT_MS * US_PER_MS)

/*
 * The lease that is registered for locks of `lease_us`. One that begins BEATS_US after the registration left has to end
 * before generations_bound_us(), which takes 1 % and 2 ms off the registered lease: 8 ms are to spare.
 */
static int64_t
registered_lease(int64_t lease_us)
{
    int64_t us = lease_us + BEATS_US + 10 * US_PER_MS;

    return us + us / 99 + 1;
}

void
cluster_slots_set_lease(struct cluster_slots *s, int64_t lease_us)
{
    s->lease_us = lease_us > s->lease_us ? lease_us : s->lease_us;
    generations_set_lease(generations_of(s), registered_lease(s->lease_us));
    anchors_wake(s->anchors);
}

void
cluster_slots_state(const struct cluster_slots *s, uint16_t slot, uint16_t node, bool holds, struct slot_state *out)
{
    if (holds && !cluster_slots_used(s, slot)) { /* a restored lock, in a slot whose epoch was not recorded */
        generations_restore(generations_of(s), slot);
    }
    generations_slot_state(generations_of(s), slot, node, clock_now_us(), out);
    if (out->may == SLOT_WAITS) {
        anchors_wake(s->anchors);
    }
}

bool
cluster_slots_fresh(const struct cluster_slots *s, int64_t now_us)
{
    return now_us + s->lease_us < generations_bound_us(generations_of(s));
}

void
cluster_slots_record_differs(struct cluster_slots *s, uint16_t slot)
{
    generations_record_differs(generations_of(s), slot);
    anchors_wake(s->anchors);
}

void
cluster_slots_reclaimed(struct cluster_slots *s, uint16_t slot, uint64_t number)
{
    generations_reclaimed(generations_of(s), slot, number);
    anchors_wake(s->anchors);
}

void
cluster_slots_opened(struct cluster_slots *s, uint16_t slot, uint16_t node)
{
    generations_slot_opened(generations_of(s), slot, node, clock_now_us());
    anchors_wake(s->anchors);
}

void
cluster_slots_announced(struct cluster_slots *s, uint64_t number)
{
    generations_announced(generations_of(s), number, clock_now_us());
    anchors_wake(s->anchors);
}

/* Marks the slots in which the process before this one may have left locks. */
static void
restore(struct cluster_slots *s)
{
    for (unsigned slot = 0; slot < SLOTS && s->env->epoch != NULL; slot++) {
        if (s->env->epoch(s->env->ctx, (uint16_t)slot) != 0) {
            generations_restore(generations_of(s), (uint16_t)slot);
        }
    }
}

void
cluster_slots_init(struct cluster_slots *s, const struct backend_conf *conf, const struct backend_env *env,
                   const struct anchors_io *io)
{
    *s = (struct cluster_slots){.anchors = anchors_new(conf, env, io), .env = env};
    cluster_slots_set_lease(s, conf->longest_lease_us);
    restore(s);
}

void
cluster_slots_fini(struct cluster_slots *s)
{
    anchors_free(&s->anchors);
}
