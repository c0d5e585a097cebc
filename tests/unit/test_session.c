/*
 * test_session.c -- sessions over socket pairs with the real commands and core behind them: order, ends, limits.
 */
#include <check.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/house.h"

#include "daemon/serve/drain.h"
#include "daemon/serve/session_out.h"

/* ---- order ---- */

START_TEST(replies_come_in_order_of_requests)
{
    struct client c = come();

    sends(&c, "PING one\nLOCK a\nPING two\nLOCK b OWNER x\nNONSENSE\nPING three\n");
    turn();
    expect(&c, "$3\r\none\r\n"); /* no reply to a request behind the LOCK, though NONSENSE is known to be wrong */
    ck_assert_uint_eq(redis->acquires, 2); /* ... and though the acquire for b has been sent */
    settle();
    expect(&c, ":101\r\n$3\r\ntwo\r\n:102\r\n-ERR unknown command 'NONSENSE', with args beginning with: \r\n"
               "$5\r\nthree\r\n");
    leave(&c);
    ck_assert_uint_eq(redis->releases, 1); /* b has a named owner: it is kept for owner_grace */
}
END_TEST

START_TEST(the_later_reply_waits_for_the_earlier_one)
{
    struct client holder = come(), c = come();

    sends(&holder, "LOCK a\n");
    settle();
    expect(&holder, ":101\r\n");
    sends(&c, "LOCK a\nLOCK b OWNER x\n");
    settle();
    expect(&c, "");
    sends(&holder, "UNLOCK a\n");
    settle();
    expect(&holder, ":0\r\n");
    {
        struct buf b;

        buf_init(&b, 0);
        receives(&c, &b);
        ck_assert_int_eq(b.p[0], ':');
        ck_assert_ptr_nonnull(strstr(b.p, "\r\n:102\r\n"));
        buf_fini(&b);
    }
    leave(&c);
    leave(&holder);
}
END_TEST

START_TEST(an_unlock_behind_a_waiting_lock_runs)
{
    struct client c = come();

    sends(&c, "LOCK a OWNER x\n");
    settle();
    expect(&c, ":101\r\n");
    sends(&c, "LOCK a OWNER y\nPING\nUNLOCK a OWNER x\n");
    settle();
    {
        struct buf b;
        char *rest;

        buf_init(&b, 0);
        receives(&c, &b);
        ck_assert_int_gt(strtol(b.p + 1, &rest, 10), 101);
        ck_assert_str_eq(rest, "\r\n+PONG\r\n:0\r\n");
        buf_fini(&b);
    }
    leave(&c);
}
END_TEST

/* CANCEL runs at once, whatever stands between; the replies keep their order. */
START_TEST(a_cancel_behind_a_waiting_lock_runs)
{
    struct client holder = come(), c = come();

    sends(&holder, "LOCK a\n");
    settle();
    sends(&c, "LOCK a\nPING\nLOCK a FULL\nCANCEL a\n");
    settle();
    expect(&c, "$-1\r\n+PONG\r\n$-1\r\n:2\r\n");
    leave(&c);
    leave(&holder);
}
END_TEST

START_TEST(hello_behind_a_waiting_lock_changes_later_replies)
{
    struct client holder = come(), c = come();
    struct buf b;

    sends(&holder, "LOCK a\n");
    settle();
    sends(&c, "LOCK a WAIT 1h\nHELLO 3\nLOCKS nothing\nCLIENT GETNAME\n");
    settle();
    expect(&c, "");
    sends(&holder, "UNLOCK a\n");
    settle();
    buf_init(&b, 0);
    receives(&c, &b);
    ck_assert_int_eq(b.p[0], ':');
    ck_assert_ptr_nonnull(strstr(b.p, "\r\n%7\r\n"));
    ck_assert_ptr_nonnull(strstr(b.p, "*0\r\n_\r\n"));
    buf_fini(&b);
    leave(&c);
    leave(&holder);
}
END_TEST

START_TEST(one_byte_at_a_time_gives_the_same)
{
    static const char in[] = "PING \"a b\"\r\n*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n\r\nLOCK n\nUNLOCK n\nPING\n";
    struct client c = come();
    size_t i;

    for (i = 0; i < sizeof(in) - 1; i++) {
        ck_assert_int_eq(send(c.fd, in + i, 1, 0), 1);
        settle();
    }
    expect(&c, "$3\r\na b\r\n$2\r\nhi\r\n:101\r\n:0\r\n+PONG\r\n");
    leave(&c);
}
END_TEST

START_TEST(a_long_pipeline_is_answered_whole)
{
    struct client c = come();
    struct buf b;
    int pongs = 0;
    const char *at;

    sends_times(&c, "PING\n", 3000);
    settle();
    buf_init(&b, 0);
    receives(&c, &b);
    for (at = b.p; (at = strstr(at, "+PONG\r\n")) != NULL; at += 7) {
        pongs++;
    }
    ck_assert_int_eq(pongs, 3000);
    ck_assert_uint_eq(b.n, 3000 * 7 + 1);
    buf_fini(&b);
    leave(&c);
}
END_TEST

START_TEST(one_busy_session_does_not_hold_up_another)
{
    struct client busy = come(), other = come();

    stop_the_clock();
    sends_times(&busy, "PING\n", 3000);
    sends(&other, "PING\n");
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    ck_assert(engine_turn(engine)); /* the busy one has more requests ... */
    expect(&other, "+PONG\r\n");        /* ... and the other one has its answer */
    ck_assert_uint_lt(busy.s->requests_n, 3000);
    settle();
    ck_assert_uint_eq(busy.s->requests_n, 3000);
    leave(&busy);
    leave(&other);
}
END_TEST

/* ---- the end ---- */

START_TEST(whole_requests_before_eof_are_answered)
{
    struct client c = come();

    sends(&c, "LOCK a\nPING\nUNLOCK a\nPING half a requ");
    shutdown(c.fd, SHUT_WR);
    settle();
    expect(&c, ":101\r\n+PONG\r\n:0\r\n<end>");
    ck_assert_ptr_null(session_find(engine, c.id));
    close(c.fd);
}
END_TEST

START_TEST(eof_cancels_waiting_requests)
{
    struct client holder = come(), c = come();

    sends(&holder, "LOCK a\n");
    settle();
    sends(&c, "LOCK a\nPING\n");
    settle();
    expect(&c, "");
    shutdown(c.fd, SHUT_WR);
    settle();
    expect(&c, "$-1\r\n+PONG\r\n<end>");
    ck_assert_ptr_null(session_find(engine, c.id));
    close(c.fd);
    leave(&holder);
}
END_TEST

START_TEST(a_dead_holder_frees_at_once)
{
    struct client holder = come(), c = come();

    sends(&holder, "LOCK a\nLOCK b\n");
    settle();
    sends(&c, "LOCK a\n");
    settle();
    expect(&c, "");
    close(holder.fd);
    settle();
    ck_assert_ptr_null(session_find(engine, holder.id));
    {
        struct buf b;

        buf_init(&b, 0);
        receives(&c, &b);
        ck_assert_int_eq(b.p[0], ':');
        buf_fini(&b);
    }
    ck_assert_uint_ge(redis->releases, 1);
    leave(&c);
}
END_TEST

static bool
held(const char *name)
{
    struct core_lock_view v;

    return core_lock_info(engine->core, clock_now_us(), slice_of(name), &v) && strcmp(v.state, "held") == 0;
}

START_TEST(a_release_by_a_vanished_peer_still_runs)
{
    struct client c = come(), d = come();

    sends(&d, "LOCK a OWNER x\n");
    settle();
    ck_assert(held("a"));
    sends(&c, "PING\nLOCK b OWNER x\nUNLOCK a OWNER x\n");
    close(c.fd); /* no client reads the PONG; UNLOCK still waits for the LOCK of its owner */
    settle();
    ck_assert_ptr_null(session_find(engine, c.id));
    ck_assert(held("b"));
    ck_assert(!held("a"));
    leave(&d);
}
END_TEST

/*
 * If the client has closed the socket, commands for the session alone do not run; if it has only shut down one
 * direction, all are answered.
 */
START_TEST(commands_for_a_closed_peer_alone_do_not_run)
{
    static const char requests[] =
        "PING\nLOCK a\nLOCK a NOWAIT\nMLOCK 2 a b\nSUBSCRIBE lock:a\nUNLOCK a\nCANCEL a\nLOCKS\n"
        "LOCK c OWNER x\nMLOCK 2 d e OWNER x\nUNLOCK d OWNER x\nSET f y NX\nBREAK c\n";
    struct client c = come(), half = come();
    uint64_t before = engine->metrics.requests;

    sends(&c, requests);
    close(c.fd);
    settle();
    ck_assert_ptr_null(session_find(engine, c.id));
    ck_assert_uint_eq(engine->metrics.requests - before, 5);
    ck_assert(!held("a") && !held("b") && !held("c") && !held("d") && held("e") && held("f"));
    sends(&half, "LOCK a\nPING\n");
    ck_assert_int_eq(shutdown(half.fd, SHUT_WR), 0);
    settle();
    ck_assert_uint_eq(engine->metrics.requests - before, 7);
    close(half.fd);
}
END_TEST

START_TEST(a_grant_without_a_request_is_released)
{
    struct client c = come();

    sends(&c, "LOCK a\n");
    turn();
    ck_assert_uint_eq(redis->acquires, 1);
    session_close(session_find(engine, c.id), CLOSE_KILLED);
    turn();
    expect(&c, "<end>");
    settle();
    ck_assert_uint_eq(redis->releases, 1);
    ck_assert(drain_is_complete(engine));
    close(c.fd);
}
END_TEST

START_TEST(quit_ends_a_session_and_later_commands_do_not_run)
{
    struct client c = come(), d = come();

    sends(&c, "PING\nQUIT\nLOCK z\n");
    settle();
    expect(&c, "+PONG\r\n+OK\r\n<end>");
    sends(&d, "LOCK a\nQUIT\nLOCK z\n");
    settle();
    expect(&d, ":101\r\n+OK\r\n<end>");
    ck_assert_uint_eq(redis->acquires, 1);
    close(c.fd);
    close(d.fd);
}
END_TEST

START_TEST(draining_sends_waiters_away_and_ends_idle)
{
    struct client holder = come(), c = come();
    struct buf b;

    sends(&holder, "LOCK a\n");
    settle();
    sends(&c, "LOCK a\n");
    settle();
    drain_start(engine, 0);
    settle();
    buf_init(&b, 0);
    receives(&c, &b);
    ck_assert_msg(strncmp(b.p, "-DRAINING", 9) == 0, "%s", b.p);
    buf_fini(&b);
    ck_assert(!drain_is_complete(engine));
    sends(&holder, "UNLOCK a\n");
    settle();
    ck_assert(drain_is_complete(engine));
    drain_close_sessions(engine, "test");
    settle();
    expect(&c, "<end>");
    ck_assert_uint_eq(engine->sessions_n, 0);
    close(c.fd);
    close(holder.fd);
}
END_TEST

/* ---- pushes, memory ---- */

START_TEST(nothing_comes_unasked)
{
    struct client watcher = come(), c = come();
    struct buf b;

    sends(&watcher, "SUBSCRIBE lock:a\n");
    sends(&c, "HELLO 3\n");
    settle();
    expect(&watcher, "*3\r\n$9\r\nsubscribe\r\n$6\r\nlock:a\r\n:1\r\n");
    buf_init(&b, 0);
    receives(&c, &b);
    buf_clear(&b, 0);
    sends(&c, "LOCK a\nUNLOCK a\n");
    settle();
    receives(&c, &b);
    ck_assert_str_eq(b.p, ":101\r\n:0\r\n");
    buf_clear(&b, 0);
    receives(&watcher, &b);
    ck_assert_ptr_nonnull(strstr(b.p, "granted 101"));
    ck_assert_ptr_nonnull(strstr(b.p, "released 101"));
    buf_fini(&b);
    leave(&c);
    leave(&watcher);
}
END_TEST

START_TEST(an_idle_session_holds_no_buffer)
{
    struct client c = come();

    sends(&c, "LOCK a\nPING\nUNLOCK a\n");
    settle();
    ck_assert_uint_eq(c.s->slots_n, 0);
    ck_assert_ptr_null(c.s->out.bytes.p);
    ck_assert_ptr_null(c.s->reader.in.p);
    ck_assert_ptr_null(c.s->write_ev);
    ck_assert_uint_le(sizeof(struct session), 1024);
    leave(&c);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        replies_come_in_order_of_requests,
        the_later_reply_waits_for_the_earlier_one,
        an_unlock_behind_a_waiting_lock_runs,
        hello_behind_a_waiting_lock_changes_later_replies,
        one_byte_at_a_time_gives_the_same,
        a_long_pipeline_is_answered_whole,
        one_busy_session_does_not_hold_up_another,
        whole_requests_before_eof_are_answered,
        eof_cancels_waiting_requests,
        a_dead_holder_frees_at_once,
        a_release_by_a_vanished_peer_still_runs,
        commands_for_a_closed_peer_alone_do_not_run,
        a_cancel_behind_a_waiting_lock_runs,
        a_grant_without_a_request_is_released,
        quit_ends_a_session_and_later_commands_do_not_run,
        draining_sends_waiters_away_and_ends_idle,
        nothing_comes_unasked,
        an_idle_session_holds_no_buffer,
    };
    TCase *tc = house_tcase(tests, sizeof(tests) / sizeof(tests[0]));

    return house_run("session", tc);
}
