/*
 * value.h -- the values of `simple` locks and the permits of `semaphore`s: unguessable, and constant for a claim.
 *
 * A claim that repeats an attempt (because a reply was lost) must find its own value. So the value is not random, but
 * derived: two hashes of the claim's id and its redis_owner, keyed with a secret. Without the secret it is as hard to
 * guess as a random value.
 */
#ifndef RLOCKD_BACKEND_VALUE_H
#define RLOCKD_BACKEND_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/hash.h"
#include "daemon/base/kinds.h"

#define VALUE_ROOM 40
#define VALUE_BYTES 16

/* The bytes for a claim with that redis_owner: a permit, or a value to be printed. */
void value_bytes(const struct hash_key *secret, uint64_t claim, uint64_t owner, unsigned char out[VALUE_BYTES]);

/* Prints the bytes in a format, with a NUL at the end. Returns the length. */
size_t value_print(const unsigned char bytes[VALUE_BYTES], enum value_format format, char out[VALUE_ROOM]);

/* The printed value of a claim with that redis_owner. */
size_t value_of_claim(const struct hash_key *secret, uint64_t claim, uint64_t owner, enum value_format format,
                      char out[VALUE_ROOM]);

#endif
