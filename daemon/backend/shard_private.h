/*
 * shard_private.h -- what the files of a shard share; only shard.c and shard_*.c see it. The rules: shard_calls.c.
 */
#ifndef RLOCKD_BACKEND_SHARD_PRIVATE_H
#define RLOCKD_BACKEND_SHARD_PRIVATE_H

#include "daemon/backend/call.h"
#include "daemon/backend/certificates.h"
#include "daemon/backend/denied.h"
#include "daemon/backend/deferred.h"
#include "daemon/backend/server_info.h"
#include "daemon/backend/shard.h"
#include "daemon/backend/clock_offset.h"
#include "daemon/backend/membership.h"
#include "daemon/backend/waiter_poll.h"
#include "daemon/backend/replicas.h"
#include "daemon/backend/rights.h"
#include "daemon/backend/sha1.h"
#include "daemon/backend/broadcasts.h"
#include "daemon/backend/watch.h"
#include "daemon/base/buf.h"

enum { LINKS_MAX = 16, LOGGED_REASONS_MAX = 8 };
enum { SHARD_BATCH_MAX = 128 }; /* names of a call, and calls of a bundle */

/* Batches, in the order in which they are sent: reclaims, the verbs, items sent alone. See SC3 of shard_calls.c. */
enum { BATCH_RECLAIM, BATCH_VERB, BATCH_ALONE = BATCH_VERB + VERBS, BATCHES };

struct shard {
    struct link_address *address; /* owned */
    char former_server[160];      /* address.shown before the last shard_retarget() */
    const struct backend_conf *conf;
    const struct backend_env *env;
    struct shard_events events;
    struct link_callbacks callbacks;      /* of each link */
    unsigned lock_links, links_n;
    struct redis_link *link[LINKS_MAX + 3]; /* their purposes: shard.c */
    unsigned current[LINKS_MAX];  /* the current link of the names of each home: shard_route.c */
    struct list batch[LINKS_MAX + 1][BATCHES][KINDS]; /* item.node; for each link of locks and that of renewals */
    unsigned calls[LINKS_MAX + 1]; /* calls in flight on each link (SC5) */
    unsigned renewing;            /* calls of renewals in flight, on all links */
    struct denied denied;
    unsigned inspections_n;       /* questions of inspect.h in flight */
    size_t gathered_n, in_flight;
    size_t gathered[LINKS_MAX + 1]; /* of gathered_n, on each link */
    unsigned next_renewed;        /* the kind whose renewals leave next */
    struct server_info server;
    struct event *eviction;       /* asks for the eviction policy again; owned; NULL: not in strict mode */
    struct rights rights;
    struct certificates certificates;
    struct continuity *continuity;      /* of the membership, or the topology's own; borrowed */
    struct membership membership; /* unused if the topology has a continuity of its own */
    struct replicas replicas;
    struct broadcasts broadcasts[SHARD_CHANNELS]; /* one with a channel at least */
    struct waiter_poller waiter_poll;
    struct buf text;              /* scratch of call_words() */
    struct bundle *bundle;        /* the bundle that is being filled: shard_bundle.c; owned */
    char bundle_sha[SHA1_HEX_BYTES + 1];
    bool bundle_with_text;        /* Redis lacks the script: the next bundle has its text */
    struct watches *watches;
    struct clock_offset offset;
    int64_t back_us;              /* the sum of all backward jumps of Redis's clock; guards move with that clock */
    int64_t back_reported_us;     /* the part of back_us that was reported to the core */
    struct deferred deferred;
    struct resolver *resolver;    /* owned; NULL: the address is a path */
    bool up, logged;              /* logged: the state is in the log */
    int64_t grant_until_us;       /* shard_grant_until() ... */
    struct list waiting;          /* ... item.node of attempts that wait for its next call */
    uint32_t logged_reason[LOGGED_REASONS_MAX]; /* hashes of the reasons logged since all links were up; 0 = none */
    const char *expected_error;   /* shard_expect_error() */
    uint32_t link_logged;         /* a bit for each link that was logged as down */
};

/* Redis's clock was time_us when it answered: updates the offset, and reports jumps. */
void shard_learn(struct shard *sh, int64_t sent_us, int64_t time_us);

/* Opens a link of the shard to its server. */
static inline struct redis_link *
shard_open_link(struct shard *sh, bool subscriber)
{
    return sh->link[sh->links_n++] = link_open(sh->address, sh->conf, sh->env, sh->resolver, subscriber, sh->callbacks);
}

void shard_route_init(struct shard *sh);
unsigned shard_home_of(const struct shard *sh, struct slice key);

/* The link for a renewal. It may be down. */
unsigned shard_renew_link(const struct shard *sh, unsigned home);

/* The link is lost: gives its names another current link that is up. False: there is none. */
bool shard_route_leave(struct shard *sh, unsigned link);

/* The names of the home have another current link, and may return once nothing is in flight there (SR2). */
bool shard_may_return(const struct shard *sh, unsigned home);

/* Whether names on the link may return home: then nothing more leaves by it. */
bool shard_is_fenced(const struct shard *sh, unsigned link);

/* The link is lost: moves its gathered items to links that are up; if none is, the items are DOWN. */
void shard_move_gathered(struct shard *sh, unsigned link);

/* Moves the items of the link's batches, in their order, to where each would be gathered now. */
void shard_gather_again(struct shard *sh, unsigned link);

/* Sends the call. False: nothing was sent, since the link is down, or by SC6 or SC7. */
bool shard_call_send(struct shard *sh, struct call *c);

/* Sets the epoch and the guard with which the call is sent from now on. */
void shard_call_prepare(struct shard *sh, struct call *c, int64_t now_us);
struct call_sender shard_sender(struct shard *sh, const struct call *c); /* without the script */

/* The answer to the call (link_reply_fn); it has been in flight. */
void shard_on_call(void *arg, enum link_result result, const struct reply *r, int64_t sent_us);

/* Reports one outcome for every name of a call that was in flight, and frees the call. */
void shard_call_end(struct shard *sh, struct call *c, enum core_outcome outcome, int64_t sent_us);

void shard_call_free(struct call *c); /* without an outcome */
/* The link is closing with `arg` in flight: frees the call. False: `arg` is no call. */
bool shard_call_forget(link_reply_fn *fn, void *arg);

/* Adds the call to the bundle, which shard_bundle_send() sends. False: the call is not fit for a bundle. */
bool shard_bundle_add(struct shard *sh, struct call *c);
void shard_bundle_send(struct shard *sh);
bool shard_bundle_forget(link_reply_fn *fn, void *arg); /* as shard_call_forget() */

void shard_note_in_flight(struct shard *sh, const struct call *c); /* the call is in flight from now on */

/* Gathers the attempts that waited for shard_grant_until(), unless they have to wait on or are DOWN. */
void shard_gather_waiting(struct shard *sh);

void shard_drop_gathered(struct shard *sh); /* and those that wait; without an outcome */

/* Whether attempts may leave at that time: by shard_grant_until(), and in strict mode by what the server reports. */
bool shard_grants(const struct shard *sh, int64_t now_us);

/* Whether the operation must not share a call with others: shard_denied.c. */
bool shard_goes_alone(struct shard *sh, const struct core_op *op, enum call_verb verb);

void shard_accepted(struct shard *sh, const struct call *c); /* Redis has run the call */

/* Redis's ACL has refused the call as a whole. True: its names are to be sent again, each alone. */
bool shard_denied(struct shard *sh, const struct call *c);

/* Redis's ACL has ended the script at a key that it derived: each name may have run. */
void shard_denied_inside(struct shard *sh, struct call *c);

void shard_log_error(const struct shard *sh, const struct call *c, struct slice error);

#endif
