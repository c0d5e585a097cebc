/*
 * sentinel_answers.c -- counts at most SENTINELS_MAX answers.
 */
#include "daemon/backend/sentinel_answers.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

/* True: the answer is a recent one of a sentinel whose id is known. */
static bool
counts(const struct sentinel_answer *v, int64_t now_us)
{
    return v->id[0] != '\0' && v->host[0] != '\0' && v->asked_us != 0 && now_us < v->asked_us + SENTINEL_FRESH_US;
}

/* Another answer has the same id (two addresses of one sentinel) and is later. */
static bool
is_outdated(const struct sentinel_answer *const *answer, size_t n, size_t i, int64_t now_us)
{
    for (size_t k = 0; k < n; k++) {
        if (k != i && counts(answer[k], now_us) && strcmp(answer[k]->id, answer[i]->id) == 0 &&
            (answer[k]->asked_us > answer[i]->asked_us || (answer[k]->asked_us == answer[i]->asked_us && k < i))) {
            return true;
        }
    }
    return false;
}

static bool
agree(const struct sentinel_answer *a, const struct sentinel_answer *b)
{
    return a->port == b->port && strcasecmp(a->host, b->host) == 0;
}

/* The time of the need-th latest answer with the server that `choice` names; 0: fewer answers name it. */
static int64_t
majority_us(const struct sentinel_answer *const *counted, size_t n, const struct sentinel_answer *choice, size_t need)
{
    int64_t asked_us[SENTINELS_MAX];
    size_t named = 0;

    for (size_t i = 0; i < n; i++) {
        if (agree(counted[i], choice)) {
            size_t at = named++;

            for (; at > 0 && asked_us[at - 1] < counted[i]->asked_us; at--) {
                asked_us[at] = asked_us[at - 1];
            }
            asked_us[at] = counted[i]->asked_us;
        }
    }
    return named >= need ? asked_us[need - 1] : 0;
}

void
sentinel_answers_count(const struct sentinel_answer *const *answer, size_t n, unsigned least, int64_t now_us,
                       struct sentinel_verdict *out)
{
    const struct sentinel_answer *counted[SENTINELS_MAX];
    size_t counted_n = 0;

    assert(n <= SENTINELS_MAX);
    *out = (struct sentinel_verdict){.known_n = least};
    for (size_t i = 0; i < n; i++) {
        if (counts(answer[i], now_us) && !is_outdated(answer, n, i, now_us)) {
            counted[counted_n++] = answer[i];
            out->known_n = answer[i]->others + 1 > out->known_n ? answer[i]->others + 1 : out->known_n;
        }
    }
    out->answering_n = (unsigned)counted_n;
    out->known_n = out->known_n < counted_n ? (unsigned)counted_n : out->known_n;
    for (size_t i = 0; i < counted_n && out->master == NULL; i++) {
        int64_t asked_us = majority_us(counted, counted_n, counted[i], out->known_n / 2 + 1);

        if (asked_us != 0) {
            out->master = counted[i];
            out->until_us = asked_us + SENTINEL_FRESH_US;
        }
    }
}
