/*
 * shard.h -- one set of data in Redis: its links, gathered operations, clock, channels.
 *
 * A topology finds the shard of a key (cluster.c; single.c has one shard); everything else happens here. Gathering and
 * sending (shard_calls.c, shard_flush.c) are files of the shard, not a module below it: when a call leaves, and by
 * which link, depends on the state of all links, on the clock of Redis and on the continuity of the data.
 */
#ifndef RLOCKD_BACKEND_SHARD_H
#define RLOCKD_BACKEND_SHARD_H

#include "daemon/backend/backend_ops.h"
#include "daemon/backend/link.h"

struct continuity;
struct item;
struct script_variants;
struct shard;

enum { SHARD_CHANNELS = 3 }; /* of broadcasts */

/* Events in the life of a shard; some have a number with them. */
enum shard_life {
    SHARD_UP,         /* a link of locks or renewals is up */
    SHARD_DOWN,       /* none is up any more */
    SHARD_NEW_EPOCH,  /* epoch n begins, or is the first known one: held locks have to be reclaimed */
    SHARD_GRANTING,   /* the grace period of epoch n is over */
    SHARD_CLOCK_JUMP, /* Redis's clock or the daemon's was set, or stood still */
    SHARD_CLOCK_BACK, /* Redis's clock was set back by n us more, relative to the daemon's */
    SHARD_SHARED,     /* other daemons may hold locks there */
    SHARD_ALONE,      /* no other daemon does any more */
    SHARD_SUBSCRIBED, /* broadcasts that are sent from now on arrive */
    SHARD_SLOT_LEFT,  /* slot n is at another node: subscriptions to its channels have ended here */
};

/* Calls of a shard to the topology above it: from the loop, never from inside a shard_ call. */
struct shard_events {
    void (*done)(void *ctx, const struct core_done *done); /* an operation has ended */
    void (*life)(void *ctx, enum shard_life what, uint64_t n);
    void (*event)(void *ctx, const struct core_event *ev); /* of a watch or a waiter poll, or a broadcast */
    void (*inspected)(void *ctx, uint64_t id, const struct inspected_key *found); /* the answer to a shard_inspect() */
    void *ctx;
    /*
     * A link is greeting: sends what must be answered before it is up. NULL: nothing more. Not called for the link of
     * replicas if the topology has a continuity of its own: each write there checks the origin of the data.
     */
    void (*greet)(void *ctx, struct redis_link *l);
    /* The continuity of the data, in place of the shard's own membership; borrowed. NULL: that membership. */
    struct continuity *continuity;
    /*
     * A node of a cluster has refused a call with MOVED, ASK, TRYAGAIN or CLUSTERDOWN. Each of its items is handed
     * over, for another shard (shard_take()) or to be ended. NULL: the items are DOWN.
     */
    void (*redirected)(void *ctx, struct item *it, struct slice error);
    /*
     * The variants of the scripts; borrowed; NULL: the plain ones. If they are sharded, the shard subscribes to
     * channels by SSUBSCRIBE. `channel`: of broadcasts, for shard_want_broadcasts(); borrowed; all NULL: the first one
     * is as in broadcasts.h.
     */
    const struct script_variants *variants;
    const char *channel[SHARD_CHANNELS];
};

/* Borrows conf and env for the shard's life, and takes the address over. */
struct shard *shard_open(struct link_address *address, const struct backend_conf *conf, const struct backend_env *env,
                         struct shard_events events);
void shard_close(struct shard **sh);

/*
 * Moves the shard to another server: all links leave the former one at once, whose answers are ignored from now on, and
 * commands in flight are UNKNOWN. As after a restart, each greeting asks whether the server still has the data
 * (membership.h).
 */
void shard_retarget(struct shard *sh, const char *host, int port);

/* The variants of the scripts have changed: all links connect anew, and their greetings load the scripts. */
void shard_reload_scripts(struct shard *sh);

/*
 * While the links fail with exactly this error, no warning reports that the shard is unreachable: the topology expects
 * that. NULL, as at first: it expects no error. Borrowed.
 */
void shard_expect_error(struct shard *sh, const char *error);

/*
 * Sets the time until which the shard grants (at first CORE_FOREVER). After it an ACQUIRE waits for the next call of
 * this function; with until_us 0 it is DOWN. Renewals and releases go on. The caller calls again before that time, or
 * soon after an ACQUIRE has begun to wait: shard_waits().
 */
void shard_grant_until(struct shard *sh, int64_t until_us);
bool shard_waits(const struct shard *sh);

/* Sends a question by any link of locks or renewals that is up; false: none is. Operations may overtake it. */
bool shard_ask(struct shard *sh, int words, const struct slice *word, link_reply_fn *fn, void *arg);

/* The answer to such a question was malformed: fails the link that shard_ask() would use now. */
void shard_fail_asked(struct shard *sh);

void shard_perform(struct shard *sh, const struct core_op *op, enum core_action_type verb);
/* Takes an item, off any list, like a new operation of this shard. */
void shard_take(struct shard *sh, struct item *it);

void shard_inspect(struct shard *sh, uint64_t id, struct slice key);
void shard_broadcast(struct shard *sh, unsigned channel, struct slice what);

/* For a topology with a continuity of its own: whether the shard is to receive broadcasts on the channel. */
void shard_want_broadcasts(struct shard *sh, unsigned channel, bool want);

/* Whether a question would be sent now, and the server has answered the last ones in time. */
bool shard_answers(const struct shard *sh);

void shard_waiter_poll(struct shard *sh, const struct core_waiter_poll *p);
void shard_configure(struct shard *sh, int64_t longest_lease_us);
void shard_reclaimed(struct shard *sh, uint64_t epoch);
void shard_leave(struct shard *sh);
void shard_flush(struct shard *sh);
bool shard_idle(const struct shard *sh);
void shard_status(const struct shard *sh, struct backend_status *out);
void shard_node(const struct shard *sh, struct backend_node *out); /* the state of its server, for INFO */

/* An estimate of Redis's clock minus the daemon's; false: no answer has come yet. */
bool shard_clock_offset(const struct shard *sh, int64_t *us);

/* The run id that the server gave in the latest greeting; "" = not known. */
const char *shard_run_id(const struct shard *sh);

/* Why a shard that is up grants nothing in strict mode; "" = it grants, or is down, or is not strict. */
void shard_explain(const struct shard *sh, char *out, size_t room);

/* The error of a link that has failed, and is not up again; "" = there is none. */
const char *shard_last_error(const struct shard *sh);

/*
 * The current link of some names is down. True already while its calls are reported as unanswered, before the shard is
 * down; false once the names have moved to another link.
 */
bool shard_locks_away(const struct shard *sh);

/* The longest lease that a known member of the shard renews. */
int64_t shard_longest_us(const struct shard *sh);

#endif
