/*
 * sentinel_answers.h -- counts the answers of all sentinels: no link, no clock.
 *
 * One sentinel's answer is a hint. A failover, too, needs a majority of the sentinels, so a minority that is cut off
 * with an old master is no majority here either. That narrows the risk, and is no proof: a sentinel names the old
 * master until it learns of the new one. Proofs are the role that the server reports (replication.h), and the epoch of
 * its data.
 */
#ifndef RLOCKD_BACKEND_SENTINEL_ANSWERS_H
#define RLOCKD_BACKEND_SENTINEL_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/backend/sentinel_url.h"
#include "daemon/base/clock.h"

enum { SENTINEL_ID_ROOM = 48 };
#define SENTINEL_FRESH_US (3 * US_PER_S) /* the time for which an answer counts, from when its question left */

/* The latest answer of one sentinel. */
struct sentinel_answer {
    char id[SENTINEL_ID_ROOM]; /* of the sentinel; "" = not known: it does not count. Two with one id count once */
    char host[HOST_ROOM];          /* the named master; "" = the sentinel knows no such master */
    int port;
    unsigned others; /* the number of other sentinels that it knows */
    int64_t asked_us; /* when the question left; 0 = it has not answered */
};

struct sentinel_verdict {
    const struct sentinel_answer *master; /* an answer with the server that a majority names; NULL = no majority */
    int64_t until_us;                   /* until when the majority's answers count; 0 = no majority */
    unsigned known_n;                   /* the known number of sentinels */
    unsigned answering_n;               /* of these, those that have named a master lately */
};

/*
 * `least`: the number of sentinels in the URL. known_n is never smaller, or one sentinel that has forgotten the
 * others would be a majority.
 */
void sentinel_answers_count(const struct sentinel_answer *const *answer, size_t n, unsigned least, int64_t now_us,
                            struct sentinel_verdict *out);

#endif
