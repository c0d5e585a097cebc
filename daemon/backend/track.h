/*
 * track.h -- Redis's client tracking as an alarm: Redis reports that a key which was read has changed.
 *
 * Needed for holders that publish nothing (redis-py, redsync, warlock, SpinLock). Reading a key on the reading link,
 * behind CLIENT CACHING YES, arms it: its next change comes as one message on the subscriber link. Another read arms it
 * again.
 */
#ifndef RLOCKD_BACKEND_TRACK_H
#define RLOCKD_BACKEND_TRACK_H

#include "daemon/backend/backend_env.h"
#include "daemon/backend/link.h"

#define TRACK_CHANNEL "__redis__:invalidate"

struct track;

/* Called from the loop. */
struct track_callbacks {
    void (*ready)(void *ctx);   /* unarmed keys can be armed now, or are worth another try */
    void (*refused)(void *ctx); /* Redis refuses tracking: no key can be armed until a link is lost */
    void *ctx;
};

enum track_answer {
    TRACK_ARMED,
    TRACK_FAILED,  /* the key is not armed; ready() is called when another try is due */
    TRACK_REFUSED, /* Redis does not track this key, or no key at all */
};

/* Borrows env, address and both links for its life. */
struct track *track_new(const struct backend_env *env, const struct link_address *address, struct redis_link *sub,
                        struct redis_link *reader, struct track_callbacks callbacks);
void track_free(struct track **t);

/* The subscriber link is greeting: asks for its client id, which a link in subscriber mode cannot do. */
void track_greet(struct track *t);

/* A key is to be tracked: sets tracking up, if both links are up, and calls ready() or refused(). May be repeated. */
void track_begin(struct track *t);

/* One of the links was lost: no key is armed any more. */
void track_lost(struct track *t);

/* Whether Redis refuses tracking; a lost link ends that. */
bool track_refused(const struct track *t);

/*
 * Reads the key. False: not now; ready() will be called, unless track_refused(). Else fn is called as by link_send(),
 * and must pass the answer to track_answer(). Two reads of one key may be in flight.
 */
bool track_arm(struct track *t, struct slice key, link_reply_fn *fn, void *arg);
enum track_answer track_answer(struct track *t, enum link_result result, const struct reply *r);

#endif
