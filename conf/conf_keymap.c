/*
 * conf_keymap.c -- from names to keys: whether two configurations give every name the same key in Redis.
 *
 * A configuration is a list of globs, each with a key format for the names that match it first; the last entry is
 * `locks`, which every name matches. Two lists are equal when no name can have its first match at two entries with
 * different formats. The proof goes glob by glob. Without a proof the answer is no: a name with two keys has two
 * holders.
 *
 * Also finds rules that obviously give two names one key.
 */
#include "conf/conf.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/glob.h"
#include "daemon/base/hash.h"

/* Globs that are compared; there may be 1000 rules, and nothing else is done meanwhile. */
#define STEPS_MAX (10 * 1000 * 1000)

#define COLLISIONS_TOLD 10

/* No key format and no prefix contains it: they are printable. */
static const struct slice stand_in = SLICE_LIT("\x01");

struct entry {
    struct slice match, literal; /* literal: what every name that matches begins with */
    struct buf key;              /* of a name that is stand_in */
    const struct conf_locks *locks;
};

struct keymap {
    struct entry *entry; /* owned */
    size_t n;
    bool failed;
};

static struct entry
entry_of(const char *match, const struct conf_locks *locks)
{
    struct entry en = {.match = slice_of(match), .literal = {match, strcspn(match, "*?[\\")}, .locks = locks};

    buf_init(&en.key, 0);
    conf_key_of(locks, stand_in, &en.key);
    return en;
}

static struct keymap
keymap_of(const struct conf *cf)
{
    struct keymap m = {.entry = calloc(cf->rules_n + 1, sizeof(*m.entry))};

    m.failed = m.entry == NULL;
    for (size_t i = 0; i <= cf->rules_n && !m.failed; i++) {
        m.entry[i] = i < cf->rules_n ? entry_of(cf->rules[i].match, &cf->rules[i].locks) : entry_of("*", &cf->locks);
        m.n++;
        m.failed = m.entry[i].key.failed;
    }
    return m;
}

static void
keymap_free(struct keymap *m)
{
    for (size_t i = 0; i < m->n; i++) {
        buf_fini(&m->entry[i].key);
    }
    free(m->entry);
}

static bool
begins(struct slice text, struct slice with)
{
    return text.n >= with.n && memcmp(text.p, with.p, with.n) == 0;
}

static bool
is_one_name(const struct entry *en)
{
    return en->literal.n == en->match.n;
}

/* No name matches both. False: one may. */
static bool
apart(const struct entry *a, const struct entry *b)
{
    if (is_one_name(a)) {
        return !glob_match(b->match, a->match);
    }
    if (is_one_name(b)) {
        return !glob_match(a->match, b->match);
    }
    return !begins(a->literal, b->literal) && !begins(b->literal, a->literal);
}

/* Every name that matches `narrow` matches `wide`. False: perhaps not. */
static bool
covers(const struct entry *wide, const struct entry *narrow)
{
    bool whole = wide->match.n == wide->literal.n + 1 && wide->match.p[wide->literal.n] == '*';

    return slice_eq(wide->match, narrow->match) || (whole && begins(narrow->literal, wide->literal));
}

/* No name that matches `narrow` has its first match at entry i: an earlier entry matches all of them. */
static bool
is_behind(const struct keymap *m, size_t i, const struct entry *narrow, size_t *steps)
{
    for (size_t k = 0; k < i; k++) {
        ++*steps;
        if (covers(&m->entry[k], narrow)) {
            return true;
        }
    }
    return false;
}

/* Some name may have its first match at entry i of `was` and at entry k of `now`. */
static bool
may_meet(const struct keymap *was, size_t i, const struct keymap *now, size_t k, size_t *steps)
{
    const struct entry *a = &was->entry[i], *b = &now->entry[k];

    return !apart(a, b) && !is_behind(was, i, a, steps) && !is_behind(was, i, b, steps) &&
           !is_behind(now, k, a, steps) && !is_behind(now, k, b, steps);
}

static void
add_entry(const struct keymap *m, size_t i, struct buf *out)
{
    const struct entry *en = &m->entry[i];

    if (i + 1 == m->n) {
        buf_adds(out, "locks");
    } else {
        buf_printf(out, "rules.%zu (match '%.*s')", i, (int)en->match.n, en->match.p);
    }
}

static void
add_key(const struct conf_locks *locks, struct buf *out)
{
    buf_adds(out, "'");
    conf_key_of(locks, SLICE_LIT("{name}"), out);
    buf_adds(out, "'");
}

static void
tell_change(const struct keymap *was, size_t i, const struct keymap *now, size_t k, struct buf *why)
{
    add_entry(now, k, why);
    buf_adds(why, ": names would have the key ");
    add_key(now->entry[k].locks, why);
    buf_adds(why, " in Redis, and have ");
    add_key(was->entry[i].locks, why);
    buf_adds(why, " by ");
    add_entry(was, i, why);
    buf_adds(why, "; while both are in use one name has two holders: stop all daemons on this Redis, then start "
                  "them\n");
}

static bool
same_key(const struct entry *a, const struct entry *b)
{
    return slice_eq(buf_slice(&a->key), buf_slice(&b->key));
}

/* Number of leading entries that are equal: a name with its first match among them has it there in both. */
static size_t
same_in_front(const struct keymap *was, const struct keymap *now)
{
    size_t i = 0;

    while (i < was->n && i < now->n && slice_eq(was->entry[i].match, now->entry[i].match) &&
           same_key(&was->entry[i], &now->entry[i])) {
        i++;
    }
    return i;
}

static bool
compare(const struct keymap *was, const struct keymap *now, struct buf *why)
{
    size_t from = same_in_front(was, now), steps = 0;

    for (size_t i = from; i < was->n; i++) {
        for (size_t k = from; k < now->n; k++) {
            if (!same_key(&was->entry[i], &now->entry[k]) && may_meet(was, i, now, k, &steps)) {
                tell_change(was, i, now, k, why);
                return false;
            }
            if (++steps > STEPS_MAX) {
                buf_adds(why, "rules: too many to tell whether all names keep their keys: restart the daemon\n");
                return false;
            }
        }
    }
    return true;
}

bool
conf_same_keys(const struct conf *was, const struct conf *now, struct buf *why)
{
    struct keymap a = keymap_of(was), b = keymap_of(now);
    bool same = false;

    if (a.failed || b.failed) {
        buf_adds(why, "out of memory\n");
    } else {
        same = compare(&a, &b, why);
    }
    keymap_free(&a);
    keymap_free(&b);
    return same;
}

/* Trailing rules with the key format of `locks` are left out: they do not affect keys. */
uint64_t
conf_keys_print(const struct conf *cf)
{
    static const struct hash_key key = {0x726c6f636b64, 0x6b657973}; /* the same in all daemons */
    struct keymap m = keymap_of(cf);
    uint64_t print = 0;
    size_t n = m.n;
    struct buf all;

    buf_init(&all, 0);
    while (!m.failed && n > 1 && same_key(&m.entry[n - 2], &m.entry[m.n - 1])) {
        n--;
    }
    for (size_t i = 0; i < n && !m.failed; i++) {
        buf_add_slice(&all, i + 1 < n ? m.entry[i].match : SLICE_LIT("*"));
        buf_add(&all, "", 1);
        buf_add_slice(&all, buf_slice(&m.entry[i].key));
        buf_add(&all, "", 1);
    }
    if (!m.failed && !all.failed) {
        print = hash_bytes(&key, all.p, all.n);
    }
    buf_fini(&all);
    keymap_free(&m);
    return print;
}

/* ---- two names, one key ---- */

/* The name of which entry i would make this key. False: it makes no such key. */
static bool
name_of_key(const struct keymap *m, size_t i, struct slice key, struct slice *name)
{
    struct slice form = buf_slice(&m->entry[i].key);
    size_t front = (size_t)((const char *)memchr(form.p, stand_in.p[0], form.n) - form.p), back = form.n - front - 1;

    if (key.n <= front + back || memcmp(key.p, form.p, front) != 0 ||
        memcmp(key.p + key.n - back, form.p + front + 1, back) != 0) {
        return false;
    }
    *name = (struct slice){key.p + front, key.n - front - back};
    return true;
}

static bool
is_first(const struct conf *cf, const struct keymap *m, size_t i, struct slice name)
{
    return conf_locks_for(cf, name) == m->entry[i].locks;
}

/*
 * Tries a name that begins as the glob of entry k does, and the same name without the prefix that entry i adds. Any two
 * formats may produce one key for some pair of names; here the glob itself shows that such names are expected.
 */
static bool
collide(const struct conf *cf, const struct keymap *m, size_t i, size_t k, struct buf *out)
{
    const struct entry *b = &m->entry[k];
    struct slice name, other;
    struct buf longer, key;
    bool found;

    buf_init(&longer, 0);
    buf_init(&key, 0);
    buf_add_slice(&longer, b->literal);
    buf_adds(&longer, is_one_name(b) ? "" : "x");
    name = buf_slice(&longer);
    conf_key_of(b->locks, name, &key);
    found = !longer.failed && !key.failed && name_of_key(m, i, buf_slice(&key), &other) && other.n < name.n &&
            name.n - other.n <= b->literal.n && is_first(cf, m, k, name) && is_first(cf, m, i, other);
    if (found) {
        add_entry(m, k, out);
        buf_adds(out, " and ");
        add_entry(m, i, out);
        buf_printf(out, ": two names have one key, such as '%.*s' and '%.*s'", (int)name.n, name.p, (int)other.n,
                   other.p);
        buf_adds(out, ": while one is in use the other is refused\n");
    }
    buf_fini(&key);
    buf_fini(&longer);
    return found;
}

void
conf_each_collision(const struct conf *cf, struct buf *out)
{
    struct keymap m = keymap_of(cf);
    size_t told = 0;

    for (size_t k = 0; k < m.n && !m.failed; k++) {
        for (size_t i = 0; i < m.n && told < COLLISIONS_TOLD; i++) {
            told += !same_key(&m.entry[i], &m.entry[k]) && collide(cf, &m, i, k, out);
        }
    }
    keymap_free(&m);
}
