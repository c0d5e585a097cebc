/*
 * broadcast.h -- messages between the daemons on one Redis; private to daemon/core.
 */
#ifndef RLOCKD_CORE_BROADCAST_H
#define RLOCKD_CORE_BROADCAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/slice.h"

struct core;
struct lock;

enum broadcast_type {
    BROADCAST_TRAIL = 'W',   /* trail.c: a trail, on its way; */
    BROADCAST_VERDICT = 'V', /* ... a cycle */
    BROADCAST_BROKEN = 'B',  /* breaks.c: a name was broken */
    BROADCAST_WANTED = 'N',  /* attempt_ends.c: a lock is wanted that another daemon may only be caching */
    /* 'K' is serve/keymap.c's, 'S' backend/quorum_servers.c's */
};

/* broadcast.c */
struct slice broadcast_self(const struct core *c); /* the daemon's name in messages to the others */
void broadcast_begin(struct core *c, enum broadcast_type what);
void broadcast_word(struct core *c, struct slice word);
void broadcast_number(struct core *c, uint64_t number);
void broadcast_send(struct core *c); /* sends nothing if the message is too long */
/* sends a whole message: the daemon, name and key, and if it is not 0 the token */
void broadcast_lock(struct core *c, enum broadcast_type what, const struct lock *l, uint64_t token);
/* takes the next word off a message that was received; false: there is none */
bool broadcast_take_word(struct slice *text, struct slice *word);
bool broadcast_take_number(struct slice *text, uint64_t *number);

#endif
