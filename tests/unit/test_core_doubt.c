/*
 * test_core_doubt.c -- a clock has jumped (SUSPECT) while something else is going on.
 */
#include "tests/unit/core_world.h"

/*
 * What was in flight fails and is to be tried again; the doubt goes first. The time of the other try must not be waited
 * for meanwhile: it has passed, and the step would never end (found by tests/fuzz, core).
 */
START_TEST(a_failed_operation_and_a_doubt)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take(&w, s, "a");
    id = lock(&w, s, "a");
    op = expect_op(&w, CORE_ACQUIRE, "a");
    happens(&w, &(struct core_event){.type = CORE_SUSPECT});
    redis_says(&w, op, CORE_DOWN);
    pass(&w, SEC(1));
    op = expect_op(&w, CORE_EXTEND, "a"); /* is it still there? */
    pass(&w, SEC(1));
    redis_says(&w, op, CORE_OK);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    ck_assert_uint_eq(look(&w, "a").holds, 2);
    world_close(&w);
}
END_TEST

/* A renewal is due before the other try: there is none beside the doubt, which is asked about at its own time. */
START_TEST(a_renewal_due_in_doubt)
{
    struct world w;
    struct flight op;
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    take(&w, s, "a");
    id = renew(&w, s, "a", MS(10));
    op = expect_op(&w, CORE_EXTEND, "a");
    happens(&w, &(struct core_event){.type = CORE_SUSPECT});
    redis_says(&w, op, CORE_UNKNOWN, .guard_us = w.now_us + SEC(1)); /* it may have that little time now */
    pass(&w, MS(7));
    expect_state(&w, "a", "held");
    pass(&w, MS(1));
    expect_reply(&w, id, CORE_WAS_LOST);
    expect_op(&w, CORE_RELEASE, "a");
    skip_watches(&w);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {a_failed_operation_and_a_doubt, a_renewal_due_in_doubt};

    return world_main("core, doubt", tests, sizeof(tests) / sizeof(tests[0]));
}
