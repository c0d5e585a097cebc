/*
 * core.h -- the lock manager without the world: events in, actions out.
 *
 * core_step() takes one event and the time, and calls the sink once for each action. core_next_us() returns the time at
 * which core_step() is to be called next if nothing happens. The core does no I/O, does not wait or log, reads no
 * clock, and the sink must not call back into it: what comes of an action is a later event. Times are microseconds of
 * one clock that never steps (CLOCK_BOOTTIME in the daemon, a virtual one in tests). Slices in events and actions are
 * borrowed for the call. Ids (sessions, claims, queues, operations) are never used twice. A failed allocation ends the
 * process (daemon/base/memory.h); core_conf bounds what clients can make the core allocate.
 */

/*
 * The files of the room stand on floors, the highest first; calls go down only, and a header other than this one
 * declares functions of one floor (scripts/floors). A lower floor reports upward by a dirty list (dirty.h,
 * core.to_rerun, core.dirty_multilocks), which a higher floor walks, at the end of the step at the latest.
 *
 *   step      an event, what is due, what is dirty; what concerns all records
 *   requests  what sessions ask for: arrivals, multilocks, cancels, deadlocks
 *   locks     a name: whose turn it is, attempts, hand-offs, what Redis's outcomes mean, reviews
 *   answers   how requests and claims end, and the answers that they get
 *   leases    what a claim asks Redis for
 *   records   claims, locks, queues, owners, and how they are found
 *   tools     timers, jobs, dirty marks, broadcasts
 *   layouts   headers without a source: the fields of records, and inlines that need nothing else
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
#include "daemon/core/checkpoint.h"

struct core; /* opaque; one per daemon */

/* conf is copied, metrics borrowed for the core's life. */
struct core *core_new(const struct core_conf *conf, const struct hash_key *key, struct metrics *metrics,
                      struct core_sink sink);
void core_free(struct core **c);

/*
 * New settings, from the next step on; a timer that is armed keeps its time. (The rules of a name are not among the
 * settings: each request brings them, see take_rules() of locks.c.)
 */
void core_configure(struct core *c, const struct core_conf *conf);

/*
 * A session of this user begins (a number that stands for the user; 0: no user, and no limits per user). Returns the id
 * of the session, which is also the first redis_owner of its own owner; never 0.
 */
uint64_t core_session_open(struct core *c, uint64_t user);

/* The number of sessions of that user. */
uint64_t core_user_sessions(const struct core *c, uint64_t user);

/*
 * Whether a user that has `mine` of a limit may have one more, when all users together have `used`. While less than
 * `percent` of the limit is used, every user may. After that, a user may while it has fewer than are left: so a user
 * that has none may as long as one is left.
 */
bool core_share_has_room(uint64_t limit, unsigned percent, uint64_t used, uint64_t mine);

/*
 * One event. The step first does what is due at now_us, then handles the event. Of long work (such as an owner that
 * ends with very many locks) it does no more than is left of the turn's slice, see core_end_turn(); while work is left,
 * core_next_us() returns the present time.
 */
void core_step(struct core *c, int64_t now_us, const struct core_event *ev);

/*
 * The turn of the loop is over: what the core has asked for leaves for Redis, or is gathered behind a call that is
 * under way. The next turn has a slice of its own. The end of a turn closes the group of claims that ask for a name
 * together (A1 of attempts.c).
 */
void core_end_turn(struct core *c);

/* When core_step(CORE_TIME) is to be called next; CORE_FOREVER = not at all. */
int64_t core_next_us(const struct core *c);

/* The deadline to report for a lease whose command went to the socket at sent_us: 1 % and 2 ms before its end. */
int64_t core_deadline_us(int64_t sent_us, int64_t lease_us);

/* The inverse: the lease to ask for now so that the reported deadline is left_us ahead. */
int64_t core_lease_us(int64_t left_us);

enum core_grant_state {
    CORE_GRANT_HELD,
    CORE_GRANT_LOST,  /* its loss is still to be reported to its owner */
    CORE_GRANT_ENDED, /* given back, or its loss has been reported to its owner */
};

/* The state of a grant. deadline_us: the present deadline, when the grant is HELD. */
enum core_grant_state core_grant_state(const struct core *c, const struct core_grant *g, int64_t now_us,
                                       int64_t *deadline_us);

#endif
