/*
 * shard_denied.c -- calls that Redis's ACL refuses: which names must not share a call (denied.h), and the log line.
 */
#include "daemon/backend/shard_private.h"
#include "daemon/backend/text.h"
#include "daemon/base/clock.h"

/* A hash of the key, and of the terms on which the derived keys depend. */
static uint64_t
hash_of(const struct shard *sh, const struct core_op *op)
{
    return hash_bytes(&sh->env->secret, op->key.p, op->key.n) +
           (2 * (uint64_t)op->kind + op->shared) * UINT64_C(0x9e3779b97f4a7c15);
}

static void
note_each(struct shard *sh, const struct call *c, void (*note)(struct denied *d, uint64_t hash))
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->items)
    {
        note(&sh->denied, hash_of(sh, &container_of(pos, struct item, node)->op));
    }
}

bool
shard_goes_alone(struct shard *sh, const struct core_op *op, enum call_verb verb)
{
    bool held = verb == VERB_RENEW || verb == VERB_RELEASE || op->reentry || op->reclaim;

    return denied_suspects(&sh->denied) && denied_alone(&sh->denied, hash_of(sh, op), held, clock_now_us());
}

void
shard_accepted(struct shard *sh, const struct call *c)
{
    if (denied_suspects(&sh->denied)) {
        note_each(sh, c, denied_accept);
    }
}

/* A reclaim is not sent again (SC3); if the core repeats it, it is sent alone. */
bool
shard_denied(struct shard *sh, const struct call *c)
{
    bool again = c->n > 1 && !c->reclaim && c->epoch == continuity_epoch(sh->continuity, c->domain);

    denied_begin(&sh->denied, clock_now_us());
    if (!again) {
        note_each(sh, c, denied_refuse);
    }
    return again;
}

/* From now on each of these keys is sent alone, so that the forbidden one shows, and delays no other. */
void
shard_denied_inside(struct shard *sh, struct call *c)
{
    denied_begin(&sh->denied, clock_now_us());
    note_each(sh, c, denied_inside);
    c->denied = c->n == 1;
}

/* Logs a refusal; with the key, if the call has one name. */
void
shard_log_error(const struct shard *sh, const struct call *c, struct slice error)
{
    char text[TEXT_ERROR_ROOM], key[160] = "";

    if (c->n == 1) {
        text_print(key, sizeof(key), container_of(c->items.next, struct item, node)->op.key);
    }
    log_event(sh->env->log, LOG_WARN, "redis", "refused", "address", LOG_S(sh->address->shown), "error",
              LOG_S(text_error(text, error, sh->address)), "names", LOG_N(c->n), c->n == 1 ? "key" : NULL,
              LOG_S(key), NULL);
}
