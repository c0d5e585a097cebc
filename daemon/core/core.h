/*
 * core.h -- the lock manager without the world: events in, actions out.
 *
 * core_step() takes one event and the time, and calls the sink once for each action. core_next_us() says when it wants
 * to be called again if nothing happens. The core does not talk, wait, log or look at a clock, and the sink must not
 * call back into it: what comes of an action is a later event. Times are microseconds of one clock that never steps
 * (CLOCK_BOOTTIME in the daemon, a virtual one in tests). Slices in events and actions are borrowed for the call. Ids
 * (sessions, claims, queues, operations) are never used twice. A failed allocation ends the process
 * (daemon/base/memory.h); core_conf bounds what clients can make the core allocate.
 */

/*
 * The files of the room stand on floors, the highest first; calls go down only (scripts/floors). What has to be told
 * upward goes on a dirty list (dirty.h, core.freed, core.dirty_multilocks), which work.c goes through.
 *
 *   step      an event, what is due, what is dirty; what looks at everything
 *   requests  what sessions ask for: arrivals, multilocks, cancels, deadlocks
 *   locks     a name: whose turn it is, attempts, hand-overs, what Redis's outcomes mean, reviews
 *   answers   how requests and claims end, and what they are told
 *   leases    what a claim asks Redis for
 *   records   claims, locks, queues, owners, and how they are found
 *   tools     timers, jobs, dirty marks, words for other daemons
 */
#ifndef RLOCKD_CORE_CORE_H
#define RLOCKD_CORE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/hash.h"
#include "daemon/base/metrics.h"
#include "daemon/core/actions.h"
#include "daemon/core/answers.h"
#include "daemon/core/conf.h"
#include "daemon/core/events.h"
#include "daemon/core/record.h"

struct core; /* opaque; one per daemon */

/* Where actions go; must not call back into the core. */
struct core_sink {
    void (*act)(void *ctx, const struct core_action *a);
    void *ctx;
};

/* conf is copied, metrics borrowed for the core's life. */
struct core *core_new(const struct core_conf *conf, const struct hash_key *key, struct metrics *metrics,
                      struct core_sink sink);
void core_free(struct core **c);

/* New settings; what is held or waiting keeps what it was granted under. (So do the rules: a grace grows at once, but
   gets shorter only when nobody has the name, see take_rules().) */
void core_configure(struct core *c, const struct core_conf *conf);

/*
 * A session of this user (any number that stands for it; 0 = nobody's, not counted) begins. Returns its id, which is
 * also the first number of the owner it is; never 0.
 */
uint64_t core_session_open(struct core *c, uint64_t user);

/* How many sessions that user has. */
uint64_t core_user_sessions(const struct core *c, uint64_t user);

/*
 * Whether a user that has `mine` of a limit may have one more, when all have `used`: up to `percent` of the limit there
 * is no other rule; above it, no user may have more than what is left. So a user that has none always finds one.
 */
bool core_share_has_room(uint64_t limit, unsigned percent, uint64_t used, uint64_t mine);

/*
 * One event. First what is due at now_us happens, then the event. Of what is long (an owner that ends with very many
 * locks, say) a step does a slice: while something is left core_next_us() says that the next one is due now.
 */
void core_step(struct core *c, int64_t now_us, const struct core_event *ev);

/*
 * The turn is over, and the next one has a slice of its own: what the core has asked for until now leaves for Redis, or
 * is gathered behind a call that is under way. It closes the group of claims that ask for a name together (A1).
 */
void core_end_turn(struct core *c);

/* When core_step(CORE_TIME) is wanted next; CORE_FOREVER = not at all. */
int64_t core_next_us(const struct core *c);

/* The deadline that may be told for a lease handed to the socket at sent_us: 1 % + 2 ms early. */
int64_t core_deadline_us(int64_t sent_us, int64_t lease_us);

/* The lease that would have to be asked for now so that a deadline so far ahead is told. */
int64_t core_lease_us(int64_t left_us);

enum core_grant_state {
    CORE_GRANT_HELD,
    CORE_GRANT_LOST,  /* and its owner does not know */
    CORE_GRANT_ENDED, /* given back, or its owner has been told of the loss */
};

/* The state of a grant. until_us: the present deadline, when the grant is HELD. */
enum core_grant_state core_grant_state(const struct core *c, const struct core_grant *g, int64_t now_us,
                                       int64_t *until_us);

/* Asserts every invariant; slow, for tests. */
void core_check(const struct core *c, int64_t now_us);

#endif
