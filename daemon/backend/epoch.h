/*
 * epoch.h -- whether Redis still has its data: the words of scripts/presence.lua, and what its answer means.
 *
 * No link, no clock. An epoch is a life of Redis's data; a new one begins when acknowledged writes may have been lost,
 * with a grace period in which only former holders are granted their locks.
 */
#ifndef RLOCKD_BACKEND_EPOCH_H
#define RLOCKD_BACKEND_EPOCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/backend/members.h"
#include "daemon/backend/reply.h"
#include "daemon/base/buf.h"
#include "daemon/base/slice.h"

enum { EPOCH_FORMERS = 4 };
#define EPOCH_FAR (UINT64_C(1) << 52) /* numbers above it are no epoch: scripts/presence.lua takes none */
/* Members in an answer, and in a part of a list that is brought. */
enum { EPOCH_PAGE = 256, EPOCH_PART = 256, EPOCH_WORDS_MAX = 40 + EPOCH_PART };
/*
 * A daemon is heard that often; and so long behind a registration it may take and renew locks. The others reckon with
 * one beat more (presence.lua): that is for clocks of other rates, and for how late a command may run (its guard).
 */
enum { EPOCH_BEAT_MS = 2000, EPOCH_FRESH_MS = 2 * EPOCH_BEAT_MS };

/* What becomes of the list of other members, which Redis may have lost. */
enum epoch_bring { EPOCH_BRING_NOTHING, EPOCH_BRING_LATER, EPOCH_BRING_NOW };

struct epoch {
    char uuid[37];          /* the daemon's */
    uint64_t nonce;         /* this process's */
    uint64_t former[EPOCH_FORMERS]; /* of those before it, which it follows; 0 = none */
    int64_t grace_us;       /* the longest lease that this daemon renews */
    bool strict;            /* trust no Redis without an epoch before it has been up for a grace */
    char channel[32];       /* that every daemon listens to, once it knows an epoch */
    bool leaving;           /* this daemon holds nothing any more: no grace period waits for it */

    uint64_t number;        /* of the epoch, rising; 0 = none yet */
    uint64_t reclaimed;     /* the last one in which all that is held here has been reclaimed */
    int64_t until_ms;       /* its grace period lasts until then at most, by Redis's clock; 0 = none */
    int64_t left_ms;        /* ... for so long, when that was last heard */
    char granting_word[48]; /* what rlock:epoch is while Redis grants; "" = not known */
    char last_word[72];    /* ... and as it was last */
    bool rolled_back;       /* no Redis in that epoch can be reached: one in an older epoch begins a new one */
    bool members_unknown;   /* not all are known: of the former process, of a grace cut off, unheard, not yet told */

    uint64_t since;         /* the version since which changes of members are asked for; 0 = all from the beginning */
    uint64_t cursor;        /* ... up to which they have been told */
    bool anew;              /* they are told from the beginning */
    bool complete;          /* the last answer ended with the last change there was */
    uint64_t list_epoch;    /* the epoch whose list may have to be brought to this one; 0 = none */
    uint64_t list_whole;    /* the version up to which it has all members; 0 = it may not have all */
    enum epoch_bring bring;
};

/* How it is said. */
struct epoch_ask {
    const char *sha;        /* of the script, for EVALSHA; NULL = its text */
    uint64_t token_floor;   /* Redis gives no token below it */
    bool changes;           /* those of members are asked for: one answer at a time may bring them */
    struct slice part;      /* of the list: uuids, one behind the other; none: p is NULL */
    bool last;              /* it is the last part */
};

enum epoch_news {
    EPOCH_SAME,
    EPOCH_NEW,    /* another one than before, or the first: what is held has to be reclaimed */
    EPOCH_OVER,   /* its grace period is over */
    EPOCH_OLD,    /* this Redis is in an older one than we have seen: it is not the one, or data was lost */
    EPOCH_DUPLICATE_UUID, /* another process has this daemon's uuid */
    EPOCH_BROKEN, /* no answer of the script */
};

/* The words of the command, EPOCH_WORDS_MAX at most; `text` holds what had to be made up, and must outlive them. */
int epoch_words(const struct epoch *e, const struct members *members, const struct epoch_ask *ask, struct buf *text,
                struct slice *words);

/* Takes in the answer. OLD, DUPLICATE_UUID and BROKEN change nothing. */
enum epoch_news epoch_answer(struct epoch *e, struct members *members, const struct reply *r);

/* A message behind its "+": a newcomer, which may be granted locks from now on. Other texts change nothing. */
void epoch_newcomer(const struct epoch *e, struct members *members, struct slice text);

/* All changes of members that there were have been told. False in a grace period: then none are asked for. */
static inline bool
epoch_is_current(const struct epoch *e)
{
    return e->since != 0 && e->cursor == e->since && !e->anew;
}

#endif
