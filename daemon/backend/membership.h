/*
 * membership.h -- registers this daemon in Redis, on each link of a shard, and notices when Redis may have lost data.
 */
#ifndef RLOCKD_BACKEND_MEMBERSHIP_H
#define RLOCKD_BACKEND_MEMBERSHIP_H

#include "daemon/backend/continuity.h"
#include "daemon/backend/epoch.h"
#include "daemon/backend/sha1.h"
#include "daemon/backend/shard.h"
#include "daemon/base/buf.h"

enum { MEMBERSHIP_LINES = 17 }; /* as many as may be added */

/* A link on which this daemon registers. */
struct membership_line {
    struct membership *of;
    struct redis_link *link;
    unsigned asked; /* answers to come */
    bool answered;  /* an answer came on this connection */
};

/* A list of members that is brought to a Redis that has lost it, part by part: the next one behind an answer. */
struct membership_list {
    struct buf uuids; /* one behind the other; empty: none is on its way */
    size_t at, n;     /* the part that is on its way */
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
    uint64_t token_floor;   /* no token is given below it */
    struct membership_line line[MEMBERSHIP_LINES];
    unsigned lines_n;
    bool others_reported;   /* there are other members, as was told last */
    int64_t begun_us;       /* when the last epoch began here ... */
    bool flapping;          /* ... right after the one before: a Redis that drops even the last registration */
    bool refusal_logged;
    bool again;             /* the members have to be asked for once more, by a registration that has not left yet */
    bool report;            /* that all is reclaimed has to be said, by one that has not left yet */
    int64_t fresh_until_us; /* by our clock: see membership_fresh() */
    int64_t members_known_us; /* by our clock: since when a member may have come unheard, see membership_lost() */
    int64_t awaited_us;     /* since when calls wait for it to be fresh, see membership_pending(); 0 = none do */
    bool wait_over;         /* that wait has ended, one way or the other */
};

/* What a shard asks of its head: membership_domain.c. */
extern const struct continuity_ops membership_one_domain;

/* env, conf, events and address are borrowed; channel: see epoch.h. */
void membership_init(struct membership *p, const struct backend_conf *conf, const struct backend_env *env,
                     const struct shard_events *events, const struct link_address *address, const char *channel);
void membership_fini(struct membership *p);

/* A link of the shard, before it says anything. The last one that was added is asked when none is in question. */
void membership_add(struct membership *p, struct redis_link *l);

/* A link is greeting: it is not up before Redis has answered in which epoch it is. */
void membership_greet(struct membership *p, struct redis_link *l);

/*
 * The link has gone down. Where this process stood still until then, a daemon may have started meanwhile that it never
 * heard of: it says in the next epoch that there may be members it does not know. A Redis that dies or hangs is found
 * out sooner, and costs nothing; links that go down a little later, of the same outage, do not count.
 */
void membership_lost(struct membership *p, const struct redis_link *l);

/* An answer on that link suggests another epoch: registers there at once. */
void membership_ask(struct membership *p, struct redis_link *l);

/* A token has been given: Redis must never give one that is not larger, whatever it loses. */
static inline void
membership_token(struct membership *p, uint64_t token)
{
    p->token_floor = token > p->token_floor ? token : p->token_floor;
}

/*
 * A daemon that has not registered for long is forgotten: should Redis lose its data then, no grace period waits for
 * what it holds. So nothing is taken or renewed but for a while behind a registration that Redis has answered, counted
 * from when that was sent. It is over where this process has stood still, or Redis has.
 */
static inline bool
membership_fresh(const struct membership *p, int64_t now_us)
{
    return now_us < p->fresh_until_us;
}

/*
 * True: the last beat is old, and the next one is on its way (sent now, if none was). False: it is fresh; or none can
 * be sent; or what was on its way has come to nothing (an error, no answer in time, one that took too long), which is
 * told once.
 */
bool membership_pending(struct membership *p);

/* Nothing waits for a registration, and none is needed: membership_pending() has nothing to do. */
static inline bool
membership_is_calm(const struct membership *p, int64_t now_us)
{
    return !p->wait_over && p->awaited_us == 0 && membership_fresh(p, now_us);
}

/* Registers now, on the link that heartbeats go by. */
void membership_beat(struct membership *p);

/*
 * A daemon may have joined after our registration left: another one follows. Until that is answered, no grace period
 * would wait for the newcomer's locks, should Redis lose them and the newcomer come back last.
 */
void membership_dirty(struct membership *p);

/* A message behind its "+": a daemon that registers for the first time, and may take locks from now on. */
void membership_newcomer(struct membership *p, struct slice text);

/* All that is held here has been reclaimed in that epoch: said soon, but not by all daemons at once. */
void membership_reclaimed(struct membership *p, uint64_t epoch);

/* Leaves; if that gets lost, the worst is one grace period for the others. */
void membership_leave(struct membership *p);

/* True while the message that this daemon leaves is on its way. */
bool membership_busy(const struct membership *p);

#endif
