/*
 * members.h -- the other daemons that may hold locks in one data set: uuid, lease, version.
 *
 * No link, no clock. Versions come from scripts/membership.lua: of two changes of a member the one with the higher
 * version is the later one, in whichever order they are received.
 */
#ifndef RLOCKD_BACKEND_MEMBERS_H
#define RLOCKD_BACKEND_MEMBERS_H

#include "daemon/base/buf.h"
#include "daemon/base/hash.h"
#include "daemon/base/map.h"
#include "daemon/base/slice.h"

enum { MEMBERS_UUID_BYTES = 36, MEMBERS_MAX = 16384 }; /* above what Redis takes: membership.lua, MOST */

struct members {
    struct map by_uuid;
    struct hash_key key;
    unsigned round;     /* counts members_begin() */
    bool overflow;      /* a member found no room since members_begin() */
    bool longest_stale; /* longest_ms may be too high */
    int64_t longest_ms;
    uint64_t last;      /* the highest version of a member that members_put() ever got */
};

void members_init(struct members *p, const struct hash_key *key);
void members_fini(struct members *p);
size_t members_count(const struct members *p);

/* Adds or updates a member; ignores a version older than the known one. */
void members_put(struct members *p, struct slice uuid, int64_t lease_ms, uint64_t version);

/* The member has left, or was forgotten by Redis, at that version. */
void members_remove(struct members *p, struct slice uuid, uint64_t version);

/* A list of all members begins ... */
void members_begin(struct members *p);

/* ... and is complete up to that version: removes the members that it lacks, unless they are newer. */
void members_end(struct members *p, uint64_t version);

/* The longest lease of a member; 0 = there is no member. */
int64_t members_longest_ms(const struct members *p);

/* Appends the uuids, one behind the other. */
void members_print(const struct members *p, struct buf *out);

#endif
