/*
 * hash.h -- keyed hashing of names that clients choose.
 *
 * Names are an attacker's input: they are hashed with SipHash-1-3 under a random key (map.h finds records by it).
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

/* Ids are our own and count up: no client can choose colliding ones. */
static inline unsigned
hash_id(uint64_t id)
{
    return (unsigned)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

#endif
