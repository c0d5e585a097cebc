/*
 * link_greet.c -- the greeting of a link: AUTH, SELECT, then the questions of greet() (link.h); refusals.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/backend/link_private.h"

void
link_fail_refused(struct redis_link *l, struct slice error)
{
    char text[TEXT_ERROR_ROOM];

    link_fail(l, text_error(text, error, l->address));
}

void
link_reconnect(struct redis_link *l, const char *reason)
{
    l->short_pause = l->short_pause || l->state != LINK_DOWN;
    link_fail(l, reason);
}

/* Fails the link if Redis refuses the greeting; unless it is loading, it will refuse again: reconnect slowly. */
static void
on_greeting(void *arg, enum link_result result, const struct reply *reply, int64_t sent_us)
{
    struct redis_link *l = arg;

    (void)sent_us;
    if (result == LINK_ANSWERED && reply->type == REPLY_ERROR) {
        bool loading = strncmp(reply->text.p, "LOADING", 7) == 0;

        l->refused = !loading;
        link_fail_refused(l, reply->text);
    }
}

static void
on_login(void *arg, enum link_result result, const struct reply *reply, int64_t sent_us)
{
    if (result == LINK_ANSWERED && reply->type == REPLY_ERROR) {
        link_fail(arg, text_login_error(reply->text)); /* the first reason is the one that stays */
    }
    on_greeting(arg, result, reply, sent_us);
}

static void
on_greeted(void *arg, enum link_result result, const struct reply *reply, int64_t sent_us)
{
    struct redis_link *l = arg;

    on_greeting(arg, result, reply, sent_us);
    if (result != LINK_ANSWERED || l->failing[0] != '\0') {
        return;
    }
    l->refused = false;
    addresses_good(&l->addresses);
    l->last_error[0] = '\0';
    l->env->metrics->redis_connects++;
    link_enter(l, LINK_UP);
    log_event(l->env->log, LOG_DEBUG, "redis", "link up", "address", LOG_S(l->address->shown), NULL);
    l->callbacks.state(l->callbacks.ctx, l, true);
}

/* greet() is called only after AUTH: Redis drops unauthenticated clients with large queries. */
static void
on_authenticated(void *arg, enum link_result result, const struct reply *reply, int64_t sent_us)
{
    struct redis_link *l = arg;
    struct slice word[3] = {SLICE_LIT("CLIENT"), SLICE_LIT("SETNAME"), SLICE_LIT("rlockd")};

    on_greeting(arg, result, reply, sent_us);
    if (result != LINK_ANSWERED || l->failing[0] != '\0') {
        return;
    }
    (void)link_send(l, 3, word, NULL, NULL); /* a name for people: a refusal does not fail the link */
    l->callbacks.greet(l->callbacks.ctx, l);
    word[0] = SLICE_LIT("PING");
    (void)link_send(l, 1, word, on_greeted, l);
}

void
link_greet(struct redis_link *l)
{
    const struct link_address *a = l->address;
    struct slice word[3];
    char db[16];

    link_enter(l, LINK_GREETING);
    if (a->password != NULL) {
        word[0] = SLICE_LIT("AUTH");
        word[1] = slice_of(a->user != NULL ? a->user : a->password);
        word[2] = slice_of(a->password);
        (void)link_send(l, a->user != NULL ? 3 : 2, word, on_login, l);
    }
    if (a->db != 0) {
        snprintf(db, sizeof(db), "%d", a->db);
        word[0] = SLICE_LIT("SELECT");
        word[1] = slice_of(db);
        (void)link_send(l, 2, word, on_greeting, l);
    }
    word[0] = SLICE_LIT("PING");
    (void)link_send(l, 1, word, on_authenticated, l);
    link_arm(l);
}
