/*
 * hash.h -- keyed hashing of names that clients choose.
 *
 * Clients may choose names to collide, so names are hashed by SipHash-1-3 with a random key; map.h finds records by
 * such a hash. By hand, because libcrypto's SipHash needs a context and three calls for each name.
 */
#ifndef RLOCKD_BASE_HASH_H
#define RLOCKD_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash_key {
    uint64_t k0, k1;
};

/* SipHash-1-3 of n bytes. */
uint64_t hash_bytes(const struct hash_key *key, const void *p, size_t n);

/* A hash of an id of ours. Ids count up, so no client can choose colliding ones. */
static inline unsigned
hash_id(uint64_t id)
{
    return (unsigned)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

#endif
