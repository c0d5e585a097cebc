/*
 * slot.h -- the hash slots of Redis Cluster: which one a key is in, and a short hash tag for each of them.
 *
 * A tag is part of keys that all daemons of a cluster share ("rlock:{tag}:epoch"): the tags never change.
 */
#ifndef RLOCKD_BACKEND_SLOT_H
#define RLOCKD_BACKEND_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/slice.h"

enum { SLOTS = 16384, SLOT_TAG_ROOM = 4 };

/* The slot of a key, or of a channel of SPUBLISH: by its hash tag, if it has one that is not empty. */
uint16_t slot_of(struct slice key);

/*
 * Whether the channel of a name with this key, and the other keys that Redisson's layouts give it, are in the slot of
 * the key: they have the key in braces, unless it has a brace of its own. "{}x", "foo{" and "a}b" are not so.
 */
bool slot_suits(struct slice key);

/* For each slot a tag of one to three letters and digits: slot_of("{tag}") is the slot. 64 KiB; owned by the caller. */
struct slot_tags {
    char tag[SLOTS][SLOT_TAG_ROOM];
};

/* Takes some milliseconds. */
void slot_tags_fill(struct slot_tags *t);

#endif
