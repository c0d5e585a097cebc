/*
 * cluster_rules.c -- questions to the generations, by our clock and for our leases.
 */
#include "daemon/backend/cluster_rules.h"

#include "daemon/base/clock.h"

#define BEATS_US (GENERATION_FRESH_BEATS * GENERATION_BEAT_MS * US_PER_MS)

/*
 * A lease that is taken or renewed at the latest time that a registration allows must end before the registered lease
 * does, which counts 1 % and 2 ms early.
 */
static int64_t
registered_lease(int64_t lease_us)
{
    int64_t us = lease_us + BEATS_US + 10 * US_PER_MS;

    return us + us / 99 + 1;
}

void
cluster_rules_lease(struct cluster_rules *r, int64_t lease_us)
{
    r->lease_us = lease_us > r->lease_us ? lease_us : r->lease_us;
    generations_lease(rules_of(r), registered_lease(r->lease_us));
    anchors_wake(r->anchors);
}

void
cluster_rules_slot(struct cluster_rules *r, uint16_t slot, uint16_t node, bool holds, struct slot_state *out)
{
    if (holds && !cluster_rules_used(r, slot)) {
        generations_restore(rules_of(r), slot, 0);
    }
    generations_slot(rules_of(r), slot, node, clock_now_us(), out);
    if (out->may == SLOT_WAITS) {
        anchors_wake(r->anchors);
    }
}

bool
cluster_rules_fresh(const struct cluster_rules *r, int64_t now_us)
{
    return now_us + r->lease_us < generations_bound_us(rules_of(r));
}

void
cluster_rules_differs(struct cluster_rules *r, uint16_t slot)
{
    generations_differs(rules_of(r), slot, clock_now_us());
    anchors_wake(r->anchors);
}

void
cluster_rules_reclaimed(struct cluster_rules *r, uint16_t slot, uint64_t number)
{
    generations_reclaimed(rules_of(r), slot, number);
    anchors_wake(r->anchors);
}

void
cluster_rules_open(struct cluster_rules *r, uint16_t slot, uint16_t node)
{
    generations_open(rules_of(r), slot, node, clock_now_us());
    anchors_wake(r->anchors);
}

void
cluster_rules_token(struct cluster_rules *r, uint64_t token)
{
    generations_token(rules_of(r), token);
}

/* Marks the slots in which the process before this one held locks. */
static void
restore(struct cluster_rules *r)
{
    for (unsigned slot = 0; slot < SLOTS && r->env->epoch != NULL; slot++) {
        uint64_t epoch = r->env->epoch(r->env->ctx, (uint16_t)slot);

        if (epoch != 0) {
            generations_restore(rules_of(r), (uint16_t)slot, epoch);
        }
    }
}

void
cluster_rules_init(struct cluster_rules *r, const struct backend_conf *conf, const struct backend_env *env,
                   const struct anchors_io *io)
{
    *r = (struct cluster_rules){.anchors = anchors_new(conf, env, io), .env = env};
    cluster_rules_lease(r, conf->grace_us);
    restore(r);
}

void
cluster_rules_fini(struct cluster_rules *r)
{
    anchors_free(&r->anchors);
}
