/*
 * test_auth_limit.c -- wrong passwords: what they cost the guessing client, and a client at the same address.
 */
#include "tests/unit/house.h"

#include "daemon/serve/auth_limit.h"
#include "daemon/serve/peer.h"
#include "daemon/serve/session_out.h"

#define WRONG "-WRONGPASS invalid username-password pair or user is disabled.\r\n"

static void
build_guarded(void)
{
    build();
    conf->auth_password = strdup("sesame");
    conf->auth_unix = true;
}

static struct client
come_as(uid_t uid)
{
    struct client c = come();

    c.s->uid = uid;
    c.s->user = user_key(c.s);
    return c;
}

static void
expects(struct client *c, const char *request, const char *answer)
{
    sends(c, request);
    settle();
    expect(c, answer);
}

/* Uses up the wrong passwords that cost nothing. */
static void
use_up(uid_t uid)
{
    for (unsigned i = 0; i < AUTH_LIMIT_FREE; i++) {
        struct client c = come_as(uid);

        sends(&c, "AUTH wrong\n");
        settle();
        expect(&c, i + 1 < AUTH_LIMIT_FREE ? WRONG : WRONG "<end>");
        if (i + 1 < AUTH_LIMIT_FREE) {
            leave(&c);
        } else {
            close(c.fd);
        }
    }
}

#ifdef RLOCKD_TEST_CLOCK
static void
pass_us(int64_t us)
{
    clock_advance_us(us);
    settle();
}
#endif

START_TEST(then_each_one_waits_right_or_wrong)
{
    struct client right, wrong, hello, other, before = come_as(7);

    stop_the_clock();
    use_up(7);
    right = come_as(7);
    wrong = come_as(7);
    hello = come_as(7);
    other = come_as(8);
    sends(&right, "PING\nAUTH sesame\nLOCK a\n"); /* only the requests behind the password wait with it */
    sends(&wrong, "AUTH sesam\nPING\n");
    sends(&hello, "HELLO 2 SETNAME x AUTH default sesame\n");
    sends(&other, "AUTH sesame\n");
    sends(&before, "PING\n");
    settle();
    expect(&right, "+PONG\r\n");
    expect(&wrong, "");
    expect(&hello, "");
    expect(&other, "+OK\r\n");
    expect(&before, "+PONG\r\n");
#ifdef RLOCKD_TEST_CLOCK
    pass_us(AUTH_LIMIT_DELAY_US - US_PER_MS);
    expect(&right, "");
    pass_us(2 * US_PER_MS);
    expect(&right, "+OK\r\n:101\r\n");
    expect(&wrong, WRONG "<end>");
    ck_assert(hello.s->authed);
#endif
    leave(&right);
    close(wrong.fd);
    leave(&hello);
    leave(&other);
    leave(&before);
}
END_TEST

#ifdef RLOCKD_TEST_CLOCK
START_TEST(one_more_every_two_seconds)
{
    struct client c;

    use_up(7);
    pass_us(AUTH_LIMIT_REGAIN_US);
    c = come_as(7);
    expects(&c, "AUTH wrong\n", WRONG "<end>"); /* the one that was regained */
    close(c.fd);
    c = come_as(7);
    expects(&c, "AUTH sesame\n", "");
    pass_us(AUTH_LIMIT_DELAY_US);
    expect(&c, "+OK\r\n");
    leave(&c);
    pass_us(100 * US_PER_S);
    c = come_as(7);
    expects(&c, "AUTH wrong\nAUTH wrong\nAUTH sesame\n", WRONG WRONG "+OK\r\n");
    leave(&c);
}
END_TEST

START_TEST(so_many_wait_at_a_time)
{
    struct client *c = calloc(AUTH_LIMIT_WAITING, sizeof(*c)), more;

    use_up(7);
    for (unsigned i = 0; i < AUTH_LIMIT_WAITING; i++) {
        c[i] = come_as(7);
        sends(&c[i], "AUTH wrong\n");
    }
    settle();
    more = come_as(7);
    expects(&more, "AUTH sesame\n", "-LIMIT too many wrong passwords from this client\r\n<end>");
    close(more.fd);
    more = come_as(8);
    expects(&more, "AUTH sesame\n", "+OK\r\n"); /* another client has a limit of its own */
    leave(&more);
    close(c[0].fd); /* that makes no room: its AUTH still waits, and nothing is read behind it */
    more = come_as(7);
    expects(&more, "AUTH sesame\n", "-LIMIT too many wrong passwords from this client\r\n<end>");
    close(more.fd);
    session_close(c[1].s, CLOSE_KILLED);
    more = come_as(7);
    expects(&more, "AUTH sesame\n", "");
    pass_us(AUTH_LIMIT_DELAY_US);
    expect(&more, "+OK\r\n");
    leave(&more);
    expect(&c[1], "<end>");
    close(c[1].fd);
    for (unsigned i = 2; i < AUTH_LIMIT_WAITING; i++) {
        expect(&c[i], WRONG "<end>");
        close(c[i].fd);
    }
    free(c);
}
END_TEST

/* auth.timeout is shorter than the delay: a client with the right password must not be closed by it. */
START_TEST(not_longer_than_the_time_to_log_in)
{
    struct client c;

    conf->auth_timeout_us = 100 * US_PER_MS;
    use_up(7);
    c = come_as(7);
    expects(&c, "AUTH sesame\n", "");
    pass_us(60 * US_PER_MS);
    expect(&c, "+OK\r\n");
    leave(&c);
}
END_TEST
#endif

/* Where the users have no password, AUTH default takes any: that must not offset wrong passwords of the admin. */
START_TEST(success_without_a_password_clears_no_failures)
{
    struct client c;

    free(conf->auth_password);
    conf->auth_password = NULL;
    conf->auth_admin_password = strdup("open");
    c = come_as(7);
    expects(&c, "AUTH admin a\nAUTH default x\nAUTH admin b\nAUTH default x\nAUTH admin c\n",
         WRONG "+OK\r\n" WRONG "+OK\r\n" WRONG "<end>");
    close(c.fd);
}
END_TEST

/* More clients than the table has entries: the table does not grow, and the daemon goes on. */
START_TEST(a_crowd_of_guessers)
{
    for (uid_t uid = 1; uid < 3000; uid++) {
        struct client c = come_as(uid);

        expects(&c, "AUTH wrong\n", WRONG);
        leave(&c);
    }
    ck_assert_uint_eq(engine->metrics.auth_failures, 2999);
    use_up(7);
}
END_TEST

int
main(void)
{
    TCase *tc = tcase_create("auth_limit");

    tcase_add_checked_fixture(tc, build_guarded, take_down);
    tcase_add_test(tc, then_each_one_waits_right_or_wrong);
#ifdef RLOCKD_TEST_CLOCK
    tcase_add_test(tc, one_more_every_two_seconds);
    tcase_add_test(tc, so_many_wait_at_a_time);
    tcase_add_test(tc, not_longer_than_the_time_to_log_in);
#endif
    tcase_add_test(tc, success_without_a_password_clears_no_failures);
    tcase_add_test(tc, a_crowd_of_guessers);
    return house_run("auth_limit", tc);
}
