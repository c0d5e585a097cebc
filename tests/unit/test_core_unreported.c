/*
 * test_core_unreported.c -- holds that are released without a reply: if a hold of the name was reported to the owner,
 * its loss is reported, too; otherwise it is not.
 */
#include "tests/unit/core_world.h"

/* alice has a hold of "a" that was reported, and one more by an MLOCK, whose answer waits for "c", which bob has. */
struct pending {
    struct world w;
    uint64_t alice, bob, id;
};

static void
begin(struct pending *p, bool reported, struct ask a)
{
    world_open(&p->w);
    p->alice = session(&p->w);
    p->bob = session(&p->w);
    take(&p->w, p->bob, "c");
    if (reported) {
        take(&p->w, p->alice, "a");
    }
    p->id = world_ask_many(&p->w, CORE_MLOCK, p->alice, "a c", a);
    if (!reported || !a.once) {
        redis_says(&p->w, expect_op(&p->w, CORE_ACQUIRE, "a"), CORE_OK);
    }
    quiet(&p->w);
}

/* The MLOCK's wait for "c" ends. */
static void
times_out(struct pending *p)
{
    pass(&p->w, SEC(1));
    expect_reply(&p->w, p->id, CORE_NOT_GRANTED);
}

static void
broken(struct pending *p, const char *name)
{
    uint64_t id = break_name(&p->w, p->bob, name);

    redis_says(&p->w, expect_op(&p->w, CORE_BREAK_KEY, name), CORE_OK, .expiry_ms = 1);
    expect_reply(&p->w, id, CORE_LEFT);
}

/* The next command on the name gets LOST, the one behind it NOT_HELD. */
static void
expect_reported_once(struct pending *p, const char *name)
{
    expect_reply(&p->w, unlock(&p->w, p->alice, name), CORE_WAS_LOST);
    expect_reply(&p->w, unlock(&p->w, p->alice, name), CORE_NOT_HELD);
}

static void
end(struct pending *p)
{
    skip_all(&p->w);
    world_close(&p->w);
}

#define WAITS_1S ((struct ask){.wait_us = SEC(1)})

/* The MLOCK's hold is released, and Redis does not have the key. */
START_TEST(gone_while_it_is_given_back)
{
    struct pending p;
    struct flight op;

    begin(&p, true, WAITS_1S);
    times_out(&p);
    op = expect_op(&p.w, CORE_RELEASE, "a");
    ck_assert_uint_eq(op.op.holds, 1);
    redis_says(&p.w, op, CORE_GONE_IN_REDIS);
    ck_assert_uint_eq(count_news(&p.w, CORE_NEWS_LOST), 1);
    expect_reported_once(&p, "a");
    end(&p);
}
END_TEST

/* The same, and alice's UNLOCK, sent during the release, gets LOST. */
START_TEST(asked_about_while_it_is_given_back)
{
    struct pending p;
    struct flight op;
    uint64_t id;

    begin(&p, true, WAITS_1S);
    times_out(&p);
    op = expect_op(&p.w, CORE_RELEASE, "a");
    id = unlock(&p.w, p.alice, "a");
    redis_says(&p.w, op, CORE_GONE_IN_REDIS);
    expect_reply(&p.w, id, CORE_WAS_LOST);
    expect_reply(&p.w, unlock(&p.w, p.alice, "a"), CORE_NOT_HELD);
    end(&p);
}
END_TEST

START_TEST(lost_before_it_is_given_back)
{
    struct pending p;

    begin(&p, true, WAITS_1S);
    broken(&p, "a");
    times_out(&p);
    expect_reported_once(&p, "a");
    end(&p);
}
END_TEST

/* No hold of the name was reported to alice. */
START_TEST(a_grant_was_not_reported)
{
    struct pending p;

    begin(&p, false, WAITS_1S);
    broken(&p, "a");
    times_out(&p);
    expect_reply(&p.w, unlock(&p.w, p.alice, "a"), CORE_NOT_HELD);
    redis_grants(&p.w, "a", lock(&p.w, p.alice, "a"));
    end(&p);

    begin(&p, false, WAITS_1S);
    times_out(&p);
    redis_says(&p.w, expect_op(&p.w, CORE_RELEASE, "a"), CORE_GONE_IN_REDIS);
    expect_reply(&p.w, unlock(&p.w, p.alice, "a"), CORE_NOT_HELD);
    end(&p);
}
END_TEST

/* The MLOCK's own reply reports the loss, and that is enough, also where ONCE has added no hold. */
START_TEST(lost_is_reported_by_the_mlock)
{
    for (int once = 0; once < 2; once++) {
        struct pending p;

        begin(&p, true, (struct ask){.once = once != 0});
        broken(&p, "a");
        give(&p.w, p.bob, "c");
        redis_says(&p.w, expect_op(&p.w, CORE_ACQUIRE, "c"), CORE_OK);
        expect_reply(&p.w, p.id, CORE_WAS_LOST);
        skip_all(&p.w);
        expect_reply(&p.w, unlock(&p.w, p.alice, "a"), CORE_NOT_HELD);
        end(&p);
    }
}
END_TEST

/* The MLOCK's reply names one lost name; the loss of the other one is reported by the next command on it. */
START_TEST(one_of_two_is_reported_by_the_mlock)
{
    struct pending p;
    uint64_t id;

    world_open(&p.w);
    p.alice = session(&p.w);
    p.bob = session(&p.w);
    take(&p.w, p.bob, "c");
    take(&p.w, p.alice, "a");
    take(&p.w, p.alice, "b");
    id = mlock(&p.w, p.alice, "a b c");
    redis_says(&p.w, expect_op(&p.w, CORE_ACQUIRE, "a"), CORE_OK);
    redis_says(&p.w, expect_op(&p.w, CORE_ACQUIRE, "b"), CORE_OK);
    broken(&p, "a");
    broken(&p, "b");
    give(&p.w, p.bob, "c");
    redis_says(&p.w, expect_op(&p.w, CORE_ACQUIRE, "c"), CORE_OK);
    ck_assert_str_eq(p.w.answers[p.w.answers_n - 1].name, "b");
    expect_reply(&p.w, id, CORE_WAS_LOST);
    skip_all(&p.w);
    expect_reply(&p.w, unlock(&p.w, p.alice, "b"), CORE_NOT_HELD);
    expect_reported_once(&p, "a");
    end(&p);
}
END_TEST

/* Of two lost permits the first was reported as held. */
START_TEST(a_permit_that_was_reported)
{
    struct ask pool = {.kind = KIND_SEMAPHORE, .limit = 2, .wait_us = SEC(1)};
    struct pending p;

    world_open(&p.w);
    p.alice = session(&p.w);
    p.bob = session(&p.w);
    redis_grants(&p.w, "c", world_ask(&p.w, CORE_LOCK, p.bob, "c", pool));
    redis_grants(&p.w, "c", world_ask(&p.w, CORE_LOCK, p.bob, "c", pool));
    redis_grants(&p.w, "a", world_ask(&p.w, CORE_LOCK, p.alice, "a", pool));
    p.id = world_ask_many(&p.w, CORE_MLOCK, p.alice, "a c", pool);
    redis_says(&p.w, expect_op(&p.w, CORE_ACQUIRE, "a"), CORE_OK);
    broken(&p, "a");
    times_out(&p);
    expect_reply(&p.w, world_ask(&p.w, CORE_UNLOCK, p.alice, "a", pool), CORE_WAS_LOST);
    expect_reply(&p.w, world_ask(&p.w, CORE_UNLOCK, p.alice, "a", pool), CORE_NOT_HELD);
    end(&p);
}
END_TEST

/* The reply that grants one more hold could not be delivered in time; the earlier hold was reported. */
START_TEST(a_grant_too_late_to_be_reported)
{
    struct pending p;
    struct core_event ev = {.type = CORE_UNDELIVERED};
    struct flight op;

    world_open(&p.w);
    p.alice = session(&p.w);
    take(&p.w, p.alice, "a");
    ev.grant = redis_grants(&p.w, "a", lock(&p.w, p.alice, "a"))->grant;
    happens(&p.w, &ev);
    op = expect_op(&p.w, CORE_RELEASE, "a");
    ck_assert_uint_eq(op.op.holds, 1);
    redis_says(&p.w, op, CORE_GONE_IN_REDIS);
    expect_reported_once(&p, "a");
    end(&p);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        gone_while_it_is_given_back,
        asked_about_while_it_is_given_back,
        lost_before_it_is_given_back,
        a_grant_was_not_reported,
        lost_is_reported_by_the_mlock,
        one_of_two_is_reported_by_the_mlock,
        a_permit_that_was_reported,
        a_grant_too_late_to_be_reported,
    };

    return suite_main("core, unreported", tests, sizeof(tests) / sizeof(tests[0]));
}
