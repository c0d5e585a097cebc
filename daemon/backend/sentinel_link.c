/*
 * sentinel_link.c -- questions to one sentinel, and its answers. All lengths that it controls are bounded: reply.h and
 * link.c bound a reply, and at most SENTINELS_MAX other sentinels and SENTINEL_REPLICAS_MAX replicas are taken.
 */
#include "daemon/backend/sentinel_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/address.h"
#include "daemon/backend/text.h"
#include "daemon/base/memory.h"
#include "daemon/base/units.h"

#define DETAILS_US (10 * US_PER_S) /* between questions about sentinels, replicas and settings */

struct sentinel {
    struct link_address *address; /* owned, as are the links */
    struct redis_link *query, *sub; /* for questions, and for messages */
    const char *master;
    const struct backend_env *env;
    struct sentinel_events events;
    struct sentinel_answer answer;
    struct sentinel_replica replica[SENTINEL_REPLICAS_MAX];
    size_t replicas_n;
    int64_t down_after_ms;
    int64_t details_asked_us; /* when ask_details() asked last */
    bool asking, ask_again;
    bool logged_down;
};

/* ---- answers ---- */

/* The value behind a name in a flat array of names and values; empty if there is none, or no text. */
static struct slice
field(const struct reply *r, const char *name)
{
    for (size_t i = 0; r->type == REPLY_ARRAY && i + 1 < r->count; i += 2) {
        if (r->item[i]->type == REPLY_TEXT && slice_is(r->item[i]->text, name) && r->item[i + 1]->type == REPLY_TEXT) {
            return r->item[i + 1]->text;
        }
    }
    return (struct slice){"", 0};
}

static bool
take_host_port(struct slice host, struct slice digits, char out[HOST_ROOM], int *port)
{
    int64_t n;

    if (!number_parse(digits, &n) || n < 1 || n > 65535 || !host_copy(host, out)) {
        return false;
    }
    *port = (int)n;
    return true;
}

static void
on_id(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct sentinel *s = arg;

    (void)sent_us;
    if (result == LINK_ANSWERED && r->type == REPLY_TEXT) {
        text_print(s->answer.id, sizeof(s->answer.id), r->text);
    } else {
        s->answer.id[0] = '\0';
    }
}

/* The answer is an array of host and port, or null: then the sentinel does not know the master, and does not count. */
static void
on_named(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct sentinel *s = arg;
    bool is_valid = result == LINK_ANSWERED && r->type == REPLY_ARRAY && r->count == 2 &&
                 r->item[0]->type == REPLY_TEXT && r->item[1]->type == REPLY_TEXT;
    char before[HOST_ROOM];
    int port = s->answer.port;

    snprintf(before, sizeof(before), "%s", s->answer.host);
    s->asking = false;
    if (result == LINK_ANSWERED) {
        s->answer.host[0] = '\0';
        s->answer.asked_us = sent_us;
        if (is_valid && !take_host_port(r->item[0]->text, r->item[1]->text, s->answer.host, &s->answer.port)) {
            s->answer.host[0] = '\0';
        }
    }
    if (before[0] != '\0' && (s->answer.port != port || strcmp(s->answer.host, before) != 0)) {
        s->details_asked_us -= DETAILS_US; /* the replicas are others now: sentinel_ask() asks for them */
    }
    if (s->ask_again) {
        sentinel_ask(s, false);
    }
    s->events.changed(s->events.ctx);
}

static void
on_sentinels(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct sentinel *s = arg;
    char host[HOST_ROOM];
    int port;

    (void)sent_us;
    if (result != LINK_ANSWERED || r->type != REPLY_ARRAY) {
        return;
    }
    s->answer.others = (unsigned)r->count;
    for (size_t i = 0; i < r->count && i < SENTINELS_MAX; i++) {
        if (take_host_port(field(r->item[i], "ip"), field(r->item[i], "port"), host, &port)) {
            s->events.discovered(s->events.ctx, field(r->item[i], "runid"), host, port);
        }
    }
}

static void
on_settings(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct sentinel *s = arg;
    int64_t ms;

    (void)sent_us;
    if (result == LINK_ANSWERED && number_parse(field(r, "down-after-milliseconds"), &ms)) {
        s->down_after_ms = ms;
    }
}

static void
on_replicas(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct sentinel *s = arg;

    (void)sent_us;
    if (result != LINK_ANSWERED || r->type != REPLY_ARRAY) {
        return;
    }
    s->replicas_n = 0;
    for (size_t i = 0; i < r->count && s->replicas_n < SENTINEL_REPLICAS_MAX; i++) {
        struct sentinel_replica *at = &s->replica[s->replicas_n];

        if (take_host_port(field(r->item[i], "ip"), field(r->item[i], "port"), at->host, &at->port)) {
            at->up = slice_is(field(r->item[i], "flags"), "slave"); /* further flags are reasons why it is down */
            s->replicas_n++;
        }
    }
}

/* ---- questions ---- */

static bool
send_about(struct sentinel *s, const char *what, link_reply_fn *fn)
{
    struct slice word[3] = {SLICE_LIT("SENTINEL"), slice_of(what), slice_of(s->master)};

    return link_send(s->query, 3, word, fn, s);
}

static void
ask_details(struct sentinel *s, int64_t now_us)
{
    s->details_asked_us = now_us;
    (void)send_about(s, "SENTINELS", on_sentinels);
    (void)send_about(s, "MASTER", on_settings);
    (void)send_about(s, "REPLICAS", on_replicas);
}

void
sentinel_ask(struct sentinel *s, bool again)
{
    int64_t now_us = clock_now_us();

    if (s->asking) {
        s->ask_again = s->ask_again || again;
        return;
    }
    s->ask_again = false;
    if (link_up(s->query) && now_us >= s->details_asked_us + DETAILS_US) {
        ask_details(s, now_us);
    }
    s->asking = send_about(s, "GET-MASTER-ADDR-BY-NAME", on_named);
}

/* Asks for the master last: by then the id of the sentinel and the number of others are known. */
static void
on_query_greet(void *ctx, struct redis_link *l)
{
    struct sentinel *s = ctx;
    struct slice word[2] = {SLICE_LIT("SENTINEL"), SLICE_LIT("MYID")};

    (void)link_send(l, 2, word, on_id, s);
    ask_details(s, clock_now_us());
    s->asking = false;
    sentinel_ask(s, false);
}

static void
on_query_state(void *ctx, struct redis_link *l, bool up)
{
    struct sentinel *s = ctx;

    if (up && s->answer.id[0] == '\0') {
        link_fail(l, "it does not give its id (SENTINEL MYID): it is no sentinel, or older than Redis 6.2");
    } else if (up && s->logged_down) {
        s->logged_down = false;
        log_event(s->env->log, LOG_INFO, "redis", "sentinel up", "address", LOG_S(s->address->shown), NULL);
    } else if (!up && !s->logged_down) {
        s->logged_down = true; /* one line for an outage; INFO redis has the state */
        log_event(s->env->log, LOG_WARN, "redis", "sentinel down", "address", LOG_S(s->address->shown), "reason",
                  LOG_S(link_last_error(l)), NULL);
    }
    s->events.changed(s->events.ctx);
}

/* ---- hints ---- */

/* A switch may have been missed while the link was down. */
static void
on_subscribed(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    (void)r;
    (void)sent_us;
    if (result == LINK_ANSWERED) {
        sentinel_ask(arg, true);
    }
}

static void
on_sub_greet(void *ctx, struct redis_link *l)
{
    struct slice word[2] = {SLICE_LIT("SUBSCRIBE"), SLICE_LIT("+switch-master")};

    (void)link_send(l, 2, word, on_subscribed, ctx);
}

static void
on_sub_state(void *ctx, struct redis_link *l, bool up)
{
    (void)ctx;
    (void)l;
    (void)up;
}

/* The message may be about another master: the question costs little, and many messages cause one. */
static void
on_message(void *ctx, struct slice channel, const struct reply *what)
{
    (void)channel;
    (void)what;
    sentinel_ask(ctx, true);
}

/* ---- begin and end ---- */

struct sentinel *
sentinel_open(struct link_address *address, const char *master, const struct backend_conf *conf,
              const struct backend_env *env, struct resolver *resolver, struct sentinel_events events)
{
    struct sentinel *s = mem_zalloc(sizeof(*s));
    struct link_callbacks query = {.greet = on_query_greet, .state = on_query_state, .ctx = s};
    struct link_callbacks sub = {.greet = on_sub_greet, .state = on_sub_state, .message = on_message, .ctx = s};

    s->address = address;
    s->master = master;
    s->env = env;
    s->events = events;
    s->query = link_open(address, conf, env, resolver, false, query);
    s->sub = link_open(address, conf, env, resolver, true, sub);
    return s;
}

void
sentinel_close(struct sentinel **sp)
{
    struct sentinel *s = *sp;

    if (s != NULL) {
        link_close(&s->query, NULL);
        link_close(&s->sub, NULL);
        address_free(s->address);
        free(s);
        *sp = NULL;
    }
}

/* ---- the state ---- */

struct link_address *
sentinel_address(struct sentinel *s)
{
    return s->address;
}

const struct sentinel_answer *
sentinel_answer(const struct sentinel *s)
{
    return &s->answer;
}

bool
sentinel_up(const struct sentinel *s)
{
    return link_up(s->query);
}

const char *
sentinel_last_error(const struct sentinel *s)
{
    return link_last_error(s->query);
}

int64_t
sentinel_down_after_ms(const struct sentinel *s)
{
    return s->down_after_ms;
}

size_t
sentinel_replicas(const struct sentinel *s, const struct sentinel_replica **out)
{
    *out = s->replica;
    return s->replicas_n;
}

void
sentinel_node(const struct sentinel *s, struct backend_node *out)
{
    bool knows = s->answer.asked_us == 0 || s->answer.host[0] != '\0';

    *out = (struct backend_node){.role = "sentinel", .rtt_us = link_rtt_us(s->query)};
    snprintf(out->address, sizeof(out->address), "%s", s->address->shown);
    snprintf(out->state, sizeof(out->state), "%s", !sentinel_up(s) ? "down" : knows ? "up" : "knows no such master");
}
