/*
 * conf.c -- a configuration in memory: making it, freeing it, and the settings and the key of a name.
 *
 * A conf owns every text in it; rules own copies of what they inherit, so that each is whole by itself.
 */
#include "conf/conf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_keys.h"
#include "daemon/base/glob.h"
#include "daemon/base/memory.h"

#define STAND_IN "{name}"

struct conf *
conf_new(void)
{
    struct conf *cf = mem_zalloc(sizeof(*cf));

    for (size_t i = 0; i < conf_keys_n; i++) {
        if (conf_key_in_conf(&conf_keys[i])) {
            conf_key_reset(&conf_keys[i], conf_key_field(&conf_keys[i], cf, NULL));
        }
    }
    return cf;
}

void
conf_free(struct conf **cf)
{
    if (*cf == NULL) {
        return;
    }
    for (size_t i = 0; i < conf_keys_n; i++) {
        const struct conf_key *k = &conf_keys[i];

        if (conf_key_in_conf(k)) {
            conf_key_clear(k, conf_key_field(k, *cf, NULL));
        }
        for (size_t r = 0; conf_key_in_rule(k) && r < (*cf)->rules_n; r++) {
            conf_key_clear(k, conf_key_field(k, *cf, &(*cf)->rules[r]));
        }
    }
    free((*cf)->rules);
    free(*cf);
    *cf = NULL;
}

void
conf_keep(struct conf *now, const struct conf *was)
{
    bool other_url = strcmp(was->redis_url, now->redis_url) != 0;

    for (size_t i = 0; i < conf_keys_n; i++) {
        const struct conf_key *k = &conf_keys[i];

        if (conf_key_needs_restart(k) || (other_url && conf_key_in_conf(k) && strcmp(k->section, "redis") == 0)) {
            conf_key_copy(k, conf_key_field(k, now, NULL), conf_key_field(k, was, NULL));
        }
    }
}

int64_t
conf_longest_lease_us(const struct conf *cf)
{
    int64_t longest_us = cf->locks.lease_us;

    for (size_t i = 0; i < cf->rules_n; i++) {
        if (cf->rules[i].locks.lease_us > longest_us) {
            longest_us = cf->rules[i].locks.lease_us;
        }
    }
    return longest_us;
}

const struct conf_locks *
conf_locks_for(const struct conf *cf, struct slice name)
{
    for (size_t i = 0; i < cf->rules_n; i++) {
        if (glob_match(slice_of(cf->rules[i].match), name)) {
            return &cf->rules[i].locks;
        }
    }
    return &cf->locks;
}

void
conf_key_of(const struct conf_locks *cl, struct slice name, struct buf *out)
{
    const char *at = strstr(cl->key, STAND_IN);

    assert(at != NULL); /* conf_check_key */
    buf_add(out, cl->key, (size_t)(at - cl->key));
    buf_adds(out, cl->prefix);
    buf_add_slice(out, name);
    buf_adds(out, at + strlen(STAND_IN));
}

static bool
begins(struct slice key, const char *front)
{
    size_t n = strlen(front);

    return key.n >= n && memcmp(key.p, front, n) == 0;
}

static bool
ends(struct slice key, const char *back)
{
    size_t n = strlen(back);

    return key.n >= n && memcmp(key.p + key.n - n, back, n) == 0;
}

bool
conf_key_is_own(struct slice key)
{
    return begins(key, CONF_OWN_KEYS);
}

/*
 * Keys beside a lock's: prefixed() and suffixed() of scripts/common.lua put braces around the lock's key unless it has
 * some, so each of these has a brace. Redisson makes the same keys, and `redisson_unlock_latch:` besides.
 */
static const struct {
    const char *front, *back;
    bool counted; /* digits follow `back` */
    const char *what;
} aux_keys[] = {
    {"redisson_lock_queue:", "", false, "would be the queue of another lock (kind fair)"},
    {"redisson_lock_timeout:", "", false, "would be the times of a queue of another lock (kind fair)"},
    {"redisson_lock_token:", "", false, "would be the token of another lock (kind fenced)"},
    {"redisson_unlock_latch:", "", false, "would be what Redisson keeps of an unlocking of another lock"},
    {"", ":timeout", false, "would be the permits of another lock (kind semaphore)"},
    {"", ":rlockd", false, "would be the mark of another lock (kind semaphore)"},
    {"", ":rwlock_timeout:", true, "would be a reader's time of another lock (kind rw)"},
};

const char *
conf_key_refusal(struct slice key)
{
    struct slice uncounted = key;

    if (conf_key_is_own(key)) {
        return "would begin with " CONF_OWN_KEYS ", which is for rlockd itself";
    }
    if (key.n == 0 || memchr(key.p, '{', key.n) == NULL) {
        return NULL;
    }
    while (uncounted.n > 0 && uncounted.p[uncounted.n - 1] >= '0' && uncounted.p[uncounted.n - 1] <= '9') {
        uncounted.n--;
    }
    for (size_t i = 0; i < sizeof(aux_keys) / sizeof(aux_keys[0]); i++) {
        if (begins(key, aux_keys[i].front) && ends(aux_keys[i].counted ? uncounted : key, aux_keys[i].back)) {
            return aux_keys[i].what;
        }
    }
    return NULL;
}
