/*
 * test_core_memory_usage.c -- the memory that records use: it grows with the records, and the sum covers the requested
 * number of locks only.
 */
#include "tests/unit/core_world.h"

START_TEST(a_name_weighs_when_it_is_held)
{
    struct world w;
    struct core_memory one, two;
    uint64_t s, id;

    world_open(&w);
    ck_assert_uint_eq(core_memory_of_locks(w.core, 1000).n, 0);
    s = session(&w);
    take(&w, s, "a");
    one = core_memory_of_locks(w.core, 1000);
    ck_assert_uint_eq(one.n, 1);
    ck_assert_uint_gt(one.bytes, 256);
    id = lock(&w, s, "b"); /* it has a record, and is not held yet */
    ck_assert_uint_eq(core_memory_of_locks(w.core, 1000).n, 1);
    redis_says(&w, expect_op(&w, CORE_ACQUIRE, "b"), CORE_OK);
    expect_reply(&w, id, CORE_GRANTED);
    two = core_memory_of_locks(w.core, 1000);
    ck_assert_uint_eq(two.n, 2);
    ck_assert_uint_gt(two.bytes, one.bytes + 256);
    ck_assert_uint_eq(core_memory_of_locks(w.core, 1).n, 1);
    world_close(&w);
}
END_TEST

START_TEST(further_holders_weigh_too)
{
    struct world w;
    size_t one = 0;
    uint64_t id;

    world_open(&w);
    for (unsigned i = 1; i <= 2; i++) {
        id = lock(&w, session(&w), "a", .kind = KIND_RW, .shared = true);
        redis_says(&w, expect_op(&w, CORE_ACQUIRE, "a"), CORE_OK);
        expect_reply(&w, id, CORE_GRANTED);
        ck_assert_uint_eq(core_memory_of_locks(w.core, 1000).n, 1);
        if (i == 1) {
            one = core_memory_of_locks(w.core, 1000).bytes;
        }
    }
    ck_assert_uint_gt(core_memory_of_locks(w.core, 1000).bytes, one + 128);
    world_close(&w);
}
END_TEST

START_TEST(a_queue_weighs_while_a_request_waits)
{
    struct world w;
    size_t waited_for;
    uint64_t s, t;

    world_open(&w);
    s = session(&w);
    t = session(&w);
    take(&w, s, "a");
    lock(&w, t, "a");
    waited_for = core_memory_of_locks(w.core, 1000).bytes;
    gone(&w, t);
    ck_assert_uint_lt(core_memory_of_locks(w.core, 1000).bytes + 64, waited_for);
    world_close(&w);
}
END_TEST

START_TEST(a_session_weighs_while_it_is_there)
{
    struct world w;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    ck_assert_uint_gt(core_memory_of_session(w.core, s), 64);
    ck_assert_uint_eq(core_memory_of_session(w.core, s + 1000), 0);
    gone(&w, s);
    ck_assert_uint_eq(core_memory_of_session(w.core, s), 0);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {
        a_name_weighs_when_it_is_held,
        further_holders_weigh_too,
        a_queue_weighs_while_a_request_waits,
        a_session_weighs_while_it_is_there,
    };

    return suite_main("core, weigh", tests, sizeof(tests) / sizeof(tests[0]));
}
