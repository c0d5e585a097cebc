/*
 * conf_rights.c -- the keys that rules can give to names, as patterns of Redis's ACL.
 *
 * Clients reach the keys that names can have; rlockd's user needs rights for these, and for rlockd's own keys. By a
 * configuration without a prefix any key may be a lock's.
 */
#include "conf/conf.h"

#include <stdio.h>
#include <string.h>

/* No key format and no prefix contains it: they are printable. */
static const struct slice stand_in = SLICE_LIT("\x01");

/* Appends the bytes with which the keys of all names of this rule begin. */
static void
add_front(const char *match, const struct conf_locks *locks, struct buf *out)
{
    size_t from = out->n;
    const char *name;

    conf_key_of(locks, stand_in, out);
    name = memchr(out->p + from, stand_in.p[0], out->n - from);
    if (name != NULL) {
        out->n = (size_t)(name - out->p);
        buf_add(out, match, strcspn(match, "*?[\\"));
    }
}

/* As part of a glob of Redis. */
static void
add_plain(struct slice text, struct buf *out)
{
    for (size_t i = 0; i < text.n; i++) {
        if (strchr("*?[]\\", text.p[i]) != NULL) {
            buf_adds(out, "\\");
        }
        buf_add(out, text.p + i, 1);
    }
}

/* The lock's own keys, and those beside it: prefixed() and suffixed() of scripts/common.lua. */
static void
add_patterns(struct slice front, struct buf *out)
{
    static const char *const before[] = {" ~", " ~{", " ~redisson_lock_*"};

    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        buf_adds(out, before[i]);
        add_plain(front, out);
        buf_adds(out, "*");
    }
}

/* For `wakes: python-redis-lock`: the lists that wake_others() of scripts/simple.lua fills for keys with this front. */
static void
add_signals(const struct conf_locks *locks, struct slice front, struct buf *out)
{
    static const char lock[] = "lock:";
    size_t n = front.n < strlen(lock) ? front.n : strlen(lock);

    if (locks->wakes == WAKES_PYTHON && memcmp(front.p, lock, n) == 0) {
        buf_adds(out, " ~lock-signal:");
        add_plain((struct slice){front.p + n, front.n - n}, out);
        buf_adds(out, "*");
    }
}

/* A key whose first byte no name's key begins with; "" = there is none. */
static void
choose_unmapped_key(const bool taken[256], char unmapped_key[CONF_UNMAPPED_KEY_BYTES])
{
    /* not r, see CONF_OWN_KEYS */
    static const char letters[] = "abcdefghijklmnopqstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const char *at = letters;

    while (*at != '\0' && taken[(unsigned char)*at]) {
        at++;
    }
    unmapped_key[0] = '\0';
    if (*at != '\0') {
        snprintf(unmapped_key, CONF_UNMAPPED_KEY_BYTES, "%c-may-rlockd-reach-this", *at);
    }
}

bool
conf_key_rights(const struct conf *cf, struct buf *patterns, char unmapped_key[CONF_UNMAPPED_KEY_BYTES])
{
    bool taken[256] = {false}, ok;
    struct buf widest, front;

    buf_init(&widest, 0);
    buf_init(&front, 0);
    buf_adds(patterns, "~" CONF_OWN_KEYS "*");
    add_front("*", &cf->locks, &widest);
    ok = widest.n > 0;
    for (size_t i = 0; i < cf->rules_n && ok; i++) {
        buf_clear(&front, front.room);
        add_front(cf->rules[i].match, &cf->rules[i].locks, &front);
        ok = front.n > 0;
        if (ok && (front.n < widest.n || memcmp(front.p, widest.p, widest.n) != 0)) {
            add_patterns(buf_slice(&front), patterns);
            taken[(unsigned char)front.p[0]] = true;
        }
        if (ok) {
            add_signals(&cf->rules[i].locks, buf_slice(&front), patterns);
        }
    }
    if (ok) {
        add_patterns(buf_slice(&widest), patterns);
        add_signals(&cf->locks, buf_slice(&widest), patterns);
        taken[(unsigned char)widest.p[0]] = true;
    }
    buf_fini(&widest);
    buf_fini(&front);
    choose_unmapped_key(taken, unmapped_key);
    return ok && unmapped_key[0] != '\0';
}

/* The settings of names that no rule is for in particular: of the first rule for all names, or `locks`. */
static const struct conf_locks *
locks_of_the_rest(const struct conf *cf)
{
    for (size_t i = 0; i < cf->rules_n; i++) {
        if (cf->rules[i].match[strspn(cf->rules[i].match, "*")] == '\0') {
            return &cf->rules[i].locks;
        }
    }
    return &cf->locks;
}

const struct conf_warning *
conf_warn_of_semaphores(const struct conf *cf)
{
    static const struct conf_warning warning = {
        "any number in Redis, also an application's, is taken for the permits of a semaphore",
        "give this kind by a rule to some names only, or set a prefix",
    };
    const struct conf_locks *rest = locks_of_the_rest(cf);
    struct buf key;
    bool any;

    buf_init(&key, 0);
    conf_key_of(rest, stand_in, &key);
    any = key.n == stand_in.n;
    buf_fini(&key);
    return rest->kind == KIND_SEMAPHORE && any ? &warning : NULL;
}
