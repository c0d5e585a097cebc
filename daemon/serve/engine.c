/*
 * engine.c -- the engine: it connects the sessions with the core, and the core with the backend.
 *
 * Owns the core, the backend, the sessions' lists and the one timer. Does not read, write or parse. All times are
 * clock_now_us(). What a turn of the loop does, and in which order, is in turn.c.
 */
#include "daemon/serve/engine.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "daemon/serve/auth_limit.h"
#include "daemon/serve/drain.h"
#include "daemon/serve/engine_record.h"
#include "daemon/serve/keymap.h"
#include "daemon/serve/listing.h"
#include "daemon/serve/lockinfo.h"
#include "daemon/serve/peer.h"
#include "daemon/serve/pubsub.h"
#include "daemon/serve/replies.h"
#include "daemon/serve/roles.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"
#include "daemon/serve/step.h"

/* The records that the core's jobs look at in one turn: about a millisecond. */
#define SLICE 512

/* See core_conf.session_owners_max: about 350 MB. A pool of 100 connections may act for 40,000 owners. */
#define SESSION_OWNERS_MAX (4 * 1024 * 1024)

/* ---- actions of the core: noted inside the step; only checkpoints are written at once, to mapped memory ---- */

static void
note_reply(struct engine *e, const struct core_reply *r)
{
    struct session *s = session_find(e, r->session);
    enum reply_form form;
    struct outbox *out = s != NULL ? slots_begin_reply(s, r->id, &form) : NULL;

    if (out != NULL) {
        reply_form_write(e, out, s->proto, form, r);
        slots_end_reply(s, r->id);
    }
}

enum { LOSS_WINDOW_US = 60 * 1000000 }; /* of the losses of a session in this time, the first is logged as `lost` */

static const struct news_log {
    const char *event;
    enum log_level level;
    const char *reason, *remedy; /* "": none; the reason of the news comes first */
} news_log[] = {
    [CORE_NEWS_GRANTED] = {"granted", LOG_DEBUG, "", ""},
    [CORE_NEWS_RELEASED] = {"released", LOG_DEBUG, "", ""},
    [CORE_NEWS_LOST] = {"lost", LOG_WARN, "", "the client has to stop the work that the lock protected"},
    [CORE_NEWS_WANTED] = {"wanted", LOG_DEBUG, "", ""},
    [CORE_NEWS_JEOPARDY] = {"jeopardy", LOG_WARN, "no renewal has succeeded for two thirds of the lease",
                            "restore the connection to Redis: the lock is lost when the lease ends"},
};

/*
 * The event under which a loss is logged; the log bounds the lines of each event. Later losses of a session within
 * LOSS_WINDOW_US have an event of their own, so that they cannot use up the lines of other sessions; so have losses of
 * sessions that have ended, because these have no record any more.
 */
static struct news_log
loss_event(const struct core_publish *news, struct session *s)
{
    int64_t now_us = clock_now_us();

    if (strcmp(news->reason, CORE_LEASE_OVER) == 0) {
        return (struct news_log){"lease over", LOG_INFO, "", ""}; /* as its client has asked for */
    }
    if (s == NULL || now_us < s->loss_quiet_us) {
        return (struct news_log){"lost also", LOG_WARN, "", ""}; /* with the remedy of the first */
    }
    s->loss_quiet_us = now_us + LOSS_WINDOW_US;
    return news_log[CORE_NEWS_LOST];
}

static void
log_news(struct engine *e, const struct core_publish *news, struct session *s)
{
    struct news_log how = news->news == CORE_NEWS_LOST ? loss_event(news, s) : news_log[news->news];
    const char *reason = news->reason != NULL ? news->reason : how.reason;

    log_event(e->log, how.level, "lock", how.event, "name", LOG_B(news->name), "token", LOG_N(news->token), "owner",
              LOG_N(news->owner), "owner_name", LOG_B(news->owner_name), "session", LOG_N(news->session),
              reason[0] != '\0' ? "reason" : NULL, LOG_S(reason), how.remedy[0] != '\0' ? "remedy" : NULL,
              LOG_S(how.remedy), NULL);
}

static void
note_news(struct engine *e, const struct core_publish *news)
{
    struct session *s;

    pubsub_news(e->pubsub, news);
    s = news->news == CORE_NEWS_LOST ? session_find(e, news->session) : NULL;
    if (news_log[news->news].level <= e->log->level) {
        log_news(e, news, s);
    }
    if (s != NULL && conf_locks_for(e->conf, news->name)->on_loss == CONF_LOSS_CLOSE) {
        s->lock_lost = true;
        session_wake(s);
    }
}

static void
sink(void *ctx, const struct core_action *a)
{
    struct engine *e = ctx;

    switch (a->type) {
    case CORE_ACQUIRE:
    case CORE_EXTEND:
    case CORE_RELEASE:
    case CORE_BREAK_KEY:
    case CORE_WATCH:
    case CORE_UNWATCH:
        backend_perform(e->backend, &a->op, a->type);
        break;
    case CORE_WAITER_POLL:
        backend_waiter_poll(e->backend, &a->waiter_poll);
        break;
    case CORE_REPLY:
        note_reply(e, &a->reply);
        break;
    case CORE_PUBLISH:
        note_news(e, &a->publish);
        break;
    case CORE_BROADCAST:
        backend_broadcast(e->backend, a->broadcast);
        break;
    case CORE_STORE:
        state_store_keep(e, &a->store);
        break;
    case CORE_DROP:
        state_file_drop(e->state_store.file, a->drop);
        break;
    case CORE_STORE_OWNER:
        /* a failure is counted; after a crash the owner has its owner grace anew */
        (void)state_file_keep_owner(e->state_store.file, &a->store_owner);
        break;
    case CORE_DROP_OWNER:
        state_file_drop_owner(e->state_store.file, a->drop);
        break;
    case CORE_RECLAIMED:
        state_store_reclaimed(&e->state_store, a->domain, a->epoch);
        backend_reclaimed(e->backend, a->domain, a->epoch);
        break;
    }
}

/* ---- reports of the backend ---- */

static void
on_post(void *ctx, const struct core_event *ev)
{
    if (ev->type != CORE_RECEIVED || !keymap_received(ctx, ev->received)) {
        engine_step(ctx, ev);
    }
}

static void
on_inspected(void *ctx, uint64_t id, const struct inspected_key *found)
{
    lockinfo_inspected(ctx, id, found);
}

static void
on_others_changed(void *ctx, bool others)
{
    struct engine *e = ctx;

    state_store_others_changed(&e->state_store, others);
    if (others && e->redis_up) {
        keymap_broadcast(e);
    }
}

static void
on_state(void *ctx, bool up)
{
    struct engine *e = ctx;

    e->redis_up = up;
    if (up) {
        state_store_reached(e);
        keymap_broadcast(e);
    }
}

static void
on_subscribed(void *ctx)
{
    struct engine *e = ctx;

    if (e->redis_up) {
        keymap_broadcast(e);
    }
}

static uint64_t
epoch_before(void *ctx, uint16_t domain)
{
    const struct engine *e = ctx;

    return state_store_epoch(&e->state_store, domain);
}

/* ---- settings ---- */

static struct core_conf
core_settings(const struct engine *e, const struct conf *cf)
{
    struct core_conf cc = {
        .op_timeout_us = e->op_timeout_us,
        .max_poll_us = cf->max_poll_us,
        .deadlock_us = cf->deadlock_us,
        .handoff_time_us = cf->handoff_time_us,
        .handoff_max = (uint32_t)cf->handoff_max,
        .waiters_max = (uint32_t)cf->limit_waiters,
        .session_waiters_max = (uint32_t)cf->limit_session_waiters,
        .slice = SLICE,
        .domains = backend_domains(e->backend),
        .locks_max = (uint32_t)cf->limit_locks,
        .total_locks_max = (uint64_t)cf->limit_total_locks,
        .session_owners_max = SESSION_OWNERS_MAX,
        .user_percent = (uint32_t)cf->limit_user_share,
        .one_link = cf->redis_links == 1 && !backend_has_several_shards(e->backend),
        .stores_checkpoints = e->state_store.file != NULL,
    };

    snprintf(cc.daemon, sizeof(cc.daemon), "%s", e->uuid);
    return cc;
}

static size_t
larger(size_t was, int64_t now)
{
    return (size_t)now > was ? (size_t)now : was;
}

/*
 * Changes the limits in place, because readers keep pointers to them. After AUTH they never become smaller: a request
 * that releases what was locked under larger limits has to fit, because one that does not fit ends its connection with
 * all its holds.
 */
static void
set_limits(struct engine *e, const struct conf *cf)
{
    size_t line = larger(e->limits.line_bytes, cf->limit_line_bytes), unauthed = (size_t)cf->auth_bytes;

    e->limits = (struct reader_limits){line, line, (unsigned)larger(e->limits.words, cf->limit_words)};
    e->limits_unauthed = (struct reader_limits){unauthed, unauthed, (unsigned)cf->limit_words};
}

void
engine_reload(struct engine *e, const struct conf *conf)
{
    struct core_conf cc = core_settings(e, conf);
    const struct conf *was = e->conf;

    e->conf = conf;
    set_limits(e, conf);
    core_configure(e->core, &cc);
    backend_configure(e->backend, conf_longest_lease_us(conf));
    peer_reload(e);
    roles_reload(e, was);
    e->metrics.config_reloads++;
}

/* ---- begin and end ---- */

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct engine *e = arg;

    (void)fd;
    (void)what;
    e->timer_at_us = CORE_FOREVER; /* engine_turn() does what is due */
}

/* Where Redis is, and how to log in there. The texts belong to the conf. */
static struct backend_conf
redis_settings(const struct conf *cf)
{
    return (struct backend_conf){
        .url = cf->redis_url,
        .user = cf->redis_user,
        .password = cf->redis_password,
        .sentinel_user = cf->redis_sentinel_user,
        .sentinel_password = cf->redis_sentinel_password,
        .tls = {cf->redis_tls_ca_file, cf->redis_tls_cert_file, cf->redis_tls_key_file, cf->redis_tls_server_name},
        .timeout_us = cf->redis_timeout_us,
        .connect_us = cf->redis_connect_us,
        .backoff_min_us = cf->redis_backoff_min_us,
        .backoff_max_us = cf->redis_backoff_max_us,
        .links = (unsigned)cf->redis_links,
        .batch_max = (unsigned)cf->redis_batch,
        .longest_lease_us = conf_longest_lease_us(cf),
        .strict = cf->redis_strict,
        .publishes_both = cf->redis_publish == CONF_PUBLISH_BOTH,
    };
}

bool
engine_login(struct engine *e, const struct conf *conf, char error[160])
{
    struct backend_conf bc = redis_settings(conf);

    return backend_login(e->backend, &bc, error);
}

static bool
open_backend(struct engine *e, char error[160])
{
    const struct conf *cf = e->conf;
    char unmapped_key[CONF_UNMAPPED_KEY_BYTES];
    struct buf patterns;
    struct backend_conf bc = redis_settings(cf);
    struct backend_env env = {
        .base = e->base,
        .log = e->log,
        .metrics = &e->metrics,
        .post = on_post,
        .inspected = on_inspected,
        .others_changed = on_others_changed,
        .subscribed = on_subscribed,
        .state = on_state,
        .epoch = epoch_before,
        .ctx = e,
    };

    memcpy(env.uuid, e->uuid, sizeof(env.uuid));
    env.secret = e->state_store.identity.secret;
    env.nonce = e->state_store.identity.nonces.now;
    if (e->state_store.identity.predecessor_ended) {
        memcpy(env.former_nonce, e->state_store.identity.nonces.was, sizeof(env.former_nonce));
    }
    env.others = state_store_others(&e->state_store);
    buf_init(&patterns, 0);
    if (conf_key_rights(cf, &patterns, unmapped_key)) {
        buf_add(&patterns, "", 1);
        bc.unmapped_key = unmapped_key;
        bc.patterns = patterns.p;
    }
    e->backend = backend_open(&bc, &env, error);
    buf_fini(&patterns);
    return e->backend != NULL;
}

struct engine *
engine_new(struct event_base *base, const struct conf *conf, struct log *log, char error[160])
{
    struct engine *e = mem_zalloc(sizeof(*e));
    struct core_conf cc;

    e->base = base;
    e->conf = conf;
    e->log = log;
    e->started_us = clock_now_us();
    e->op_timeout_us = conf->redis_timeout_us;
    e->dead_peer_us = conf->dead_peer_us;
    e->timer_at_us = CORE_FOREVER;
    list_init(&e->sessions);
    list_init(&e->ready);
    list_init(&e->unfinished);
    list_init(&e->writing);
    list_init(&e->writing_late);
    list_init(&e->writing_events);
    list_init(&e->dying);
    list_init(&e->monitors);
    list_init(&e->listings);
    list_init(&e->long_replies);
    list_init(&e->recheck[0]);
    list_init(&e->recheck[1]);
    e->recheck_us = CORE_FOREVER;
    heap_init(&e->due);
    buf_init(&e->key, 0);
    set_limits(e, conf);
    if (!state_store_open(e, error)) {
        goto fail;
    }
    snprintf(error, 160, "no random bytes");
    if (getrandom(&e->hash, sizeof(e->hash), 0) != (ssize_t)sizeof(e->hash)) {
        goto fail;
    }
    if (!open_backend(e, error)) {
        goto fail;
    }
    cc = core_settings(e, conf);
    e->scratch = mem_alloc(ENGINE_SCRATCH_BYTES);
    e->timer = event_new(base, -1, 0, on_timer, e);
    e->core = core_new(&cc, &e->hash, &e->metrics, (struct core_sink){.act = sink, .ctx = e});
    e->pubsub = pubsub_new(e);
    if (!state_store_restore(e, error)) {
        goto fail;
    }
    return e;

fail:
    engine_free(&e);
    return NULL;
}

void
engine_free(struct engine **ep)
{
    struct engine *e = *ep;

    if (e == NULL) {
        return;
    }
    drain_close_sessions(e, "end");
    engine_reap(e);
    listings_drop_all(e);
    if (e->backend != NULL) {
        backend_close(&e->backend);
    }
    if (e->pubsub != NULL) {
        pubsub_free(&e->pubsub);
    }
    if (e->core != NULL) {
        core_free(&e->core);
    }
    if (e->timer != NULL) {
        event_free(e->timer);
    }
    state_store_close(&e->state_store);
    lockinfo_drop_all(e);
    map_fini(&e->by_id);
    map_fini(&e->processes);
    auth_limit_free(e);
    heap_fini(&e->due);
    pool_fini(&e->pool);
    buf_fini(&e->key);
    free(e->scratch);
    free(e);
    *ep = NULL;
}
