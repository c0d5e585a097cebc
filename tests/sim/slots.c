/*
 * slots.c -- the simulated Redis as a node of a cluster: the commands that it runs, and the errors for all others, as
 * getNodeByQuery() of 7.0 decides. CLUSTER NODES is an answer of nodes.c.
 *
 * While a slot is given away, a command runs if all its keys are here, and gets ASK if none is, TRYAGAIN if some are.
 * In a slot that the node gets, a command runs after ASKING; one of several keys only if all are here. Channels with a
 * slot go with the slot, open or not. Each command of a script is checked again.
 */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/backend/slot.h"
#include "tests/sim/inside.h"

void
sim_redis_in_cluster(struct sim_redis *r, const struct sim_slots *slots)
{
    r->slots = slots;
}

/* The keys of a command: their number, from w[*from] on. */
static int
keys_of(const struct command *c, int n, const struct slice *w, int *from)
{
    int64_t keys;

    if (c->flags & CMD_NO_KEY) {
        return 0;
    }
    if (c->flags & CMD_EVAL) {
        *from = 3;
        return n > 3 && int_of(w[2], &keys) && keys > 0 && keys <= n - 3 ? (int)keys : 0;
    }
    *from = 1;
    return c->flags & CMD_KEYS ? n - 1 : 1;
}

enum route { ROUTE_HERE, ROUTE_MOVED, ROUTE_ASK, ROUTE_AGAIN, ROUTE_DOWN, ROUTE_NO_OWNER, ROUTE_CROSS };

/* For keys of one slot; `channel`: a channel, which has no keys but goes with the slot. */
static enum route
route_of(struct sim_redis *r, uint16_t slot, bool channel, bool asking, int keys, const struct slice *w)
{
    const struct sim_slots *s = r->slots;
    bool ours = s->owner[slot] == s->self && !r->replica, gives = ours && s->gives == slot;
    bool gets = !ours && s->gets == slot && !r->replica;
    int missing = 0;

    if (s->owner[slot] == SIM_NO_OWNER) {
        return ROUTE_NO_OWNER;
    }
    if (s->down) {
        return ROUTE_DOWN;
    }
    for (int i = 0; i < keys && (gives || gets) && !channel; i++) {
        missing += key_seen(r, w[i]) == NULL;
    }
    if (gives && missing > 0) {
        return missing == keys ? ROUTE_ASK : ROUTE_AGAIN;
    }
    if (gets && asking) {
        return keys > 1 && missing > 0 ? ROUTE_AGAIN : ROUTE_HERE;
    }
    return ours ? ROUTE_HERE : ROUTE_MOVED;
}

const char *
slots_refuse(struct sim_redis *r, const struct command *c, int n, const struct slice *w)
{
    int from = 0, keys = keys_of(c, n, w, &from);

    for (int i = 0; i < keys; i++) { /* keys of several slots may all be here */
        enum route is = route_of(r, slot_of(w[from + i]), (c->flags & CMD_CHANNEL) != 0, r->asking, keys, w + from);

        if (is == ROUTE_DOWN) {
            return "Script attempted to execute a command while the cluster is down";
        } else if (is != ROUTE_HERE) {
            return "Script attempted to access a non local key in a cluster node";
        }
    }
    return NULL;
}

/* The keys at that time, as a command would see them. */
static enum route
route_words(struct sim_redis *r, bool asking, int words, const struct slice *word, uint16_t *slot)
{
    bool subscribes = slice_is(word[0], "SSUBSCRIBE") || slice_is(word[0], "SUNSUBSCRIBE");
    const struct command *c = subscribes ? NULL : command_find(word[0]);
    int from = 1, keys = subscribes ? words - 1 : 0;

    if (c != NULL && command_arity_ok(c, words)) {
        keys = keys_of(c, words, word, &from);
    }
    for (int i = 0; i < keys; i++) {
        *slot = slot_of(word[from]);
        if (slot_of(word[from + i]) != *slot) {
            return ROUTE_CROSS;
        }
    }
    return keys == 0 ? ROUTE_HERE
                     : route_of(r, *slot, c == NULL || (c->flags & CMD_CHANNEL) != 0, asking, keys, word + from);
}

const char *
sim_redis_redirects(struct sim_redis *r, int64_t wall_us, bool asking, int words, const struct slice *word)
{
    static char text[96];
    const struct sim_slots *s = r->slots;
    uint16_t slot = 0;

    r->wall_us = wall_us;
    r->now_ms = wall_us / 1000;
    r->asking = asking;
    switch (route_words(r, asking, words, word, &slot)) {
    case ROUTE_HERE:
        return NULL;
    case ROUTE_MOVED:
        snprintf(text, sizeof(text), "MOVED %u %s", slot, s->address(s->ctx, s->owner[slot]));
        return text;
    case ROUTE_ASK:
        snprintf(text, sizeof(text), "ASK %u %s", slot, s->address(s->ctx, s->other));
        return text;
    case ROUTE_AGAIN:
        return "TRYAGAIN Multiple keys request during rehashing of slot";
    case ROUTE_DOWN:
        return "CLUSTERDOWN The cluster is down";
    case ROUTE_NO_OWNER:
        return "CLUSTERDOWN Hash slot not served";
    case ROUTE_CROSS:
        break;
    }
    return "CROSSSLOT Keys in request don't hash to the same slot";
}

const struct reply *
cmd_cluster(struct sim_redis *r, int n, const struct slice *w)
{
    if (r->slots == NULL) {
        return out_error(&r->out, "ERR This instance has cluster support disabled");
    }
    if (slice_is(w[1], "nodes") && n == 2) {
        return out_text(&r->out, slice_of(r->slots->nodes(r->slots->ctx)));
    }
    if (slice_is(w[1], "keyslot") && n == 3) {
        return out_int(&r->out, slot_of(w[2]));
    }
    return out_error(&r->out, "ERR unknown subcommand '%.*s'. Try CLUSTER HELP.", (int)(w[1].n < 128 ? w[1].n : 128),
                     w[1].p);
}

/* ---- keys that move to another node ---- */

/* The expiry has been rounded at each move. */
static bool
is_older(const struct key *k, const struct key *there)
{
    if (k->expire_ms >= 0 && there->expire_ms >= 0) {
        return k->expire_ms + 5 < there->expire_ms;
    }
    return k->type == TYPE_STRING && there->type == TYPE_STRING && strtoull(k->text->p, NULL, 10) <
                                                                        strtoull(there->text->p, NULL, 10);
}

/* The key moves with the rest of its time, at least a millisecond. */
bool
sim_redis_migrate(struct sim_redis *r, int64_t from_us, struct sim_redis *to, int64_t to_us, struct slice key)
{
    struct key *k = data_find(&r->data, key), *there = data_find(&to->data, key);
    int64_t left_ms;
    bool older = false;

    if (k == NULL) {
        return false;
    }
    left_ms = k->expire_ms - from_us / 1000;
    if (k->expire_ms < 0 || left_ms >= 0) {
        k->expire_ms = k->expire_ms < 0 ? -1 : to_us / 1000 + (left_ms > 0 ? left_ms : 1);
        if (there != NULL) {
            older = is_older(k, there);
            data_del(&to->data, there);
        }
        (void)data_copy_key(&to->data, k);
    }
    data_del(&r->data, k);
    return older;
}

void
sim_redis_delete(struct sim_redis *r, struct slice key)
{
    struct key *k = data_find(&r->data, key);

    if (k != NULL) {
        data_del(&r->data, k);
    }
}
