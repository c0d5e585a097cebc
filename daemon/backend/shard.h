/*
 * shard.h -- one set of data in Redis: a pool of links, the calls gathered for them, its clock, its channels.
 *
 * A topology (standalone.c) finds the shard of a key; everything else happens here.
 */
#ifndef RLOCKD_BACKEND_SHARD_H
#define RLOCKD_BACKEND_SHARD_H

#include "daemon/backend/backend.h"
#include "daemon/backend/link.h"

struct shard;

/* Events in the life of a shard; some have a number with them. */
enum shard_life {
    SHARD_UP,         /* a link can serve */
    SHARD_DOWN,       /* none can any more */
    SHARD_NEW,        /* the epoch that begins, or the first one that is heard of: what is held has to be asserted */
    SHARD_GRANTING,   /* the epoch whose grace period is over */
    SHARD_CLOCK_JUMP, /* its clock was set, or stood still; or ours */
    SHARD_CLOCK_BACK, /* by so many us was its clock set back, seen from ours, besides what was told before */
    SHARD_SHARED,     /* other daemons may hold locks there */
    SHARD_ALONE,      /* none does any more */
};

/* Calls of a shard to the topology above it: from the loop, never from inside a shard_ call. */
struct shard_events {
    void (*done)(void *ctx, const struct core_done *done); /* an operation has ended */
    void (*life)(void *ctx, enum shard_life what, uint64_t n);
    void (*heard)(void *ctx, const struct core_event *ev); /* of a watch, a waiter poll, or from another daemon */
    void (*seen)(void *ctx, uint64_t id, const struct backend_seen *seen); /* what a shard_look() asked for */
    void *ctx;
};

/* conf and env are borrowed for the shard's life, address is taken over (freed with it). */
struct shard *shard_open(struct link_address *address, const struct backend_conf *conf, const struct backend_env *env,
                         struct shard_events events);
void shard_close(struct shard **sh);

void shard_perform(struct shard *sh, const struct core_op *op, enum core_action_type verb);
void shard_look(struct shard *sh, uint64_t id, struct slice key);
void shard_say(struct shard *sh, struct slice what);
void shard_waiter_poll(struct shard *sh, const struct core_waiter_poll *p);
void shard_configure(struct shard *sh, int64_t grace_us);
void shard_reclaimed(struct shard *sh, uint64_t epoch);
void shard_leave(struct shard *sh);
void shard_flush(struct shard *sh);
bool shard_idle(const struct shard *sh);
void shard_status(const struct shard *sh, struct backend_status *out);

#endif
