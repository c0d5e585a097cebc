/*
 * test_backend_timer.c -- a daemon goes on saying that it is there when there was no memory for the timer by which it
 * does.
 *
 * membership.c is compiled into this file, with an event_add() that fails when told to, as libevent's does: only a
 * timer that is not set yet needs memory.
 */
#include "redis_world.h"

static bool failing;
static unsigned failures;

static int
test_event_add(struct event *ev, const struct timeval *tv)
{
    if (failing && !event_pending(ev, EV_TIMEOUT, NULL)) {
        failures++;
        return -1;
    }
    return event_add(ev, tv);
}

#define event_add test_event_add
#include "daemon/backend/membership.c"
#undef event_add

static bool
has_failed(const void *times)
{
    return failures >= *(const unsigned *)times;
}

static bool
has_begun(const void *epochs)
{
    return w.metrics.epochs >= *(const uint64_t *)epochs;
}

/* In a grace, for beats are frequent then: nothing but a beat tells that Redis loses its data once more. */
START_TEST(beats_go_on)
{
    w.keeps_quiet = true;
    redis("FLUSHALL");
    turn_until(has_begun, &(uint64_t){1});
    failing = true;
    turn_until(has_failed, &(unsigned){4}); /* at the beat, and at each answer behind it */
    failing = false;
    turn_until(is_all_up, NULL);
    redis("FLUSHALL");
    turn_until(has_begun, &(uint64_t){2});
}
END_TEST

START_TEST(as_many_links_as_there_is_room_for)
{
    const struct link_address nowhere = {0};
    const struct backend_conf conf = {.timeout_us = US_PER_S};
    struct backend_env env = {.base = event_base_new()};
    struct membership p;

    ck_assert(membership_init(&p, &conf, &env, NULL, &nowhere, "channel"));
    for (int i = 0; i < MEMBERSHIP_LINES; i++) {
        membership_add(&p, NULL);
    }
    ck_assert_uint_eq(p.lines_n, MEMBERSHIP_LINES);
    membership_fini(&p);
    event_base_free(env.base);
}
END_TEST

int
main(void)
{
    TCase *tc[] = {tcase_create("up"), tcase_create("alone")};

    tcase_add_checked_fixture(tc[0], world_up, world_end);
    tcase_add_test(tc[0], beats_go_on);
    tcase_add_test(tc[1], as_many_links_as_there_is_room_for);
    return world_run("backend, timer", tc, 2);
}
