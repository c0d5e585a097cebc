/*
 * denied.h -- keys that Redis's ACL forbids: which operations must not share a script call with others (a batch).
 *
 * Redis refuses a whole call (NOPERM) if the ACL forbids one of its keys. Nothing has run then; the names (but
 * reclaims) are sent again, each in its own call. For DENIED_US after that only held keys, and keys that Redis has
 * accepted since, are batched: a client that asks for forbidden keys costs a call for each, and delays no other key.
 *
 * If the ACL forbids a key that the script derives (the queue of kind fair), the script ends in the middle, and any
 * name of the call may have run. All of them are then sent alone until DENIED_US is over, even if one is accepted
 * meanwhile: a release may need fewer keys than an attempt. Tables of fixed size have keyed hashes of the keys; no
 * link, no clock.
 */
#ifndef RLOCKD_BACKEND_DENIED_H
#define RLOCKD_BACKEND_DENIED_H

#include <stdbool.h>
#include <stdint.h>

enum { DENIED_ACCEPTED = 16 * 1024, DENIED_REFUSED = 1024, DENIED_US = 10 * 1000 * 1000 };

struct denied {
    int64_t until_us; /* end of the suspicion; 0 = there is none */
    struct {
        uint32_t accepted[DENIED_ACCEPTED], refused[DENIED_REFUSED];
        uint32_t ended_inside[DENIED_REFUSED]; /* keys of calls that the ACL has ended in the middle of the script */
    } *tables; /* owned; NULL: no suspicion yet */
};

/* Redis has refused a call (NOPERM): the suspicion begins, or lasts longer. */
void denied_begin(struct denied *d, int64_t now_us);

/* The key may be the forbidden one: it was in the refused call, perhaps alone. */
void denied_refuse(struct denied *d, uint64_t hash);

/* The key was in a call whose script the ACL ended in the middle: sent alone until the suspicion ends. */
void denied_inside(struct denied *d, uint64_t hash);

/* Redis has accepted the key. */
void denied_accept(struct denied *d, uint64_t hash);

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
