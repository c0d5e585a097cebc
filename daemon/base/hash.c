/*
 * hash.c -- SipHash-1-3 (Aumasson, Bernstein 2012; one round for each word, three at the end).
 *
 * Reads words as little-endian on every machine, so that the vectors in the test hold everywhere.
 */
#include "daemon/base/hash.h"

#include <endian.h>
#include <string.h>

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t
rotl(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void
sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotl(s->v1, 13) ^ s->v0;
    s->v0 = rotl(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotl(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotl(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotl(s->v1, 17) ^ s->v2;
    s->v2 = rotl(s->v2, 32);
}

static inline void
sip_word(struct sip *s, uint64_t m)
{
    s->v3 ^= m;
    sip_round(s);
    s->v0 ^= m;
}

uint64_t
hash_bytes(const struct hash_key *key, const void *p, size_t n)
{
    struct sip s = {
        .v0 = key->k0 ^ UINT64_C(0x736f6d6570736575),
        .v1 = key->k1 ^ UINT64_C(0x646f72616e646f6d),
        .v2 = key->k0 ^ UINT64_C(0x6c7967656e657261),
        .v3 = key->k1 ^ UINT64_C(0x7465646279746573),
    };
    const unsigned char *at = p;
    size_t left = n;
    uint64_t m;

    for (; left >= sizeof(m); left -= sizeof(m), at += sizeof(m)) {
        memcpy(&m, at, sizeof(m));
        sip_word(&s, le64toh(m));
    }
    m = 0;
    if (left > 0) {
        memcpy(&m, at, left);
    }
    sip_word(&s, le64toh(m) | (uint64_t)n << 56);
    s.v2 ^= 0xff;
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
