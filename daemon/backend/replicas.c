/*
 * replicas.c -- one write and one WAIT for all grants that replicas have to acknowledge.
 *
 * WAIT delays every command behind it on its connection, and covers only writes of that connection. If attempts used
 * that connection, so would all commands for their names (SR1 in shard_route.c), and no lock could be released while
 * replicas hang. So attempts use the links of locks, and a write on the link of replicas follows each grant. RE1 to RE5
 * say why an acknowledgement of that write is one of the grant.
 */
#include "daemon/backend/replicas.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/backend/call.h"
#include "daemon/backend/shard.h"
#include "daemon/backend/text.h"
#include "daemon/base/clock.h"
#include "daemon/base/freelist.h"

/*
 * RE1 A master has one stream of writes, which each replica applies in order. The write leaves after the answer to the
 *     grant, so it follows the grant in that stream: a replica that has acknowledged the write has the grant.
 * RE2 Grant and write are of the same master: the script writes only if rlock:epoch has the value of the grant's epoch,
 *     and the origin of that epoch is this process and replication id (scripts/replicas.lua). A replica promoted since,
 *     or a restarted process, has another origin. In a cluster each slot has an epoch, and one write serves all
 *     slots of its master: their epochs have the same origin, or the grant is not current (RE4). An epoch begins after
 *     its origin was seen, and no origin comes again: so a grant in the epoch ran in the data of that origin.
 * RE3 A grant is OK only by an answered WAIT behind an answered write, on one connection.
 * RE4 A grant of another epoch, or from before a clock jump, is UNKNOWN: the core has reviewed held locks since,
 *     without this one. So is a grant in a slot that is open or has left, whose key may be at another master.
 * RE5 One WAIT is in flight, for all grants that preceded it and the highest number of replicas that one of them needs;
 *     each grant's own number decides its outcome. Later grants share the next WAIT. So a grant waits for two WAITs at
 *     most, and locks of other rules never wait.
 */

struct grant {
    struct list node; /* replicas.waiting, replicas.asked */
    struct core_done done;
    uint64_t epoch, origin; /* of the domain */
    unsigned jumps;
    uint16_t domain;
};

void
replicas_init(struct replicas *r, const struct backend_conf *conf, const struct backend_env *env,
              const struct shard_events *events, struct continuity *continuity, const struct link_address *address)
{
    *r = (struct replicas){
        .conf = conf, .env = env, .events = events, .continuity = continuity, .address = address};
    list_init(&r->waiting);
    list_init(&r->asked);
}

static void
grant_free(struct replicas *r, struct grant *g)
{
    list_remove(&g->node);
    freelist_give(r->env->freelist, g, sizeof(*g));
}

static void
drop_all(struct replicas *r, struct list *grants)
{
    while (!list_empty(grants)) {
        grant_free(r, container_of(grants->next, struct grant, node));
    }
}

void
replicas_fini(struct replicas *r)
{
    drop_all(r, &r->waiting);
    drop_all(r, &r->asked);
}

/*
 * A new connection sends a WAIT for no replica, which shows at once if the right is missing, or the server is a
 * replica.
 */
static void
on_greeted(void *arg, enum link_result result, const struct reply *reply, int64_t sent_us)
{
    struct replicas *r = arg;

    (void)sent_us;
    if (result == LINK_ANSWERED && reply->type == REPLY_ERROR) {
        link_fail_refused(r->link, reply->text);
    }
}

void
replicas_greet(struct replicas *r)
{
    const struct slice word[] = {SLICE_LIT("WAIT"), SLICE_LIT("0"), SLICE_LIT("1")};

    (void)link_send(r->link, 3, word, on_greeted, r);
}

void
replicas_take(struct replicas *r, const struct core_op *op, const struct core_done *done, uint16_t domain)
{
    struct grant *g = freelist_take(r->env->freelist, sizeof(*g));

    g->done = *done;
    g->done.claim = op->claim;
    g->done.op = op->op;
    g->domain = domain;
    g->epoch = continuity_epoch(r->continuity, domain);
    (void)continuity_origin(r->continuity, domain, &g->origin); /* if false: 0, so is_current() is false later, too */
    g->jumps = r->jumps;
    list_init(&g->node);
    list_push_back(&r->waiting, &g->node);
}

/* RE4 */
static bool
is_current(const struct replicas *r, const struct grant *g)
{
    uint64_t origin;

    return g->epoch == continuity_epoch(r->continuity, g->domain) && g->jumps == r->jumps &&
           continuity_origin(r->continuity, g->domain, &origin) && origin == g->origin;
}

/* Ends a grant. n: the number of replicas that have acknowledged it; -1 = unknown. */
static void
finish(struct replicas *r, struct grant *g, int64_t n)
{
    struct core_done done = g->done;

    n = is_current(r, g) ? n : -1;
    grant_free(r, g);
    done.replicas = n < 0 ? 0 : n < CORE_REPLICAS_MAX ? (uint32_t)n : CORE_REPLICAS_MAX;
    if (n < 0) {
        done.outcome = CORE_UNKNOWN;
    } else if (done.replicas < done.replicas_wanted) {
        done.outcome = CORE_SHORTFALL;
    }
    r->events->done(r->events->ctx, &done);
}

static void
on_written(void *arg, enum link_result result, const struct reply *reply, int64_t sent_us)
{
    struct replicas *r = arg;
    char text[TEXT_ERROR_ROOM];

    (void)sent_us;
    r->written = result == LINK_ANSWERED && reply->type == REPLY_INT && reply->n == 1;
    if (result == LINK_ANSWERED && reply->type == REPLY_ERROR && !call_is_redirected(reply->text)) {
        log_event(r->env->log, LOG_WARN, "redis", "replicas cannot be asked", "address",
                  LOG_S(r->address->shown), "error", LOG_S(text_error(text, reply->text, r->address)), NULL);
    }
}

static void
on_waited(void *arg, enum link_result result, const struct reply *reply, int64_t sent_us)
{
    struct replicas *r = arg;
    int64_t n = -1;

    (void)sent_us;
    if (r->written && result == LINK_ANSWERED && reply->type == REPLY_INT && reply->n >= 0) {
        n = reply->n;
    }
    while (!list_empty(&r->asked)) {
        finish(r, container_of(r->asked.next, struct grant, node), n);
    }
    replicas_flush(r);
}

/* Sends the write, in the domain of one of the grants, and the WAIT. */
static void
ask(struct replicas *r, const struct grant *g, uint32_t wanted)
{
    struct continuity_keys keys = continuity_keys(r->continuity, g->domain);
    char origin[20], number[16], ms[24];
    const struct slice write[] = {
        SLICE_LIT("EVAL"), slice_of(call_other_text(OTHER_REPLICAS)), SLICE_LIT("2"), keys.clock, keys.epoch,
        continuity_epoch_value(r->continuity, g->domain, false), {origin, 16}};
    struct slice wait[3] = {SLICE_LIT("WAIT")};

    snprintf(origin, sizeof(origin), "%016" PRIx64, g->origin);
    snprintf(number, sizeof(number), "%u", wanted);
    snprintf(ms, sizeof(ms), "%lld", (long long)(r->conf->timeout_us / REPLICAS_TIMEOUT_DIVISOR / US_PER_MS + 1));
    wait[1] = slice_of(number);
    wait[2] = slice_of(ms);
    r->written = false;
    r->env->metrics->replica_waits++;
    link_cork(r->link);
    (void)link_send(r->link, g->origin != 0 ? 7 : 6, write, on_written, r); /* it is up: both are sent */
    (void)link_send(r->link, 3, wait, on_waited, r);
    link_uncork(r->link);
}

void
replicas_flush(struct replicas *r)
{
    uint32_t wanted = 0;

    if (!list_empty(&r->asked)) {
        return;
    }
    while (!list_empty(&r->waiting)) {
        struct grant *g = container_of(r->waiting.next, struct grant, node);

        if (!link_up(r->link) || !is_current(r, g)) {
            finish(r, g, -1);
            continue;
        }
        wanted = g->done.replicas_wanted > wanted ? g->done.replicas_wanted : wanted;
        list_remove(&g->node);
        list_push_back(&r->asked, &g->node);
    }
    if (!list_empty(&r->asked)) {
        ask(r, container_of(r->asked.next, struct grant, node), wanted);
    }
}

bool
replicas_idle(const struct replicas *r)
{
    return list_empty(&r->waiting) && list_empty(&r->asked);
}
