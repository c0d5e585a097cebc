/*
 * members.h -- the other daemons that may hold locks in one data set, by uuid, each with its lease and its version.
 *
 * No link, no clock. Versions are those of scripts/presence.lua: of two changes of a member the one with the higher
 * version is the later one, whichever is heard first.
 */
#ifndef RLOCKD_BACKEND_MEMBERS_H
#define RLOCKD_BACKEND_MEMBERS_H

#include "daemon/base/buf.h"
#include "daemon/base/hash.h"
#include "daemon/base/map.h"
#include "daemon/base/slice.h"

enum { MEMBERS_UUID_BYTES = 36, MEMBERS_MAX = 16384 }; /* above what Redis takes: presence.lua, MOST */

struct members {
    struct map by_uuid;
    struct hash_key key;
    unsigned round;     /* of members_begin() */
    bool overflow;      /* there was no room for one since then */
    bool longest_stale; /* longest_ms may be too high */
    int64_t longest_ms;
    uint64_t last;      /* the highest version of all that were ever heard */
};

void members_init(struct members *p, const struct hash_key *key);
void members_fini(struct members *p);
size_t members_count(const struct members *p);

/* A member, by a change or a message of that version; what is older than what is known of it changes nothing. */
void members_put(struct members *p, struct slice uuid, int64_t lease_ms, uint64_t version);

/* It has left, or was forgotten, at that version. */
void members_remove(struct members *p, struct slice uuid, uint64_t version);

/* A list that begins anew ... */
void members_begin(struct members *p);

/* ... and is complete up to that version: a member that was not in it, and is not newer, has left. */
void members_end(struct members *p, uint64_t version);

/* The longest lease of all; 0 = there are none. */
int64_t members_longest_ms(const struct members *p);

/* Appends the uuids, one behind the other. */
void members_print(const struct members *p, struct buf *out);

#endif
