/*
 * backend_env.h -- the settings of a backend, and the receiver of its events.
 */
#ifndef RLOCKD_BACKEND_ENV_H
#define RLOCKD_BACKEND_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/tls.h"
#include "daemon/base/hash.h"
#include "daemon/base/log.h"
#include "daemon/base/metrics.h"
#include "daemon/core/core.h"

struct event_base;

struct backend_conf {
    const char *url;          /* as in address.h, sentinel_url.h or cluster_url.h, or "quorum:URL,URL,URL"; copied */
    const char *user;         /* or NULL; not used if the URL has a user or a password */
    const char *password;     /* or NULL; the URL's wins; copied, wiped on free */
    const char *sentinel_user, *sentinel_password; /* at the sentinels; or NULL. Copied */
    struct tls_files tls;     /* of URLs with TLS */
    int64_t timeout_us;       /* a command without an answer for this time is UNKNOWN */
    int64_t connect_us;       /* the longest time for one attempt to connect */
    int64_t backoff_min_us, backoff_max_us; /* between attempts to connect, doubled with jitter */
    unsigned links;           /* the number of links of locks; each key has one of them as its home */
    unsigned batch_max;       /* names per script call */
    /*
     * The longest lease that this daemon renews. After a loss of data Redis grants nothing for that time, unless all
     * former holders reclaim their locks sooner.
     */
    int64_t longest_lease_us;
    const char *unmapped_key; /* a key that no rule maps a name to, NULL: there is none; see rights.h. Copied */
    const char *patterns;     /* the keys that names can have, in words of Redis's ACL; copied */
    bool of_quorum;           /* a node of a quorum: core_op.token_floor is the proposed token (ACQUIRE, BREAK_KEY) or
                                 a ceiling for its token clock (EXTEND; 0 = none), and each RELEASE has a guard */
    bool strict;              /* take no lock in a Redis that may lose keys; see epoch.h and server_info.h */
    bool publishes_both;      /* in a cluster of Redis >= 7, releases wake by PUBLISH as well as by SPUBLISH */
};

/* What Redis has under a key. */
struct inspected_key {
    bool ok;            /* Redis (in a quorum a majority of the nodes) has answered, and no error */
    bool exists;
    char type[16];      /* the answer of TYPE: "hash", "string", ... */
    char owner[160];    /* the owner in a hash that is a lock, bytes escaped as \xHH; "" = no lock */
    int64_t holds;      /* the owner's holds */
    char digest[17];    /* a keyed digest of the key and, if it is a string, of 128 bytes of the value at most: equal
                           values of one key have equal digests. No value is shown: it may be an application's secret */
    int64_t pttl_ms;    /* -1 = no expiry */
};

enum { BACKEND_FORMER_NONCES = 4 };

struct backend_env {
    struct event_base *base;  /* borrowed */
    const struct log *log;    /* borrowed */
    struct metrics *metrics;  /* borrowed */
    /* For records that live as long as a command. NULL at backend_open(): the topology sets it in its copy. */
    struct freelist *freelist;
    char uuid[37];            /* the daemon's; owners are "<uuid>:<number>" */
    uint64_t nonce;           /* this process's, never 0 */
    uint64_t former_nonce[BACKEND_FORMER_NONCES]; /* of earlier processes with this uuid; 0 = none */
    bool others;              /* the process before this one had learned of other daemons */
    /* The last epoch of the domain that the process before this one knew; 0 = none. NULL: it knew no epoch at all. */
    uint64_t (*epoch)(void *ctx, uint16_t domain);
    struct hash_key secret;   /* the key of hashes; values of `simple` locks are derived with it (value.h) */
    /* Events for the core; called from the loop, never from inside a backend_ call. */
    void (*post)(void *ctx, const struct core_event *ev);
    /* The answer to backend_inspect(); `id` is the caller's. found->ok false: none has come, or an error. */
    void (*inspected)(void *ctx, uint64_t id, const struct inspected_key *found);
    /* Other daemons are on this Redis, or have all gone; recorded for the next process. NULL: not recorded. */
    void (*others_changed)(void *ctx, bool others);
    /* Broadcasts arrive from now on, and some that were sent before may not have. NULL: not reported. */
    void (*subscribed)(void *ctx);
    /* The backend as a whole is up, or down. */
    void (*state)(void *ctx, bool up);
    void *ctx;
};

#endif
