/*
 * rng.h -- a small seeded generator, so that a failing property test can be repeated by its seed (Check's _i).
 */
#ifndef RLOCKD_TESTS_RNG_H
#define RLOCKD_TESTS_RNG_H

#include <stdint.h>
#include <stdlib.h>

struct rng {
    uint64_t state;
};

static inline struct rng
rng_of(int seed)
{
    return (struct rng){UINT64_C(0x9e3779b97f4a7c15) * ((uint64_t)(unsigned)seed + 1)};
}

/* splitmix64 */
static inline uint64_t
rng_next(struct rng *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 .. n - 1 */
static inline unsigned
rng_below(struct rng *r, unsigned n)
{
    return (unsigned)(rng_next(r) % n);
}

/* The number of seeds of a test that has `n`: at most RLOCKD_SEEDS, where each seed is slow (check-valgrind). */
static inline int
rng_seeds(int n)
{
    const char *most = getenv("RLOCKD_SEEDS");

    return most != NULL && atoi(most) < n ? atoi(most) : n;
}

#endif
