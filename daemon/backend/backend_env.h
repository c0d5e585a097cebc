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
    const char *url;          /* "unix:PATH[?db=N]", "redis[s]://[user:pass@]host:port[/db]", sentinel_url.h; copied */
    const char *user;         /* or NULL; the URL's wins */
    const char *password;     /* or NULL; the URL's wins; copied, wiped on free */
    const char *sentinel_user, *sentinel_password; /* at the sentinels; or NULL. Copied */
    struct tls_files tls;     /* of rediss: and sentinel+tls: */
    int64_t timeout_us;       /* a command unanswered that long is UNKNOWN */
    int64_t connect_us;       /* the longest time for one attempt to connect */
    int64_t backoff_min_us, backoff_max_us; /* between attempts, doubled with jitter */
    unsigned links;           /* for lock traffic; a key always uses the same one */
    unsigned batch_max;       /* names per script call */
    /*
     * The longest lease that is renewed: after a loss of data Redis grants nothing for that time, unless all former
     * holders have reclaimed their locks before.
     */
    int64_t grace_us;
    const char *remote_waiters; /* a key that no name can have, NULL: any key may be a name's; see rights.h. Copied */
    const char *patterns;     /* the keys that names can have, as Redis's ACL says it; copied */
    bool proposes;            /* set by a topology: of an ACQUIRE and a BREAK_KEY core_op.token_floor is the token
                                 proposed, of an EXTEND a ceiling for the clock, 0 = none; each RELEASE is guarded */
    bool strict;              /* take nothing in a Redis that could lose it; see epoch.h and server_info.h */
};

/* A name as Redis has it. */
struct backend_seen {
    bool ok;            /* Redis answered */
    bool exists;
    char type[16];      /* "hash", "string", ...: as TYPE says */
    char owner[160];    /* the field of a hash that is a lock's, bytes escaped as \xHH; "" = it is none */
    int64_t holds;      /* its count */
    char digest[17];    /* of the key and, of a string, its value: differs when the value does, and reveals nothing.
                           The value itself is never shown: it may be an application's secret */
    int64_t pttl_ms;    /* -1 = no expiry */
};

enum { BACKEND_FORMERS = 4 };

struct backend_env {
    struct event_base *base;  /* borrowed */
    const struct log *log;    /* borrowed */
    struct metrics *metrics;  /* borrowed */
    /*
     * Of records that live as long as a command. Left NULL by the caller of backend_open(): the topology sets its own,
     * and clears it when its shards are closed.
     */
    struct freelist *freelist;
    char uuid[37];            /* the daemon's; owners are "<uuid>:<number>" */
    uint64_t nonce;           /* this process's, never 0 */
    uint64_t former_nonce[BACKEND_FORMERS]; /* of those before it with this uuid; 0 = none */
    bool others;              /* there were other daemons then */
    /* The last epoch of the domain's data that the process before this knew; 0 = none. NULL: it knew of none. */
    uint64_t (*epoch)(void *ctx, uint16_t domain);
    struct hash_key secret;   /* values of `simple` locks are derived from it, the claim's id and its owner's number */
    /* Events for the core; called from the loop, never from inside a backend_ call. */
    void (*post)(void *ctx, const struct core_event *ev);
    /* The answer to a LOCKINFO; `id` is the caller's. ok false = Redis did not answer. */
    void (*seen)(void *ctx, uint64_t id, const struct backend_seen *seen);
    /* There are other daemons on this Redis, or not any more; for the process after this. NULL: not wanted. */
    void (*others_changed)(void *ctx, bool others);
    /* The state of the connection as a whole has changed. */
    void (*state)(void *ctx, bool up);
    void *ctx;
};

#endif
