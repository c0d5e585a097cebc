/*
 * link.c -- one connection to Redis: begin and end, output and input, deadlines. link_greet.c has the greeting, tls.h
 * TLS, link_messages.c messages, link_view.c questions about a link. Only link.c and reply.c use hiredis (its reader).
 *
 *   DOWN --timer--> CONNECTING --> GREETING --> UP      the handshake of TLS is part of CONNECTING
 *     ^________________|______________|_________|   error, end, silence
 * L1  Replies come in the order of commands: a reply belongs to the oldest command in `sent`.
 * L2  A command without a reply is UNKNOWN at its deadline, but stays in `sent` to take the reply that may still come.
 * L3  Commands are sent while the link is GREETING or UP, and never wait for a connection. `out` is empty after a turn.
 * L4  The link is dropped in callbacks of the loop, such as on_read(); never in a link_ call: link_fail() notes why.
 */
#include "daemon/backend/link.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/backend/link_private.h"
#include "daemon/backend/push.h"
#include "daemon/backend/tls.h"
#include "daemon/base/clock.h"
#include "daemon/base/freelist.h"
#include "daemon/base/memory.h"
#include "proto/writer.h"

#define PARTIAL_BYTES_MAX (2 * REPLY_BULK_BYTES_MAX) /* of a reply that is not whole yet, with all its items */
#define OUT_KEEP_BYTES (64 * 1024)
#define CHUNK_BYTES (16 * 1024)

/* ---- time ---- */

void
link_arm(struct redis_link *l)
{
    int64_t in_us = link_next_us(l) - clock_now_us();
    struct timeval tv;

    in_us = in_us > 0 ? in_us : 0;
    tv.tv_sec = (time_t)(in_us / US_PER_S);
    tv.tv_usec = (suseconds_t)(in_us % US_PER_S);
    event_add(l->timer, &tv);
}

void
link_enter(struct redis_link *l, enum link_state to)
{
    l->state = to;
    l->since_us = l->received_us = clock_now_us();
    l->pinged_us = 0;
    l->silent = false;
}

/* ---- the end of a connection ---- */

static void
report_unknown(struct link_command *s)
{
    link_reply_fn *fn = s->fn;

    s->fn = NULL;
    if (fn != NULL) {
        fn(s->arg, LINK_UNKNOWN, NULL, s->sent_us);
    }
}

/* The pause doubles each time, with jitter so that daemons do not all reconnect at once. */
static void
next_backoff(struct redis_link *l)
{
    int64_t min_us = l->conf->backoff_min_us, max_us = l->conf->backoff_max_us;
    int64_t base_us = l->backoff_us * 2, spread_us;

    base_us = base_us < min_us ? min_us : base_us;
    base_us = base_us > max_us || l->refused ? max_us : base_us;
    spread_us = base_us / 2 + 1 < UINT32_MAX ? base_us / 2 + 1 : UINT32_MAX;
    l->backoff_us = base_us / 2 + (int64_t)arc4random_uniform((uint32_t)spread_us);
}

static void
hang_up(struct redis_link *l)
{
    resolver_cancel(&l->lookup);
    tls_end(&l->tls);
    if (l->bev != NULL) {
        bufferevent_free(l->bev);
        l->bev = NULL;
    }
}

static void
drop(struct redis_link *l, const char *reason)
{
    bool was_up = l->state == LINK_UP;

    log_event(l->env->log, LOG_DEBUG, "redis", was_up ? "link lost" : "link failed", "address",
              LOG_S(l->address->shown), "reason", LOG_S(reason), NULL);
    l->env->metrics->redis_disconnects += was_up;
    snprintf(l->last_error, sizeof(l->last_error), "%s", reason);
    l->failing[0] = '\0';
    if (was_up && clock_now_us() - l->since_us >= l->conf->backoff_max_us) {
        l->backoff_us = 0; /* the link was up for a while; a greeting alone proves nothing */
    }
    if (l->short_pause) {
        l->short_pause = l->refused = false;
        l->backoff_us = 0;
    }
    next_backoff(l);
    link_enter(l, LINK_DOWN);
    hang_up(l);
    if (l->reader != NULL) {
        redisReaderFree(l->reader);
        l->reader = NULL;
    }
    buf_clear(&l->out, OUT_KEEP_BYTES);
    while (!list_empty(&l->sent)) {
        struct link_command *s = container_of(l->sent.next, struct link_command, node);

        list_remove(&s->node);
        l->sent_n--;
        report_unknown(s);
        freelist_give(l->env->freelist, s, sizeof(*s));
    }
    l->callbacks.state(l->callbacks.ctx, l, false);
    link_arm(l);
}

void
link_fail(struct redis_link *l, const char *reason)
{
    if (l->state != LINK_DOWN && l->failing[0] == '\0') {
        snprintf(l->failing, sizeof(l->failing), "%s", reason);
        link_arm(l);
    }
}

void
link_retarget(struct redis_link *l)
{
    addresses_clear(&l->addresses);
    l->addresses.turn = 0;
    if (l->state == LINK_DOWN) {
        l->refused = false;
        l->backoff_us = 0;
        next_backoff(l);
        link_enter(l, LINK_DOWN);
        link_arm(l);
    } else {
        l->short_pause = true;
        link_fail(l, LINK_MOVED);
    }
}

/* ---- sending ---- */

/* Writes the output of TLS: bytes of the handshake, and encrypted commands. */
static void
push_tls_output(struct redis_link *l)
{
    struct slice output = tls_out(l->tls);

    if (output.n > 0) {
        push_bytes(l->bev, output.p, output.n);
    }
    tls_sent(l->tls);
}

static void
write_out(struct redis_link *l)
{
    if (l->bev != NULL && l->out.n > 0 && l->tls == NULL) {
        push_bytes(l->bev, l->out.p, l->out.n);
    } else if (l->bev != NULL && l->out.n > 0) {
        if (!tls_write(l->tls, buf_slice(&l->out))) {
            link_fail(l, tls_reason(l->tls));
        }
        push_tls_output(l);
    }
    buf_clear(&l->out, OUT_KEEP_BYTES);
}

void
link_cork(struct redis_link *l)
{
    l->corked = true;
}

void
link_uncork(struct redis_link *l)
{
    l->corked = false;
    write_out(l);
}

static bool
may_send(const struct redis_link *l)
{
    return (l->state == LINK_GREETING || l->state == LINK_UP) && l->failing[0] == '\0';
}

bool
link_send(struct redis_link *l, int words, const struct slice *word, link_reply_fn *fn, void *arg)
{
    struct link_command *s;

    if (!may_send(l)) {
        return false;
    }
    s = freelist_take(l->env->freelist, sizeof(*s));
    s->fn = fn;
    s->arg = arg;
    assert(words <= LINK_WORDS_MAX);
    s->leaves = l->subscriber && slice_is(word[0], "SUNSUBSCRIBE") ? link_channel_hash(l, word[1]) : 0;
    (void)writer_request(&l->out, (size_t)words, word); /* cannot fail: `out` has no max */
    l->env->metrics->redis_calls++;
    if (s->leaves != 0) {
        (void)writer_request(&l->out, 1, &(struct slice){"PING", 4});
        l->env->metrics->redis_calls++;
    }
    s->sent_us = clock_now_us(); /* before the first byte of the command can leave */
    list_push_back(&l->sent, &s->node);
    l->sent_n++;
    if (l->sent_n == 1) {
        link_arm(l);
    }
    if (!l->corked) {
        write_out(l);
    }
    return true;
}

/* ---- receiving ---- */

static void
take_reply(struct redis_link *l, const struct reply *reply)
{
    struct link_command *s;

    switch (l->subscriber ? link_reply_type_of(l, reply) : LINK_REPLY_ANSWER) {
    case LINK_REPLY_MESSAGE:
        l->callbacks.message(l->callbacks.ctx, reply->item[1]->text, reply->item[2]);
        return;
    case LINK_REPLY_PART:
        return;
    case LINK_REPLY_AMBIGUOUS:
        link_fail_refused(l, reply->text);
        return;
    case LINK_REPLY_ANSWER:
        break;
    }
    if (list_empty(&l->sent)) {
        l->env->metrics->redis_protocol_errors++;
        link_fail(l, "an unexpected reply");
        return;
    }
    s = container_of(l->sent.next, struct link_command, node);
    list_remove(&s->node);
    l->sent_n--;
    l->rtt_us = l->received_us - s->sent_us;
    if (s->fn != NULL) {
        s->fn(s->arg, LINK_ANSWERED, reply, s->sent_us);
    }
    freelist_give(l->env->freelist, s, sizeof(*s));
}

/* Feeds bytes of Redis to the reader, and takes every complete reply. */
static void
take_bytes(struct redis_link *l, struct slice bytes)
{
    void *reply = NULL;

    reply_reader_feed(l->reader, bytes.p, bytes.n);
    l->partial += bytes.n;
    while (l->failing[0] == '\0') {
        if (redisReaderGetReply(l->reader, &reply) != REDIS_OK) {
            l->env->metrics->redis_protocol_errors++;
            link_fail(l, l->reader->err == REDIS_ERR_OOM ? "an array of too many items" : l->reader->errstr);
        } else if (reply == NULL) {
            if (l->partial > PARTIAL_BYTES_MAX) {
                l->env->metrics->redis_protocol_errors++;
                link_fail(l, "a reply that is too large");
            }
            break;
        } else {
            l->partial = l->reader->len - l->reader->pos;
            take_reply(l, reply);
            reply_free(reply);
        }
    }
}

/* Bytes from the socket with TLS. The greeting follows the handshake; then the bytes are encrypted replies. */
static void
take_secure(struct redis_link *l, struct slice bytes)
{
    char chunk[CHUNK_BYTES];
    enum tls_state state = tls_take(l->tls, bytes);
    ssize_t n = 0;

    if (state == TLS_OPEN && l->state == LINK_CONNECTING) {
        link_greet(l);
    }
    while (state == TLS_OPEN && l->failing[0] == '\0' && (n = tls_read(l->tls, chunk, sizeof(chunk))) > 0) {
        take_bytes(l, (struct slice){chunk, (size_t)n});
    }
    push_tls_output(l);
    if (state == TLS_FAILED || n < 0) {
        l->refused = l->state != LINK_UP; /* a failed handshake will fail again: reconnect slowly */
        link_fail(l, tls_reason(l->tls));
    }
}

static void
on_read(struct bufferevent *bev, void *ctx)
{
    struct redis_link *l = ctx;
    struct evbuffer *in = bufferevent_get_input(bev);
    size_t n;

    l->received_us = clock_now_us();
    l->pinged_us = 0;
    l->silent = false;
    while (l->failing[0] == '\0' && (n = evbuffer_get_contiguous_space(in)) > 0) {
        struct slice bytes = {(char *)evbuffer_pullup(in, (ev_ssize_t)n), n};

        if (l->tls != NULL) {
            take_secure(l, bytes);
        } else {
            take_bytes(l, bytes);
        }
        evbuffer_drain(in, n);
    }
    if (l->failing[0] != '\0') {
        char reason[sizeof(l->failing)];

        memcpy(reason, l->failing, sizeof(reason));
        drop(l, reason);
    } else {
        link_arm(l);
    }
}

/*
 * Reads bytes that came before a failed write ended the connection: they may contain the reason for which Redis has
 * closed it, mostly a refused certificate of the daemon.
 */
static void
read_last_bytes(struct redis_link *l)
{
    char chunk[CHUNK_BYTES];
    ssize_t n = recv(bufferevent_getfd(l->bev), chunk, sizeof(chunk), MSG_DONTWAIT);

    if (n > 0) {
        take_secure(l, (struct slice){chunk, (size_t)n});
    }
}

/* Drops the link: Redis has ended the connection, or is late. Adds a hint to the reason if TLS may be the cause. */
static void
drop_ended(struct redis_link *l, bool by_redis, const char *reason)
{
    char text[sizeof(l->failing)];
    bool never_answered = l->state == LINK_GREETING && l->address->path == NULL && l->rtt_us == 0;

    if (l->tls != NULL) {
        read_last_bytes(l);
    }
    if (l->failing[0] != '\0') {
        snprintf(text, sizeof(text), "%s", l->failing);
    } else if (l->lookup != NULL) {
        snprintf(text, sizeof(text), "no name server has resolved this host in time");
    } else if (l->tls != NULL && l->state == LINK_CONNECTING) {
        snprintf(text, sizeof(text), "%s in the handshake of TLS; does it speak TLS at this port?", reason);
    } else if (by_redis && never_answered && l->tls == NULL) {
        snprintf(text, sizeof(text),
                 "closed before Redis answered anything; at a port that speaks TLS the URL begins with rediss://");
    } else {
        snprintf(text, sizeof(text), "%s", reason);
    }
    drop(l, text);
}

static void on_event(struct bufferevent *bev, short what, void *ctx);

static int
connect_to(struct redis_link *l, const struct sockaddr *to, size_t n)
{
    l->bev = bufferevent_socket_new(l->env->base, -1, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(l->bev, on_read, NULL, on_event, l);
    bufferevent_enable(l->bev, EV_READ | EV_WRITE);
    return bufferevent_socket_connect(l->bev, to, (int)n);
}

/* Connects to the next address of the host. If none is left, the link goes down for `reason`. */
static void
connect_next(struct redis_link *l, const char *reason)
{
    const struct evutil_addrinfo *to;

    while ((to = addresses_next(&l->addresses)) != NULL) {
        hang_up(l);
        if (connect_to(l, to->ai_addr, to->ai_addrlen) == 0) {
            return;
        }
        reason = strerror(errno);
    }
    drop(l, reason);
}

static void
on_event(struct bufferevent *bev, short what, void *ctx)
{
    struct redis_link *l = ctx;

    if (what & BEV_EVENT_CONNECTED) {
        int on = 1;

        /* Over TCP no command may wait for the acknowledgement of another. A Unix socket refuses the option. */
        (void)setsockopt(bufferevent_getfd(bev), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (l->address->tls == NULL) {
            link_greet(l);
        } else {
            l->tls = tls_begin(l->address->tls, l->address->host);
            push_tls_output(l);
        }
    } else if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) {
        int error = EVUTIL_SOCKET_ERROR();
        const char *reason = (what & BEV_EVENT_EOF) != 0 ? "closed by Redis"
                             : error != 0                ? strerror(error)
                                                         : "connection lost";

        if (l->state == LINK_CONNECTING && l->tls == NULL) {
            connect_next(l, reason);
        } else {
            drop_ended(l, true, reason);
        }
    }
}

/* ---- connecting ---- */

static void
on_found(void *ctx, const char *error)
{
    struct redis_link *l = ctx;

    l->lookup = NULL;
    connect_next(l, error != NULL ? error : "the host has no address");
}

static void
connect_now(struct redis_link *l)
{
    const struct link_address *a = l->address;
    struct sockaddr_un sun = {.sun_family = AF_UNIX};

    link_enter(l, LINK_CONNECTING);
    l->reader = reply_reader_new(l->env->freelist);
    l->partial = 0;
    if (a->path == NULL && a->host == NULL) {
        drop(l, a->why_unknown[0] != '\0' ? a->why_unknown : "no server is known");
    } else if (a->path == NULL) {
        l->lookup = resolver_ask(l->resolver, a->host, a->port, &l->addresses, on_found, l);
    } else if (strlen(a->path) >= sizeof(sun.sun_path)) {
        drop(l, strerror(ENAMETOOLONG));
    } else {
        strcpy(sun.sun_path, a->path);
        if (connect_to(l, (struct sockaddr *)&sun, sizeof(sun)) != 0) {
            drop(l, strerror(errno));
        }
    }
    link_arm(l);
}

/* ---- deadlines ---- */

/* Ends commands past their deadline as UNKNOWN. True: the oldest one is two timeouts old, so the link is dropped. */
static bool
expire(struct redis_link *l, int64_t now_us)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &l->sent)
    {
        struct link_command *s = container_of(pos, struct link_command, node);

        if (now_us < s->sent_us + l->conf->timeout_us) {
            break;
        }
        l->silent = true;
        report_unknown(s);
    }
    if (list_empty(&l->sent)) {
        return false;
    }
    return now_us >= container_of(l->sent.next, struct link_command, node)->sent_us + 2 * l->conf->timeout_us;
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct redis_link *l = ctx;
    int64_t now_us = clock_now_us();
    struct slice ping = SLICE_LIT("PING");

    (void)fd;
    (void)what;
    if (l->failing[0] != '\0') {
        char reason[sizeof(l->failing)];

        memcpy(reason, l->failing, sizeof(reason));
        drop(l, reason);
    } else if (l->state == LINK_DOWN) {
        if (now_us >= link_next_us(l)) {
            connect_now(l);
        } else {
            link_arm(l);
        }
    } else if (l->state != LINK_UP && now_us >= l->since_us + l->conf->connect_us) {
        drop_ended(l, false, "no answer within redis.connect_timeout");
    } else if (l->state == LINK_UP &&
               (expire(l, now_us) || (l->pinged_us != 0 && now_us >= l->pinged_us + l->conf->timeout_us))) {
        drop(l, "no answer");
    } else {
        if (l->state == LINK_UP && l->pinged_us == 0 && now_us >= l->received_us + IDLE_PING_US) {
            l->pinged_us = now_us;
            (void)link_send(l, 1, &ping, NULL, NULL);
        }
        link_arm(l);
    }
}

/* ---- begin and end ---- */

struct redis_link *
link_open(const struct link_address *address, const struct backend_conf *conf, const struct backend_env *env,
          struct resolver *resolver, bool subscriber, struct link_callbacks callbacks)
{
    struct redis_link *l = mem_zalloc(sizeof(*l));

    l->address = address;
    l->conf = conf;
    l->env = env;
    l->resolver = resolver;
    l->subscriber = subscriber;
    l->callbacks = callbacks;
    list_init(&l->sent);
    buf_init(&l->out, 0);
    l->timer = event_new(env->base, -1, 0, on_timer, l);
    link_enter(l, LINK_DOWN);
    link_arm(l);
    return l;
}

void
link_close(struct redis_link **lp, void (*forget)(link_reply_fn *fn, void *arg))
{
    struct redis_link *l = *lp;

    if (l == NULL) {
        return;
    }
    while (!list_empty(&l->sent)) {
        struct link_command *s = container_of(l->sent.next, struct link_command, node);

        list_remove(&s->node);
        if (s->fn != NULL && forget != NULL) {
            forget(s->fn, s->arg);
        }
        freelist_give(l->env->freelist, s, sizeof(*s));
    }
    hang_up(l);
    addresses_clear(&l->addresses);
    if (l->reader != NULL) {
        redisReaderFree(l->reader);
    }
    event_free(l->timer);
    buf_fini(&l->out);
    free(l);
    *lp = NULL;
}
