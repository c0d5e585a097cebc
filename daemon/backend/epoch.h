/*
 * epoch.h -- whether Redis still has its data: the words of scripts/membership.lua, and the meaning of its answers.
 *
 * No link, no clock. An epoch is one life of Redis's data. A new one begins when acknowledged writes may have been
 * lost, with a grace period in which only former holders get their locks.
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

enum { EPOCH_FORMER_NONCES = 4 };
#define EPOCH_END (UINT64_C(1) << 52) /* epochs are below: END of scripts/membership.lua */
/* The most members, and the most that left, in an answer; the most members in a part of a list that is brought. */
enum { EPOCH_PAGE = 256, EPOCH_PART = 256, EPOCH_WORDS_MAX = 40 + EPOCH_PART };
/*
 * A daemon registers every beat, and may take and renew locks for EPOCH_FRESH_MS after a registration was sent. The
 * grace period counts one beat more (membership.lua): for clocks of other rates, and for commands that run up to their
 * guard.
 */
enum { EPOCH_BEAT_MS = 2000, EPOCH_FRESH_MS = 2 * EPOCH_BEAT_MS };

/* Whether Redis, which may have lost its members, wants this daemon's list of them. */
enum epoch_bring { EPOCH_BRING_NOTHING, EPOCH_BRING_LATER, EPOCH_BRING_NOW };

struct epoch {
    char uuid[37];          /* the daemon's */
    uint64_t nonce;         /* this process's */
    uint64_t former_nonce[EPOCH_FORMER_NONCES]; /* nonces of earlier processes, which this one replaces; 0 = none */
    int64_t longest_lease_us;       /* the longest lease that this daemon renews */
    bool strict;            /* a Redis without an epoch grants nothing before it has been up for the longest lease */
    char channel[32];       /* every daemon is subscribed to it, once it knows an epoch */
    bool leaving;           /* this daemon holds no lock any more: no grace period waits for it */

    uint64_t number;        /* of the epoch, rising; 0 = none yet */
    uint64_t reclaimed;     /* the last epoch in which this daemon has reclaimed all its locks */
    int64_t until_ms;       /* when the epoch's grace period ends at the latest, by Redis's clock; 0 = there is none */
    int64_t remaining_ms;   /* ... and the time until then in the last answer */
    char granting_value[48]; /* the value of rlock:epoch while Redis grants; "" = not known */
    char last_value[72];    /* ... and its value in the last answer */
    bool rolled_back;       /* no Redis in this epoch can be reached: a Redis in an older epoch begins a new one */
    bool members_unknown;   /* there may be members that `members` lacks: see SCRIPTS.md, `membership.lua` */

    /*
     * The list of members is complete up to this version, or will be when the last page of a list that begins anew has
     * come; 0 = there is no list: ask for all members.
     */
    uint64_t since;
    uint64_t cursor;        /* changes are received up to this version */
    bool anew;              /* all members are being received, from the first one */
    bool complete;          /* the last answer had all changes */
    uint64_t list_epoch;    /* the epoch of the list that Redis may want; 0 = it wants none */
    uint64_t list_upto;     /* the list has all members of that epoch up to this version; 0 = some may be missing */
    enum epoch_bring bring;
};

/* The parts of one registration. */
struct epoch_ask {
    const char *sha;        /* of the script, for EVALSHA; NULL: EVAL with the text */
    uint64_t token_floor;   /* Redis must give larger tokens only */
    bool changes;           /* asks for changes of members: one registration in flight at a time does */
    struct slice part;      /* the uuids of a part of the list, one behind the other; p NULL: none */
    bool last;              /* it is the last part of the list */
};

enum epoch_news {
    EPOCH_SAME,
    EPOCH_NEW,    /* a later epoch, or the first known one: held locks have to be reclaimed */
    EPOCH_OVER,   /* the grace period of the epoch is over */
    EPOCH_OLD,    /* an older epoch: another Redis than before has answered, or data was rolled back */
    EPOCH_DUPLICATE_UUID, /* another process has this daemon's uuid */
    EPOCH_MALFORMED, /* no answer of the script */
};

/* The words of the command, EPOCH_WORDS_MAX at most. `text` holds the derived ones, and must outlive the words. */
int epoch_words(const struct epoch *e, const struct members *members, const struct epoch_ask *ask, struct buf *text,
                struct slice *words);

/* Takes in the answer. OLD, DUPLICATE_UUID and MALFORMED change nothing. */
enum epoch_news epoch_answer(struct epoch *e, struct members *members, const struct reply *r);

/* Takes the announcement (the text behind "+") of a newcomer, which may take locks from now on. Ignores other texts. */
void epoch_newcomer(const struct epoch *e, struct members *members, struct slice text);

/* All changes of members are received. False in a grace period, in which Redis reports none. */
static inline bool
epoch_is_current(const struct epoch *e)
{
    return e->since != 0 && e->cursor == e->since && !e->anew;
}

#endif
