/*
 * data.h -- the key space of the simulated Redis: names, expiries, and five types on one sort of array.
 *
 * Values are small here (a lock, a queue, some permits): each access walks along an array, and the order of an array is
 * the order of arrival (of a sorted set: its sort order). Aborts when out of memory.
 */
#ifndef RLOCKD_TESTS_SIM_DATA_H
#define RLOCKD_TESTS_SIM_DATA_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "daemon/base/hash.h"
#include "daemon/base/slice.h"

/*
 * Up to these sizes Redis keeps the order of arrival: a hash of more entries, or with a longer one, has no fixed order.
 */
enum { SMALL_ENTRIES = 128, SMALL_BYTES = 64 };

struct str {
    size_t n;
    char p[]; /* with a NUL at the end */
};

struct str *str_new(struct slice s);

static inline struct slice
str_slice(const struct str *s)
{
    return (struct slice){s->p, s->n};
}

enum type { TYPE_STRING, TYPE_LIST, TYPE_SET, TYPE_ZSET, TYPE_HASH };

/* An element of a list or a set, a field of a hash, a member of a sorted set. Owned by its entries. */
struct entry {
    struct str *name;
    union {
        struct str *value; /* hash */
        double score;      /* sorted set */
    };
};

struct entries {
    struct entry *p;
    size_t n, room;
};

struct key {
    UT_hash_handle hh;
    int64_t expire_ms; /* by this Redis's clock; -1 = never */
    enum type type;
    bool large;        /* has outgrown SMALL_*: Redis returns a hash in any order, and keeps -0 as a score */
    struct str *text;  /* STRING */
    struct entries of;   /* the other types; never empty between two commands */
    size_t name_n;
    char name[];
};

struct data {
    struct key *keys; /* uthash */
};

static inline struct slice
key_name(const struct key *k)
{
    return (struct slice){k->name, k->name_n};
}

void *data_alloc(void *p, size_t n); /* realloc, or abort */

/* For uthash: quick, and the same in every run. A simulation has no attackers. */
unsigned data_hash(struct slice s);

struct key *data_find(const struct data *d, struct slice name); /* or NULL; expired ones too */
struct key *data_add(struct data *d, struct slice name, enum type type);
void data_del(struct data *d, struct key *k);
void data_clear(struct data *d);
struct key *data_copy_key(struct data *to, const struct key *k); /* `to` has none of that name */
void data_copy(struct data *to, const struct data *from); /* `to` is empty */

/* All keys in the order of their names; freed by the caller. */
struct key **data_sorted(const struct data *d, size_t *n);

void key_set_text(struct key *k, struct slice text);
void str_free(struct str **s);

/* The index of `name`, or its n. */
size_t entries_find(const struct entries *is, struct slice name);

/* Makes room for an entry at `at` and puts `name` there; the rest of the entry is zero. */
struct entry *entries_insert(struct entries *is, size_t at, struct slice name);
void entries_remove(struct key *k, size_t at, size_t n);

/* Puts a member at its place in the order; moves it if it is there already (at < n). */
void zset_put(struct entries *is, size_t at, struct slice name, double score);

#endif
