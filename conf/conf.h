/*
 * conf.h -- the configuration: one table of keys (keys.def), a struct, and errors as file:line:col.
 *
 * A file is parsed whole and checked whole: every error is reported, and a conf is handed out only when there is none.
 * A conf never changes after it was loaded; a reload makes a new one, in which conf_keep() first puts back the settings
 * that need a restart.
 */
#ifndef RLOCKD_CONF_CONF_H
#define RLOCKD_CONF_CONF_H

#include "conf/conf_record.h"
#include "daemon/base/buf.h"
#include "daemon/base/slice.h"

/* The highest limits.name_bytes: no name of a lock was ever longer. */
#define CONF_NAME_BYTES_MAX 4096

/* The longest redis.url. */
#define CONF_URL_BYTES_MAX 4096

/* The most addresses of `listen`, and sockets that systemd passes in their place. */
#define CONF_LISTEN_MAX 32

/* What the command line sets in place of the file; NULL, or n == 0: nothing. */
struct conf_overrides {
    struct conf_list listen;
    const char *redis_url;
    const char *log_level;
};

/*
 * Loads `path` (NULL: no file, the defaults) and the overrides. NULL when anything is wrong: `errors` then holds one
 * line per error, each "file:line:col: message" (overrides: "--option: message").
 */
struct conf *conf_load(const char *path, const struct conf_overrides *over, struct buf *errors);
void conf_free(struct conf **cf);

/*
 * Whether some of the connections to a redis.url have TLS, and whether some have none. Nodes of a quorum by Unix socket
 * do not count.
 */
struct conf_tls {
    bool with, without;
};
struct conf_tls conf_url_tls(const char *redis_url);

/* The longest lease that any rule lets the watchdog renew, us. */
int64_t conf_longest_lease_us(const struct conf *cf);

/* The settings for a name: of the first rule that matches, or `locks`. Borrowed from cf. */
const struct conf_locks *conf_locks_for(const struct conf *cf, struct slice name);

/* Writes the Redis key of `name` by these settings. */
void conf_key_of(const struct conf_locks *cl, struct slice name, struct buf *out);

/*
 * Appends to `patterns` the keys that names can get by these rules, and all that belong to these keys, as patterns of
 * Redis's ACL ("~app:* ..."). unmapped_key matches none of them: a user that may use it has more rights than needed.
 * False: any key can be a name's, or there is no such unmapped_key.
 */
#define CONF_UNMAPPED_KEY_BYTES 40
bool conf_key_rights(const struct conf *cf, struct buf *patterns, char unmapped_key[CONF_UNMAPPED_KEY_BYTES]);

struct conf_warning {
    const char *reason, *remedy;
};

/*
 * A warning when names without a rule of their own are semaphores, and their keys have no prefix: a number that an
 * application keeps in Redis would count as free permits. Else NULL.
 */
const struct conf_warning *conf_warn_of_semaphores(const struct conf *cf);

/*
 * Whether both give every name the same key in Redis. False: `why` has a line that names the rule that changes a key,
 * or says that this cannot be decided. A reload must not change keys: daemons on one Redis do not reload at the same
 * moment.
 */
bool conf_same_keys(const struct conf *was, const struct conf *now, struct buf *why);

/* A line for each two rules that obviously give two names one key; a few at most. */
void conf_print_collisions(const struct conf *cf, struct buf *out);

/* A fingerprint of the rules for keys: where it is the same, every name has the same key. */
uint64_t conf_keys_fingerprint(const struct conf *cf);

/* The prefix of rlockd's own keys (its clock, its epoch, its members): no key of a lock begins with it. */
#define CONF_OWN_KEYS "rlock:"
bool conf_key_is_own(struct slice key);

/*
 * NULL when the key may be a lock's; else why not, "would be ...": rlockd's own, or an auxiliary key of a kind
 * (scripts/), so that locking it would change another lock.
 */
const char *conf_key_refusal(struct slice key);

/* The configuration in force as YAML, each key with its default in a comment (-T). Passwords as "***". */
void conf_print(const struct conf *cf, struct buf *out);

/* conf/rlockd.yaml: every key, commented, with its default, unit, range and help. */
void conf_print_sample(struct buf *out);

/* Every key as "path" -> value text, for CONFIG GET and INFO config; passwords as "***". */
typedef void conf_key_fn(void *ctx, const char *path, const char *value, bool reloadable);
void conf_each(const struct conf *cf, conf_key_fn *fn, void *ctx);

/* Calls fn for each key that differs and needs a restart; a reload takes the others. */
void conf_each_restart(const struct conf *was, const struct conf *now, conf_key_fn *fn, void *ctx);

/* Whether a Redis of that URL can have all locks of cf. False: `why` has a line that names the rule. */
bool conf_suits_url(const struct conf *cf, const char *url, struct buf *why);

/*
 * Gives `now` the values of `was` that a reload does not change: of each key that needs a restart, and of all keys of
 * redis if `now` has another URL, because these keys belong to that URL. So a conf has the settings in force, with
 * which the next reload is compared.
 */
void conf_keep(struct conf *now, const struct conf *was);

#endif
