/*
 * shard.h -- one set of data in Redis: a pool of links, the calls gathered for them, its clock, its channels.
 *
 * A topology (standalone.c) finds the shard of a key; everything else happens here.
 */
#ifndef RLOCKD_BACKEND_SHARD_H
#define RLOCKD_BACKEND_SHARD_H

#include "daemon/backend/backend_ops.h"
#include "daemon/backend/link.h"

struct continuity;
struct item;
struct script_forms;
struct shard;

/* Events in the life of a shard; some have a number with them. */
enum shard_life {
    SHARD_UP,         /* a link can serve */
    SHARD_DOWN,       /* none can any more */
    SHARD_NEW,        /* the epoch that begins, or the first known one: held locks have to be reclaimed */
    SHARD_GRANTING,   /* the epoch whose grace period is over */
    SHARD_CLOCK_JUMP, /* its clock was set, or stood still; or ours */
    SHARD_CLOCK_BACK, /* its clock was set back by n us, seen from ours, besides earlier reports */
    SHARD_SHARED,     /* other daemons may hold locks there */
    SHARD_ALONE,      /* none does any more */
    SHARD_SLOT_LEFT,     /* what was to be heard of the slot with that number is at another node */
};

/* Calls of a shard to the topology above it: from the loop, never from inside a shard_ call. */
struct shard_events {
    void (*done)(void *ctx, const struct core_done *done); /* an operation has ended */
    void (*life)(void *ctx, enum shard_life what, uint64_t n);
    void (*event)(void *ctx, const struct core_event *ev); /* of a watch, a waiter poll, or from another daemon */
    void (*seen)(void *ctx, uint64_t id, const struct backend_seen *seen); /* what a shard_look() asked for */
    void *ctx;
    /* A link greets, also the one of subscriptions: what must be answered besides before it is up. NULL: nothing. */
    void (*greet)(void *ctx, struct redis_link *l);
    /* The continuity of the data, in place of the shard's own membership; borrowed. NULL: that membership. */
    struct continuity *data;
    /*
     * A node of a cluster does not run a call: MOVED, ASK, TRYAGAIN, CLUSTERDOWN. Each of its items is handed over, to
     * go elsewhere (shard_take()) or to be ended. NULL: they are DOWN.
     */
    void (*elsewhere)(void *ctx, struct item *it, struct slice error);
    /*
     * Of the scripts, borrowed; NULL: the plain ones. Where they are sharded, channels are those of slots, too. Then
     * `channel` is that of broadcasts, which are heard where shard_want_broadcasts() says so; borrowed.
     */
    const struct script_forms *forms;
    const char *channel;
};

/* conf and env are borrowed for the shard's life, address is taken over (freed with it). */
struct shard *shard_open(struct link_address *address, const struct backend_conf *conf, const struct backend_env *env,
                         struct shard_events events);
void shard_close(struct shard **sh);

/*
 * The data is at another server from now on: all links leave the old one at once, its answers do not count any more,
 * and commands in flight are UNKNOWN. Each greeting asks whether the new server still has the data, as after a restart
 * (membership.h).
 */
void shard_retarget(struct shard *sh, const char *host, int port);

/*
 * From that time on nothing is granted, and an ACQUIRE waits for the next call of this function; 0: it is DOWN.
 * Renewals and releases go on. CORE_FOREVER at first. The caller calls again soon, when shard_waits() at the latest.
 */
void shard_grant_until(struct shard *sh, int64_t until_us);
bool shard_waits(const struct shard *sh);

/* Sends a question that needs no order, by a link that is up; false: there is none. */
bool shard_ask(struct shard *sh, int words, const struct slice *word, link_reply_fn *fn, void *arg);

/* Such a question was answered by what is no answer: gives the link up by which it would be asked now. */
void shard_nonsense(struct shard *sh);

void shard_perform(struct shard *sh, const struct core_op *op, enum core_action_type verb);
/* Takes an item over, from wherever it stands, as if it had been asked for here. */
void shard_take(struct shard *sh, struct item *it);

void shard_look(struct shard *sh, uint64_t id, struct slice key);
void shard_broadcast(struct shard *sh, struct slice what);

/* Of a topology with a continuity of its own: whether broadcasts are heard here, from now on. */
void shard_want_broadcasts(struct shard *sh, bool want);

void shard_waiter_poll(struct shard *sh, const struct core_waiter_poll *p);
void shard_configure(struct shard *sh, int64_t grace_us);
void shard_reclaimed(struct shard *sh, uint64_t epoch);
void shard_leave(struct shard *sh);
void shard_flush(struct shard *sh);
bool shard_idle(const struct shard *sh);
void shard_status(const struct shard *sh, struct backend_status *out);
void shard_node(const struct shard *sh, struct backend_node *out); /* its server */

/* Its clock minus ours, as a guess; false: nothing is known of it. */
bool shard_clock_offset(const struct shard *sh, int64_t *us);

/* The run id of its server, as of the latest greeting; "" = not known. */
const char *shard_server(const struct shard *sh);

/* Why it is down, or was last; "" = it has not been. */
const char *shard_last_error(const struct shard *sh);

/* The longest lease that a member there renews, as far as is known. */
int64_t shard_longest_us(const struct shard *sh);

#endif
