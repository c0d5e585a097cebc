/*
 * value.h -- the values of `simple` locks and the permits of `semaphore`s: unguessable, and always the same for one
 * claim.
 *
 * A claim that asks twice (because a reply was lost) must find itself, so its value is not random but derived: two
 * keyed hashes of the claim's id and its redis_owner. Without the key it is as hard to guess as a random one.
 */
#ifndef RLOCKD_BACKEND_VALUE_H
#define RLOCKD_BACKEND_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/hash.h"
#include "daemon/base/kinds.h"

#define VALUE_ROOM 40
#define VALUE_BYTES 16

/* The bytes of a claim under that owner number: a permit of a `semaphore` as it is, or a value to be printed. */
void value_bytes(const struct hash_key *secret, uint64_t claim, uint64_t owner, unsigned char out[VALUE_BYTES]);

/* Them as `format` writes them, NUL-terminated. Returns their length. */
size_t value_print(const unsigned char bytes[VALUE_BYTES], enum value_format format, char out[VALUE_ROOM]);

/* The value of a claim under that owner number. */
size_t value_of_claim(const struct hash_key *secret, uint64_t claim, uint64_t owner, enum value_format format,
                      char out[VALUE_ROOM]);

#endif
