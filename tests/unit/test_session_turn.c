/*
 * test_session_turn.c -- the cost of a session in a turn: one read, one write, a share; and each end of a session is
 * noticed.
 */
#include <check.h>
#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/house.h"

#include "daemon/serve/replies.h"

/* ---- the calls of the daemon for one of its sockets ---- */

static int counted = -1; /* the socket */
static unsigned reads, writes, asked;
static unsigned looked_at; /* sockets of all sessions, and processes of new ones */
static int last_written;   /* of all sockets */
static bool members_unknown;         /* poll() fails, as without memory */

ssize_t
recv(int fd, void *p, size_t n, int flags)
{
    reads += fd == counted;
    return syscall(SYS_recvfrom, fd, p, n, flags, NULL, NULL);
}

ssize_t
send(int fd, const void *p, size_t n, int flags)
{
    writes += fd == counted;
    last_written = fd;
    return syscall(SYS_sendto, fd, p, n, flags, NULL, 0);
}

int
poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
    struct pollfd *volatile first = p; /* volatile, as gcc assumes that poll() only writes there */

    looked_at += (unsigned)n;
    asked += n == 1 && first->fd == counted && first->events == 0;
    errno = ENOMEM;
    return members_unknown ? -1 : (int)syscall(SYS_poll, p, n, timeout_ms);
}

static void
count(const struct client *c)
{
    counted = c->s->fd;
    reads = writes = asked = looked_at = 0;
}

static bool
all_seen(void)
{
    return engine->recheck_us == CORE_FOREVER;
}

/* The session is one of several of its process; for a session alone see test_peek.c. */
START_TEST(one_read_and_one_write_for_a_request)
{
    struct client other = come(), c = come();

    settle();
    count(&c);
    for (unsigned i = 1; i <= 10; i++) {
        sends(&c, "PING\n");
        settle();
        expect(&c, "+PONG\r\n");
        ck_assert_uint_eq(reads, i);
        ck_assert_uint_eq(writes, i);
    }
    sends(&c, "LOCK a\n"); /* answered in a later turn */
    settle();
    expect(&c, ":101\r\n");
    ck_assert_uint_eq(reads, 11);
    ck_assert_uint_eq(writes, 11);
    ck_assert(wait_for(all_seen)); /* an answered session was there: no further read */
    ck_assert_uint_eq(reads, 11);
    counted = -1;
    leave(&c);
    leave(&other);
}
END_TEST

START_TEST(replies_of_a_turn_leave_in_one_write)
{
    struct client other = come(), c = come();
    struct buf b;

    stop_the_clock(); /* otherwise a slow machine cuts the turn short */
    settle();
    count(&c);
    sends_times(&c, "PING\n", 100);
    settle();
    ck_assert_uint_eq(reads, 1);
    ck_assert_uint_eq(writes, 1);
    sends(&c, "LOCK a\nLOCK b OWNER x\nLOCK c OWNER y\nUNLOCK a\n");
    settle();
    ck_assert_uint_eq(reads, 2);
    ck_assert_uint_le(writes, 3); /* the replies to the LOCKs in one write, and that to UNLOCK after Redis's answer */
    buf_init(&b, 0);
    receives(&c, &b);
    ck_assert_ptr_nonnull(strstr(b.p, "+PONG\r\n:101\r\n:102\r\n:103\r\n:0\r\n"));
    buf_fini(&b);
    counted = -1;
    leave(&c);
    leave(&other);
}
END_TEST

/* A waiting session, which is sent nothing, is looked at once, and then costs nothing. */
START_TEST(a_waiting_session_is_looked_at_once)
{
    struct client holder = come(), c = come();

    sends(&holder, "LOCK a\n");
    settle();
    count(&c);
    sends(&c, "LOCK a\n");
    settle();
    ck_assert(wait_for(all_seen));
    settle();
    ck_assert_uint_eq(looked_at, 1);
    ck_assert_uint_eq(reads, 1);
    ck_assert_ptr_nonnull(session_find(engine, c.id));
    counted = -1;
    leave(&c);
    leave(&holder);
}
END_TEST

START_TEST(a_session_that_cannot_be_looked_at_is_read)
{
    struct client holder = come(), c = come();

    sends(&holder, "LOCK a\n");
    settle();
    count(&c);
    members_unknown = true;
    sends(&c, "LOCK a\n");
    settle();
    ck_assert(wait_for(all_seen));
    settle();
    members_unknown = false;
    ck_assert_uint_eq(looked_at, 1);
    ck_assert_uint_eq(reads, 2);
    ck_assert_ptr_nonnull(session_find(engine, c.id));
    counted = -1;
    leave(&c);
    leave(&holder);
}
END_TEST

/* More sessions than one call of poll() takes. */
START_TEST(however_many_wait_each_is_looked_at)
{
    enum { MANY = 150 };
    struct client holder = come(), c[MANY];

    sends(&holder, "LOCK a\n");
    settle();
    ck_assert(wait_for(all_seen));
    for (unsigned i = 0; i < MANY; i++) {
        c[i] = come();
    }
    settle();
    looked_at = 0;
    stop_the_clock(); /* or a slow machine cuts a turn short between the read and the request, and there is one more */
    for (unsigned i = 0; i < MANY; i++) {
        sends(&c[i], "LOCK a\n");
    }
    settle();
    ck_assert_uint_eq(looked_at, 0);
    start_the_clock();
    ck_assert(wait_for(all_seen));
    ck_assert_uint_eq(looked_at, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        leave(&c[i]);
    }
    leave(&holder);
}
END_TEST

/* A grant is urgent, for its lock stays unused meanwhile; the reply to UNLOCK has time. */
START_TEST(a_grant_leaves_before_the_answer_that_brought_it)
{
    struct client holder = come(), c = come();

    sends(&holder, "LOCK a\n");
    settle();
    sends(&c, "LOCK a\n");
    settle();
    expect(&holder, ":101\r\n");
    sends(&holder, "UNLOCK a\n");
    settle();
    ck_assert_int_eq(last_written, holder.s->fd);
    expect(&c, ":102\r\n");
    expect(&holder, ":0\r\n");
    ck_assert(wait_for(all_seen));
    leave(&c);
    leave(&holder);
}
END_TEST

/* ---- the end ---- */

static uint64_t dying;

static bool
has_died(void)
{
    return session_find(engine, dying) == NULL;
}

/*
 * The client dies with a reply unread, and its last bytes arrive together with the reset: the kernel then reports the
 * error once, as readable input, and the read returns the bytes, not the error.
 */
START_TEST(a_holder_that_dies_saying_something_frees_in_no_time)
{
    static const char *const last_words[] = {"UNLOC", "LOCK b\n"}; /* no reply, whose write would fail */
    struct client other = come();

    sends(&other, "LOCK b\n");
    settle();
    for (size_t i = 0; i < sizeof(last_words) / sizeof(last_words[0]); i++) {
        struct client c = come();

        sends(&c, "LOCK a\n");
        settle();
        sends(&c, last_words[i]); /* the token was not read */
        close(c.fd);
        dying = c.id;
        ck_assert(wait_for(has_died));
        ck_assert_uint_eq(redis->releases, i + 1);
    }
    leave(&other);
}
END_TEST

/* The same, but the last request has a reply: its write fails, in the same turn. */
START_TEST(an_answer_finds_out_that_the_peer_is_gone)
{
    struct client c = come();

    sends(&c, "LOCK a\n");
    settle();
    sends(&c, "PING\n");
    close(c.fd);
    settle();
    ck_assert_ptr_null(session_find(engine, c.id));
    ck_assert_uint_eq(redis->releases, 1);
}
END_TEST

/* The session is held up with more input, so no read can show its end: the daemon asks at each edge, not each turn. */
START_TEST(the_end_of_a_session_that_is_held_up_is_seen)
{
    struct client holder = come(), c = come();

    conf->limit_pipeline = 4;
    sends(&holder, "LOCK b\nLOCK d\n");
    sends(&c, "LOCK a\n");
    settle();
    count(&c);
    sends(&c, "LOCK b\nPING\nLOCK d\nPING\nPING\nPING\n");
    settle();
    ck_assert_uint_eq(c.s->requests_n, 5); /* one more was read */
    sends(&c, "PING\n");                     /* ... and this is not */
    settle();
    ck_assert_uint_ge(asked, 1); /* whether the peer is gone */
    ck_assert_uint_le(asked, 2); /* ... and with the recheck, if that is due already */
    sends(&holder, "UNLOCK b\n");
    settle();
    ck_assert_uint_eq(c.s->slots_n, 4);
    ck_assert_uint_le(asked, 2);
    counted = -1;
    close(c.fd); /* the client has read nothing, so the connection breaks */
    settle();
    ck_assert_ptr_null(session_find(engine, c.id));
    leave(&holder);
}
END_TEST

/* The last requests hold the session up: no more is read of it, but the recheck asks whether the peer is there. */
START_TEST(a_holder_that_dies_asking_for_too_much_frees_in_no_time)
{
    struct client other = come(), c = come();

    conf->limit_pipeline = 4;
    sends(&other, "LOCK b\n");
    sends(&c, "LOCK a\n");
    settle();
    sends(&c, "LOCK b\nPING\nPING\nPING\nPING\n");
    close(c.fd); /* the token was not read */
    dying = c.id;
    ck_assert(wait_for(has_died));
    ck_assert_uint_eq(redis->releases, 1);
    leave(&other);
}
END_TEST

/* The release of the session's own locks does not wait for its unread requests, however many there are. */
START_TEST(a_holder_that_dies_with_much_unread_frees_in_no_time)
{
    struct client c = come();
    int turns = 0;

    stop_the_clock();
    sends(&c, "LOCK a\n");
    settle();
    expect(&c, ":101\r\n");
    sends_times(&c, "UNLOCK b OWNER x\n", 5000);
    close(c.fd);
    while (redis->n == 0) { /* the only operation: the release */
        ck_assert_int_lt(turns++, 3);
        event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        (void)engine_turn(engine);
    }
    ck_assert_uint_lt(c.s->requests_n, 1000);
    settle();
    ck_assert_uint_eq(redis->releases, 1);
    ck_assert_ptr_null(session_find(engine, c.id));
    ck_assert_uint_eq(engine->metrics.requests, 5001); /* all requests for named owners were executed all the same */
}
END_TEST

/* ---- shares ---- */

enum { FLOODERS = 100 };

START_TEST(the_more_want_to_go_on_the_smaller_the_share)
{
    struct client flooder[FLOODERS], other;
    uint64_t before = 0, n;
    unsigned turns = 0, i;

    stop_the_clock();
    for (i = 0; i < FLOODERS; i++) {
        flooder[i] = come();
        sends_times(&flooder[i], "PING\n", 2000);
    }
    other = come();
    sends(&other, "PING\n");
    for (bool more = true; more; turns++) {
        event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        more = engine_turn(engine);
        n = engine->metrics.requests;
        ck_assert_uint_le(n - before, FLOODERS * 16 + 1); /* the others' requests before its turn */
        before = n;
        if (turns == 3) { /* the loop notices 32 sockets in its first turn, 64 more in the second */
            expect(&other, "+PONG\r\n");
        }
        for (i = 0; i < FLOODERS; i++) { /* no session is ahead of another by more than a share */
            ck_assert_uint_le(flooder[i].s->requests_n, (uint64_t)32 + 16 * turns);
        }
    }
    ck_assert_uint_eq(before, (uint64_t)FLOODERS * 2000 + 1);
    for (i = 0; i < FLOODERS; i++) {
        leave(&flooder[i]);
    }
    leave(&other);
}
END_TEST

/* The socket takes all that is sent: other sessions have their turn between two chunks. */
START_TEST(a_fast_reader_of_a_long_reply_is_sent_one_chunk_a_turn)
{
    enum { BYTES = 1000 };
    struct client c = come();
    struct chunks more;
    struct outbox *box;
    char text[BYTES];
    struct buf b;
    int turns = 0;

    settle();
    memset(text, 'x', sizeof(text));
    chunks_init(&more, 0);
    for (size_t n = 0; n < 70000; n += BYTES) {
        box = chunks_end(&more);
        ck_assert_ptr_nonnull(box);
        buf_add(&box->bytes, text, sizeof(text));
    }
    ck_assert_int_eq(setsockopt(c.s->fd, SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int)), 0);
    sends(&c, "PING\n");
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    slots_append(c.s, &more);
    session_wake(c.s);
    count(&c);
    while (engine_turn(engine)) {
        turns++;
        ck_assert_uint_le(writes, 1);
        writes = 0;
    }
    ck_assert_int_ge(turns, 2);
    buf_init(&b, 0);
    receives(&c, &b);
    ck_assert_uint_eq(b.n, 70000 + 7 + 1);
    buf_fini(&b);
    leave(&c);
}
END_TEST

#ifdef RLOCKD_TEST_CLOCK
/*
 * Requests that take long end the turn's input soon: each of the other sessions may still hand in one request. When the
 * turn is late, the session that was not reached is the first one in the next turn.
 */
START_TEST(slow_requests_make_a_short_turn)
{
    struct client slow = come(), other = come();

    settle();
    sends(&slow, "DEBUG ADVANCE 5ms\n");
    sends_times(&slow, "PING\n", 300);
    sends_times(&other, "PING\n", 300);
    ck_assert(one_turn());
    ck_assert_uint_ge(slow.s->requests_n, 1);
    ck_assert_uint_le(slow.s->requests_n, 8);
    ck_assert_uint_eq(other.s->requests_n, 0);
    ck_assert(one_turn());
    ck_assert_uint_ge(other.s->requests_n, 8);
    while (one_turn()) { /* all requests are answered in the end */
    }
    ck_assert_uint_eq(slow.s->requests_n, 301);
    ck_assert_uint_eq(other.s->requests_n, 300);
    leave(&slow);
    leave(&other);
}
END_TEST

/* A new request is read at once, however many sessions have more input, and however slow their requests are. */
START_TEST(new_sessions_go_before_sessions_cut_short)
{
    enum { SLOW = 5, TURNS = 20 };
    struct client slow[SLOW], guest = come();
    uint64_t sum = 0;
    int i;

    for (i = 0; i < SLOW; i++) {
        slow[i] = come();
    }
    settle();
    for (i = 0; i < SLOW; i++) {
        sends_times(&slow[i], "DEBUG ADVANCE 5ms\n", 300);
    }
    for (i = 0; i < SLOW; i++) { /* one of them is read in each turn */
        ck_assert(one_turn());
    }
    for (i = 1; i <= TURNS; i++) {
        sends(&guest, "PING\n");
        ck_assert(one_turn());
        ck_assert_uint_eq(guest.s->requests_n, (unsigned)i);
    }
    for (i = 0; i < SLOW; i++) { /* and each of them goes on, too */
        ck_assert_uint_ge(slow[i].s->requests_n, TURNS / SLOW);
        sum += slow[i].s->requests_n;
    }
    ck_assert_uint_lt(sum, SLOW * 300);
    while (one_turn()) {
    }
    for (i = 0; i < SLOW; i++) {
        ck_assert_uint_eq(slow[i].s->requests_n, 300);
        leave(&slow[i]);
    }
    leave(&guest);
}
END_TEST

/* Events and grants leave without waiting for the session's turn to be read. */
START_TEST(output_to_a_session_cut_short_does_not_wait)
{
    enum { SLOW = 5 };
    struct client slow[SLOW], guest = come();
    struct buf b;
    int i, reported = 0;

    sends(&guest, "LOCK x OWNER me\n");
    for (i = 0; i < SLOW; i++) {
        slow[i] = come();
        sends(&slow[i], "HELLO 3\nSUBSCRIBE lock:x\n");
    }
    settle();
    for (i = 0; i < SLOW; i++) {
        sends_times(&slow[i], "DEBUG ADVANCE 5ms\n", 100);
    }
    for (i = 0; i < SLOW; i++) { /* one of them is read in each turn */
        ck_assert(one_turn());
    }
    sends(&guest, "UNLOCK x OWNER me\n");
    ck_assert(one_turn());
    ck_assert_int_gt(answer_all(), 0);
    ck_assert(one_turn());
    for (i = 0; i < SLOW; i++) {
        buf_init(&b, 0);
        receives(&slow[i], &b);
        reported += strstr(b.p, "released") != NULL;
        buf_fini(&b);
        ck_assert_uint_lt(slow[i].s->requests_n, 50);
    }
    ck_assert_int_eq(reported, SLOW);
    while (one_turn()) {
    }
    for (i = 0; i < SLOW; i++) {
        leave(&slow[i]);
    }
    leave(&guest);
}
END_TEST

/*
 * The connections of a process end together, and each has waits to end: no other session has to wait for all of them.
 */
START_TEST(long_ends_let_others_through)
{
    enum { ENDING = 5, WAITS = 100 };
    struct client ending[ENDING], guest = come();
    uint64_t id[ENDING];
    const struct session *s;
    char line[64];
    unsigned reported;
    int i, k;

    sends(&guest, "LOCK x\n");
    settle();
    for (i = 0; i < ENDING; i++) {
        ending[i] = come();
        for (k = 0; k < WAITS; k++) {
            snprintf(line, sizeof(line), "LOCK x OWNER o%d-%d\n", i, k);
            sends(&ending[i], line);
        }
    }
    settle();
    for (i = 0; i < ENDING; i++) {
        ck_assert_uint_eq(ending[i].s->slots_n, WAITS);
        id[i] = ending[i].s->id;
        ck_assert_int_eq(shutdown(ending[i].fd, SHUT_WR), 0);
    }
    stop_the_clock(); /* the work that is put off is too long for any turn, only this one is not */
    sends(&guest, "PING\n");
    ck_assert(one_turn());
    ck_assert_uint_eq(guest.s->requests_n, 2);
    for (i = 0, reported = 0; i < ENDING; i++) {
        reported += ending[i].s->eof_reported_below != 0;
    }
    ck_assert_uint_eq(reported, 0);
    (void)one_turn();
    for (i = 0, reported = 0; i < ENDING; i++) {
        s = session_find(engine, id[i]); /* NULL: it has ended completely */
        reported += s == NULL || s->eof_reported_below == WAITS;
    }
    ck_assert_uint_ge(reported, 1);
    settle();
    for (i = 0; i < ENDING; i++) {
        leave(&ending[i]);
    }
    leave(&guest);
}
END_TEST
#endif

/* Of one session's LOCKs at most a share goes to Redis before those of another session. */
START_TEST(a_flood_of_locks_lets_others_through)
{
    struct client flooder = come(), other = come();
    struct buf b;
    char line[64];
    int i;

    stop_the_clock();
    buf_init(&b, 0);
    for (i = 0; i < 1000; i++) {
        snprintf(line, sizeof(line), "LOCK n%d WAIT 0 OWNER o%d\n", i, i);
        buf_adds(&b, line);
    }
    ck_assert_int_eq(send(flooder.fd, b.p, b.n, MSG_NOSIGNAL), (ssize_t)b.n);
    sends(&other, "LOCK mine\nPING\n");
    event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    ck_assert(engine_turn(engine));
    ck_assert_uint_le(redis->acquires, 256 + 1);
    ck_assert_uint_eq(other.s->requests_n, 2); /* in the same turn */
    settle();
    buf_clear(&b, SIZE_MAX);
    receives(&other, &b);
    ck_assert_int_le(strtol(b.p + 1, NULL, 10), 100 + 256 + 1); /* tokens have the order in which Redis was asked */
    ck_assert_ptr_nonnull(strstr(b.p, "+PONG"));
    buf_fini(&b);
    leave(&flooder);
    leave(&other);
}
END_TEST

/* ---- many requests without an answer ---- */

START_TEST(a_long_pipeline_goes_round_and_keeps_its_order)
{
    enum { AT_ONCE = 20, ALL = 200 };
    struct client holder = come(), c = come();
    char line[64];
    struct buf b;
    int i;

    for (i = 0; i < ALL; i++) {
        snprintf(line, sizeof(line), "LOCK n%d OWNER h%d\n", i, i);
        sends(&holder, line);
    }
    settle();
    ck_assert_uint_eq(c.s->slots_room, 1);
    for (i = 0; i < ALL + AT_ONCE; i++) {
        if (i < ALL) {
            snprintf(line, sizeof(line), "LOCK n%d OWNER o%d FULL\n", i, i);
            sends(&c, line);
            settle();
        }
        if (i >= AT_ONCE) {
            int n = i % 2 == 0 ? i - AT_ONCE + 1 : i - AT_ONCE - 1; /* by twos, the later one first */

            snprintf(line, sizeof(line), "UNLOCK n%d OWNER h%d\n", n, n);
            sends(&holder, line);
            settle();
        }
    }
    buf_init(&b, 0);
    receives(&c, &b);
    ck_assert_uint_eq(c.s->slots_n, 0);
    ck_assert_uint_eq(c.s->slots_room, 1);
    for (i = 0; i < ALL; i++) {
        const char *at;

        snprintf(line, sizeof(line), "name\r\n$%d\r\nn%d\r\n", 1 + (i < 10 ? 1 : i < 100 ? 2 : 3), i);
        at = strstr(b.p, line);
        ck_assert_ptr_nonnull(at);
        ck_assert_int_lt(at - b.p, 50); /* it is the next one */
        buf_drop(&b, (size_t)(at - b.p));
        at = strstr(b.p, "waited_ms");
        ck_assert_ptr_nonnull(at);
        buf_drop(&b, (size_t)(at - b.p));
    }
    buf_fini(&b);
    leave(&c);
    leave(&holder);
}
END_TEST

/*
 * The session that sends KILL has more requests in the shared read buffer, which the end of the other must not touch.
 */
START_TEST(requests_behind_a_kill_are_still_there)
{
    struct client c = come(), victim = come();
    char text[128];

    settle();
    sends(&victim, "PING this is read and thrown away, but not into our requests\n");
    snprintf(text, sizeof(text), "KILL %llu\nPING one\nPING two\n", (unsigned long long)victim.id);
    sends(&c, text);
    settle();
    expect(&c, "+OK\r\n$3\r\none\r\n$3\r\ntwo\r\n");
    close(victim.fd);
    leave(&c);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        one_read_and_one_write_for_a_request,
        replies_of_a_turn_leave_in_one_write,
        a_waiting_session_is_looked_at_once,
        a_session_that_cannot_be_looked_at_is_read,
        however_many_wait_each_is_looked_at,
        a_grant_leaves_before_the_answer_that_brought_it,
        a_holder_that_dies_saying_something_frees_in_no_time,
        an_answer_finds_out_that_the_peer_is_gone,
        the_end_of_a_session_that_is_held_up_is_seen,
        a_holder_that_dies_asking_for_too_much_frees_in_no_time,
        a_holder_that_dies_with_much_unread_frees_in_no_time,
        the_more_want_to_go_on_the_smaller_the_share,
        a_fast_reader_of_a_long_reply_is_sent_one_chunk_a_turn,
#ifdef RLOCKD_TEST_CLOCK
        slow_requests_make_a_short_turn,
        new_sessions_go_before_sessions_cut_short,
        output_to_a_session_cut_short_does_not_wait,
        long_ends_let_others_through,
#endif
        a_flood_of_locks_lets_others_through,
        a_long_pipeline_goes_round_and_keeps_its_order,
        requests_behind_a_kill_are_still_there,
    };
    TCase *tc = house_tcase(tests, sizeof(tests) / sizeof(tests[0]));

    return house_run("session turn", tc);
}
