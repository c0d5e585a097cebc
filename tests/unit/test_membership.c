/*
 * test_membership.c -- when membership.c sends registrations, over links that do nothing; for the effect in Redis see
 * test_backend_membership.c.
 */
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/backend/membership.h"
#include "daemon/base/clock.h"
#include "suite.h"

enum { ASKED_MAX = 8, PAGE_WORD = 24, HEAD_WORDS = 33 };

struct redis_link {
    bool up, silent;
};

static struct {
    struct event_base *base;
    struct log log;
    struct metrics metrics;
    struct backend_conf conf;
    struct backend_env env;
    struct shard_events events;
    struct link_address address;
    struct redis_link link, *other; /* NULL: no other link may be used */
    struct membership p;
    struct {
        link_reply_fn *fn;
        void *arg;
    } asked[ASKED_MAX]; /* without an answer so far */
    unsigned asked_n;
    uint64_t epoch;
    uint64_t reclaims;
    unsigned failed; /* links that were closed */
    bool no_script;  /* Redis does not know the script */
    int part;        /* of the last list that was brought: 1 = more follows, 2 = the last; 0 = none */
    int uuids;       /* ... so many were in it */
    bool changes;    /* the last registration asked for changes of members */
    int64_t until_ms, bring, upto; /* of answers */
    unsigned text;   /* how often the text was sent */
} t;

/* ---- in place of link.c ---- */

bool
link_send(struct redis_link *l, int words, const struct slice *word, link_reply_fn *fn, void *arg)
{
    ck_assert_int_ge(words, HEAD_WORDS);
    t.part = word[HEAD_WORDS - 1].p[0] - '0';
    t.uuids = words - HEAD_WORDS;
    t.changes = !slice_is(word[PAGE_WORD], "0");
    ck_assert(slice_is(word[0], l->up ? "EVALSHA" : "EVAL") || t.no_script);
    t.text += slice_is(word[0], "EVAL");
    ck_assert(l == &t.link || l == t.other);
    ck_assert_uint_lt(t.asked_n, ASKED_MAX);
    t.asked[t.asked_n].fn = fn;
    t.asked[t.asked_n++].arg = arg;
    return true;
}

bool
link_up(const struct redis_link *l)
{
    return l->up;
}

bool
link_silent(const struct redis_link *l)
{
    return l->silent;
}

void
link_fail(struct redis_link *l, const char *reason)
{
    (void)reason;
    l->up = false;
    t.failed++;
}

/* ---- the world ---- */

static void
life(void *ctx, enum shard_life what, uint64_t n)
{
    (void)ctx;
    (void)n;
    t.reclaims += what == SHARD_NEW_EPOCH;
}

/* Answers the first registration as sent at this time: Redis has epoch t.epoch, which grants. */
static void
answer_sent(int64_t sent_us)
{
    char open[48];
    struct reply head[9] = {{.type = REPLY_INT, .n = 1}, {.type = REPLY_INT, .n = 1}, {.type = REPLY_INT},
                            {.type = REPLY_INT}, {.type = REPLY_TEXT}, {.type = REPLY_INT, .n = 1},
                            {.type = REPLY_INT, .n = 1}, {.type = REPLY_INT, .n = 1}, {.type = REPLY_INT}};
    struct reply *item[9];
    struct reply r = {.type = REPLY_ARRAY, .count = 9, .item = item};
    link_reply_fn *fn = t.asked[0].fn;
    void *arg = t.asked[0].arg;

    for (int i = 0; i < 9; i++) {
        item[i] = &head[i];
    }
    ck_assert_uint_gt(t.asked_n, 0);
    snprintf(open, sizeof(open), "%" PRIu64 " abcd", t.epoch);
    head[2].n = (int64_t)t.epoch;
    head[3].n = t.until_ms;
    head[6].n = head[7].n = t.upto;
    head[8].n = t.bring;
    head[4].text = slice_of(open);
    memmove(&t.asked[0], &t.asked[1], sizeof(t.asked[0]) * --t.asked_n);
    fn(arg, LINK_ANSWERED, &r, sent_us);
}

static void
answer(void)
{
    answer_sent(clock_now_us());
}

static void
setup(void)
{
    memset(&t, 0, sizeof(t));
    t.base = event_base_new();
    t.epoch = 7;
    t.upto = 1;
    t.events = (struct shard_events){.life = life};
    t.env = (struct backend_env){.base = t.base, .log = &t.log, .metrics = &t.metrics,
                                 .uuid = "0f9b8a76-1c2d-4e3f-8a9b-726c6f636b64", .nonce = 1};
    membership_init(&t.p, &t.conf, &t.env, &t.events, &t.address, "ch");
    membership_add(&t.p, &t.link);
    membership_greet(&t.p, &t.link);
    answer();
    t.link.up = true;
}

static void
teardown(void)
{
    membership_fini(&t.p);
    event_base_free(t.base);
}

/* ---- woken ---- */

START_TEST(a_woken_daemon_asks_at_once)
{
    membership_ask_again(&t.p);
    ck_assert_uint_eq(t.asked_n, 1);
    answer();
    ck_assert_uint_eq(t.asked_n, 0);
    membership_ask_again(&t.p);
    ck_assert_uint_eq(t.asked_n, 1);
}
END_TEST

/* The link for registrations is down, or does not answer: another one is used. */
START_TEST(a_registration_takes_any_link)
{
    struct redis_link last = {.up = false};

    membership_add(&t.p, &last);
    membership_beat(&t.p);
    ck_assert_uint_eq(t.asked_n, 1);
    answer();
    last = (struct redis_link){.up = true, .silent = true};
    membership_leave(&t.p);
    ck_assert_uint_eq(t.asked_n, 1);
    ck_assert(membership_busy(&t.p));
    answer();
    ck_assert(!membership_busy(&t.p));
}
END_TEST

/* The answer on its way may be from before the event that the second call reports. */
START_TEST(a_second_registration_follows_one_in_flight)
{
    membership_beat(&t.p);
    membership_ask_again(&t.p);
    membership_ask_again(&t.p);
    ck_assert_uint_eq(t.asked_n, 1);
    answer();
    ck_assert_uint_eq(t.asked_n, 1);
    answer();
    ck_assert_uint_eq(t.asked_n, 0);
}
END_TEST

/* The one in flight on another link asks for members, but may have left before they joined: a third one asks again. */
START_TEST(a_registration_on_another_link_asks_for_no_members)
{
    struct redis_link other = {.up = true};

    t.other = &other;
    membership_add(&t.p, &other);
    membership_ask(&t.p, &t.link);
    ck_assert(t.changes);
    membership_ask_again(&t.p);
    ck_assert_uint_eq(t.asked_n, 2);
    ck_assert(!t.changes);
    answer();
    ck_assert_uint_eq(t.asked_n, 1);
    answer();
    ck_assert_uint_eq(t.asked_n, 1);
    ck_assert(t.changes);
    answer();
    ck_assert_uint_eq(t.asked_n, 0);
}
END_TEST

/* Without an answer the link fails; the greeting of the next connection registers. */
START_TEST(a_link_that_has_gone_greets)
{
    membership_beat(&t.p);
    membership_ask_again(&t.p);
    t.link.up = false;
    t.asked[0].fn(t.asked[0].arg, LINK_UNKNOWN, NULL, 0);
    t.asked_n = 0;
    membership_greet(&t.p, &t.link);
    answer();
    t.link.up = true;
    ck_assert_uint_eq(t.asked_n, 0);
}
END_TEST

/* Redis loses each registration again: each new epoch wakes all daemons, this one too. It asks again, after a pause. */
START_TEST(not_at_once_in_a_storm)
{
    t.epoch++;
    membership_ask_again(&t.p);
    answer();
    t.epoch++;
    membership_beat(&t.p);
    answer();
    ck_assert_uint_eq(t.reclaims, 3);
    membership_ask_again(&t.p);
    membership_ask_again(&t.p);
    ck_assert_uint_eq(t.asked_n, 0);
    event_base_loop(t.base, EVLOOP_ONCE); /* the timer */
    ck_assert_uint_eq(t.asked_n, 1);
    membership_ask_again(&t.p);
    answer();
    ck_assert_uint_eq(t.asked_n, 0);
    event_base_loop(t.base, EVLOOP_ONCE);
    ck_assert_uint_eq(t.asked_n, 1);
}
END_TEST

static void
answer_error(const char *error)
{
    struct reply r = {.type = REPLY_ERROR, .text = slice_of(error)};

    ck_assert_uint_eq(t.asked_n, 1);
    t.asked_n = 0;
    t.asked[0].fn(t.asked[0].arg, LINK_ANSWERED, &r, clock_now_us());
}

/* Redis is busy: the daemon asks again, after a pause. An error that stays ends the link. */
START_TEST(errors_of_the_moment)
{
    membership_ask_again(&t.p);
    answer_error("BUSY Redis is busy running a script.");
    ck_assert_uint_eq(t.asked_n, 0);
    event_base_loop(t.base, EVLOOP_ONCE); /* the timer */
    answer_error("LOADING Redis is loading the dataset in memory");
    event_base_loop(t.base, EVLOOP_ONCE);
    answer();
    ck_assert_uint_eq(t.asked_n + t.failed, 0);
    membership_beat(&t.p);
    answer_error("READONLY not a master");
    ck_assert_uint_eq(t.failed, 1);
    membership_greet(&t.p, &t.link);
    answer_error("BUSY Redis is busy running a script.");
    ck_assert_uint_eq(t.failed, 2);
    t.link.up = true;
    membership_beat(&t.p);
    answer_error("NOPERM");
    ck_assert_uint_eq(t.failed, 3);
}
END_TEST

/* ---- fresh ---- */

enum { FRESH_US = EPOCH_FRESH_MS * 1000, OLD_US = FRESH_US + 1000 };

/* A registration is fresh from its sending on, however long the answer takes; a late older answer changes nothing. */
START_TEST(fresh_from_the_sending)
{
    int64_t now_us = clock_now_us();

    ck_assert(membership_fresh(&t.p, now_us));
    ck_assert(!membership_pending(&t.p));
    ck_assert_uint_eq(t.asked_n, 0);
    t.p.fresh_until_us = 0;
    membership_beat(&t.p);
    answer_sent(now_us - FRESH_US / 2);
    ck_assert(membership_fresh(&t.p, now_us + FRESH_US / 2 - 1));
    ck_assert(!membership_fresh(&t.p, now_us + FRESH_US / 2));
    membership_beat(&t.p);
    answer_sent(now_us - FRESH_US / 2 - 1);
    ck_assert(membership_fresh(&t.p, now_us + FRESH_US / 2 - 1));
    ck_assert_int_lt(EPOCH_FRESH_MS, 3 * EPOCH_BEAT_MS); /* which membership.lua relies on */
}
END_TEST

/* It is sent once; the answer to an older registration may come first, and proves nothing. */
START_TEST(not_fresh_and_asked)
{
    t.p.fresh_until_us = 0;
    ck_assert(membership_pending(&t.p));
    ck_assert(membership_pending(&t.p));
    ck_assert_uint_eq(t.asked_n, 1);
    answer_sent(clock_now_us() - OLD_US);
    ck_assert(membership_pending(&t.p));
    ck_assert_uint_eq(t.asked_n, 1);
    answer();
    ck_assert(!membership_pending(&t.p));
    ck_assert(membership_fresh(&t.p, clock_now_us()));
    ck_assert_uint_eq(t.asked_n, 0);
}
END_TEST

static void
ends_with(enum link_result result)
{
    t.asked_n = 0;
    t.asked[0].fn(t.asked[0].arg, result, NULL, clock_now_us());
}

/* A registration fails: the failure is reported once, and the next call registers again. */
START_TEST(asked_in_vain)
{
    t.p.fresh_until_us = 0;
    ck_assert(membership_pending(&t.p));
    ends_with(LINK_UNKNOWN);
    ck_assert(!membership_pending(&t.p));
    ck_assert(!membership_fresh(&t.p, clock_now_us()));
    ck_assert(membership_pending(&t.p));
    answer_error("BUSY Redis is busy running a script.");
    ck_assert(!membership_pending(&t.p));
    ck_assert(membership_pending(&t.p));
    t.p.awaited_us -= OLD_US; /* as if Redis took that long */
    answer_sent(clock_now_us() - OLD_US + 1000);
    ck_assert(!membership_pending(&t.p));
    t.link.up = false;
    ck_assert(!membership_pending(&t.p));
    ck_assert_uint_eq(t.asked_n, 0);
}
END_TEST

/* A failure while no call waited does not count for a later call. */
START_TEST(failed_unawaited)
{
    membership_beat(&t.p);
    ends_with(LINK_UNKNOWN);
    t.p.fresh_until_us = 0;
    ck_assert(membership_pending(&t.p));
}
END_TEST

/* Several links: one of them answers, or all have failed. A link that is up but silent is used if there is no other. */
START_TEST(asked_on_several_links)
{
    struct redis_link other = {.up = true};

    t.other = &other;
    membership_add(&t.p, &other);
    t.p.fresh_until_us = 0;
    ck_assert(membership_pending(&t.p));
    membership_ask(&t.p, &t.link);
    ck_assert_uint_eq(t.asked_n, 2);
    t.asked_n = 1;
    t.asked[0].fn(t.asked[0].arg, LINK_UNKNOWN, NULL, clock_now_us());
    t.asked[0] = t.asked[1];
    ck_assert(membership_pending(&t.p));
    ends_with(LINK_UNKNOWN);
    ck_assert(!membership_pending(&t.p));
    other.up = false;
    t.link.silent = true;
    ck_assert(membership_pending(&t.p));
    ck_assert_uint_eq(t.asked_n, 1);
    answer();
    ck_assert(!membership_pending(&t.p));
}
END_TEST

/* ---- in a fleet ---- */

static void
meet(int n)
{
    for (int i = 0; i < n; i++) {
        char uuid[64];

        snprintf(uuid, sizeof(uuid), "%08x-1c2d-4e3f-8a9b-726c6f636b64 30000 9", i);
        membership_newcomer(&t.p, slice_of(uuid));
    }
    ck_assert_uint_eq(members_count(&t.p.members), (size_t)n);
}

/* Redis has restarted, or after SCRIPT FLUSH: the text of the script is sent once. */
START_TEST(a_script_that_is_not_known)
{
    unsigned was = t.text;

    membership_beat(&t.p);
    ck_assert_uint_eq(t.text, was);
    t.no_script = true;
    answer_error("NOSCRIPT No matching script. Please use EVAL.");
    ck_assert_uint_eq(t.text, was + 1);
    answer();
    ck_assert_uint_eq(t.asked_n + t.failed, 0);
    t.no_script = false;
    membership_beat(&t.p);
    ck_assert_uint_eq(t.text, was + 1);
}
END_TEST

/* Redis has lost its data: the daemon brings the list of members in parts, each after the answer to the one before. */
START_TEST(a_list_in_parts)
{
    meet(EPOCH_PART + 44);
    t.epoch = 8;
    t.until_ms = 60000;
    t.bring = EPOCH_BRING_NOW;
    membership_beat(&t.p);
    ck_assert_int_eq(t.part, 0);
    answer();
    ck_assert_uint_eq(t.asked_n, 1);
    ck_assert_int_eq(t.part, 1);
    ck_assert_int_eq(t.uuids, EPOCH_PART);
    t.no_script = true;
    answer_error("NOSCRIPT No matching script. Please use EVAL.");
    t.no_script = false;
    ck_assert_int_eq(t.uuids, EPOCH_PART);
    answer();
    ck_assert_int_eq(t.part, 2);
    ck_assert_int_eq(t.uuids, 44);
    t.bring = EPOCH_BRING_NOTHING;
    answer();
    ck_assert_uint_eq(t.asked_n, 0);
}
END_TEST

/* Redis loses its data between two parts: the list starts again, when Redis asks for it. */
START_TEST(a_list_from_the_beginning)
{
    meet(EPOCH_PART + 44);
    t.epoch = 8;
    t.until_ms = 60000;
    t.bring = EPOCH_BRING_NOW;
    membership_beat(&t.p);
    answer();
    t.epoch = 9;
    answer();
    ck_assert_uint_eq(t.asked_n, 0); /* no second part, as the first one is lost */
    event_base_loop(t.base, EVLOOP_ONCE);
    ck_assert_int_eq(t.part, 0);
    answer();
    ck_assert_int_eq(t.part, 1);
    t.epoch = 10;
    t.bring = EPOCH_BRING_LATER;
    answer();
    ck_assert_uint_eq(t.asked_n, 0);
    event_base_loop(t.base, EVLOOP_ONCE); /* the timer */
    ck_assert_int_eq(t.part, 0);
    t.bring = EPOCH_BRING_NOW;
    answer();
    ck_assert_int_eq(t.part, 1);
    t.asked_n = 0;
    t.asked[0].fn(t.asked[0].arg, LINK_UNKNOWN, NULL, 0); /* or the connection is lost */
    event_base_loop(t.base, EVLOOP_ONCE);
    ck_assert_int_eq(t.part, 0);
    answer();
    ck_assert_int_eq(t.part, 1);
    ck_assert_int_eq(t.uuids, EPOCH_PART);
}
END_TEST

/* A report of the reclaims is sent before the next beat, and not at the same time as those of all others. */
START_TEST(a_report)
{
    int64_t began_us;

    meet(100);
    t.epoch = 8;
    t.until_ms = 60000;
    membership_beat(&t.p);
    answer();
    ck_assert_uint_eq(t.asked_n, 0);
    began_us = clock_now_us();
    membership_reclaimed(&t.p, 8);
    event_base_loop(t.base, EVLOOP_ONCE);
    ck_assert_uint_eq(t.asked_n, 1);
    ck_assert_int_lt(clock_now_us() - began_us, EPOCH_BEAT_MS * US_PER_MS / 2);
    answer();
    ck_assert_uint_eq(t.asked_n, 0);
}
END_TEST

/* Only an answer about members moves the time up to which the daemon knows all newcomers. */
START_TEST(knowledge_of_members)
{
    int64_t was_us = t.p.members_known_us, now_us;

    t.upto = 0; /* the greeting of another connection, which does not ask for members */
    now_us = clock_now_us() + US_PER_S;
    membership_beat(&t.p);
    answer_sent(now_us);
    ck_assert_int_eq(t.p.members_known_us, was_us);
    t.upto = 1;
    membership_beat(&t.p);
    answer_sent(now_us);
    ck_assert_int_eq(t.p.members_known_us, now_us);
}
END_TEST

START_TEST(as_many_links_as_there_is_room_for)
{
    while (t.p.links_n < MEMBERSHIP_LINKS) {
        membership_add(&t.p, NULL);
    }
    ck_assert_ptr_null(t.p.link[MEMBERSHIP_LINKS - 1].link);
    ck_assert_ptr_eq(t.p.link[0].link, &t.link);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {fresh_from_the_sending, not_fresh_and_asked, asked_in_vain, failed_unawaited,
                            asked_on_several_links, a_registration_takes_any_link, a_woken_daemon_asks_at_once,
                            a_second_registration_follows_one_in_flight,
                            a_registration_on_another_link_asks_for_no_members, a_link_that_has_gone_greets,
                            not_at_once_in_a_storm, errors_of_the_moment, a_script_that_is_not_known, a_list_in_parts,
                            a_list_from_the_beginning, a_report, knowledge_of_members,
                            as_many_links_as_there_is_room_for};

    return suite_main_with("membership", tests, sizeof(tests) / sizeof(tests[0]), setup, teardown);
}
