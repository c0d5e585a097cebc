/*
 * hash.h -- keyed hashing of names that clients choose, and uthash set up for it.
 *
 * Names are an attacker's input: they are hashed with SipHash-1-3 under a
 * random key, and handed to uthash by value (HASH_ADD_KEYPTR_BYHASHVALUE,
 * HASH_FIND_BYHASHVALUE). Every file that uses uthash includes this header
 * instead of <uthash.h>: an add that finds no memory leaves the record out of
 * the table (its hh.tbl stays NULL) instead of ending the process.
 */
#ifndef RLOCKD_BASE_HASH_H
#define RLOCKD_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct hash_key {
    uint64_t k0, k1;
};

/* SipHash-1-3 of n bytes. */
uint64_t hash_bytes(const struct hash_key *key, const void *p, size_t n);

/* The same folded to what uthash takes. */
static inline unsigned
hash_name(const struct hash_key *key, const void *p, size_t n)
{
    uint64_t h = hash_bytes(key, p, n);

    return (unsigned)(h ^ (h >> 32));
}

/* Ids are our own and count up: nobody can choose colliding ones. */
static inline unsigned
hash_id(uint64_t id)
{
    return (unsigned)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

#endif
