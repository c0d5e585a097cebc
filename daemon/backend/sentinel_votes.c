/*
 * sentinel_votes.c -- counts at most SENTINELS_MAX votes.
 */
#include "daemon/backend/sentinel_votes.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

/* True: the vote is a recent answer of a sentinel whose id is known. */
static bool
counts(const struct sentinel_vote *v, int64_t now_us)
{
    return v->id[0] != '\0' && v->host[0] != '\0' && v->asked_us != 0 && now_us < v->asked_us + SENTINEL_FRESH_US;
}

/* Another vote has the same id (two addresses of one sentinel) and is later. */
static bool
is_outdated(const struct sentinel_vote *const *vote, size_t n, size_t i, int64_t now_us)
{
    for (size_t k = 0; k < n; k++) {
        if (k != i && counts(vote[k], now_us) && strcmp(vote[k]->id, vote[i]->id) == 0 &&
            (vote[k]->asked_us > vote[i]->asked_us || (vote[k]->asked_us == vote[i]->asked_us && k < i))) {
            return true;
        }
    }
    return false;
}

static bool
agree(const struct sentinel_vote *a, const struct sentinel_vote *b)
{
    return a->port == b->port && strcasecmp(a->host, b->host) == 0;
}

/* The time of the need-th latest vote for the server that `choice` names; 0: fewer votes name it. */
static int64_t
majority_us(const struct sentinel_vote *const *voter, size_t n, const struct sentinel_vote *choice, size_t need)
{
    int64_t asked_us[SENTINELS_MAX];
    size_t named = 0;

    for (size_t i = 0; i < n; i++) {
        if (agree(voter[i], choice)) {
            size_t at = named++;

            for (; at > 0 && asked_us[at - 1] < voter[i]->asked_us; at--) {
                asked_us[at] = asked_us[at - 1];
            }
            asked_us[at] = voter[i]->asked_us;
        }
    }
    return named >= need ? asked_us[need - 1] : 0;
}

void
sentinel_votes_count(const struct sentinel_vote *const *vote, size_t n, unsigned least, int64_t now_us,
                     struct sentinel_verdict *out)
{
    const struct sentinel_vote *voter[SENTINELS_MAX];
    size_t voters = 0;

    assert(n <= SENTINELS_MAX);
    *out = (struct sentinel_verdict){.electorate = least};
    for (size_t i = 0; i < n; i++) {
        if (counts(vote[i], now_us) && !is_outdated(vote, n, i, now_us)) {
            voter[voters++] = vote[i];
            out->electorate = vote[i]->others + 1 > out->electorate ? vote[i]->others + 1 : out->electorate;
        }
    }
    out->answering = (unsigned)voters;
    out->electorate = out->electorate < voters ? (unsigned)voters : out->electorate;
    for (size_t i = 0; i < voters && out->master == NULL; i++) {
        int64_t asked_us = majority_us(voter, voters, voter[i], out->electorate / 2 + 1);

        if (asked_us != 0) {
            out->master = voter[i];
            out->until_us = asked_us + SENTINEL_FRESH_US;
        }
    }
}
