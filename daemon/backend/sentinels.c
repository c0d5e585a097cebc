/*
 * sentinels.c -- the list of sentinels, and when they are asked.
 *
 * SN1 There are at most SENTINELS_MAX entries. Those of the URL come first, and stay.
 * SN2 Only the timer closes a sentinel, never a callback of one of its links.
 * SN3 Two entries may be one sentinel (a host name in the URL, and the address that others report). They count once
 *     (sentinel_answers.h), and the discovered entry is dropped while the other one is up. An entry that is down may
 *     have a former address of a sentinel: so the address that others report gets an entry, too.
 */
#include "daemon/backend/sentinels.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon/backend/address.h"
#include "daemon/backend/resolver.h"
#include "daemon/base/memory.h"

#define ASK_US US_PER_S
#define AWAITED_US ASK_US        /* the wait for the first answers after a pause of this process */
#define FORMER_US (60 * US_PER_S)     /* for so long INFO shows a former master that no sentinel lists */
#define UNREPORTED_US (60 * US_PER_S) /* a discovered sentinel that is down, and was not reported for so long, goes */

struct entry {
    struct sentinel *sentinel; /* owned */
    bool listed;               /* in the URL */
    char host[HOST_ROOM];
    int port;
    int64_t reported_us;
};

struct sentinels {
    struct sentinel_url url;
    struct backend_conf conf; /* the texts in it are valid only in sentinels_open() */
    const struct backend_env *env;
    const struct link_address *template; /* borrowed; the sentinels share its TLS */
    char *user, *password;           /* owned; NULL = none */
    struct resolver *resolver;
    struct event *timer;
    void (*changed)(void *ctx);
    void *ctx;
    struct entry entry[SENTINELS_MAX];
    size_t n;
    int64_t asked_us, awaited_until_us;
    struct sentinel_replica former; /* the master before the last switch; host "" = the sentinels list it, or none */
    int64_t switched_us;            /* when that was */
    bool full_logged; /* the log has that there are too many sentinels */
};

static void on_changed(void *ctx);
static void on_discovered(void *ctx, struct slice id, const char *host, int port);

/* ---- the list ---- */

static struct link_address *
address_of(const struct sentinels *ss, const char *host, int port)
{
    struct link_address *a = address_unknown("sentinel", ss->user, ss->password, 0, ss->url.secure);

    address_move(a, host, port);
    a->tls = tls_share(ss->template->tls);
    return a;
}

static void
add(struct sentinels *ss, const char *host, int port, bool listed)
{
    struct link_address *a = address_of(ss, host, port);
    struct entry *e = &ss->entry[ss->n++];

    *e = (struct entry){.listed = listed, .port = port, .reported_us = clock_now_us()};
    snprintf(e->host, sizeof(e->host), "%s", host);
    e->sentinel = sentinel_open(a, ss->url.master, &ss->conf, ss->env, ss->resolver,
                                (struct sentinel_events){on_changed, on_discovered, ss});
}

static void
on_discovered(void *ctx, struct slice id, const char *host, int port)
{
    struct sentinels *ss = ctx;

    for (size_t i = 0; i < ss->n; i++) {
        struct entry *e = &ss->entry[i];
        const char *its = sentinel_answer(e->sentinel)->id;

        if ((e->port == port && strcmp(e->host, host) == 0) ||
            (its[0] != '\0' && slice_is(id, its) && sentinel_up(e->sentinel))) {
            e->reported_us = clock_now_us();
            return;
        }
    }
    if (ss->n < SENTINELS_MAX) {
        add(ss, host, port, false);
        log_event(ss->env->log, LOG_INFO, "redis", "sentinel discovered", "host", LOG_S(host), "port", LOG_N(port),
                  NULL);
    } else if (!ss->full_logged) {
        ss->full_logged = true;
        log_event(ss->env->log, LOG_WARN, "redis", "too many sentinels", "most", LOG_N(SENTINELS_MAX), NULL);
    }
}

/* An earlier or listed entry that is up is the same sentinel. */
static bool
is_duplicate(const struct sentinels *ss, size_t i)
{
    const char *id = sentinel_answer(ss->entry[i].sentinel)->id;

    for (size_t k = 0; k < ss->n && id[0] != '\0'; k++) {
        const struct entry *e = &ss->entry[k];

        if (k != i && (k < i || e->listed) && sentinel_up(e->sentinel) &&
            strcmp(sentinel_answer(e->sentinel)->id, id) == 0) {
            return true;
        }
    }
    return false;
}

static void
drop_old(struct sentinels *ss, int64_t now_us)
{
    for (size_t i = ss->n; i-- > 0;) {
        struct entry *e = &ss->entry[i];
        bool unreported = now_us > e->reported_us + UNREPORTED_US && !sentinel_up(e->sentinel);

        if (!e->listed && (unreported || is_duplicate(ss, i))) {
            sentinel_close(&e->sentinel);
            memmove(e, e + 1, (ss->n - i - 1) * sizeof(*e));
            ss->n--;
        }
    }
}

/* ---- questions ---- */

/* The question of every second is overdue: this process stood still. */
static bool
stood_still(const struct sentinels *ss, int64_t now_us)
{
    return now_us > ss->asked_us + 2 * ASK_US;
}

/* After a pause of the process, also asks sentinels with a question in flight: its answer will be too old to count. */
void
sentinels_ask(struct sentinels *ss)
{
    int64_t now_us = clock_now_us();
    bool again = stood_still(ss, now_us);

    if (again) {
        ss->awaited_until_us = now_us + AWAITED_US;
    }
    ss->asked_us = now_us;
    for (size_t i = 0; i < ss->n; i++) {
        sentinel_ask(ss->entry[i].sentinel, again);
    }
}

/* An answer may be the first event after a pause. */
static void
on_changed(void *ctx)
{
    struct sentinels *ss = ctx;

    if (stood_still(ss, clock_now_us())) {
        sentinels_ask(ss);
    }
    ss->changed(ss->ctx);
}

/* A tenth of the pause is random, so that daemons which started together do not go on asking at the same time. */
static void
arm(struct sentinels *ss)
{
    int64_t us = ASK_US - (int64_t)arc4random_uniform(ASK_US / 10);

    event_add(ss->timer, &(struct timeval){.tv_usec = (suseconds_t)us});
}

/* ---- replicas ---- */

/* Those of the first sentinel that is up and has any: all sentinels list the same ones in the end. */
static size_t
replicas_of(const struct sentinels *ss, const struct sentinel_replica **out)
{
    size_t n = 0;

    for (size_t i = 0; i < ss->n && n == 0; i++) {
        n = sentinel_up(ss->entry[i].sentinel) ? sentinel_replicas(ss->entry[i].sentinel, out) : 0;
    }
    return n;
}

void
sentinels_switched(struct sentinels *ss, const char *host, int port)
{
    ss->former.port = port;
    snprintf(ss->former.host, sizeof(ss->former.host), "%s", host);
    ss->switched_us = clock_now_us();
}

static bool
former_is_listed(const struct sentinels *ss)
{
    const struct sentinel_replica *replica = NULL;
    size_t n = replicas_of(ss, &replica);
    bool listed = false;

    for (size_t i = 0; i < n; i++) {
        listed = listed || (replica[i].port == ss->former.port && strcasecmp(replica[i].host, ss->former.host) == 0);
    }
    return listed;
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct sentinels *ss = ctx;

    (void)fd;
    (void)what;
    drop_old(ss, clock_now_us());
    if (former_is_listed(ss) || clock_now_us() > ss->switched_us + FORMER_US) {
        ss->former.host[0] = '\0';
    }
    sentinels_ask(ss);
    arm(ss);
    ss->changed(ss->ctx);
}

/* ---- answers ---- */

void
sentinels_verdict(const struct sentinels *ss, struct sentinel_verdict *out)
{
    const struct sentinel_answer *answer[SENTINELS_MAX];

    for (size_t i = 0; i < ss->n; i++) {
        answer[i] = sentinel_answer(ss->entry[i].sentinel);
    }
    sentinel_answers_count(answer, ss->n, ss->url.listed_n, clock_now_us(), out);
}

bool
sentinels_awaited(const struct sentinels *ss)
{
    return clock_now_us() < ss->awaited_until_us;
}

int64_t
sentinels_down_after_ms(const struct sentinels *ss)
{
    int64_t least_ms = 0;

    for (size_t i = 0; i < ss->n; i++) {
        int64_t ms = sentinel_down_after_ms(ss->entry[i].sentinel);

        least_ms = ms > 0 && (least_ms == 0 || ms < least_ms) ? ms : least_ms;
    }
    return least_ms;
}

const char *
sentinels_last_error(const struct sentinels *ss)
{
    for (size_t i = 0; i < ss->n; i++) {
        const char *error = sentinel_last_error(ss->entry[i].sentinel);

        if (error[0] != '\0' && !sentinel_up(ss->entry[i].sentinel)) {
            return error;
        }
    }
    return "";
}

/* ---- for INFO ---- */

static void
add_replica(const struct sentinels *ss, const struct sentinel_replica *r, struct backend_node *out)
{
    *out = (struct backend_node){.role = "replica"};
    address_show(out->address, ss->url.secure, r->host, r->port);
    snprintf(out->state, sizeof(out->state), "%s", r->up ? "up" : "down");
}

/*
 * Lists the replicas, and the former master if the sentinels do not list it yet; leaves out the present master, which
 * they may still list as a replica.
 */
static size_t
add_replicas(const struct sentinels *ss, struct backend_node *out, size_t max)
{
    const struct sentinel_replica *replica = NULL;
    size_t all = replicas_of(ss, &replica), n = 0;

    for (size_t i = 0; i < all && n < max; i++) {
        if (!address_names(ss->template, replica[i].host, replica[i].port)) {
            add_replica(ss, &replica[i], &out[n++]);
        }
    }
    if (ss->former.host[0] != '\0' && !address_names(ss->template, ss->former.host, ss->former.port) &&
        !former_is_listed(ss) && n < max) {
        add_replica(ss, &ss->former, &out[n++]);
    }
    return n;
}

size_t
sentinels_nodes(const struct sentinels *ss, struct backend_node *out, size_t max)
{
    size_t n = add_replicas(ss, out, max);

    for (size_t i = 0; i < ss->n && n < max; i++) {
        sentinel_node(ss->entry[i].sentinel, &out[n++]);
    }
    return n;
}

/* ---- login ---- */

static void
forget_login(struct sentinels *ss)
{
    if (ss->password != NULL) {
        explicit_bzero(ss->password, strlen(ss->password));
    }
    free(ss->password);
    free(ss->user);
    ss->password = ss->user = NULL;
}

static void
take_login(struct sentinels *ss, const char *user, const char *password)
{
    forget_login(ss);
    ss->user = user != NULL ? mem_text(slice_of(user)) : NULL;
    ss->password = password != NULL ? mem_text(slice_of(password)) : NULL;
}

void
sentinels_login(struct sentinels *ss, const char *user, const char *password)
{
    take_login(ss, user, password);
    for (size_t i = 0; i < ss->n; i++) {
        struct link_address *a = sentinel_address(ss->entry[i].sentinel);

        address_login(a, ss->user, ss->password);
        tls_close(&a->tls);
        a->tls = tls_share(ss->template->tls);
    }
}

/* ---- begin and end ---- */

struct sentinels *
sentinels_open(const struct sentinel_url *url, const struct backend_conf *conf, const struct backend_env *env,
               const struct link_address *template, void (*changed)(void *ctx), void *ctx)
{
    struct sentinels *ss = mem_zalloc(sizeof(*ss));

    ss->url = *url;
    ss->conf = *conf;
    ss->env = env;
    ss->template = template;
    ss->changed = changed;
    ss->ctx = ctx;
    take_login(ss, conf->sentinel_user, conf->sentinel_password);
    ss->resolver = resolver_new(env->base);
    ss->timer = event_new(env->base, -1, 0, on_timer, ss);
    for (unsigned i = 0; i < url->listed_n; i++) {
        add(ss, url->listed[i].host, url->listed[i].port, true);
    }
    arm(ss);
    return ss;
}

void
sentinels_close(struct sentinels **ssp)
{
    struct sentinels *ss = *ssp;

    if (ss == NULL) {
        return;
    }
    while (ss->n > 0) {
        sentinel_close(&ss->entry[--ss->n].sentinel);
    }
    event_free(ss->timer);
    resolver_free(&ss->resolver);
    forget_login(ss);
    free(ss);
    *ssp = NULL;
}
