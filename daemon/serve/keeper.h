/*
 * keeper.h -- what makes this process the same daemon as the one before it: its identity (identity.h), the table of
 * what Redis has of it (held.h), and the first step of the core, which adopts that.
 */
#ifndef RLOCKD_SERVE_KEEPER_H
#define RLOCKD_SERVE_KEEPER_H

#include "daemon/serve/held.h"
#include "daemon/serve/identity.h"

struct engine;

struct keeper {
    struct identity identity;
    struct held *held;    /* owned; NULL: no state directory, nothing outlives this process */
    size_t adopted, freed, lost; /* of the process before us */
    bool freeing;         /* some of it is not free yet */
    int64_t reached_us;   /* when Redis was reached first; 0 = not yet */
    bool warned;          /* the log knows that not everything can be kept */
};

/* Who we are; the table. False with a message. */
bool keeper_open(struct engine *e, char error[160]);
void keeper_close(struct keeper *k);

/* The first step of the core, before any session is there. False with a message. */
bool keeper_adopt(struct engine *e, char error[160]);

/* What the core says. */
void keeper_keep(struct engine *e, const struct core_kept *what);
void keeper_forget(struct engine *e, uint64_t claim);
void keeper_keep_owner(struct engine *e, const struct core_kept_owner *what);
void keeper_forget_owner(struct engine *e, uint64_t id);

/* The epoch of Redis's data that the process before us, or this one, was in last; 0 = not known. */
uint64_t keeper_epoch(const struct keeper *k);
void keeper_reclaimed(struct keeper *k, uint64_t epoch);

/* Whether there were, or are, other daemons on that Redis. */
bool keeper_others(const struct keeper *k);
void keeper_met(struct keeper *k, bool others);

/* Redis can be reached: what was put off for that is done. */
void keeper_reached(struct engine *e);

/* After each turn. True: there is more to be done at once. */
bool keeper_turn(struct engine *e);

#endif
