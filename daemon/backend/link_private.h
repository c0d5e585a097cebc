/*
 * link_private.h -- what the files of a link share; only link.c and link_*.c see it. Its rules are in link.c.
 */
#ifndef RLOCKD_BACKEND_LINK_PRIVATE_H
#define RLOCKD_BACKEND_LINK_PRIVATE_H

#include "daemon/backend/link.h"
#include "daemon/backend/resolver.h"
#include "daemon/backend/text.h"
#include "daemon/base/buf.h"
#include "daemon/base/clock.h"
#include "daemon/base/list.h"

struct bufferevent;
struct event;
struct redisReader;
struct tls_connection;

#define IDLE_PING_US (3 * US_PER_S)

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_GREETING, LINK_UP };

struct link_command {
    struct list node;    /* link.sent */
    link_reply_fn *fn;   /* NULL: the reply has no receiver, or the command is UNKNOWN already */
    void *arg;
    int64_t sent_us;
    uint64_t leaves; /* SUNSUBSCRIBE, and the PING behind it: a hash of the channel (LM1); else 0 */
};

struct redis_link {
    const struct link_address *address;
    const struct backend_conf *conf;
    const struct backend_env *env;
    struct resolver *resolver;   /* borrowed; NULL: the address is a path */
    struct lookup *lookup;       /* owned; NULL: no lookup is in flight */
    struct addresses addresses;  /* of the host */
    struct link_callbacks callbacks;
    bool subscriber;
    enum link_state state;
    struct bufferevent *bev;    /* owned; NULL when DOWN, and during a lookup */
    struct tls_connection *tls; /* owned, ends with bev; NULL: plain, or there is no connection yet */
    struct redisReader *reader; /* owned; NULL when DOWN */
    size_t partial;             /* bytes of an incomplete reply */
    struct event *timer;        /* owned: reconnect, connect deadline, command deadlines, idle ping */
    struct buf out;             /* commands that were not written yet */
    bool corked;                /* link_uncork() writes `out` */
    struct list sent;
    size_t sent_n;
    int64_t since_us;        /* when this state began */
    int64_t received_us;     /* when the last bytes came from Redis */
    bool silent;             /* a command has passed its deadline, and no byte came since */
    int64_t pinged_us;       /* when an unanswered idle PING left; 0 = none */
    int64_t backoff_us;
    int64_t rtt_us;
    bool refused;            /* the greeting was refused, or the TLS handshake failed: reconnect slowly */
    bool short_pause;        /* this daemon has ended the connection: the next pause is the shortest */
    char failing[TEXT_ERROR_ROOM];      /* why the link will be dropped in a later turn (L4); "" = it stays */
    char last_error[TEXT_ERROR_ROOM];
};

/* Of a channel; never 0. */
static inline uint64_t
link_channel_hash(const struct redis_link *l, struct slice channel)
{
    return hash_bytes(&l->env->secret, channel.p, channel.n) | 1;
}

/* Moves the link to another state, as of now. */
void link_enter(struct redis_link *l, enum link_state to);

/* When the timer is due; 0: at once. */
int64_t link_next_us(const struct redis_link *l);

/* Sets the timer to link_next_us(). */
void link_arm(struct redis_link *l);

enum link_reply_type {
    LINK_REPLY_ANSWER, /* to the oldest command */
    LINK_REPLY_MESSAGE,
    LINK_REPLY_PART, /* another part of the answer follows */
    LINK_REPLY_AMBIGUOUS, /* an error that may answer either of two commands */
};

/* The type of a reply of a subscriber link; changes nothing. */
enum link_reply_type link_reply_type_of(const struct redis_link *l, const struct reply *r);

/* Sends AUTH and SELECT on a new connection, then calls greet(). The link is UP when all is answered. */
void link_greet(struct redis_link *l);

#endif
