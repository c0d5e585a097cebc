/*
 * conf.h -- the configuration: one table of keys (keys.def), a struct, and errors as file:line:col.
 *
 * A file is parsed whole and checked whole: every error is reported, and a
 * conf is handed out only when there is none. A conf never changes after it
 * was loaded; a reload makes a new one.
 */
#ifndef RLOCKD_CONF_CONF_H
#define RLOCKD_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/buf.h"
#include "daemon/base/kinds.h"
#include "daemon/base/log.h"
#include "daemon/base/slice.h"

enum conf_on_loss { CONF_LOSS_NOTIFY, CONF_LOSS_CLOSE };
enum conf_foreign { CONF_FOREIGN_REFUSE, CONF_FOREIGN_WAIT };

/* The keys of `locks`, and of each rule over it. Durations in microseconds, sizes in bytes, text owned by the conf. */
struct conf_locks {
    int64_t lease_us;
    int64_t wait_us; /* DURATION_FOREVER */
    int64_t owner_grace_us, queue_grace_us;
    int64_t linger_us;
    enum kind kind;
    enum value_format value;
    enum conf_on_loss on_loss;
    const char *key;    /* how the Redis key is made: "{name}" stands for prefix + name */
    const char *prefix; /* put before the name in the key */
    int64_t limit;      /* permits of a semaphore; other kinds do not look at it */
    int64_t waiters;    /* waiters on one name; 0 = limits.waiters only */
    enum conf_foreign foreign; /* a key of another kind is there */
    bool tracking;      /* wake-ups by client-side caching as well */
    enum wakes wakes;   /* waiters of another library that are woken too */
};

struct conf_rule {
    const char *match;       /* a glob over the name */
    struct conf_locks locks; /* complete: what the rule does not say is taken from `locks` */
};

struct conf_list {
    char **item; /* NUL-terminated */
    size_t n;
};

struct conf {
    struct conf_list listen;

    char *redis_url;
    char *redis_user, *redis_password; /* NULL = not set; password_file is read at load */
    char *redis_password_file;
    char *redis_tls_ca_file, *redis_tls_cert_file, *redis_tls_key_file, *redis_tls_server_name; /* "" = not set */
    int64_t redis_timeout_us, redis_connect_us, redis_backoff_min_us, redis_backoff_max_us;
    int64_t redis_links, redis_batch;
    bool redis_strict; /* grant nothing while Redis could lose locks */

    struct conf_locks locks;
    struct conf_rule *rules; /* first match wins */
    size_t rules_n;

    int64_t handoff_max, handoff_time_us;
    int64_t spin_us;
    int64_t deadlock_us; /* a wait older than that asks other daemons about deadlocks; 0 = never */
    int64_t max_poll_us; /* locks are asked for at least that often while somebody waits */

    int64_t limit_sessions, limit_waiters, limit_session_waiters;
    int64_t limit_total_locks, limit_user_share;
    int64_t limit_locks; /* held or wanted by one owner */
    int64_t limit_name_bytes, limit_line_bytes, limit_words;
    int64_t limit_output_bytes, limit_pipeline;              /* per session: unread output; requests not answered yet */
    int64_t limit_pipeline_bytes;                               /* ... memory that these and their replies take */

    char *auth_password, *auth_admin_password;                  /* NULL = none; *_file are read at load */
    char *auth_password_file, *auth_admin_password_file;
    bool protected_mode; /* TCP without a password is for this host alone, and no admin's */
    bool auth_unix;                                             /* Unix sockets too must AUTH */
    int64_t auth_timeout_us, auth_bytes;                        /* what an unauthenticated connection may take */

    int64_t dead_peer_us;  /* a TCP peer that does not answer for so long has gone */
    bool dead_process;     /* who connected by Unix socket has gone with its process */
    int64_t drain_us;      /* TERM: holders get so long */
    int64_t socket_mode;   /* of Unix sockets, 0660 */
    enum log_level log_level;
    char *http_listen;     /* "" = none */
    char *run_dir;         /* of --redis embedded */
    char *state_dir;       /* "" = what systemd says, "none" = none */
};

/* No lock's name is ever longer, whatever limits.name_bytes says or has said. */
#define CONF_NAME_BYTES_MAX 4096

/* What the command line says over the file; NULL / n == 0 = nothing. */
struct conf_overrides {
    struct conf_list listen;
    const char *redis_url;
    const char *log_level;
};

/*
 * Loads `path` (NULL: no file, the defaults) and the overrides. NULL when
 * anything is wrong: `errors` then holds one line per error, each
 * "file:line:col: message" (overrides: "--option: message").
 */
struct conf *conf_load(const char *path, const struct conf_overrides *over, struct buf *errors);
void conf_free(struct conf **cf);

/* The longest lease that any rule lets the watchdog renew, us. */
int64_t conf_longest_lease_us(const struct conf *cf);

/* The settings for a name: of the first rule that matches, or `locks`. Borrowed from cf. */
const struct conf_locks *conf_locks_for(const struct conf *cf, struct slice name);

/* Writes the Redis key of `name` by these settings. */
void conf_key_of(const struct conf_locks *cl, struct slice name, struct buf *out);

/*
 * The keys that names can get by these rules, and those beside them, as patterns of Redis's ACL ("~app:* ..."), put
 * behind what is in `patterns`; and a key that is none of them. False: any key can be a name's.
 */
#define CONF_OUTSIDE_BYTES 40
bool conf_key_rights(const struct conf *cf, struct buf *patterns, char remote_waiters[CONF_OUTSIDE_BYTES]);

/*
 * A sentence when names that no rule is for in particular are semaphores under keys of any name: then a number of an
 * application, which nothing tells from the free permits of a semaphore, counts as one. Else NULL.
 */
const char *conf_warn_of_semaphores(const struct conf *cf);

/*
 * Whether every name has the same key in Redis by both. False: `why` has a line that says which rule changes it, or
 * that it cannot be told. A reload must not change it: daemons on one Redis do not reload at the same moment.
 */
bool conf_same_keys(const struct conf *was, const struct conf *now, struct buf *why);

/* A line for each two rules that obviously give two names one key; a few at most. */
void conf_each_collision(const struct conf *cf, struct buf *out);

/* A fingerprint of which keys names have: with the same one all names have the same. */
uint64_t conf_keys_print(const struct conf *cf);

/* Keys in Redis that begin so are for rlockd itself (its clock, its epoch, who is there): no lock may have one. */
#define CONF_OWN_KEYS "rlock:"
bool conf_key_is_own(struct slice key);

/*
 * NULL when the key may be a lock's; else what it would be, "would be ...": rlockd's own, or a key that some kind keeps
 * beside the one of another lock (scripts/): whoever locks it would change what that one goes by.
 */
const char *conf_key_taken(struct slice key);

/* The effective configuration as YAML, each key with its default in a comment (-T). Passwords as "***". */
void conf_print(const struct conf *cf, struct buf *out);

/* conf/rlockd.yaml: every key, commented, with its default, unit, range and help. */
void conf_print_sample(struct buf *out);

/* Every key as "path" -> value text, for CONFIG GET and INFO config; passwords as "***". */
typedef void conf_key_fn(void *ctx, const char *path, const char *value, bool reloadable);
void conf_each(const struct conf *cf, conf_key_fn *fn, void *ctx);

/* Calls fn for each key that differs and needs a restart; a reload takes the others. */
void conf_each_restart(const struct conf *was, const struct conf *now, conf_key_fn *fn, void *ctx);

#endif
