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

int
main(void)
{
    const TTest *tests[] = {a_failed_operation_and_a_doubt};

    return world_main("core, doubt", tests, sizeof(tests) / sizeof(tests[0]));
}
