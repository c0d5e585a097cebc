/*
 * data.c -- the key space: a hash of keys, arrays below.
 */
#include "tests/sim/data.h"

#include <stdlib.h>

void *
data_alloc(void *p, size_t n)
{
    void *got = realloc(p, n);

    if (got == NULL) {
        abort();
    }
    return got;
}

unsigned
data_hash(struct slice s)
{
    uint64_t h = s.n, part;

    while (s.n > 0) {
        size_t n = s.n < sizeof(part) ? s.n : sizeof(part);

        part = 0;
        memcpy(&part, s.p, n);
        h = (h ^ part) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
        s.p += n;
        s.n -= n;
    }
    return (unsigned)h;
}

struct str *
str_new(struct slice s)
{
    struct str *str = data_alloc(NULL, sizeof(*str) + s.n + 1);

    str->n = s.n;
    if (s.n > 0) {
        memcpy(str->p, s.p, s.n);
    }
    str->p[s.n] = '\0';
    return str;
}

void
str_free(struct str **s)
{
    free(*s);
    *s = NULL;
}

struct key *
data_find(const struct data *d, struct slice name)
{
    struct key *k;
    unsigned hashv = data_hash(name);

    HASH_FIND_BYHASHVALUE(hh, d->keys, name.p, name.n, hashv, k);
    return k;
}

struct key *
data_add(struct data *d, struct slice name, enum type type)
{
    struct key *k = data_alloc(NULL, sizeof(*k) + name.n + 1);
    unsigned hashv = data_hash(name);

    memset(k, 0, sizeof(*k));
    k->expire_ms = -1;
    k->type = type;
    k->name_n = name.n;
    memcpy(k->name, name.p, name.n);
    k->name[name.n] = '\0';
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, d->keys, k->name, k->name_n, hashv, k);
    if (k->hh.tbl == NULL) {
        abort();
    }
    return k;
}

static void
entry_fini(struct entry *it, enum type type)
{
    str_free(&it->name);
    if (type == TYPE_HASH) {
        str_free(&it->value);
    }
}

void
data_del(struct data *d, struct key *k)
{
    HASH_DEL(d->keys, k);
    for (size_t i = 0; i < k->of.n; i++) {
        entry_fini(&k->of.p[i], k->type);
    }
    free(k->of.p);
    free(k->text);
    free(k);
}

void
data_clear(struct data *d)
{
    while (d->keys != NULL) {
        data_del(d, d->keys);
    }
}

struct key *
data_copy_key(struct data *to, const struct key *k)
{
    struct key *mine = data_add(to, key_name(k), k->type);

    mine->expire_ms = k->expire_ms;
    mine->large = k->large;
    if (k->type == TYPE_STRING) {
        mine->text = str_new(str_slice(k->text));
    }
    for (size_t i = 0; i < k->of.n; i++) {
        struct entry *it = entries_insert(&mine->of, i, str_slice(k->of.p[i].name));

        if (k->type == TYPE_HASH) {
            it->value = str_new(str_slice(k->of.p[i].value));
        } else {
            it->score = k->of.p[i].score;
        }
    }
    return mine;
}

void
data_copy(struct data *to, const struct data *from)
{
    for (const struct key *k = from->keys; k != NULL; k = k->hh.next) {
        (void)data_copy_key(to, k);
    }
}

static int
by_bytes(struct slice a, struct slice b)
{
    int c = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);

    return c != 0 ? c : (a.n > b.n) - (a.n < b.n);
}

static int
by_name(const void *a, const void *b)
{
    return by_bytes(key_name(*(struct key *const *)a), key_name(*(struct key *const *)b));
}

struct key **
data_sorted(const struct data *d, size_t *n)
{
    struct key **all = data_alloc(NULL, sizeof(*all) * (HASH_COUNT(d->keys) + 1));

    *n = 0;
    for (struct key *k = d->keys; k != NULL; k = k->hh.next) {
        all[(*n)++] = k;
    }
    qsort(all, *n, sizeof(*all), by_name);
    return all;
}

void
key_set_text(struct key *k, struct slice text)
{
    struct str *new = str_new(text); /* `text` may lie in the old one */

    free(k->text);
    k->text = new;
}

size_t
entries_find(const struct entries *is, struct slice name)
{
    size_t i = 0;

    while (i < is->n && !(is->p[i].name->n == name.n && memcmp(is->p[i].name->p, name.p, name.n) == 0)) {
        i++;
    }
    return i;
}

struct entry *
entries_insert(struct entries *is, size_t at, struct slice name)
{
    if (is->n == is->room) {
        is->room = is->room == 0 ? 2 : 2 * is->room;
        is->p = data_alloc(is->p, is->room * sizeof(*is->p));
    }
    memmove(is->p + at + 1, is->p + at, (is->n - at) * sizeof(*is->p));
    is->n++;
    is->p[at] = (struct entry){.name = str_new(name)};
    return &is->p[at];
}

void
entries_remove(struct key *k, size_t at, size_t n)
{
    struct entries *is = &k->of;

    for (size_t i = at; i < at + n; i++) {
        entry_fini(&is->p[i], k->type);
    }
    memmove(is->p + at, is->p + at + n, (is->n - at - n) * sizeof(*is->p));
    is->n -= n;
}

void
zset_put(struct entries *is, size_t at, struct slice name, double score)
{
    size_t low = 0, high;
    struct entry moved = {.score = score};

    if (at < is->n) {
        moved.name = is->p[at].name;
        is->n--;
        memmove(is->p + at, is->p + at + 1, (is->n - at) * sizeof(*is->p));
    }
    high = is->n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        const struct entry *it = &is->p[mid];

        if (it->score < score || (it->score == score && by_bytes(str_slice(it->name), name) < 0)) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (moved.name == NULL) {
        entries_insert(is, low, name)->score = score;
        return;
    }
    memmove(is->p + low + 1, is->p + low, (is->n - low) * sizeof(*is->p));
    is->p[low] = moved;
    is->n++;
}
