/*
 * track.c -- sets client tracking up, and again after a link was lost.
 *
 *   OFF --> SUBSCRIBING --> ENABLING --> ON
 *    ^___________|______________|________|      a link lost, no answer
 *                      NO <---                  an error that will come again; a link lost leads out of it
 *
 * T1  Nothing is sent before a key is to be tracked, except CLIENT ID, which a link in subscriber mode cannot send.
 * T2  The redirection names a connection, so tracking is set up again after either link was lost, and armed keys are
 *     armed no more. Reads leave only in state ON, behind the latest CLIENT TRACKING.
 * T3  Only the read behind CLIENT CACHING YES is tracked (OPTIN), not the scripts on the same link.
 */
#include "daemon/backend/track.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/backend/text.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

#define RETRY_S 1 /* pause after a transient failure */

enum track_state { TRACK_OFF, TRACK_SUBSCRIBING, TRACK_ENABLING, TRACK_ON, TRACK_NO };

struct track {
    const struct backend_env *env;
    const struct link_address *address;
    struct redis_link *sub, *reader;
    struct track_callbacks callbacks;
    enum track_state state;
    int64_t sub_id;     /* of the subscriber's connection; 0 = not known */
    unsigned enabling;  /* CLIENT TRACKINGs in flight: the answer to the last one counts */
    bool caching;       /* Redis has accepted the last CLIENT CACHING, so it tracks the read behind it */
    bool logged;        /* the refusal is in the log */
    struct event *retry;
};

static void
retry_soon(struct track *t)
{
    event_add(t->retry, &(struct timeval){.tv_sec = RETRY_S});
}

static void
on_retry(evutil_socket_t fd, short what, void *arg)
{
    struct track *t = arg;

    (void)fd;
    (void)what;
    t->callbacks.ready(t->callbacks.ctx); /* calls track_arm() for unarmed keys, which sets tracking up again */
}

/* Without tracking, timers wake the waiters. */
static void
log_error(struct track *t, struct slice error)
{
    char text[TEXT_ERROR_ROOM];

    if (!t->logged) {
        t->logged = true;
        log_event(t->env->log, LOG_WARN, "redis", "not tracking", "address", LOG_S(t->address->shown), "error",
                  LOG_S(text_error(text, error, t->address)), NULL);
    }
}

static void
refuse(struct track *t, struct slice error)
{
    if (text_error_is_transient(error)) {
        t->state = TRACK_OFF;
        retry_soon(t);
        return;
    }
    log_error(t, error);
    t->state = TRACK_NO;
    t->callbacks.refused(t->callbacks.ctx);
}

static void
on_enabled(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct track *t = arg;

    (void)sent_us;
    t->enabling--;
    if (t->enabling > 0 || t->state != TRACK_ENABLING) {
        return; /* the answer concerns a former connection */
    }
    if (result != LINK_ANSWERED) {
        t->state = TRACK_OFF;
        retry_soon(t);
    } else if (r->type == REPLY_ERROR) {
        refuse(t, r->text);
    } else {
        t->state = TRACK_ON;
        t->callbacks.ready(t->callbacks.ctx);
    }
}

static void
enable(struct track *t)
{
    struct slice word[6] = {SLICE_LIT("CLIENT"),   SLICE_LIT("TRACKING"), SLICE_LIT("ON"),
                            SLICE_LIT("REDIRECT"), {NULL, 0},             SLICE_LIT("OPTIN")};
    char id[24];

    snprintf(id, sizeof(id), "%" PRId64, t->sub_id);
    word[4] = slice_of(id);
    t->state = TRACK_OFF;
    if (link_send(t->reader, 6, word, on_enabled, t)) {
        t->state = TRACK_ENABLING;
        t->enabling++;
    } else {
        retry_soon(t);
    }
}

static void
on_subscribed(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct track *t = arg;

    (void)sent_us;
    if (t->state != TRACK_SUBSCRIBING) {
        return;
    }
    if (result != LINK_ANSWERED) {
        t->state = TRACK_OFF;
        retry_soon(t);
    } else if (r->type == REPLY_ERROR) {
        refuse(t, r->text);
    } else if (t->sub_id == 0) {
        refuse(t, SLICE_LIT("CLIENT ID was refused"));
    } else {
        enable(t);
    }
}

void
track_begin(struct track *t)
{
    struct slice word[2] = {SLICE_LIT("SUBSCRIBE"), SLICE_LIT(TRACK_CHANNEL)};

    if (t->state != TRACK_OFF || !link_up(t->sub) || !link_up(t->reader)) {
        return; /* watches_link() calls again when both are up */
    }
    if (link_send(t->sub, 2, word, on_subscribed, t)) {
        t->state = TRACK_SUBSCRIBING;
    } else {
        retry_soon(t);
    }
}

static void
on_id(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct track *t = arg;

    (void)sent_us;
    t->sub_id = result == LINK_ANSWERED && r->type == REPLY_INT ? r->n : 0;
}

void
track_greet(struct track *t)
{
    struct slice word[2] = {SLICE_LIT("CLIENT"), SLICE_LIT("ID")};

    t->sub_id = 0;
    (void)link_send(t->sub, 2, word, on_id, t);
}

void
track_lost(struct track *t)
{
    t->state = TRACK_OFF;
}

bool
track_refused(const struct track *t)
{
    return t->state == TRACK_NO;
}

static void
on_caching(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct track *t = arg;

    (void)sent_us;
    t->caching = result == LINK_ANSWERED && r->type != REPLY_ERROR;
    if (result == LINK_ANSWERED && !t->caching && t->state == TRACK_ON && !text_error_is_transient(r->text)) {
        refuse(t, r->text);
    }
}

bool
track_arm(struct track *t, struct slice key, link_reply_fn *fn, void *arg)
{
    static const struct slice caching[3] = {SLICE_LIT("CLIENT"), SLICE_LIT("CACHING"), SLICE_LIT("YES")};
    struct slice word[2] = {SLICE_LIT("PTTL"), key};

    if (t->state != TRACK_ON) {
        track_begin(t);
        return false;
    }
    if (link_send(t->reader, 3, caching, on_caching, t) && link_send(t->reader, 2, word, fn, arg)) {
        return true;
    }
    retry_soon(t);
    return false;
}

enum track_answer
track_answer(struct track *t, enum link_result result, const struct reply *r)
{
    bool failed = result != LINK_ANSWERED;

    if (!failed && r->type == REPLY_ERROR && !text_error_is_transient(r->text)) {
        log_error(t, r->text);
        return TRACK_REFUSED;
    }
    if (t->state == TRACK_NO) {
        return TRACK_REFUSED;
    }
    if (failed || r->type == REPLY_ERROR || !t->caching || t->state != TRACK_ON) {
        retry_soon(t);
        return TRACK_FAILED;
    }
    return TRACK_ARMED;
}

struct track *
track_new(const struct backend_env *env, const struct link_address *address, struct redis_link *sub,
          struct redis_link *reader, struct track_callbacks callbacks)
{
    struct track *t = mem_zalloc(sizeof(*t));

    t->env = env;
    t->address = address;
    t->sub = sub;
    t->reader = reader;
    t->callbacks = callbacks;
    t->retry = event_new(env->base, -1, 0, on_retry, t);
    return t;
}

void
track_free(struct track **tp)
{
    struct track *t = *tp;

    if (t == NULL) {
        return;
    }
    event_free(t->retry);
    free(t);
    *tp = NULL;
}
