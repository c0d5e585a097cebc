/*
 * track.h -- client-side caching as an alarm: Redis tells when a key that was read has changed, whatever changed it.
 *
 * For holders that publish nothing (redis-py, redsync, warlock, SpinLock). A key is read on the reading link, with
 * CLIENT CACHING YES before; that arms it. Its next change comes once as a message on the subscriber link, and the
 * key must be read again to hear of the one after.
 */
#ifndef RLOCKD_BACKEND_TRACK_H
#define RLOCKD_BACKEND_TRACK_H

#include "daemon/backend/backend_env.h"
#include "daemon/backend/link.h"

#define TRACK_CHANNEL "__redis__:invalidate"

struct track;

/* Called from the loop. */
struct track_owner {
    void (*ready)(void *ctx);   /* arm what is not armed: it is possible now, or worth another try */
    void (*refused)(void *ctx); /* Redis refuses: nothing will be armed until a link has been replaced */
    void *ctx;
};

enum track_answer {
    TRACK_ARMED,
    TRACK_FAILED,  /* is not armed; ready() is called when it should be tried again */
    TRACK_REFUSED, /* Redis does not do it for this key, or at all */
};

/* env, address and both links are borrowed for its life. */
struct track *track_new(const struct backend_env *env, const struct link_address *address, struct redis_link *sub,
                        struct redis_link *reader, struct track_owner owner);
void track_free(struct track **t);

/* The subscriber link is greeting: its id is asked for, which cannot be done once it listens. */
void track_greet(struct track *t);

/* A key is to be tracked: goes on towards ready() or refused() as far as the links allow; harmless at any time. */
void track_begin(struct track *t);

/* One of the links was lost, and with it all that was armed. */
void track_lost(struct track *t);

/* Refused, until a link is lost. */
bool track_refused(const struct track *t);

/*
 * Reads the key; false: not now, and ready() will be called. Else fn is called as by link_send(), and hands the answer
 * to track_answer(). Two reads of one key may be in flight.
 */
bool track_arm(struct track *t, struct slice key, link_reply_fn *fn, void *arg);
enum track_answer track_answer(struct track *t, enum link_result result, const struct reply *r);

#endif
