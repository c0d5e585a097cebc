/*
 * core_disorder.h -- the actions of one step of the core, in another order where no promise fixes the order.
 *
 * Two actions of a step keep their order when they share a link and a name, or a client: operations on one key (a name
 * always uses one link: a release leaves before the next acquire, waiters ask in the order of the queue), watches of
 * one key, and replies to one session. All others leave in any order, so a test that passes only in today's order tests
 * the code of the core and not its promises. world.in_order is for tests of a promised order across names; each of them
 * names the promise.
 *
 * RLOCKD_DISORDER=N chooses an order; 0: that of the core.
 */
#ifndef RLOCKD_TESTS_CORE_DISORDER_H
#define RLOCKD_TESTS_CORE_DISORDER_H

#include "tests/unit/core_sink.h"

/* An action of a step: the actions of one class have one hash and keep their order; the hashes order the classes. */
struct dealt {
    uint64_t hash;
    size_t at;
};

static inline uint64_t
disorder_seed(void)
{
    const char *s = getenv("RLOCKD_DISORDER");

    return s != NULL ? strtoull(s, NULL, 10) : 1;
}

/* FNV-1a, and a last mix, because the order depends on the high bits. */
static inline uint64_t
disorder_hash(uint64_t seed, const void *p, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u ^ (seed * 0x9e3779b97f4a7c15u);

    for (size_t i = 0; i < n; i++) {
        h = (h ^ ((const unsigned char *)p)[i]) * 0x100000001b3u;
    }
    h = (h ^ (h >> 31)) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

static inline int
dealt_cmp(const void *a, const void *b)
{
    const struct dealt *x = a, *y = b;

    return x->hash != y->hash ? (x->hash < y->hash ? -1 : 1) : x->at < y->at ? -1 : 1;
}

/* The new order of the actions `from` to `to` - 1. Owned by the caller. */
static inline struct dealt *
deal(size_t from, size_t to, uint64_t seed, uint64_t (*hash)(const struct world *, size_t, uint64_t),
     const struct world *w)
{
    struct dealt *d = malloc((to - from) * sizeof(*d));

    ck_assert_ptr_nonnull(d);
    for (size_t i = from; i < to; i++) {
        d[i - from] = (struct dealt){hash(w, i, seed), i};
    }
    qsort(d, to - from, sizeof(*d), dealt_cmp);
    return d;
}

static inline uint64_t
flight_hash(const struct world *w, size_t i, uint64_t seed)
{
    const struct flight *f = &w->flights[i];

    return disorder_hash(seed + is_watch(f->verb), f->key, strlen(f->key));
}

static inline uint64_t
answer_hash(const struct world *w, size_t i, uint64_t seed)
{
    return disorder_hash(seed, &w->answers[i].reply.session, sizeof(w->answers[i].reply.session));
}

/* Reorders the flights and answers from these numbers on. */
static inline void
disorder(struct world *w, size_t flight, size_t answer)
{
    uint64_t seed = w->in_order ? 0 : disorder_seed();

    if (seed != 0 && w->flights_n > flight + 1) {
        struct dealt *d = deal(flight, w->flights_n, seed, flight_hash, w);
        size_t n = w->flights_n - flight;
        struct flight *f = malloc(n * sizeof(*f));

        ck_assert_ptr_nonnull(f);
        for (size_t i = 0; i < n; i++) {
            f[i] = w->flights[d[i].at];
            f[i].index = flight + i;
        }
        memcpy(&w->flights[flight], f, n * sizeof(*f));
        free(f);
        free(d);
    }
    if (seed != 0 && w->answers_n > answer + 1) {
        struct dealt *d = deal(answer, w->answers_n, seed, answer_hash, w);
        size_t n = w->answers_n - answer;
        struct answer *r = malloc(n * sizeof(*r));

        ck_assert_ptr_nonnull(r);
        for (size_t i = 0; i < n; i++) {
            r[i] = w->answers[d[i].at];
        }
        memcpy(&w->answers[answer], r, n * sizeof(*r));
        free(r);
        free(d);
    }
}

#endif
