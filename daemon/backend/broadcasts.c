/*
 * broadcasts.c -- PUBLISH and SUBSCRIBE of one channel.
 */
#include "daemon/backend/broadcasts.h"

#include <stdio.h>

#include "daemon/backend/call.h"
#include "daemon/backend/script_variants.h"
#include "daemon/backend/text.h"

void
broadcasts_init(struct broadcasts *s, const struct backend_env *env, const struct shard_events *events,
                const struct link_address *address, const char *channel)
{
    *s = (struct broadcasts){.env = env, .events = events, .address = address};
    if (channel != NULL) {
        snprintf(s->channel, sizeof(s->channel), "%s", channel);
    } else {
        snprintf(s->channel, sizeof(s->channel), "rlock:deadlock:%d", address->db);
    }
}

/*
 * If an ACL forbids SUBSCRIBE, this daemon finds no deadlocks across daemons, and learns late of daemons that join. The
 * link and its other subscriptions stay; the shard subscribes again when a link goes up or down. If an ACL forbids
 * PUBLISH, scripts/membership.lua refuses the daemon.
 */
static void
on_answer(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct broadcasts *s = arg;
    char text[TEXT_ERROR_ROOM];

    (void)sent_us;
    if (result != LINK_ANSWERED) { /* a late answer is ignored: the link reconnects, and subscribes again */
        link_fail(s->sub, "no answer");
        return;
    }
    if (r->type != REPLY_ERROR) {
        s->logged = false;
        s->on_subscribed(s->ctx);
        return;
    }
    s->subscribed = false;
    if (call_is_redirected(r->text)) {
        return; /* the topology finds the node of the channel with its next map */
    }
    if (text_error_is_transient(r->text)) {
        link_fail_refused(s->sub, r->text);
    } else if (!s->logged) {
        s->logged = true;
        log_event(s->env->log, LOG_WARN, "redis", "deadlocks across daemons not detected", "address",
                  LOG_S(s->address->shown), "channel", LOG_S(s->channel), "error",
                  LOG_S(text_error(text, r->text, s->address)), NULL);
    }
}

void
broadcasts_subscribe(struct broadcasts *s, struct redis_link *sub, void (*on_subscribed)(void *ctx), void *ctx)
{
    struct slice word[2] = {SLICE_LIT("SUBSCRIBE"), slice_of(s->channel)};

    if (script_variants_sharded(s->events->variants)) {
        word[0] = SLICE_LIT("SSUBSCRIBE");
    }

    s->sub = sub;
    s->on_subscribed = on_subscribed;
    s->ctx = ctx;
    (void)link_send(sub, 2, word, on_answer, s);
}

void
broadcasts_send(const struct broadcasts *s, struct redis_link *l, struct slice what)
{
    struct slice word[3] = {SLICE_LIT("PUBLISH"), slice_of(s->channel), what};

    if (script_variants_sharded(s->events->variants)) {
        word[0] = SLICE_LIT("SPUBLISH");
    }

    if (link_up(l) && what.n <= BROADCAST_TEXT_MAX) {
        (void)link_send(l, 3, word, NULL, NULL);
    }
}

bool
broadcasts_received(const struct broadcasts *s, struct slice channel, const struct reply *what)
{
    struct core_event ev = {.type = CORE_RECEIVED};

    if (!slice_eq(channel, slice_of(s->channel))) {
        return false;
    }
    if (what->type == REPLY_TEXT && what->text.n > 0 && what->text.n <= BROADCAST_TEXT_MAX && what->text.p[0] != '+') {
        ev.received = what->text;
        s->events->event(s->events->ctx, &ev);
    }
    return true;
}
