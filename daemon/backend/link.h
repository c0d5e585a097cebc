/*
 * link.h -- one connection to Redis: commands out, replies back in order, each with its own deadline.
 *
 * A link connects by itself, greets (AUTH, SELECT, then greet() below), is up, and after a loss connects again at
 * growing pauses. A link that is not up queues nothing. Callbacks come from the loop, never from inside a link_ call.
 */
#ifndef RLOCKD_BACKEND_LINK_H
#define RLOCKD_BACKEND_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/backend_env.h"
#include "daemon/backend/reply.h"

#define LINK_WORDS_MAX 1024 /* in one command */

struct resolver;
struct redis_link;
struct tls;
struct tls_connection;

/* The address of a Redis, and the login. The owner of the struct owns the texts. */
struct link_address {
    char *path;  /* Unix socket; NULL = TCP */
    char *host;  /* NULL without a path: no server is known yet, and no link connects */
    int port;
    char *user, *password; /* NULL = none */
    bool url_user, url_password; /* the URL has named it */
    int db;
    bool secure;           /* TLS: rediss:, sentinel+tls:, cluster+tls: */
    struct tls *tls;       /* owned; of new connections; NULL = plain */
    char shown[160];       /* the URL for people, without the password */
    char why_unknown[320]; /* why no server is known; "" = no reason, or a server is known */
};

enum link_result {
    LINK_ANSWERED, /* the reply has come */
    LINK_UNKNOWN,  /* no reply: the command may have run, or may yet run */
};

/* reply is NULL unless ANSWERED. sent_us: the clock before the command was queued for the socket. */
typedef void link_reply_fn(void *arg, enum link_result result, const struct reply *reply, int64_t sent_us);

struct link_callbacks {
    void (*greet)(void *ctx, struct redis_link *l); /* connected: send what must be answered before the link is up */
    void (*state)(void *ctx, struct redis_link *l, bool up); /* false also after a failed attempt to connect */
    /*
     * Subscriber links: a message on a channel. `what` is a text, or an array or null of client tracking, or an
     * integer: a node of a cluster has ended the subscription, because another node has the slot now.
     */
    void (*message)(void *ctx, struct slice channel, const struct reply *what);
    void *ctx;
};

/*
 * Borrows conf, env and address for the link's life. A subscriber receives messages. Each command of subscriptions on
 * it names one channel, so that it has one answer.
 */
struct redis_link *link_open(const struct link_address *address, const struct backend_conf *conf,
                       const struct backend_env *env, struct resolver *resolver, bool subscriber,
                       struct link_callbacks callbacks);

/* Closes the link. Commands in flight get no callback; `forget`, if not NULL, is called for each to free its `arg`. */
void link_close(struct redis_link **l, void (*forget)(link_reply_fn *fn, void *arg));

/*
 * Sends one command. False: the link is neither up nor greeting, and nothing was sent. Else fn is called exactly once,
 * later. Copies the words.
 */
bool link_send(struct redis_link *l, int words, const struct slice *word, link_reply_fn *fn, void *arg);

/* Commands sent between these two calls leave in one write. Nothing else may happen to the link in between. */
void link_cork(struct redis_link *l);
void link_uncork(struct redis_link *l);

bool link_up(const struct redis_link *l);
bool link_silent(const struct redis_link *l); /* a command has passed its deadline, and no byte came since */
bool link_lost(const struct redis_link *l); /* not connected, or greeting: no call is in flight */
/* A command that is UNKNOWN already may yet run; also true while the oldest one in flight has no callback. */
bool link_has_straggler(const struct redis_link *l);
size_t link_in_flight(const struct redis_link *l);
const char *link_last_error(const struct redis_link *l); /* "" = none */
int64_t link_rtt_us(const struct redis_link *l);
const struct tls_connection *link_tls(const struct redis_link *l); /* NULL: plain, or not connected */

/* Drops the connection in a later turn, and logs the reason. All commands in flight become UNKNOWN. */
void link_fail(struct redis_link *l, const char *reason);
void link_fail_refused(struct redis_link *l, struct slice error); /* for an error that the server has answered */
void link_reconnect(struct redis_link *l, const char *reason); /* link_fail(), but the next pause is the shortest */

/*
 * The address names another server now: ignores all answers of the former server, and connects to the new one soon,
 * however long the pause had grown.
 */
void link_retarget(struct redis_link *l);

#define LINK_MOVED "the data is at another server now" /* the reason of link_retarget() to drop the connection */

#endif
