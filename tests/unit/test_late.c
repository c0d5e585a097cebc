/*
 * test_late.c -- P4 up to the socket: no reply or event that says "held" leaves after the end of the lease, wherever it
 * stood meanwhile.
 */
#include "tests/unit/house.h"

#include "daemon/serve/drain.h"
#include "tests/unit/suite.h"

#ifdef RLOCKD_TEST_CLOCK

#define LOST "-LOST the lock was held and has been lost\r\n"
#define AGAIN "-UNAVAILABLE a lease in this reply has ended; send the command again\r\n"

/*
 * The process stands still between the reply and its write: after as many trips to Redis as the reply needs. Work that
 * is due is not done before the write.
 */
static void
ask_and_stop(const struct client *c, const char *request, int trips, int64_t us)
{
    if (request != NULL) {
        sends(c, request);
    }
    for (; trips > 0; trips--) {
        turn();
        (void)answer_all();
    }
    redis->stop_us = us;
    settle();
}

static void
setup(const struct client *c, const char *text)
{
    struct buf b;

    if (text != NULL) {
        sends(c, text);
        settle();
        buf_init(&b, 0);
        receives(c, &b);
        buf_fini(&b);
    }
}

/* ---- a stop ---- */

static const struct {
    const char *setup, *request;
    int trips;
    const char *in_time, *late;
} stops[] = {
    {NULL, "LOCK b LEASE 1s\n", 1, ":101\r\n", LOST},
    {NULL, "MLOCK 2 a b LEASE 1s\n", 1, "*2\r\n:101\r\n:102\r\n", LOST},
    {NULL, "SET b me NX PX 1000\n", 1, "+OK\r\n", "$-1\r\n"},
    {"LOCK b LEASE 1s\n", "LOCK b ONCE\n", 0, ":101\r\n", LOST},
    {"LOCK b LEASE 1s\n", "LOCK b LEASE 1s\n", 1, ":101\r\n", LOST},
    {"LOCK b LEASE 1s\nLOCK b LEASE 1s\n", "UNLOCK b\n", 1, ":1\r\n", LOST},
    {"LOCK b LEASE 1s\n", "RENEW b 1s\n", 1, NULL, LOST},
    {"LOCK b OWNER me LEASE 1s\n", "LOCK b OWNER me FULL ONCE\n", 0, NULL, LOST},
    {"SET b me NX PX 1000\n", "GET b\n", 0, "$2\r\nme\r\n", AGAIN},
    {"SET b me NX PX 1000\n", "EVALSHA 1cac51482acf5858da00f6d685d68f886cd6b6b2 1 b me 1000\n", 1, NULL, ":0\r\n"},
    {"LOCK b LEASE 1s\n", "INFO lock b\n", 0, NULL, AGAIN},
};

START_TEST(no_reply_claims_a_hold_behind_a_stop)
{
    struct client c = come();

    setup(&c, stops[_i].setup);
    ask_and_stop(&c, stops[_i].request, stops[_i].trips, 1300 * US_PER_MS);
    expect(&c, stops[_i].late);
    ck_assert_uint_eq(engine->metrics.late_replies, 1);
    leave(&c);
}
END_TEST

START_TEST(nothing_is_waited_for_by_a_drain_behind_a_stop)
{
    struct client c = come();

    setup(&c, "LOCK b LEASE 1s\n");
    drain_start(engine, 0);
    ask_and_stop(&c, "INFO server\n", 0, 1300 * US_PER_MS);
    expect(&c, AGAIN);
    ck_assert_uint_eq(engine->metrics.late_replies, 1);
    leave(&c);
}
END_TEST

START_TEST(a_hold_that_outlives_a_stop_is_reported)
{
    struct client c = come();

    if (stops[_i].in_time != NULL) {
        setup(&c, stops[_i].setup);
        ask_and_stop(&c, stops[_i].request, stops[_i].trips, 500 * US_PER_MS);
        expect(&c, stops[_i].in_time);
        ck_assert_uint_eq(engine->metrics.late_replies, 0);
    }
    leave(&c);
}
END_TEST

/* After late replies were rewritten, the rest is good until its first deadline; the clock is read again before that. */
START_TEST(a_rewritten_reply_is_valid_until_the_next_deadline)
{
    struct client c = come();
    int64_t now_us;

    ask_and_stop(&c, "LOCK a OWNER x LEASE 1s\nLOCK b OWNER y LEASE 3s\nLOCK d OWNER z LEASE 5s\n", 1, 2 * US_PER_S);
    now_us = clock_now_us();
    ck_assert_uint_eq(engine->metrics.late_replies, 1);
    ck_assert_int_gt(c.s->out.valid_until_us, now_us);
    ck_assert_int_le(c.s->out.valid_until_us, now_us + US_PER_S);
    leave(&c);
}
END_TEST

/*
 * The process also stands still while the first reply is rewritten, after it has read the clock: the second deadline
 * comes then. _i selects how long it stands still each time; the third lock is still held.
 */
START_TEST(a_stop_behind_the_rewriting_is_noticed)
{
    struct client c = come();

    sends(&c, "LOCK a OWNER x LEASE 1s\nLOCK b OWNER y LEASE 3s\nLOCK d OWNER z LEASE 60s\n");
    turn();
    redis->release_us = (_i == 0 ? 0 : 2) * US_PER_S;
    ask_and_stop(&c, NULL, 1, 1300 * US_PER_MS);
    expect(&c, _i == 0 ? LOST ":102\r\n:103\r\n" : LOST LOST ":103\r\n");
    ck_assert_uint_eq(engine->metrics.late_replies, _i == 0 ? 1 : 2);
    leave(&c);
}
END_TEST

/* A deadline comes each time that replies were rewritten: the turn ends, and no reply leaves after its deadline. */
START_TEST(stops_without_end_let_nothing_late_leave)
{
    enum { LOCKS = 12 };
    struct client c = come();
    struct buf want;
    char text[64];

    buf_init(&want, 0);
    for (int i = 0; i < LOCKS; i++) {
        snprintf(text, sizeof(text), "LOCK l%d OWNER o%d LEASE %ds\n", i, i, 1 + 2 * i);
        sends(&c, text);
        buf_adds(&want, LOST);
    }
    buf_add(&want, "", 1);
    turn();
    (void)answer_all();
    redis->release_us = 2 * US_PER_S;
    redis->stop_us = 1300 * US_PER_MS;
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    ck_assert(engine_turn(engine));
    ck_assert_uint_lt(engine->metrics.late_replies, LOCKS);
    expect(&c, "");
    settle();
    expect(&c, want.p);
    ck_assert_uint_eq(engine->metrics.late_replies, LOCKS);
    buf_fini(&want);
    leave(&c);
}
END_TEST

/* An owner that has got LOST once may lock again. */
START_TEST(lost_is_reported_to_an_owner_once)
{
    struct client c = come();

    ask_and_stop(&c, "LOCK b LEASE 1s\n", 1, 2 * US_PER_S);
    expect(&c, LOST);
    sends(&c, "UNLOCK b\nLOCK b\n");
    settle();
    expect(&c, "-NOTHELD this owner does not hold the lock\r\n:102\r\n");
    leave(&c);
}
END_TEST

/* If one name of an MLOCK is lost, its other names are released. */
START_TEST(the_other_grants_of_a_lost_mlock_are_released)
{
    struct client c = come(), d = come();
    unsigned releases;

    sends(&d, "LOCK x\n");
    settle();
    setup(&c, "LOCK a OWNER me\n");
    releases = redis->releases;
    sends(&c, "LOCK x WAIT 60s OWNER other\nMLOCK 2 b c OWNER me\n");
    settle();
    sends(&d, "BREAK b\nUNLOCK x\n");
    settle();
    expect(&c, ":105\r\n" LOST);
    ck_assert_uint_ge(redis->releases, releases + 1); /* x is released and taken here, too */
    sends(&d, "LOCK c NOWAIT\nLOCK a NOWAIT\n");
    settle();
    expect(&d, ":101\r\n:1\r\n:0\r\n:106\r\n$-1\r\n");
    leave(&c);
    leave(&d);
}
END_TEST

/* ... and an answer in front of the LOST, in the same output, does not say that they are held. */
START_TEST(no_answer_in_front_claims_a_released_grant)
{
    struct client c = come(), d = come();
    struct buf b;

    setup(&d, "LOCK x\n");
    sends(&c, "LOCK x WAIT 60s OWNER other\nINFO lock c\nMLOCK 2 b c OWNER me\n");
    settle();
    sends(&d, "BREAK b\nUNLOCK x\n");
    settle();
    buf_init(&b, 0);
    receives(&c, &b);
    ck_assert_msg(strstr(b.p, "\r\n" AGAIN LOST) != NULL, "%s", b.p); /* behind the token of x */
    ck_assert_uint_eq(engine->metrics.late_replies, 2);
    buf_fini(&b);
    sends(&c, "UNLOCK b OWNER me\nUNLOCK c OWNER me\n");
    settle();
    expect(&c, "-NOTHELD this owner does not hold the lock\r\n" LOST); /* that of c is not reported yet */
    leave(&c);
    leave(&d);
}
END_TEST

static const struct {
    const char *held, *mlock, *unlock, *free;
} held_before[] = {
    {"LOCK c OWNER me\n", "MLOCK 2 b c OWNER me\n", "UNLOCK c OWNER me\n", ":0\r\n"},
    {"LOCK c OWNER me\n", "MLOCK 2 b c OWNER me ONCE\n", "UNLOCK c OWNER me\n", ":0\r\n"},
    {"LOCK c OWNER me\nLOCK c OWNER me\n", "MLOCK 2 b c OWNER me\n", "UNLOCK c OWNER me\nUNLOCK c OWNER me\n",
     ":1\r\n:0\r\n"},
    {"LOCK c OWNER me KIND rw\n", "MLOCK 2 b c OWNER me KIND rw SHARED\n",
     "UNLOCK c OWNER me SHARED\nUNLOCK c OWNER me\n", "-NOTHELD this owner does not hold the lock\r\n:0\r\n"},
};

/* ... and of a name that the owner held before, only the hold of the MLOCK: none, where it was ONCE. */
START_TEST(a_hold_before_a_lost_mlock_stays)
{
    struct client c = come(), d = come();
    struct buf b;

    setup(&d, "LOCK x\n");
    setup(&c, held_before[_i].held);
    sends(&c, "LOCK x WAIT 60s OWNER other\n");
    sends(&c, held_before[_i].mlock);
    settle();
    sends(&d, "BREAK b\nUNLOCK x\n");
    settle();
    buf_init(&b, 0);
    receives(&c, &b);
    ck_assert_msg(strstr(b.p, "\r\n" LOST) != NULL, "%s", b.p); /* after the token of x */
    buf_fini(&b);
    sends(&c, held_before[_i].unlock);
    settle();
    expect(&c, held_before[_i].free);
    leave(&c);
    leave(&d);
}
END_TEST

/* ---- behind another owner's wait ---- */

START_TEST(a_reply_that_waited_for_its_turn_is_checked_again)
{
    struct client holder = come(), c = come();
    char pings[] = "PING\n";

    sends(&holder, "LOCK a\n");
    settle();
    sends(&c, "LOCK a OWNER t1\nLOCK b OWNER t2 LEASE 2s\nLOCK c OWNER t3 LEASE 2s FULL\nLOCK d OWNER t4\n");
    settle();
    for (int i = 0; i < 40; i++) { /* the lock of t4 is renewed */
        clock_advance_us(US_PER_S);
        sends(&holder, pings);
        settle();
    }
    sends(&holder, "UNLOCK a\n");
    settle();
    expect(&c, ":105\r\n" LOST LOST ":104\r\n");
    leave(&c);
    leave(&holder);
}
END_TEST

/* The remaining time in a reply is the time that remains when the reply leaves, and never more. */
START_TEST(the_time_left_is_reported_as_it_is)
{
    struct client holder = come(), c = come();
    const char *renewed;
    struct buf b;

    sends(&holder, "LOCK a\n");
    settle();
    sends(&c, "LOCK a OWNER t1\nLOCK b OWNER t2 LEASE 20s FULL\nRENEW b 20s OWNER t2\n"
            "MLOCK 2 c d OWNER t3 LEASE 20s FULL\n");
    settle();
    clock_advance_us(15 * US_PER_S);
    sends(&holder, "UNLOCK a\n");
    settle();
    buf_init(&b, 0);
    receives(&c, &b);
    for (const char *p = b.p; (p = strstr(p, "lease_ms\r\n:")) != NULL; p++) {
        ck_assert_int_ge(atoi(p + 11), 4000);
        ck_assert_int_le(atoi(p + 11), 4800);
    }
    renewed = strchr(strstr(b.p, "waited_ms\r\n:") + 12, ':');
    ck_assert_int_ge(atoi(renewed + 1), 4000);
    ck_assert_int_le(atoi(renewed + 1), 4800);
    ck_assert_int_eq(strncmp(b.p + b.n - 3, "\r\n", 2), 0);
    buf_fini(&b);
    leave(&c);
    leave(&holder);
}
END_TEST

/* The lock is broken before its deadline, while its grant waits for the replies before it. */
START_TEST(a_broken_lock_is_not_reported_as_held)
{
    struct client holder = come(), c = come();

    sends(&holder, "LOCK a\n");
    settle();
    sends(&c, "LOCK a OWNER t1\nLOCK b OWNER t2\nLOCK c OWNER t3\nUNLOCK c OWNER t3\n");
    settle();
    sends(&holder, "BREAK b\n");
    settle();
    sends(&holder, "UNLOCK a\n");
    settle();
    expect(&c, ":104\r\n" LOST ":103\r\n:0\r\n"); /* a lock that was released by its owner was held */
    leave(&c);
    leave(&holder);
}
END_TEST

/* ---- a full socket ---- */

/* Fills its socket, and more. */
static void
stuff(struct client *c)
{
    ck_assert_int_eq(setsockopt(c->s->fd, SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int)), 0);
    sends(c, "COMMAND DOCS\n");
    settle();
    ck_assert_uint_gt(c->s->out.bytes.n, 0);
}

START_TEST(a_reply_behind_a_full_socket_is_checked_again)
{
    struct client c = come(), d = come();
    struct buf b;

    stuff(&c);
    sends(&c, "LOCK b OWNER me LEASE 1s\n");
    settle();
    ck_assert_uint_eq(redis->acquires, 1);
    clock_advance_us(2 * US_PER_S);
    sends(&d, "PING\n");
    settle();
    buf_init(&b, 0);
    for (int i = 0; i < 1000; i++) {
        receives(&c, &b);
        b.n--;
        turn();
    }
    buf_add(&b, "", 1);
    ck_assert_uint_gt(b.n, strlen(LOST));
    ck_assert_str_eq(b.p + b.n - 1 - strlen(LOST), LOST);
    buf_fini(&b);
    leave(&c);
    leave(&d);
}
END_TEST

/* Half of the reply has left: it cannot be taken back. */
START_TEST(a_half_sent_reply_ends_the_connection)
{
    struct client c = come();
    struct buf b;
    size_t n;

    sends(&c, "LOCK b OWNER me LEASE 1s\n");
    turn();
    (void)answer_all();
    ck_assert_str_eq(c.s->out.bytes.n == 6 ? "" : "no reply", "");
    outbox_sent(&c.s->out, 2); /* as if the socket had taken two bytes */
    n = c.s->out.bytes.n;
    ck_assert_uint_eq(n, 4);
    clock_advance_us(2 * US_PER_S);
    settle();
    ck_assert_ptr_null(session_find(engine, c.id));
    ck_assert_uint_eq(engine->metrics.late_closes, 1);
    buf_init(&b, 0);
    receives(&c, &b);
    ck_assert_str_eq(b.p, "<end>");
    buf_fini(&b);
    close(c.fd);
}
END_TEST

/* The lock is still held, but for less time than the half that has left says. */
START_TEST(half_of_a_time_that_is_too_long_ends_the_connection)
{
    struct client c = come();

    sends(&c, "LOCK b OWNER me LEASE 20s FULL\n");
    turn();
    (void)answer_all();
    ck_assert_uint_gt(c.s->out.bytes.n, 100);
    outbox_sent(&c.s->out, c.s->out.bytes.n - (_i == 0 ? 4 : 23)); /* after "lease_ms"; within its digits */
    clock_advance_us(US_PER_S);
    settle();
    ck_assert_ptr_null(session_find(engine, c.id));
    ck_assert_uint_eq(engine->metrics.late_closes, 1);
    close(c.fd);
}
END_TEST

/* ---- commands that only read ---- */

START_TEST(a_listing_claims_no_expired_hold)
{
    struct client c = come(), d = come();
    struct buf b;
    const char *const asks[] = {"LOCKS\n", "LOCKINFO b\n"};

    setup(&c, "LOCK a\nLOCK b LEASE 1s\nLOCK c\n");
    ask_and_stop(&d, asks[_i], 0, 1300 * US_PER_MS);
    buf_init(&b, 0);
    receives(&d, &b);
    ck_assert_ptr_nonnull(strstr(b.p, _i == 0 ? "$1\r\na\r\n" : "$1\r\nb\r\n"));
    ck_assert_ptr_nonnull(strstr(strstr(b.p, "$1\r\nb\r\n"), "$5\r\nstate\r\n$4\r\nlost\r\n"));
    if (_i == 0) {
        ck_assert_ptr_nonnull(strstr(strstr(b.p, "$1\r\na\r\n"), "$5\r\nstate\r\n$4\r\nheld\r\n"));
        ck_assert_ptr_nonnull(strstr(strstr(b.p, "$1\r\nc\r\n"), "$5\r\nstate\r\n$4\r\nheld\r\n"));
    }
    buf_fini(&b);
    leave(&c);
    leave(&d);
}
END_TEST

START_TEST(no_event_claims_an_expired_hold)
{
    struct client c = come(), d = come();
    struct buf b;

    setup(&d, "SUBSCRIBE lock:b\n");
    sends(&c, "LOCK b LEASE 1s\n");
    turn();
    (void)answer_all();
    redis->stop_us = 2 * US_PER_S;
    settle();
    buf_init(&b, 0);
    receives(&d, &b);
    ck_assert_ptr_null(strstr(b.p, "granted 101 "));
    ck_assert_ptr_nonnull(strstr(b.p, "\r\nlost 101 "));
    buf_fini(&b);
    leave(&c);
    leave(&d);
}
END_TEST

#endif

int
main(void)
{
#ifdef RLOCKD_TEST_CLOCK
    const TTest *const tests[] = {
        a_rewritten_reply_is_valid_until_the_next_deadline,
        stops_without_end_let_nothing_late_leave,
        lost_is_reported_to_an_owner_once,
        the_other_grants_of_a_lost_mlock_are_released,
        no_answer_in_front_claims_a_released_grant,
        a_reply_that_waited_for_its_turn_is_checked_again,
        the_time_left_is_reported_as_it_is,
        nothing_is_waited_for_by_a_drain_behind_a_stop,
        a_broken_lock_is_not_reported_as_held,
        a_reply_behind_a_full_socket_is_checked_again,
        a_half_sent_reply_ends_the_connection,
        no_event_claims_an_expired_hold,
    };
    TCase *tc = house_tcase(tests, sizeof(tests) / sizeof(tests[0]));
    const int n = (int)(sizeof(stops) / sizeof(stops[0]));

    tcase_add_loop_test(tc, no_reply_claims_a_hold_behind_a_stop, 0, n);
    tcase_add_loop_test(tc, a_hold_that_outlives_a_stop_is_reported, 0, n);
    tcase_add_loop_test(tc, a_stop_behind_the_rewriting_is_noticed, 0, 2);
    tcase_add_loop_test(tc, half_of_a_time_that_is_too_long_ends_the_connection, 0, 2);
    tcase_add_loop_test(tc, a_hold_before_a_lost_mlock_stays, 0,
                        (int)(sizeof(held_before) / sizeof(held_before[0])));
    tcase_add_loop_test(tc, a_listing_claims_no_expired_hold, 0, 2);
    return house_run("late", tc);
#else
    return 0;
#endif
}
