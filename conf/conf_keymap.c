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
#include "daemon/base/memory.h"

/*
 * A reload that would take more steps than these is refused, because the daemon does nothing else meanwhile. A step
 * takes 2 to 4 ns. The comparison of two beginnings counts as one step or more; that of a glob of 200 bytes with a name
 * of 200 bytes as 2,500. 1000 rules, all with keys of their own, take 5 million steps (8 to 24 ms were measured).
 */
#define STEPS_MAX (10 * 1000 * 1000)

#define COLLISIONS_SHOWN 10

static const struct hash_key fingerprint_key = {0x726c6f636b64, 0x6b657973}; /* the same in all daemons */

/* No key format and no prefix contains it: they are printable. */
static const struct slice stand_in = SLICE_LIT("\x01");

struct entry {
    struct slice match, literal; /* literal: what every name that matches begins with */
    bool whole;                  /* ... and all that begin so match */
    struct buf key;              /* of a name that is stand_in */
    uint64_t match_sum, literal_sum, key_sum; /* checksums, compared before the texts */
    const struct conf_locks *locks;
    size_t own_cover;   /* the index of the first earlier entry that covers it; its own index: none does */
    size_t other_cover; /* likewise in the other keymap; keymap.n: none does */
};

struct keymap {
    struct entry *entry; /* owned */
    size_t n;
};

struct comparison {
    struct keymap was, now;
    size_t steps;
};

static struct entry
entry_of(const char *match, const struct conf_locks *locks)
{
    struct entry en = {.match = slice_of(match), .literal = {match, strcspn(match, "*?[\\")}, .locks = locks};

    en.whole = en.match.n == en.literal.n + 1 && match[en.literal.n] == '*';
    en.match_sum = hash_bytes(&fingerprint_key, match, en.match.n);
    en.literal_sum = hash_bytes(&fingerprint_key, match, en.literal.n);
    buf_init(&en.key, 0);
    conf_key_of(locks, stand_in, &en.key);
    en.key_sum = hash_bytes(&fingerprint_key, en.key.p, en.key.n);
    return en;
}

static struct keymap
keymap_of(const struct conf *cf)
{
    struct keymap m = {.entry = mem_array(NULL, cf->rules_n + 1, sizeof(*m.entry))};

    for (size_t i = 0; i <= cf->rules_n; i++) {
        m.entry[i] = i < cf->rules_n ? entry_of(cf->rules[i].match, &cf->rules[i].locks) : entry_of("*", &cf->locks);
        m.n++;
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

/* Every name that matches `en` begins with the literal of `with`. */
static bool
begins(const struct entry *en, const struct entry *with)
{
    return en->literal.n >= with->literal.n &&
           (en->literal.n > with->literal.n || en->literal_sum == with->literal_sum) &&
           memcmp(en->literal.p, with->literal.p, with->literal.n) == 0;
}

static bool
is_one_name(const struct entry *en)
{
    return en->literal.n == en->match.n;
}

/* The cost of comparing n bytes, in steps. */
static size_t
cost(size_t bytes)
{
    return 1 + bytes / 64;
}

/* No name matches both. False: one may. The steps are those of a glob that is all sets, see glob.h. */
static bool
disjoint(const struct entry *a, const struct entry *b, size_t *steps)
{
    const struct entry *name = is_one_name(a) ? a : b, *glob = name == a ? b : a;

    *steps += cost(a->literal.n < b->literal.n ? a->literal.n : b->literal.n);
    if (!begins(a, b) && !begins(b, a)) {
        return true;
    }
    if (!is_one_name(name)) {
        return false;
    }
    *steps += cost(4 * (glob->match.n - glob->literal.n) * name->match.n);
    return !glob_match(glob->match, name->match);
}

/* Every name that matches `narrow` matches `wide`. False: perhaps not. */
static bool
covers(const struct entry *wide, const struct entry *narrow)
{
    return (wide->match_sum == narrow->match_sum && slice_eq(wide->match, narrow->match)) ||
           (wide->whole && begins(narrow, wide));
}

/* The first of the first n entries that matches all names that match `narrow`; n: none does. */
static size_t
first_cover(const struct keymap *m, size_t n, const struct entry *narrow, size_t *steps)
{
    size_t k = 0;

    while (k < n && !covers(&m->entry[k], narrow)) {
        *steps += cost(m->entry[k].literal.n);
        k++;
    }
    return k;
}

/* No name has its first match at entry i: an earlier one matches all of them. */
static bool
is_hidden(const struct keymap *m, size_t i)
{
    return m->entry[i].own_cover < i;
}

/* Finds `own_cover` and `other_cover` of each entry of `a`, from `from` on. False: it would take too long. */
static bool
find_covers(struct keymap *a, const struct keymap *b, size_t from, size_t *steps)
{
    for (size_t i = from; i < a->n && *steps <= STEPS_MAX; i++) {
        struct entry *en = &a->entry[i];

        en->own_cover = first_cover(a, i, en, steps);
        en->other_cover = is_hidden(a, i) ? 0 : first_cover(b, b->n, en, steps);
    }
    return *steps <= STEPS_MAX;
}

/* Some name may have its first match at entry i of `was` and at entry k of `now`. Neither is hidden. */
static bool
may_meet(struct comparison *c, size_t i, size_t k)
{
    const struct entry *a = &c->was.entry[i], *b = &c->now.entry[k];

    return a->other_cover >= k && b->other_cover >= i && !disjoint(a, b, &c->steps);
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
report_change(const struct keymap *was, size_t i, const struct keymap *now, size_t k, struct buf *why)
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
    return a->key_sum == b->key_sum && slice_eq(buf_slice(&a->key), buf_slice(&b->key));
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
compare(struct comparison *c, struct buf *why)
{
    const struct keymap *was = &c->was, *now = &c->now;
    size_t from = same_in_front(was, now);
    bool done = find_covers(&c->was, now, from, &c->steps) && find_covers(&c->now, was, from, &c->steps);

    for (size_t i = from; i < was->n && done; i++) {
        for (size_t k = from; k < now->n && !is_hidden(was, i) && done; k++) {
            if (!is_hidden(now, k) && !same_key(&was->entry[i], &now->entry[k]) && may_meet(c, i, k)) {
                report_change(was, i, now, k, why);
                return false;
            }
            done = ++c->steps <= STEPS_MAX;
        }
    }
    if (!done) {
        buf_adds(why, "rules: too many to decide whether all names keep their keys: restart the daemon\n");
    }
    return done;
}

bool
conf_same_keys(const struct conf *was, const struct conf *now, struct buf *why)
{
    struct comparison c = {keymap_of(was), keymap_of(now), 0};
    bool same = compare(&c, why);

    keymap_free(&c.was);
    keymap_free(&c.now);
    return same;
}

/* Trailing rules with the key format of `locks` are left out: they do not affect keys. */
uint64_t
conf_keys_fingerprint(const struct conf *cf)
{
    struct keymap m = keymap_of(cf);
    uint64_t fingerprint;
    size_t n = m.n;
    struct buf all;

    buf_init(&all, 0);
    while (n > 1 && same_key(&m.entry[n - 2], &m.entry[m.n - 1])) {
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        buf_add_slice(&all, i + 1 < n ? m.entry[i].match : SLICE_LIT("*"));
        buf_add(&all, "", 1);
        buf_add_slice(&all, buf_slice(&m.entry[i].key));
        buf_add(&all, "", 1);
    }
    fingerprint = hash_bytes(&fingerprint_key, all.p, all.n);
    buf_fini(&all);
    keymap_free(&m);
    return fingerprint;
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
 * Tries a name that begins as the glob of entry k does, and the same name without the prefix that entry i adds. Nearly
 * any two formats give some two names one key; only names that the glob of entry k makes likely are reported.
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
    found = name_of_key(m, i, buf_slice(&key), &other) && other.n < name.n &&
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
conf_print_collisions(const struct conf *cf, struct buf *out)
{
    struct keymap m = keymap_of(cf);
    size_t shown = 0;

    for (size_t k = 0; k < m.n; k++) {
        for (size_t i = 0; i < m.n && shown < COLLISIONS_SHOWN; i++) {
            shown += !same_key(&m.entry[i], &m.entry[k]) && collide(cf, &m, i, k, out);
        }
    }
    keymap_free(&m);
}
