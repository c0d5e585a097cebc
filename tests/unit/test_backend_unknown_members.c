/*
 * test_backend_unknown_members.c -- this process stood still until it found its links lost: meanwhile a daemon may have
 * started, unknown to us, and may have been granted locks. Redis has lost its data then, and we are the first to come
 * back.
 */
#include "daemon/backend/epoch.h"
#include "watch_world.h"

#ifdef RLOCKD_TEST_CLOCK
/* Redis restarts empty; this process stands still for so long before it learns that, and is the first to come back. */
static void
redis_restarts_while_we_stand(int64_t us)
{
    redis_kill();
    clock_advance_us(us);
    turn_until(is_down, NULL);
    redis_start(NULL);
    redis_connect();
}

/* Redis has our report that we have reclaimed: only other daemons make the grace period go on. */
static bool
goes_on_for_others(const void *arg)
{
    (void)arg;
    return strcmp(redis("ZSCORE rlock:awaited " UUID), "0") == 0;
}

static void
has_to_wait(void)
{
    struct core_done d;

    turn_until(goes_on_for_others, NULL);
    turn_until(is_all_up, NULL);
    d = acquire("k", KIND_REENTRANT, 1);
    must(d, CORE_GRACE);
    ck_assert_int_gt(d.pttl_us, 10 * US_PER_S);
    ck_assert(w.others);
}

static int64_t
found_out_us(void)
{
    return EPOCH_FRESH_MS * US_PER_MS + 2 * w.conf.timeout_us;
}

/* A daemon may have started meanwhile, have been granted this lock, and come back after us. */
START_TEST(a_daemon_that_stood_still_knows_no_members)
{
    ck_assert(!w.others);
    redis_restarts_while_we_stand(found_out_us());
    has_to_wait();
}
END_TEST

static bool
is_one_away(const void *arg)
{
    return !is_all_up(arg);
}

/* One of our links was lost, and the backend had noticed that, before we stood still. */
START_TEST(a_daemon_that_stood_still_behind_a_lost_link)
{
    redis("CLIENT KILL ID %lld", some_link());
    turn_until(is_one_away, NULL);
    redis_restarts_while_we_stand(found_out_us());
    has_to_wait();
}
END_TEST

/* The answer was on its way when we stopped: it lists the members of that time. */
START_TEST(a_daemon_that_stood_still_behind_an_old_answer)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);

    redis_stop();
    clock_advance_us(EPOCH_FRESH_MS * US_PER_MS);
    perform(&op, CORE_ACQUIRE); /* the registration leaves first */
    flush();
    clock_advance_us(found_out_us());
    redis_cont();
    for (int i = 0; i < 2; i++) { /* its answer has arrived before the time is read */
        redis("PING");
    }
    must(await(op.op), CORE_DOWN);
    redis_restarts_while_we_stand(0);
    has_to_wait();
}
END_TEST

/* Redis is away for a long time, and the backend notices that at once. */
START_TEST(a_daemon_that_saw_redis_die_knows_all)
{
    uint64_t epoch = epoch_now();

    redis_kill();
    turn_until(is_down, NULL);
    clock_advance_us(10 * found_out_us());
    for (int i = 0; i < 20; i++) { /* it tries again and again */
        event_base_loop(w.base, EVLOOP_ONCE);
    }
    redis_start(NULL);
    redis_connect();
    turn_until(is_granting_anew, &epoch);
    ck_assert(!w.others);
}
END_TEST

/* Redis has answered once more before it lost its data. */
START_TEST(a_daemon_that_stood_still_and_was_answered_knows_all)
{
    uint64_t epoch = epoch_now();

    clock_advance_us(found_out_us());
    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
    redis_restarts_while_we_stand(0);
    turn_until(is_granting_anew, &epoch);
    ck_assert(!w.others);
}
END_TEST
#endif

int
main(void)
{
    TCase *tc = tcase_create("up");

    tcase_add_checked_fixture(tc, world_up, world_end);
#ifdef RLOCKD_TEST_CLOCK
    tcase_add_test(tc, a_daemon_that_stood_still_knows_no_members);
    tcase_add_test(tc, a_daemon_that_stood_still_behind_a_lost_link);
    tcase_add_test(tc, a_daemon_that_stood_still_behind_an_old_answer);
    tcase_add_test(tc, a_daemon_that_saw_redis_die_knows_all);
    tcase_add_test(tc, a_daemon_that_stood_still_and_was_answered_knows_all);
#endif
    return world_run("backend, unknown members", &tc, 1);
}
