/*
 * link.h -- one connection to Redis: commands out, replies back in order, each with its own deadline.
 *
 * A link connects by itself, greets (AUTH, SELECT, the owner's own greeting), is up, and connects again after growing
 * pauses when it is lost. Nothing is queued while it is not up. Callbacks come from the loop, never from inside a link_
 * call.
 */
#ifndef RLOCKD_BACKEND_LINK_H
#define RLOCKD_BACKEND_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/backend_env.h"
#include "daemon/backend/reply.h"

#define LINK_WORDS_MAX 1024 /* in one command */

struct names;
struct redis_link;
struct tls;
struct tls_session;

/* Where Redis is and how to get in; the texts belong to the owner of the struct. */
struct link_address {
    char *path;  /* Unix socket; NULL = TCP */
    char *host;  /* NULL without a path: no server is known yet, and no link connects */
    int port;
    char *user, *password; /* NULL = none */
    bool url_user, url_password; /* the URL brought it */
    int db;
    bool secure;           /* rediss: */
    struct tls *tls;       /* owned; what connections begin with from now on; NULL = plain */
    char shown[160];       /* for people: no password */
    char unknown[160];     /* why no server is known, while none is; "" = for no reason */
};

enum link_result {
    LINK_ANSWERED, /* reply is there */
    LINK_UNKNOWN,  /* sent, unanswered: it may have run, or may yet run */
};

/* reply is NULL unless ANSWERED. sent_us: the clock before the command was queued for the socket. */
typedef void link_reply_fn(void *arg, enum link_result result, const struct reply *reply, int64_t sent_us);

struct link_owner {
    void (*greet)(void *ctx, struct redis_link *l); /* connected: send what must be answered before the link is up */
    void (*state)(void *ctx, struct redis_link *l, bool up); /* false also when it could not be made */
    /*
     * Subscriber links: a message on a channel. `what` is no text when Redis itself is the sender (tracking); an
     * integer where a node of a cluster has ended the subscription, because the slot belongs to another node now.
     */
    void (*message)(void *ctx, struct slice channel, const struct reply *what);
    void *ctx;
};

/*
 * conf, env and address are borrowed for the link's life. A subscriber takes messages; the commands sent on it name one
 * channel each, so that each has one answer.
 */
struct redis_link *link_open(const struct link_address *address, const struct backend_conf *conf,
                       const struct backend_env *env, struct names *names, bool subscriber, struct link_owner owner);

/* Closes it. Commands in flight get no callback any more; `forget` frees the `arg` of each. */
void link_close(struct redis_link **l, void (*forget)(link_reply_fn *fn, void *arg));

/*
 * Sends one command; false: the link is not up (or greeting), and nothing was sent. fn is called
 * exactly once, later. The words are copied.
 */
bool link_send(struct redis_link *l, int words, const struct slice *word, link_reply_fn *fn, void *arg);

/* Commands sent from here on leave at link_uncork(), in one write. Nothing else may happen to the link meanwhile. */
void link_cork(struct redis_link *l);
void link_uncork(struct redis_link *l);

bool link_up(const struct redis_link *l);
bool link_silent(const struct redis_link *l); /* up, but it has not answered in time, and not since */
bool link_gone(const struct redis_link *l); /* not connected, or not yet greeted: nothing of ours is in flight on it */
bool link_has_straggler(const struct redis_link *l);   /* a reply to a command that was given up; it may yet run */
size_t link_in_flight(const struct redis_link *l);
const char *link_last_error(const struct redis_link *l); /* "" = none */
int64_t link_rtt_us(const struct redis_link *l);
const struct tls_session *link_tls(const struct redis_link *l); /* NULL: plain, or not connected */

/* Gives the connection up, for a reason that goes to the log: everything in flight is UNKNOWN. */
void link_fail(struct redis_link *l, const char *reason);

/*
 * The address names another server now: no answer of the one before counts from here on, and the link connects to the
 * new one soon, whatever its pause had grown to.
 */
void link_retarget(struct redis_link *l);

#define LINK_MOVED "the data is at another server now" /* the reason why it has left then */

#endif
