/*
 * denied.h -- keys that Redis's ACL keeps from us, and how none of them spoils a call for other names.
 *
 * Redis refuses a script call as a whole (NOPERM) if one of its keys is not ours to use. Nothing has run then, and its
 * names go again, each alone. For a while after that only keys that Redis has let pass since go in company; all others
 * go alone, so that a client who asks for one forbidden key after another costs a call for each, and others nothing.
 *
 * The ACL may also refuse a key that the script makes from the lock's (the queue of kind fair, for instance). The script
 * ends in its middle, and each name of the call may have run. All of these go alone until the suspicion ends, whatever
 * passes meanwhile: a release may need fewer keys than an attempt.
 *
 * No link, no clock. A keyed hash stands for a key and the kind it is used by, in tables of fixed size: where one takes
 * the place of another, that one goes alone once more.
 */
#ifndef RLOCKD_BACKEND_DENIED_H
#define RLOCKD_BACKEND_DENIED_H

#include <stdbool.h>
#include <stdint.h>

enum { DENIED_PASSED = 16 * 1024, DENIED_REFUSED = 1024, DENIED_US = 10 * 1000 * 1000 };

struct denied {
    int64_t until_us; /* suspicion lasts until then; 0 = there is none */
    struct {
        uint32_t passed[DENIED_PASSED], refused[DENIED_REFUSED];
        uint32_t broken[DENIED_REFUSED]; /* of calls that the ACL has ended in the middle of the script */
    } *tables; /* owned; NULL: no suspicion yet, or no memory: then every key goes alone */
};

/* Redis has refused a call for one of its keys. */
void denied_begin(struct denied *d, int64_t now_us);

/* It was this one: the only one of its call, or one that goes alone from now on because another may be. */
void denied_key(struct denied *d, uint64_t hash);

/* It was in a call whose script the ACL has ended: alone until the suspicion ends. */
void denied_inside(struct denied *d, uint64_t hash);

/* Redis has let it pass. */
void denied_pass(struct denied *d, uint64_t hash);

static inline bool
denied_suspects(const struct denied *d)
{
    return d->until_us != 0;
}

/*
 * Whether an operation on it has to go alone. `held`: of a key that Redis has let pass before, so it goes in company
 * unless it was refused since; a million of them must not go one by one because somebody asks for what is forbidden.
 */
bool denied_alone(struct denied *d, uint64_t hash, bool held, int64_t now_us);

void denied_fini(struct denied *d);

#endif
