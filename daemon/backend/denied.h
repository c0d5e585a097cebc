/*
 * denied.h -- keys that Redis's ACL forbids: which operations must not share a script call with others (a batch).
 *
 * Redis refuses a whole script call (NOPERM) if the ACL forbids one of its keys. Nothing has run then, and each name is
 * sent again in a call of its own. During the suspicion that follows (DENIED_US) only keys that Redis has accepted
 * since are batched; all others are sent alone. So a client that asks for forbidden keys costs one call for each of
 * them, and delays nobody else's batch.
 *
 * The ACL may also forbid a key that the script derives from the lock's (the queue of kind fair, for instance). The
 * script ends in the middle, and any name of the call may have been executed. All of them are sent alone until the
 * suspicion ends, even if one is accepted meanwhile: a release may need fewer keys than an attempt.
 *
 * No link, no clock. A key and its kind are represented by a keyed hash in tables of fixed size; a key whose entry was
 * overwritten by another is sent alone once more.
 */
#ifndef RLOCKD_BACKEND_DENIED_H
#define RLOCKD_BACKEND_DENIED_H

#include <stdbool.h>
#include <stdint.h>

enum { DENIED_PASSED = 16 * 1024, DENIED_REFUSED = 1024, DENIED_US = 10 * 1000 * 1000 };

struct denied {
    int64_t until_us; /* end of the suspicion; 0 = there is none */
    struct {
        uint32_t passed[DENIED_PASSED], refused[DENIED_REFUSED];
        uint32_t broken[DENIED_REFUSED]; /* of calls that the ACL has ended in the middle of the script */
    } *tables; /* owned; NULL: no suspicion yet */
};

/* Redis has refused a call (NOPERM): the suspicion begins, or goes on. */
void denied_begin(struct denied *d, int64_t now_us);

/* This key may be the forbidden one: it was in the refused call, perhaps alone. */
void denied_key(struct denied *d, uint64_t hash);

/* This key was in a call whose script the ACL ended in the middle: sent alone until the suspicion ends. */
void denied_inside(struct denied *d, uint64_t hash);

/* Redis has accepted this key. */
void denied_pass(struct denied *d, uint64_t hash);

static inline bool
denied_suspects(const struct denied *d)
{
    return d->until_us != 0;
}

/*
 * Whether an operation on this key must be sent alone. `held`: Redis has accepted the key before, so it is batched
 * unless it was refused since: a million renewals must not be sent one by one because a client asks for a forbidden
 * key.
 */
bool denied_alone(struct denied *d, uint64_t hash, bool held, int64_t now_us);

void denied_fini(struct denied *d);

#endif
