/*
 * slot.h -- the hash slots of Redis Cluster: the slot of a key, and a short hash tag for each slot.
 *
 * Tags are part of keys that all daemons of a cluster share ("rlock:{tag}:epoch"), so they must never change.
 */
#ifndef RLOCKD_BACKEND_SLOT_H
#define RLOCKD_BACKEND_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/slice.h"

enum { SLOTS = 16384, SLOT_TAG_ROOM = 4 };

/* The slot of a key, or of a channel of SPUBLISH: by its hash tag if that is not empty, else by all of it. */
uint16_t slot_of(struct slice key);

/*
 * Whether the channel and the auxiliary keys of a name with this key are in the key's slot. Redisson's layouts put the
 * key in braces, unless it has an opening brace: so "{}x", "foo{" and "a}b" do not suit.
 */
bool slot_suits(struct slice key);

/* A tag of one to three letters and digits for each slot: slot_of("{tag}") is the slot. 64 KiB. */
struct slot_tags {
    char tag[SLOTS][SLOT_TAG_ROOM];
};

/* Takes some milliseconds. */
void slot_tags_fill(struct slot_tags *t);

#endif
