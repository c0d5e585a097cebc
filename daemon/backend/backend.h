/*
 * backend.h -- Redis, as the core sees it: operations in, events out (DONE, HINT, SUBSCRIBED, PROBED and others).
 *
 * A backend is a topology (standalone; later sentinel, cluster, quorum): it finds the shard of a key and hands the verb
 * to it. It never calls back from inside a verb: events are posted in a later turn of the loop. Every operation that
 * was taken (core_op.untaken) ends in exactly one DONE, whatever happens to the connection: OK or another plain outcome
 * if Redis answered, UNKNOWN if it may have run, DOWN if it has not and will not.
 */
#ifndef RLOCKD_BACKEND_BACKEND_H
#define RLOCKD_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/buf.h"
#include "daemon/base/hash.h"
#include "daemon/base/log.h"
#include "daemon/base/metrics.h"
#include "daemon/core/core.h"

struct event_base;
struct backend; /* opaque; begins with its ops */

struct backend_conf {
    const char *url;          /* "unix:PATH[?db=N]", "redis://[user:pass@]host:port[/db]"; copied */
    const char *user;         /* or NULL; the URL's wins */
    const char *password;     /* or NULL; the URL's wins; copied, wiped on free */
    int64_t timeout_us;       /* a command unanswered that long is UNKNOWN */
    int64_t connect_us;       /* a connection attempt may take so long */
    int64_t backoff_min_us, backoff_max_us; /* between attempts, doubled with jitter */
    unsigned links;           /* for lock traffic; a key always uses the same one */
    unsigned batch_max;       /* names per script call */
    int64_t grace_us;         /* the longest lease that is renewed: a Redis that has lost data grants nothing for so
                                 long, unless all former holders have reclaimed their locks before */
    const char *remote_waiters; /* a key that no name can have, NULL: any key may be a name's; see rights.h. Copied */
    const char *patterns;     /* the keys that names can have, as Redis's ACL says it; copied */
    bool strict;              /* take nothing in a Redis that could lose it; see epoch.h and server_info.h */
};

enum { BACKEND_FORMERS = 4 };

struct backend_seen;

struct backend_env {
    struct event_base *base;  /* borrowed */
    const struct log *log;    /* borrowed */
    struct metrics *metrics;  /* borrowed */
    struct freelist *freelist; /* of what comes and goes with a command; left NULL by the caller of backend_open():
                                  the topology sets its own, and clears it when its shards are closed */
    char uuid[37];            /* the daemon's; owners are "<uuid>:<number>" */
    uint64_t nonce;           /* this process's, never 0 */
    uint64_t former_nonce[BACKEND_FORMERS]; /* of those before it with this uuid; 0 = none */
    bool others;              /* there were other daemons then */
    uint64_t epoch;           /* the last one of Redis's data that the process before this knew; 0 = none */
    struct hash_key secret;   /* values of `simple` locks are derived from it, the claim's id and its owner's number */
    /* Events for the core; called from the loop, never from inside a backend_ call. */
    void (*post)(void *ctx, const struct core_event *ev);
    /* What LOCKINFO asked for; `id` is the caller's. ok false = Redis did not answer. */
    void (*seen)(void *ctx, uint64_t id, const struct backend_seen *seen);
    /* There are other daemons on this Redis, or not any more; for the process after this. NULL: not wanted. */
    void (*met)(void *ctx, bool others);
    /* The state of the connection as a whole has changed. */
    void (*state)(void *ctx, bool up);
    void *ctx;
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

/* For INFO redis and the ready line. */
struct backend_status {
    bool up;              /* a link can serve; `links_away` says which are not there */
    char address[160];
    char version[32], run_id[48], role[16], maxmemory_policy[32];
    int64_t offset_us;    /* Redis's clock minus ours, latest estimate */
    int64_t rtt_us;       /* of the last command */
    unsigned links, links_up;
    char links_away[40];  /* the jobs that have lost a link: of "locks,renewals,subscriptions"; "" = none */
    uint64_t in_flight, queued, watched;
    char last_error[320]; /* "" = none */
    uint64_t epoch;       /* of its data; 0 = not known */
    bool grace;           /* a grace period: only former holders are granted their locks */
    size_t daemons;       /* other members */
};

struct backend_ops {
    const char *schemes; /* which URLs are its: what they begin with, separated by blanks */
    struct backend *(*open)(const struct backend_conf *conf, const struct backend_env *env, char error[160]);
    void (*perform)(struct backend *b, const struct core_op *op, enum core_action_type verb);
    bool (*look)(struct backend *b, uint64_t id, struct slice key);
    void (*say)(struct backend *b, struct slice what);
    void (*waiter_poll)(struct backend *b, const struct core_waiter_poll *p);
    void (*configure)(struct backend *b, int64_t grace_us);
    void (*reclaimed)(struct backend *b, uint64_t epoch);
    void (*leave)(struct backend *b);
    void (*flush)(struct backend *b);
    bool (*idle)(const struct backend *b);
    void (*status)(const struct backend *b, struct backend_status *out);
    void (*close)(struct backend *b);
};

/*
 * Opens the backend that the URL names and starts connecting; NULL with a
 * message in `error` for a bad URL. Being down is no error: it keeps trying.
 */
struct backend *backend_open(const struct backend_conf *conf, const struct backend_env *env, char error[160]);

/* Takes ACQUIRE EXTEND RELEASE BREAK_KEY WATCH UNWATCH. The op is copied. */
void backend_perform(struct backend *b, const struct core_op *op, enum core_action_type verb);

/* Asks Redis what it has under `key`; ends in one env.seen(id). False: out of memory, and nothing will be seen. */
bool backend_look(struct backend *b, uint64_t id, struct slice key);

/*
 * Broadcasts to every daemon on this database of this Redis, this one too: each core gets it as RECEIVED. Not sent
 * while Redis is away, nor if it is longer than 16 KiB; may get lost. Copied.
 */
void backend_say(struct backend *b, struct slice what);

/*
 * Asks Redis how many listen on the channels of these names; ends in one PROBED, or in nothing: while Redis is away, or
 * refuses it, or another one is in flight. Copied.
 */
void backend_waiter_poll(struct backend *b, const struct core_waiter_poll *p);

/* New settings; all others need a new backend. See backend_conf. The grace period only gets longer. */
void backend_configure(struct backend *b, int64_t grace_us);

/* All that is held here has been reclaimed in that epoch (RECLAIM of the core). */
void backend_reclaimed(struct backend *b, uint64_t epoch);

/* Leaves the membership, when nothing is held any more. Not idle until Redis has answered. */
void backend_leave(struct backend *b);

/* The turn is over: what was gathered goes out, unless it is little and a call is under way before it; see call.h. */
void backend_flush(struct backend *b);

/* Nothing queued, nothing in flight. */
bool backend_idle(const struct backend *b);

void backend_status(const struct backend *b, struct backend_status *out);

/* Ends all links; posts nothing more. */
void backend_close(struct backend **b);

#endif
