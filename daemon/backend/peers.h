/*
 * peers.h -- the other daemons that may hold locks in one data set, by uuid, each with its lease and its version.
 *
 * No link, no clock. Versions are those of scripts/presence.lua: of two changes of a member the one with the higher
 * version is the later one, whichever is heard first.
 */
#ifndef RLOCKD_BACKEND_PEERS_H
#define RLOCKD_BACKEND_PEERS_H

#include "daemon/base/buf.h"
#include "daemon/base/hash.h"
#include "daemon/base/map.h"
#include "daemon/base/slice.h"

enum { PEERS_UUID_BYTES = 36, PEERS_MAX = 16384 }; /* above what Redis takes: presence.lua, MOST */

struct peers {
    struct map by_uuid;
    struct hash_key key;
    unsigned round;     /* of peers_begin() */
    bool overflow;      /* there was no room for one since then */
    bool longest_stale; /* longest_ms may be too high */
    int64_t longest_ms;
    uint64_t last;      /* the highest version of all that were ever heard */
};

void peers_init(struct peers *p, const struct hash_key *key);
void peers_fini(struct peers *p);
size_t peers_count(const struct peers *p);

/* A member, by a change or a message of that version; what is older than what is known of it changes nothing. */
void peers_put(struct peers *p, struct slice uuid, int64_t lease_ms, uint64_t version);

/* It has left, or was forgotten, at that version. */
void peers_remove(struct peers *p, struct slice uuid, uint64_t version);

/* A list that begins anew ... */
void peers_begin(struct peers *p);

/* ... and is complete up to that version: who was not in it, and is not newer, is none any more. */
void peers_end(struct peers *p, uint64_t version);

/* The longest lease of all; 0 = there are none. */
int64_t peers_longest_ms(const struct peers *p);

/* Appends the uuids, one behind the other. */
void peers_print(const struct peers *p, struct buf *out);

#endif
