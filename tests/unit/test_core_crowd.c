/*
 * test_core_crowd.c -- large numbers. Renewals by the ten thousand: as many at a time as Redis can answer, the others
 * in their turn. Two names with one hash.
 */
#include <stdio.h>
#include <string.h>

#include "tests/unit/core_world.h"

#include "daemon/core/ends.h"
#include "daemon/core/lock.h"
#include "daemon/core/lock_index.h"
#include "daemon/core/state.h"

enum { CROWD_N = WINDOW_MAX + 1000 };

/* One session takes so many names, each `apart_us` after the last. The core is checked where a test asks for it. */
static uint64_t
crowd_under(struct world *w, int64_t op_timeout_us, int n, int64_t apart_us)
{
    struct core_conf conf = world_conf;
    char name[WORLD_TEXT];
    uint64_t s;

    conf.locks_max = CROWD_N;
    conf.op_timeout_us = op_timeout_us;
    world_open_conf(w, &conf);
    w->unchecked = true;
    s = session(w);
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "n%05d", i);
        redis_grants(w, name, lock(w, s, name));
        pass(w, apart_us);
    }
    core_check(w->core, w->now_us);
    return s;
}

static uint64_t
crowd_of(struct world *w, int n, int64_t apart_us)
{
    return crowd_under(w, SEC(1), n, apart_us);
}

/* The number of operations of this sort that the test has not asked for yet, and the index of the first operation. */
static size_t
count_of(struct world *w, enum core_action_type verb, size_t *from)
{
    size_t n = 0;

    *from = w->flights_seen;
    for (size_t i = w->flights_seen; i < w->flights_n; i++) {
        n += w->flights[i].verb == verb && !w->flights[i].seen;
    }
    skip_all(w);
    return n;
}

/* The names of the operations `from` to `to` - 1. */
static void
note_names(const struct world *w, size_t from, size_t to, bool asked[CROWD_N])
{
    memset(asked, 0, CROWD_N * sizeof(asked[0]));
    for (size_t i = from; i < to; i++) {
        asked[atoi(w->flights[i].key + 1)] = true;
    }
}

/* A name that waits for its turn: no operation from `from` on is on its key. Which name that is, is no promise. */
static const char *
waiting_one(const struct world *w, size_t from)
{
    static char name[WORLD_TEXT];
    bool asked[CROWD_N];
    int i = 0;

    note_names(w, from, w->flights_n, asked);
    while (asked[i]) {
        i++;
        ck_assert_int_lt(i, CROWD_N);
    }
    snprintf(name, sizeof(name), "n%05d", i);
    return name;
}

/* Redis confirms one operation after the other, until the renewal of this name leaves. */
static struct flight
renewed_until(struct world *w, size_t from, const char *name)
{
    for (size_t i = from; i < w->flights_n; i++) {
        if (strcmp(w->flights[i].key, name) == 0) {
            ck_assert_int_eq(w->flights[i].verb, CORE_EXTEND);
            return w->flights[i];
        }
        skip_all(w);
        redis_says(w, w->flights[i], CORE_OK);
    }
    ck_abort_msg("%s has no turn", name);
    return w->flights[from];
}

/* The same for renewals. */
static size_t
count_asked(struct world *w, size_t *from)
{
    return count_of(w, CORE_EXTEND, from);
}

static void
answer_from(struct world *w, size_t from, size_t n, enum core_outcome outcome)
{
    for (size_t i = from; i < from + n; i++) {
        skip_all(w);
        redis_says(w, w->flights[i], outcome, .guard_us = w->now_us);
    }
}

static void
crowd_goes(struct world *w)
{
    core_check(w->core, w->now_us);
    skip_all(w);
    world_close(w);
}

/* Renewals that are not due yet fill up a batch, and no more. */
START_TEST(early_by_the_batch)
{
    struct world w;
    size_t from;

    crowd_of(&w, 200, MS(1));
    pass(&w, SEC(1000) + REPORTED_30S / 3 - w.now_us);
    ck_assert_uint_eq(count_asked(&w, &from), RENEW_EARLY_MAX);
    pass(&w, MS(RENEW_EARLY_MAX) - 1);
    ck_assert_uint_eq(count_asked(&w, &from), 0);
    pass(&w, 1);
    ck_assert_uint_eq(count_asked(&w, &from), RENEW_EARLY_MAX);
    crowd_goes(&w);
}
END_TEST

/* All renewals are due; those that have to wait leave as others are answered, in order, and no lock is lost. */
START_TEST(in_turn)
{
    struct world w;
    size_t from, more;

    crowd_of(&w, CROWD_N, 0);
    pass(&w, REPORTED_30S / 3);
    ck_assert_uint_eq(count_asked(&w, &from), WINDOW_MAX);
    core_check(w.core, w.now_us);
    ck_assert_int_gt(core_next_us(w.core), w.now_us); /* no busy waiting */
    redis_says(&w, w.flights[from], CORE_OK);
    ck_assert_str_eq(expect_op(&w, CORE_EXTEND, "n08192").key, "n08192");
    quiet(&w);
    core_check(w.core, w.now_us);
    answer_from(&w, from + 1, WINDOW_MAX - 1, CORE_OK);
    core_check(w.core, w.now_us);
    answer_from(&w, from + WINDOW_MAX, CROWD_N - WINDOW_MAX, CORE_OK);
    ck_assert_uint_eq(w.metrics.renewals, CROWD_N);
    pass(&w, REPORTED_30S / 3 - 1);
    ck_assert_uint_eq(count_asked(&w, &more), 0);
    pass(&w, 1);
    ck_assert_uint_eq(count_asked(&w, &more), WINDOW_MAX);
    ck_assert_uint_eq(w.metrics.lost + w.metrics.jeopardies, 0);
    crowd_goes(&w);
}
END_TEST

/* Fewer renewals at a time where Redis has less time, but at least a batch; and no more than there are locks. */
START_TEST(as_many_as_are_answered_in_time)
{
    static const struct {
        int64_t op_timeout_us;
        size_t together;
    } rows[] = {{MS(1), RENEW_EARLY_MAX}, {MS(20), 200}, {SEC(60), 1000}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w;
        size_t from;

        crowd_under(&w, rows[i].op_timeout_us, 1000, 0);
        pass(&w, REPORTED_30S / 3);
        ck_assert_uint_eq(count_asked(&w, &from), rows[i].together);
        crowd_goes(&w);
    }
}
END_TEST

/* A renewal that failed comes behind those that have not had a turn yet. */
START_TEST(failed_behind_the_others)
{
    struct world w;
    size_t from;

    crowd_of(&w, CROWD_N, 0);
    pass(&w, REPORTED_30S / 3);
    ck_assert_uint_eq(count_asked(&w, &from), WINDOW_MAX);
    pass(&w, SEC(1));
    answer_from(&w, from, CROWD_N - WINDOW_MAX, CORE_UNKNOWN);
    skip_all(&w);
    for (size_t i = from + WINDOW_MAX; i < from + CROWD_N; i++) {
        ck_assert_int_eq(atoi(w.flights[i].key + 1), (int)(i - from));
    }
    crowd_goes(&w);
}
END_TEST

/* Redis does not answer: a holder whose renewal waits is warned, and loses its lock at its deadline like others. */
START_TEST(waiting_does_not_outlast_the_lease)
{
    struct world w;
    size_t from;

    crowd_of(&w, CROWD_N, 0);
    pass(&w, REPORTED_30S / 3);
    ck_assert_uint_eq(count_asked(&w, &from), WINDOW_MAX);
    pass(&w, REPORTED_30S / 3);
    ck_assert_uint_eq(w.metrics.jeopardies, CROWD_N);
    core_check(w.core, w.now_us);
    pass(&w, REPORTED_30S - REPORTED_30S / 3 * 2 - 1);
    ck_assert_uint_eq(w.metrics.lost, 0);
    ck_assert_uint_eq(count_asked(&w, &from), 0);
    pass(&w, 1);
    ck_assert_uint_eq(w.metrics.lost, CROWD_N);
    crowd_goes(&w);
}
END_TEST

/* A lock that is given back while its renewal waits is not renewed; one whose renewal is in flight makes room. */
START_TEST(given_back_meanwhile)
{
    struct world w;
    size_t from;
    uint64_t s, id;

    s = crowd_of(&w, CROWD_N, 0);
    pass(&w, REPORTED_30S / 3);
    ck_assert_uint_eq(count_asked(&w, &from), WINDOW_MAX);
    id = unlock(&w, s, "n08192");
    redis_does(&w, CORE_RELEASE, "n08192", id, CORE_LEFT);
    core_check(w.core, w.now_us);
    id = unlock(&w, s, "n00000");
    redis_says(&w, expect_op(&w, CORE_RELEASE, "n00000"), CORE_OK);
    expect_reply(&w, id, CORE_LEFT);
    expect_op(&w, CORE_EXTEND, "n08193");
    quiet(&w);
    crowd_goes(&w);
}
END_TEST

/* A clock has jumped: a hold that waits for its turn is reported as held only when it is confirmed. */
START_TEST(verifies_in_turn)
{
    struct world w;
    const char *name;
    size_t from;
    uint64_t s, id;

    s = crowd_of(&w, CROWD_N, 0);
    suspects(&w);
    ck_assert_uint_eq(count_asked(&w, &from), WINDOW_MAX);
    name = waiting_one(&w, from);
    id = lock(&w, s, name);
    suspects(&w);
    quiet(&w);
    core_check(w.core, w.now_us);
    redis_says(&w, w.flights[from], CORE_OK);
    expect_op(&w, CORE_EXTEND, w.flights[from].key); /* the answer may be from before the second jump */
    redis_says(&w, renewed_until(&w, from + 1, name), CORE_OK);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, name), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    crowd_goes(&w);
}
END_TEST

/* A RENEW replaces the renewal that waits for its turn: the turn goes to the next claim. */
START_TEST(renewed_by_hand_meanwhile)
{
    struct world w;
    size_t from;
    uint64_t s, id;

    s = crowd_of(&w, CROWD_N, 0);
    pass(&w, REPORTED_30S / 3);
    ck_assert_uint_eq(count_asked(&w, &from), WINDOW_MAX);
    id = renew(&w, s, "n08192", SEC(60));
    redis_renews(&w, "n08192", id);
    redis_says(&w, w.flights[from], CORE_OK);
    expect_op(&w, CORE_EXTEND, "n08193");
    quiet(&w);
    crowd_goes(&w);
}
END_TEST

/* Redis has lost its data: no more reclaims are in flight than Redis can answer, in order, and no lock is lost. */
START_TEST(reclaims_in_turn)
{
    struct world w;
    size_t from, renewals;
    uint64_t s, id;

    s = crowd_of(&w, CROWD_N, 0);
    pass(&w, REPORTED_30S / 3); /* the last ones wait for their renewal */
    ck_assert_uint_eq(count_asked(&w, &renewals), WINDOW_MAX);
    reclaims(&w, 9);
    ck_assert_uint_eq(count_of(&w, CORE_ACQUIRE, &from), CROWD_N - WINDOW_MAX); /* others renew first */
    answer_from(&w, renewals, WINDOW_MAX, CORE_OK);
    ck_assert_uint_eq(w.flights_n - from, WINDOW_MAX);
    core_check(w.core, w.now_us);
    ck_assert_int_gt(core_next_us(w.core), w.now_us);
    answer_from(&w, from, CROWD_N, CORE_OK);
    ck_assert_uint_eq(w.reclaimed_n, 1);
    ck_assert_uint_eq(w.metrics.reclaims, CROWD_N);
    ck_assert_uint_eq(w.metrics.lost, 0);
    id = unlock(&w, s, "n08000");
    redis_does(&w, CORE_RELEASE, "n08000", id, CORE_LEFT);
    crowd_goes(&w);
}
END_TEST

/* A full window of reclaims, and behind it a lock whose lease ends soon: its reclaim is the first to leave. */
START_TEST(short_leases_first)
{
    struct world w;
    struct flight f;
    uint64_t s;

    s = crowd_of(&w, CROWD_N - 1, 0);
    redis_grants(&w, "short", lock(&w, s, "short", .spec_lease_us = MS(1500)));
    reclaims(&w, 9);
    f = expect_op(&w, CORE_ACQUIRE, "short");
    skip_all(&w);
    ck_assert_uint_eq(w.core->window[WINDOW_RECLAIM].n, WINDOW_MAX);
    redis_says(&w, f, CORE_UNKNOWN, .guard_us = w.now_us); /* the first again, as soon as it may be repeated */
    skip_all(&w);
    pass(&w, MS(20));
    ck_assert_uint_eq(w.flights_seen, w.flights_n);
    redis_says(&w, w.flights[f.index + 1], CORE_OK);
    expect_op(&w, CORE_ACQUIRE, "short");
    crowd_goes(&w);
}
END_TEST

/* The same for renewals: a clock jump has made all of them due. */
START_TEST(short_leases_are_renewed_first)
{
    struct world w;
    size_t from;
    uint64_t s;

    s = crowd_of(&w, CROWD_N - 2, 0);
    pass(&w, REPORTED_30S / 3);
    ck_assert_uint_eq(count_asked(&w, &from), WINDOW_MAX);
    redis_grants(&w, "long", lock(&w, s, "long", .spec_lease_us = SEC(3000)));
    redis_grants(&w, "short", lock(&w, s, "short", .spec_lease_us = MS(1500)));
    suspects(&w);
    redis_says(&w, w.flights[from], CORE_OK);
    redis_says(&w, expect_op(&w, CORE_EXTEND, w.flights[from].key), CORE_OK); /* it may be from before the jump */
    expect_op(&w, CORE_EXTEND, "short");
    for (size_t i = from + 1; i < w.flights_n; i++) {
        skip_all(&w);
        redis_says(&w, w.flights[i], CORE_OK);
    }
    core_check(w.core, w.now_us);
    ck_assert_str_eq(w.flights[w.flights_n - 1].key, "long");
    crowd_goes(&w);
}
END_TEST

/* A lease that is shortened while its renewal waits gets an earlier turn. */
START_TEST(a_shortened_lease_comes_sooner)
{
    struct world w;
    size_t from;
    uint64_t s, id;

    s = crowd_of(&w, CROWD_N, 0);
    pass(&w, REPORTED_30S / 3);
    ck_assert_uint_eq(count_asked(&w, &from), WINDOW_MAX);
    id = renew(&w, s, "n08300", SEC(1));
    redis_renews(&w, "n08300", id);
    ck_assert_int_eq(heap_at(&w.core->window[WINDOW_RENEW].waiting, heap_min(&w.core->window[WINDOW_RENEW].waiting)),
                     w.now_us + reported(SEC(1)));
    crowd_goes(&w);
}
END_TEST

/* Redis answers no reclaim in time, again and again: the window stays full, and each reclaim gets its turn. */
START_TEST(reclaims_that_fail)
{
    struct world w;
    size_t from;

    crowd_of(&w, CROWD_N, 0);
    reclaims(&w, 9);
    ck_assert_uint_eq(count_of(&w, CORE_ACQUIRE, &from), WINDOW_MAX);
    answer_from(&w, from, CROWD_N - WINDOW_MAX, CORE_UNKNOWN);
    ck_assert_uint_eq(w.flights_n - from, CROWD_N); /* each answer lets a waiting one leave */
    core_check(w.core, w.now_us);
    answer_from(&w, from + CROWD_N - WINDOW_MAX, WINDOW_MAX, CORE_OK);
    skip_all(&w);
    pass(&w, MS(20));
    answer_from(&w, from + CROWD_N, CROWD_N - WINDOW_MAX, CORE_OK);
    ck_assert_uint_eq(w.reclaimed_n, 1);
    crowd_goes(&w);
}
END_TEST

/*
 * A session with very many locks ends: their releases leave a few at a time. They do not delay an UNLOCK, nor a release
 * that a LOCK waits for, nor a renewal.
 */
START_TEST(releases_in_turn)
{
    struct world w;
    struct flight op;
    const char *name;
    size_t from;
    uint64_t s, other, id, waiting;
    size_t owed = WINDOW_MAX / WINDOW_BACKGROUND_PART;

    s = crowd_of(&w, CROWD_N, 0);
    other = session(&w);
    take(&w, other, "mine");
    pass(&w, SEC(1));
    waiting = lock(&w, other, "n09000");
    gone(&w, s);
    ck_assert_uint_eq(count_of(&w, CORE_RELEASE, &from), owed + 1); /* a LOCK waits for one more */
    core_check(w.core, w.now_us);
    ck_assert_int_gt(core_next_us(w.core), w.now_us + MS(1));
    for (op = w.flights[from]; strcmp(op.key, "n09000") != 0;) {
        op = w.flights[op.index + 1];
    }
    redis_says(&w, op, CORE_OK);
    redis_grants(&w, "n09000", waiting);
    name = waiting_one(&w, from);
    waiting = lock(&w, other, name); /* a LOCK for a name whose release has not left yet */
    redis_says(&w, expect_op(&w, CORE_RELEASE, name), CORE_OK);
    redis_grants(&w, name, waiting);
    id = unlock(&w, other, "mine");
    redis_does(&w, CORE_RELEASE, "mine", id, CORE_LEFT);
    pass(&w, REPORTED_30S / 3);
    ck_assert_uint_eq(count_asked(&w, &from), 2); /* of the two locks of `other` */
    core_check(w.core, w.now_us);
    for (size_t i = 0; i < w.flights_n; i++) { /* each answer lets the next one leave */
        skip_all(&w);
        if (w.flights[i].verb == CORE_RELEASE && !w.flights[i].answered) {
            redis_says(&w, w.flights[i], CORE_OK);
        }
    }
    ck_assert_uint_eq(w.metrics.releases, CROWD_N + 1);
    crowd_goes(&w);
}
END_TEST

/* Claims that stay with the lock, lost or idle, hide no release from the request that waits for it. */
START_TEST(a_release_among_other_claims_leaves_for_a_request)
{
    enum { OTHERS = ATTEMPTS_MAX + 6 };

    for (int behind = 0; behind < 2; behind++) {
        struct core_conf conf = world_conf;
        struct world w;
        char owner[8];
        uint64_t s, other, first, second;

        conf.window = 1;
        world_open_conf(&w, &conf);
        s = session(&w);
        other = session(&w);
        first = session(&w);
        second = session(&w);
        for (int i = 0; i < OTHERS && behind == 0; i++) { /* each loses the lock, and is not informed */
            snprintf(owner, sizeof(owner), "o%d", i);
            redis_grants(&w, "a", lock(&w, s, "a", .owner = owner, .lease_us = SEC(1)));
            pass(&w, SEC(1));
            redis_says(&w, expect_op(&w, CORE_RELEASE, "a"), CORE_OK);
        }
        take(&w, s, "held");
        take(&w, first, "first");
        take(&w, second, "a");
        gone(&w, first); /* its release is in flight, and the next one waits for its turn */
        expect_op(&w, CORE_RELEASE, "first");
        gone(&w, second);
        for (int i = 0; i < OTHERS && behind == 1; i++) { /* requests that wait for an earlier one of their owner */
            snprintf(owner, sizeof(owner), "o%d", i);
            lock(&w, s, "held", .owner = owner);
            skip_all(&w);
            lock(&w, s, "a", .owner = owner);
        }
        quiet(&w);
        lock(&w, other, "a");
        expect_op(&w, CORE_RELEASE, "a");
        skip_all(&w);
        world_close(&w);
    }
}
END_TEST

/* The outcome of the releases is unknown: those that had no turn yet leave before any is repeated. */
START_TEST(releases_that_fail)
{
    struct world w;
    bool failed[CROWD_N];
    size_t from;
    uint64_t s;
    size_t owed = WINDOW_MAX / WINDOW_BACKGROUND_PART;

    s = crowd_of(&w, CROWD_N, 0);
    gone(&w, s);
    ck_assert_uint_eq(count_of(&w, CORE_RELEASE, &from), owed);
    pass(&w, SEC(1));
    answer_from(&w, from, owed, CORE_UNKNOWN);
    ck_assert_uint_eq(w.flights_n - from, 2 * owed);
    note_names(&w, from, from + owed, failed);
    for (size_t i = from + owed; i < w.flights_n; i++) { /* first those that had no turn yet */
        ck_assert(!failed[atoi(w.flights[i].key + 1)]);
    }
    core_check(w.core, w.now_us);
    crowd_goes(&w);
}
END_TEST

/* UNLOCKs have a window, too, and each of them is answered. */
START_TEST(unlocks_in_turn)
{
    struct world w;
    size_t from;
    uint64_t s;
    char name[WORLD_TEXT];

    world_open(&w);
    w.unchecked = true;
    s = session(&w);
    for (int i = 0; i < CROWD_N; i++) {
        snprintf(name, sizeof(name), "n%05d", i);
        redis_grants(&w, name, lock(&w, s, name, .owner = name));
    }
    from = w.flights_n;
    for (int i = 0; i < CROWD_N; i++) {
        snprintf(name, sizeof(name), "n%05d", i);
        skip_all(&w);
        (void)unlock(&w, s, name, .owner = name);
    }
    ck_assert_uint_eq(w.flights_n - from, WINDOW_MAX);
    ck_assert_int_eq(w.flights[from].verb, CORE_RELEASE);
    ck_assert_str_eq(w.flights[from].key, "n00000");
    core_check(w.core, w.now_us);
    for (size_t i = from; i < from + CROWD_N; i++) {
        answer_from(&w, i, 1, CORE_OK);
        ck_assert_int_eq(w.answers[w.answers_seen].reply.answer, CORE_LEFT);
        w.answers_seen++;
    }
    ck_assert_uint_eq(w.metrics.releases, CROWD_N);
    crowd_goes(&w);
}
END_TEST

/* Two of 2^32 names may have one hash: each is found all the same. */
START_TEST(names_that_hash_alike)
{
    struct lock *a, *b;
    struct world w;
    uint64_t s, of_b;

    s = world_holding(&w);
    take(&w, s, "b");
    a = lock_find(w.core, slice_of("a"));
    b = lock_find(w.core, slice_of("b"));
    of_b = b->by_name.number;
    map_remove(&w.core->by_name, &b->by_name);
    map_add(&w.core->by_name, &b->by_name, a->by_name.number);
    ck_assert_ptr_eq(lock_find(w.core, slice_of("a")), a);
    map_remove(&w.core->by_name, &a->by_name);
    ck_assert_ptr_null(lock_find(w.core, slice_of("a")));
    map_add(&w.core->by_name, &a->by_name, a->by_name.number);
    map_remove(&w.core->by_name, &b->by_name);
    map_add(&w.core->by_name, &b->by_name, of_b);
    world_close(&w);
}
END_TEST

/* A writer brings news for only some of very many readers. */
START_TEST(wanted_from_many)
{
    enum { READERS = 200, REPORTED = 64 };
    struct world w;
    uint64_t writer;

    world_open(&w);
    for (int i = 0; i < READERS; i++) {
        lock(&w, session(&w), "doc", .kind = KIND_RW, .shared = true);
        redis_grants(&w, "doc", w.request);
    }
    writer = session(&w);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_WANTED), 0);
    expect_reply(&w, lock(&w, writer, "doc", .kind = KIND_RW, .nowait = true), CORE_NOT_GRANTED);
    ck_assert_uint_eq(count_news(&w, CORE_NEWS_WANTED), REPORTED);
    world_close(&w);
}
END_TEST

/* The key is no lock: each step refuses some of the waiters, and those that are left ask again. */
START_TEST(refused_by_and_by)
{
    enum { WAITERS = 2 * REFUSED_MAX + 10 };
    struct world w;
    size_t received = 0, asked = 0;
    struct flight f;

    world_open(&w);
    w.unchecked = true;
    lock(&w, session(&w), "a");
    f = expect_op(&w, CORE_ACQUIRE, "a");
    for (int i = 1; i < WAITERS; i++) {
        char owner[WORLD_TEXT];

        snprintf(owner, sizeof(owner), "o%d", i);
        lock(&w, w.session[0], "a", .owner = owner);
    }
    for (; received < WAITERS; asked++) {
        redis_says(&w, f, CORE_FOREIGN, .pttl_us = -1);
        core_check(w.core, w.now_us);
        ck_assert_uint_le(w.answers_n - received, REFUSED_MAX);
        ck_assert_uint_gt(w.answers_n, received);
        for (; received < w.answers_n; received++) {
            ck_assert_int_eq(w.answers[received].reply.answer, CORE_WRONG_KIND);
            w.answers[received].seen = true;
        }
        if (received < WAITERS) {
            f = expect_op(&w, CORE_ACQUIRE, "a");
        }
    }
    ck_assert_uint_eq(asked, 3);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        refused_by_and_by,
        wanted_from_many,
        early_by_the_batch,
        in_turn,
        as_many_as_are_answered_in_time,
        failed_behind_the_others,
        waiting_does_not_outlast_the_lease,
        given_back_meanwhile,
        verifies_in_turn,
        renewed_by_hand_meanwhile,
        reclaims_in_turn,
        short_leases_first,
        short_leases_are_renewed_first,
        a_shortened_lease_comes_sooner,
        reclaims_that_fail,
        releases_in_turn,
        a_release_among_other_claims_leaves_for_a_request,
        releases_that_fail,
        unlocks_in_turn,
        names_that_hash_alike,
    };

    return suite_main("core, crowd", tests, sizeof(tests) / sizeof(tests[0]));
}
