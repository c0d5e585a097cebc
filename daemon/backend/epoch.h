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

#include "daemon/backend/reply.h"
#include "daemon/base/buf.h"
#include "daemon/base/slice.h"

enum { EPOCH_FORMERS = 4 };
#define EPOCH_FAR (UINT64_C(1) << 52) /* numbers above it are no epoch: scripts/presence.lua takes none */
enum { EPOCH_WORDS_MAX = 288, EPOCH_PEERS_MAX = 256 };
/*
 * A daemon is heard that often; and so long behind a registration it may take and renew locks. The others reckon with
 * one beat more (presence.lua): that is for clocks of other rates, and for how late a command may run (its guard).
 */
enum { EPOCH_BEAT_MS = 2000, EPOCH_FRESH_MS = 2 * EPOCH_BEAT_MS };

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
    char open[48];          /* what rlock:epoch is while Redis grants; "" = not known */
    char now[72];           /* ... and as it was last */
    bool rolled_back;          /* no Redis in that epoch can be reached: one in an older epoch begins a new one */
    bool members_unknown; /* there may be others: of the former process, of a grace cut off, or come unheard */
    size_t peers_n;         /* other daemons that may hold locks, as Redis lists them: "<uuid> <grace in ms>" */
    char peer[EPOCH_PEERS_MAX][56];
};

enum epoch_news {
    EPOCH_SAME,
    EPOCH_NEW,    /* another one than before, or the first: what is held has to be reclaimed */
    EPOCH_OVER,   /* its grace period is over */
    EPOCH_OLD,    /* this Redis is in an older one than we have seen: it is not the one, or data was lost */
    EPOCH_DUPLICATE_UUID,   /* another process has this daemon's uuid */
    EPOCH_BROKEN, /* no answer of the script */
};

/* The words of the command, EPOCH_WORDS_MAX at most; `text` holds what had to be made up, and must outlive them. */
int epoch_words(const struct epoch *e, uint64_t token_floor, struct buf *text, struct slice *words);

/* Takes in the answer. OLD, DUPLICATE_UUID and BROKEN change nothing. */
enum epoch_news epoch_answer(struct epoch *e, const struct reply *r);

#endif
