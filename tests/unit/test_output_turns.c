/*
 * test_output_turns.c -- the output of a turn has a bounded time: answers leave before events; a session that was not
 * reached goes first in the next turn, and is read again when it has written.
 */
#pragma GCC diagnostic ignored "-Wunused-function" /* of house.h */
#include "tests/unit/house.h"

#include <errno.h>
#include <sys/syscall.h>

#include "daemon/serve/pubsub.h"

#ifdef RLOCKD_TEST_CLOCK

/*
 * A send() of the daemon takes this long. The clock is read after the first eight, and then after every eighth: 8 + 48
 * are more than the 4 ms of a turn's output, 16 more than the 1 ms for events besides.
 */
enum { SEND_US = 100, OF_A_TURN = 56, OF_EVENTS = 16 };

static int64_t send_us; /* 0: no time */
static unsigned sent_n;

ssize_t
send(int fd, const void *p, size_t n, int flags)
{
    clock_advance_us(send_us);
    sent_n++;
    return syscall(SYS_sendto, fd, p, n, flags, NULL, 0);
}

/* The loop has noticed all sockets with input, which takes it several calls. */
static bool
slow_turn(void)
{
    bool more;

    for (int i = 0; i < 5; i++) {
        event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    }
    sent_n = 0;
    send_us = SEND_US;
    more = engine_turn(engine);
    send_us = 0;
    return more;
}

static void
publish(const char *name)
{
    struct core_publish news = {.news = CORE_NEWS_GRANTED, .name = slice_of(name), .token = 17, .owner = 4,
                                .owner_name = SLICE_LIT("o"), .session = 7};

    pubsub_news(engine->pubsub, &news);
}

/* The number of bytes that the client can read. */
static size_t
received(const struct client *c)
{
    struct buf b;
    size_t n;

    buf_init(&b, 0);
    receives(c, &b);
    n = b.n - 1;
    buf_fini(&b);
    return n;
}

enum { MANY = 200 };

static void
come_all(struct client *c)
{
    stop_the_clock();
    for (int i = 0; i < MANY; i++) {
        c[i] = come();
    }
    settle();
}

static void
leave_all(struct client *c)
{
    for (int i = 0; i < MANY; i++) {
        leave(&c[i]);
    }
}

START_TEST(an_answer_leaves_before_the_events_of_others)
{
    struct client c[MANY], guest = come();
    unsigned reported = 0, turns = 0;
    bool more = true;

    come_all(c);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(pubsub_subscribe(engine->pubsub, c[i].s, SLICE_LIT("lock:a"), false), 1);
    }
    publish("a");
    for (; more; turns++) {
        sends(&guest, "PING\n");
        more = slow_turn();
        expect(&guest, "+PONG\r\n");
        ck_assert_uint_le(sent_n, OF_A_TURN);
    }
    ck_assert_uint_ge(turns, MANY / OF_A_TURN);
    for (int i = 0; i < MANY; i++) {
        reported += received(&c[i]) > 0;
    }
    ck_assert_uint_eq(reported, MANY);
    leave(&guest);
    leave_all(c);
}
END_TEST

/* A few events leave in each turn, however many answers there are. */
START_TEST(events_leave_beside_answers)
{
    struct client c[MANY], subscriber = come();
    unsigned turns = 0;

    come_all(c);
    ck_assert_int_eq(pubsub_subscribe(engine->pubsub, subscriber.s, SLICE_LIT("lock:a"), false), 1);
    publish("a");
    for (int i = 0; i < MANY; i++) {
        sends(&c[i], "PING\n");
    }
    (void)slow_turn();
    ck_assert_uint_le(sent_n, OF_A_TURN + OF_EVENTS);
    ck_assert_uint_gt(received(&subscriber), 0);
    while (slow_turn()) {
        turns++;
    }
    ck_assert_uint_ge(turns, MANY / OF_A_TURN - 1);
    leave(&subscriber);
    leave_all(c);
}
END_TEST

/* And the session is not read meanwhile, so that its output does not grow. */
START_TEST(a_session_that_was_not_reached_goes_first_in_the_next_turn)
{
    struct client c[MANY];
    size_t bytes[MANY] = {0};
    unsigned turns = 0, answered = 0;

    come_all(c);
    for (int i = 0; i < MANY; i++) {
        sends(&c[i], "PING\n");
    }
    for (; answered < MANY; turns++) {
        ck_assert(slow_turn());
        ck_assert_uint_le(sent_n, OF_A_TURN);
        for (int i = 0; i < MANY; i++) {
            size_t n = received(&c[i]);

            answered += n > 0 && bytes[i] == 0;
            bytes[i] += n;
            ck_assert_uint_le(c[i].s->out.bytes.n, strlen("+PONG\r\n"));
            if (turns == 0) { /* sessions with their answer ask again, and the others ask for more */
                sends(&c[i], "PING\n");
            }
        }
        ck_assert_uint_le(turns, MANY / 40);
    }
    while (slow_turn()) {
    }
    for (int i = 0; i < MANY; i++) {
        ck_assert_uint_eq(bytes[i] + received(&c[i]), 2 * strlen("+PONG\r\n"));
    }
    leave_all(c);
}
END_TEST

/* Many sessions are owed answers; half of the next turn's output is for requests that arrive in it. */
START_TEST(new_requests_are_answered_beside_sessions_that_were_not_reached)
{
    struct client c[MANY], guest = come();

    come_all(c);
    for (int i = 0; i < MANY; i++) {
        sends(&c[i], "PING\n");
    }
    ck_assert(slow_turn());
    sends(&guest, "PING\n");
    ck_assert(slow_turn());
    ck_assert_uint_gt(received(&guest), 0);
    leave(&guest);
    leave_all(c);
}
END_TEST

/* Otherwise each turn would read more requests than it can answer, and all sessions would wait for that. */
START_TEST(sessions_cut_short_are_read_in_every_other_turn_while_answers_are_owed)
{
    struct client c[MANY];
    uint64_t before;

    come_all(c);
    for (int i = 0; i < MANY; i++) {
        sends_times(&c[i], "PING\n", 200);
    }
    for (int i = 0; i < 4; i++) {
        before = engine->metrics.requests;
        ck_assert(slow_turn());
        if (i % 2 == 0) {
            ck_assert_uint_gt(engine->metrics.requests, before);
        } else {
            ck_assert_uint_eq(engine->metrics.requests, before);
        }
    }
    leave_all(c);
}
END_TEST

/* The session has too many requests to be read: only the edge shows its end, and that came while it waited to write. */
START_TEST(the_end_of_a_session_that_was_not_reached_is_seen)
{
    struct client c[MANY], holder = come(), ends = come();

    conf->limit_pipeline = 4;
    come_all(c);
    sends(&holder, "LOCK a OWNER x\n");
    settle();
    sends(&ends, "PING\nLOCK a OWNER 1\nLOCK a OWNER 2\nLOCK a OWNER 3\nLOCK a OWNER 4\n");
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK); /* woken first, it writes last */
    for (int i = 0; i < MANY; i++) {
        sends(&c[i], "PING\n");
    }
    ck_assert(slow_turn());
    ck_assert_uint_eq(ends.s->slots_n, 4);
    ck_assert_uint_gt(ends.s->out.bytes.n, 0);
    ck_assert_int_eq(shutdown(ends.fd, SHUT_WR), 0);
    ck_assert(slow_turn());
    settle();
    ck_assert_ptr_null(session_find(engine, ends.id));
    close(ends.fd);
    leave(&holder);
    leave_all(c);
}
END_TEST

/* The session's output is over its limit, so it is not read; its socket takes more only after all answers. */
START_TEST(a_session_that_could_not_write_is_read_when_it_has_written)
{
    struct client c = come();
    char line[256];

    memset(line, 'x', sizeof(line));
    memcpy(line, "ECHO ", 5);
    line[sizeof(line) - 2] = '\n';
    line[sizeof(line) - 1] = '\0';
    conf->limit_output_bytes = 1024;
    ck_assert_int_eq(setsockopt(c.s->fd, SOL_SOCKET, SO_SNDBUF, &(int){1}, sizeof(int)), 0);
    sends_times(&c, line, 100);
    settle();
    ck_assert_uint_lt(c.s->requests_n, 100);
    ck_assert_uint_gt(c.s->out.bytes.n, 1024);
    for (int i = 0; i < 1000 && c.s->requests_n < 100; i++) {
        (void)received(&c);
        turn();
    }
    ck_assert_uint_eq(c.s->requests_n, 100);
    leave(&c);
}
END_TEST

#endif

int
main(void)
{
#ifdef RLOCKD_TEST_CLOCK
    const TTest *const tests[] = {an_answer_leaves_before_the_events_of_others, events_leave_beside_answers,
                                  a_session_that_was_not_reached_goes_first_in_the_next_turn,
                                  new_requests_are_answered_beside_sessions_that_were_not_reached,
                                  sessions_cut_short_are_read_in_every_other_turn_while_answers_are_owed,
                                  the_end_of_a_session_that_was_not_reached_is_seen,
                                  a_session_that_could_not_write_is_read_when_it_has_written};

    return house_run("output turns", house_tcase(tests, sizeof(tests) / sizeof(tests[0])));
#else
    return 0;
#endif
}
