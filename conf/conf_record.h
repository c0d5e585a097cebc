/*
 * conf_record.h -- the configuration as a record, one field for each key of keys.def. How it is loaded and queried is
 * in conf.h.
 */
#ifndef RLOCKD_CONF_CONF_RECORD_H
#define RLOCKD_CONF_CONF_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/kinds.h"
#include "daemon/base/log.h"

enum conf_on_loss { CONF_LOSS_NOTIFY, CONF_LOSS_CLOSE };
enum conf_foreign { CONF_FOREIGN_REFUSE, CONF_FOREIGN_WAIT };
enum conf_publish { CONF_PUBLISH_AUTO, CONF_PUBLISH_BOTH };

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
    int64_t limit;      /* permits of a semaphore; other kinds ignore it */
    int64_t waiters;    /* the most waiting requests for one name; 0 = no such limit */
    int64_t replicas;   /* the replicas that must acknowledge a grant; 0 = none */
    enum conf_foreign foreign; /* what to do where the key is of another kind */
    bool tracking;      /* wake-ups by client-side caching as well */
    enum wakes wakes;   /* waiters of another library that are woken too */
};

struct conf_rule {
    const char *match;       /* a glob over the name */
    struct conf_locks locks; /* complete: what the rule does not set is taken from `locks` */
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
    char *redis_sentinel_user, *redis_sentinel_password; /* NULL = not set; the file is read at load */
    char *redis_sentinel_password_file;
    char *redis_tls_ca_file, *redis_tls_cert_file, *redis_tls_key_file, *redis_tls_server_name; /* "" = not set */
    int64_t redis_timeout_us, redis_connect_us, redis_backoff_min_us, redis_backoff_max_us;
    int64_t redis_links, redis_batch;
    bool redis_strict; /* grant nothing while Redis could lose locks */
    enum conf_publish redis_publish; /* the channels that wake waiters in a cluster */

    struct conf_locks locks;
    struct conf_rule *rules; /* first match wins */
    size_t rules_n;

    int64_t handoff_max, handoff_time_us;
    int64_t spin_us;
    int64_t deadlock_us; /* a wait older than that asks other daemons about deadlocks; 0 = never */
    int64_t max_poll_us; /* the longest time between two attempts for a lock that is taken elsewhere */

    int64_t limit_sessions, limit_waiters, limit_session_waiters;
    int64_t limit_total_locks, limit_user_share;
    int64_t limit_locks; /* held or wanted by one owner */
    int64_t limit_name_bytes, limit_line_bytes, limit_words;
    int64_t limit_output_bytes, limit_pipeline;              /* per session: unread output; requests not answered yet */
    int64_t limit_pipeline_bytes;                               /* ... memory that these and their replies take */

    char *auth_password, *auth_admin_password;                  /* NULL = none; *_file are read at load */
    char *auth_password_file, *auth_admin_password_file;
    bool protected_mode; /* without a password TCP is for this host alone, and never for an admin */
    bool auth_unix;                                             /* a Unix socket gives no role by itself, see roles.c */
    int64_t auth_timeout_us, auth_bytes;                        /* what an unauthenticated connection may take */

    int64_t dead_peer_us;  /* a TCP peer that is silent, or a client that does not read, for so long is gone */
    bool dead_process;     /* a peer on a Unix socket is gone with its process */
    int64_t drain_us;      /* after TERM: what holders have to finish */
    int64_t socket_mode;   /* of Unix sockets, 0660 */
    enum log_level log_level;
    char *http_listen;     /* "" = none */
    char *run_dir;         /* of --redis embedded */
    char *state_dir;       /* "" = that of systemd, "none" = none */
};

#endif
