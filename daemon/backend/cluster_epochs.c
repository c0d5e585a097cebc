/*
 * cluster_epochs.c -- masters whose config epoch is below the known one of their slots.
 *
 * When a master without a replica is lost, its slots may go by hand (CLUSTER FORGET, ADDSLOTS) to a node with a lower
 * config epoch. A daemon cannot distinguish this node from an old master that is cut off: a slot that its owner has not
 * given away goes to no lower config epoch (CM1), and the answers of an anchor there do not count (R7). Only an admin
 * can distinguish them, and give the node a config epoch above all others.
 */
#include "daemon/backend/cluster_epochs.h"

#include <stdio.h>
#include <string.h>

#include "daemon/backend/address.h"
#include "daemon/backend/generation_sends.h"
#include "daemon/base/clock.h"

static const char advice[] = "if the former master is lost for good, run CLUSTER BUMPEPOCH at";

bool
cluster_epochs_slot_is_low(const struct cluster *c, uint16_t slot, char why[160])
{
    const struct cluster_master *m = c->master_of[slot];
    uint16_t claimant = c->map.claimant[slot];
    char shown[160];

    if (!c->known || claimant == CLUSTER_NO_OWNER || (m != NULL && m->up)) {
        return false;
    }
    address_show(shown, c->url.secure, c->map.node[claimant].host, c->map.node[claimant].port);
    snprintf(why, 160, "slot %u: %s %.64s", slot, advice, shown);
    return true;
}

static bool
any_anchor_is_low(const struct cluster *c, char why[160])
{
    for (unsigned i = 0; i < ANCHORS; i++) {
        const struct cluster_master *m = c->master_of[anchor_slot(i)];

        if (m != NULL && generations_anchor_is_low(generations_of(&c->slots), i, clock_now_us())) {
            snprintf(why, 160, "slot %u, an anchor: %s %.64s", anchor_slot(i), advice, m->address->shown);
            return true;
        }
    }
    return false;
}

bool
cluster_epochs_any_is_low(const struct cluster *c, char why[160])
{
    for (unsigned slot = 0; slot < SLOTS && c->map.claimants_n > 0; slot++) {
        if (cluster_epochs_slot_is_low(c, (uint16_t)slot, why)) {
            return true;
        }
    }
    return c->known && any_anchor_is_low(c, why);
}

void
cluster_epochs_log(struct cluster *c, bool moved)
{
    char why[160];

    c->low_logged = c->low_logged && !moved;
    if (!c->low_logged && cluster_epochs_any_is_low(c, why)) {
        c->low_logged = true;
        log_event(c->env.log, LOG_WARN, "redis", "the config epoch of a master is too low", "reason", LOG_S(why), NULL);
    }
}
