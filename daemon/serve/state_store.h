/*
 * state_store.h -- makes this process the same daemon as the one before it: its identity (identity.h), its claims in
 * Redis (state_file.h), and the first step of the core, which restores them.
 */
#ifndef RLOCKD_SERVE_STATE_STORE_H
#define RLOCKD_SERVE_STATE_STORE_H

#include "daemon/serve/state_file.h"
#include "daemon/serve/identity.h"

struct engine;

struct state_store {
    struct identity identity;
    struct state_file *file;    /* owned; NULL: no state directory, nothing outlives this process */
    size_t restored, released, lost; /* claims of the former process */
    bool releasing;       /* Redis still has some of `released` and `lost` */
    int64_t reached_us;   /* when Redis was reached first; 0 = not yet */
    int64_t timeout_until_us; /* commands of a longer redis.timeout may run until then; 0 = none */
    bool warned;          /* it is logged that some checkpoints cannot be kept */
};

/* Reads the daemon's identity and opens the state file. False with a message. */
bool state_store_open(struct engine *e, char error[160]);
void state_store_close(struct state_store *store);

/* The first step of the core, before any session is there. False with a message. */
bool state_store_restore(struct engine *e, char error[160]);

/* The action STORE of the core. */
void state_store_keep(struct engine *e, const struct core_checkpoint *what);

/* The epoch of Redis's data in which this process, or the former one, was last; 0 = not known. */
uint64_t state_store_epoch(const struct state_store *store, uint16_t domain);
void state_store_reclaimed(struct state_store *store, uint16_t domain, uint64_t epoch);

/* Whether there were, or are, other daemons on that Redis. */
bool state_store_others(const struct state_store *store);
void state_store_others_changed(struct state_store *store, bool others);

/* Redis is up: does what was postponed until then. */
void state_store_reached(struct engine *e);

/* After each turn. True: there is more to be done at once. */
bool state_store_turn(struct engine *e);

#endif
