/*
 * membership.h -- registers this daemon in Redis, on each link of locks or renewals of a shard, and notices when Redis
 * may have lost data.
 */
#ifndef RLOCKD_BACKEND_MEMBERSHIP_H
#define RLOCKD_BACKEND_MEMBERSHIP_H

#include "daemon/backend/continuity.h"
#include "daemon/backend/epoch.h"
#include "daemon/backend/sha1.h"
#include "daemon/backend/shard.h"
#include "daemon/base/buf.h"

enum { MEMBERSHIP_LINKS = 17 }; /* the links of locks and the one of renewals */

/* A link on which this daemon registers. */
struct membership_link {
    struct membership *of;
    struct redis_link *link;
    unsigned asked; /* registrations in flight */
    bool answered;  /* Redis has answered one on this connection */
};

/* A list of members on its way to a Redis that has lost it. Each part waits for the answer to the one before. */
struct membership_list {
    struct buf uuids; /* one behind the other; empty: no list is being brought */
    size_t at, n;     /* the part in flight */
};

/* Embedded in its shard, and outlives the shard's links. */
struct membership {
    struct continuity head; /* first */
    struct epoch epoch;
    struct members members;
    struct membership_list list;
    char sha[SHA1_HEX_BYTES + 1]; /* of the script */
    const struct backend_conf *conf; /* borrowed, as are these */
    const struct backend_env *env;
    const struct shard_events *events;
    const struct link_address *address;
    struct event *timer;
    struct buf text;        /* scratch */
    uint64_t token_floor;   /* the highest known token: Redis must give larger ones */
    struct membership_link link[MEMBERSHIP_LINKS];
    unsigned links_n;
    bool others_reported;   /* the last report was SHARD_SHARED */
    int64_t begun_us;       /* when this daemon learned of the last epoch */
    bool flapping;          /* the last two epochs began in quick succession: Redis drops even new registrations */
    bool error_logged;
    bool ask_again;         /* the next registration has to ask for the members once more */
    bool report_due;        /* the next registration has to report that all locks are reclaimed */
    int64_t fresh_until_us; /* by the daemon's clock: see membership_fresh() */
    int64_t members_known_us; /* by the daemon's clock: newcomers since then may be unknown, see membership_lost() */
    int64_t awaited_us;     /* since when calls wait for a registration, see membership_pending(); 0 = none do */
    bool wait_over;         /* the registrations that calls waited for have ended */
};

/* The membership as the continuity of a shard with one domain: membership_domain.c. */
extern const struct continuity_ops membership_one_domain;

/* env, conf, events and address are borrowed; channel: see epoch.h. */
void membership_init(struct membership *p, const struct backend_conf *conf, const struct backend_env *env,
                     const struct shard_events *events, const struct link_address *address, const char *channel);
void membership_fini(struct membership *p);

/* Adds a link of the shard, before its first event. A registration that may use any link prefers the last one added. */
void membership_add(struct membership *p, struct redis_link *l);

/* A link is greeting: registers, so that the link is not up before Redis has named its epoch. */
void membership_greet(struct membership *p, struct redis_link *l);

/*
 * The link has gone down. If this process stood still before, a newcomer may have registered unnoticed: in the next
 * epoch the daemon reports that it may not know all members. An outage of Redis that was detected in time does not
 * count, nor do links that go down a little later in the same outage.
 */
void membership_lost(struct membership *p, const struct redis_link *l);

/* An answer on the link suggests another epoch: registers there at once. */
void membership_ask(struct membership *p, struct redis_link *l);

/* A token was given: later ones must be larger, whatever data Redis loses. */
static inline void
membership_token(struct membership *p, uint64_t token)
{
    p->token_floor = token > p->token_floor ? token : p->token_floor;
}

/*
 * Redis forgets a daemon that has not registered for a while; after a loss of data no grace period would wait for its
 * locks. So a daemon takes and renews locks only for EPOCH_FRESH_MS after an answered registration was sent. The time
 * passes if this process or Redis stands still.
 */
static inline bool
membership_fresh(const struct membership *p, int64_t now_us)
{
    return now_us < p->fresh_until_us;
}

/*
 * True: calls have to wait, because the last registration is too old and another one is in flight (sent now, if none
 * was). False: the last registration is fresh, or no registration can be sent, or those that calls waited for have
 * ended without success (returned once).
 */
bool membership_pending(struct membership *p);

/* Nothing waits for a registration, and none is needed: membership_pending() has nothing to do. */
static inline bool
membership_is_calm(const struct membership *p, int64_t now_us)
{
    return !p->wait_over && p->awaited_us == 0 && membership_fresh(p, now_us);
}

/* Registers now, on the preferred link. */
void membership_beat(struct membership *p);

/*
 * A daemon may have joined after the registration left: registers once more. Until that is answered, a grace period may
 * end without the newcomer, if Redis loses its data and the newcomer comes back last.
 */
void membership_ask_again(struct membership *p);

/* Takes the announcement (the text behind "+") of a newcomer, which may take locks from now on. */
void membership_newcomer(struct membership *p, struct slice text);

/* This daemon has reclaimed all its locks in that epoch: reports it soon, at a random time if others are known. */
void membership_reclaimed(struct membership *p, uint64_t epoch);

/* Leaves the members. If the message is lost, a later grace period may last longer. */
void membership_leave(struct membership *p);

/* True while the leaving registration is in flight. */
bool membership_busy(const struct membership *p);

#endif
