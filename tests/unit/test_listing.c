/*
 * test_listing.c -- long replies are made in slices: in their order, by turns, and dropped with their session.
 */
#pragma GCC diagnostic ignored "-Wunused-function" /* of house.h */
#include "tests/unit/house.h"

enum { NAME = 500, LOCKS = 1500 };

/* Locks names on which this pattern takes 10 µs and more. */
static void
lock_many(const struct client *c, char pattern[NAME])
{
    char text[NAME + 32], name[NAME + 1];

    for (int i = 0; i < NAME; i++) {
        name[i] = (char)((i < NAME / 2 ? 'a' : 'n') + i % 13);
    }
    for (int i = 0; i < LOCKS; i++) {
        snprintf(text, sizeof(text), "LOCK %.*s%04d LEASE 1h\n", NAME - 4, name, i); /* none is renewed meanwhile */
        sends(c, text);
        settle();
        {
            struct buf b;

            buf_init(&b, 0);
            receives(c, &b);
            buf_fini(&b);
        }
    }
    strcpy(pattern, "*");
    while (strlen(pattern) < NAME - 10) {
        strcat(pattern, "[!-m]");
    }
    strcat(pattern, "!");
}

/* Runs turns until no work is left, at most so many; returns their number. */
static int
turns(int most)
{
    int n = 0;

    while (n < most) {
        event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        n++;
        if (!engine_turn(engine) && n >= 3) {
            break;
        }
    }
    return n;
}

static void
ask(const struct client *c, const char *command, const char *pattern)
{
    char text[NAME + 64];

    snprintf(text, sizeof(text), "%s %s\nPING\n", command, pattern);
    sends(c, text);
}

START_TEST(a_long_reply_takes_several_turns)
{
    struct client c = come(), other = come();
    char pattern[NAME];

    lock_many(&c, pattern);
    ask(&c, "LOCKS", pattern);
    ck_assert_int_eq(turns(4), 4); /* and work is left */
    expect(&c, "");
    sends(&other, "PING\n");
    ck_assert_int_eq(turns(2), 2);
    expect(&other, "+PONG\r\n");
    expect(&c, "");
    turn();
    expect(&c, "*0\r\n+PONG\r\n");
    ask(&c, "INFO locks", pattern);
    ck_assert_int_eq(turns(4), 4);
    expect(&c, "");
    turn();
    expect(&c, "$19\r\n# Locks\r\nno locks\r\n\r\n+PONG\r\n");
    leave(&c);
    leave(&other);
}
END_TEST

START_TEST(by_turns)
{
    struct client c = come(), d = come();
    char pattern[NAME];

    lock_many(&c, pattern);
    ask(&c, "LOCKS", pattern);
    (void)turns(2);
    ask(&d, "LOCKS", "nosuchname");
    for (int i = 0; i < 1000 && c.s->slots_n > 0 && d.s->slots_n > 0; i++) {
        (void)turns(1);
    }
    (void)turns(3); /* for its PING */
    expect(&d, "*0\r\n+PONG\r\n");
    expect(&c, "");
    turn();
    expect(&c, "*0\r\n+PONG\r\n");
    leave(&c);
    leave(&d);
}
END_TEST

START_TEST(forgotten_with_its_session)
{
    struct client c = come(), d = come();
    char pattern[NAME];

    lock_many(&c, pattern);
    ask(&d, "LOCKS", pattern);
    (void)turns(2);
    ck_assert(!list_empty(&engine->listings));
    close(d.fd);
    sends(&c, "PING\n");
    turn();
    expect(&c, "+PONG\r\n");
    ck_assert(list_empty(&engine->listings));
    ask(&c, "LOCKS", pattern);
    (void)turns(2);
    ck_assert(!list_empty(&engine->listings)); /* the engine frees it */
    close(c.fd);
}
END_TEST

/* Answers that are expensive: all those of one turn share its millisecond, whichever session asks. */
START_TEST(many_dear_ones_are_bounded_together)
{
    enum { ASKING = 8, TIMES = 3 }; /* as many as a turn takes in; all together some milliseconds */
    struct client c[ASKING], other = come();
    char text[16 * 1024] = "CONFIG GET", stars[301] = "";
    size_t left = 0;
    uint64_t asked = 0;

    memset(stars, '*', sizeof(stars) - 1);
    for (int i = 0; i < 40; i++) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s%d#", stars, i);
    }
    strcat(text, "\n");
    for (int i = 0; i < ASKING; i++) {
        c[i] = come();
        sends_times(&c[i], text, TIMES);
    }
    while (left == 0 && asked < ASKING * TIMES) { /* a turn that another process delays takes less input */
        (void)turns(1);
        asked = 0;
        for (int i = 0; i < ASKING; i++) {
            left += c[i].s->slots_n;
            asked += c[i].s->requests_n;
        }
    }
    ck_assert_uint_gt(left, 0);
    sends(&other, "PING\n");
    for (int i = 0; i < 10 && other.s->requests_n == 0; i++) {
        (void)turns(1);
    }
    expect(&other, "+PONG\r\n");
    turn();
    for (int i = 0; i < ASKING; i++) {
        expect(&c[i], "*0\r\n*0\r\n*0\r\n");
        leave(&c[i]);
    }
    leave(&other);
}
END_TEST

/* ---- answers larger than the buffer of a socket ---- */

enum { PIECE_MOST = 300 * 1024, SMALL = 4096 };

/* Asks for all rows, and does not read. */
static void
ask_for_all(struct client *c)
{
    ck_assert_int_eq(setsockopt(c->s->fd, SOL_SOCKET, SO_SNDBUF, &(int){SMALL}, sizeof(int)), 0);
    sends(c, "LOCKS\nPING\n");
    settle();
    ck_assert(list_empty(&engine->listings));
    ck_assert_uint_gt(chunks_bytes(&c->s->later), 1024 * 1024);
}

/* Reads all that comes. */
static void
receive_all(const struct client *c, struct buf *b)
{
    buf_init(b, 0);
    for (int i = 0; i < 10000 && c->s->out.bytes.n > 0; i++) {
        ck_assert_uint_lt(outbox_memory(&c->s->out), PIECE_MOST);
        receives(c, b);
        b->n--;
        turn();
    }
    receives(c, b);
}

/*
 * The rows wait in small blocks, which leave in order, and each block is freed then; later replies stand behind them.
 */
START_TEST(a_long_reply_leaves_in_chunks)
{
    struct client c = come(), d = come();
    char pattern[NAME];
    struct buf b;
    size_t all;

    lock_many(&c, pattern);
    ask_for_all(&d);
    all = chunks_bytes(&d.s->later);
    for (int i = 0; i < 100 && chunks_bytes(&d.s->later) == all; i++) {
        buf_init(&b, 0);
        receives(&d, &b);
        ck_assert(i > 0 || strncmp(b.p, "*1500\r\n", 7) == 0);
        buf_fini(&b);
        turn();
    }
    ck_assert_uint_lt(chunks_bytes(&d.s->later), all);
    receive_all(&d, &b);
    ck_assert(list_empty(&d.s->later.list));
    ck_assert_ptr_null(d.s->out.bytes.p);
    ck_assert_str_eq(b.p + b.n - 1 - 9, "\r\n+PONG\r\n");
    buf_fini(&b);
    leave(&c);
    leave(&d);
}
END_TEST

#ifdef RLOCKD_TEST_CLOCK
/* A row that waited for long does not say "held" of a lock that is held no more. */
START_TEST(a_listing_in_chunks_is_checked_again)
{
    struct client c = come(), d = come();
    char pattern[NAME];
    struct buf b;
    const char *z;

    lock_many(&c, pattern);
    sends(&c, "LOCK zz LEASE 1s\n");
    settle();
    ask_for_all(&d);
    clock_advance_us(2 * US_PER_S);
    settle();
    receive_all(&d, &b);
    z = strstr(b.p, "$2\r\nzz\r\n");
    ck_assert_ptr_nonnull(z);
    ck_assert_ptr_nonnull(strstr(z, "$5\r\nstate\r\n$4\r\nlost\r\n"));
    ck_assert_ptr_null(strstr(z, "$5\r\nstate\r\n$4\r\nheld\r\n"));
    ck_assert_ptr_nonnull(strstr(b.p, "$5\r\nstate\r\n$4\r\nheld\r\n"));
    buf_fini(&b);
    leave(&c);
    leave(&d);
}
END_TEST
#endif

/* The chunks of a session that has gone are dropped. */
START_TEST(chunks_go_with_their_session)
{
    struct client c = come(), d = come();
    char pattern[NAME];

    lock_many(&c, pattern);
    ask_for_all(&d);
    close(d.fd);
    settle();
    ck_assert_ptr_null(session_find(engine, d.id));
    leave(&c);
}
END_TEST

/* ---- all long replies together ---- */

enum { READERS = 40, OUTPUT = 40 * 1024, LONGS = 16 * 64 * OUTPUT };

/* The number of sessions that are still open; *refused: those among them that got LIMIT. */
static int
count_left(struct client *c, int *refused)
{
    int n = 0;

    for (int i = 0; i < READERS; i++) {
        struct buf b;

        if (session_find(engine, c[i].id) == NULL) {
            close(c[i].fd);
            c[i].fd = -1;
            continue;
        }
        buf_init(&b, 0);
        receives(&c[i], &b);
        *refused += strncmp(b.p, "-LIMIT ", 7) == 0;
        n++;
        buf_fini(&b);
    }
    return n;
}

/* _i: one after the other; all at once; one after the other, and each is made at once, as no turn takes time. */
START_TEST(long_replies_have_their_share_of_memory)
{
    struct client c = come(), d[READERS];
    char pattern[NAME];
    int left, refused = 0;

    conf->limit_output_bytes = OUTPUT;
    lock_many(&c, pattern);
    if (_i == 2) {
        stop_the_clock();
    }
    for (int i = 0; i < READERS; i++) {
        d[i] = come();
        ck_assert_int_eq(setsockopt(d[i].s->fd, SOL_SOCKET, SO_SNDBUF, &(int){SMALL}, sizeof(int)), 0);
        sends(&d[i], "LOCKS\nPING\n");
        if (_i != 1) {
            settle();
        }
        ck_assert_uint_le(engine->long_replies_bytes, LONGS + LONGS / 8);
    }
    for (int i = 0; turns(4) == 4 && i < 100000; i++) {
        ck_assert_uint_le(engine->long_replies_bytes, LONGS + LONGS / 8);
    }
    left = count_left(d, &refused);
    if (_i != 1) {
        ck_assert_int_lt(left, READERS); /* the first readers are closed, and the last one has its answer */
        ck_assert_int_eq(refused, 0);
        ck_assert_int_lt(d[0].fd, 0);
        ck_assert_int_ge(d[READERS - 1].fd, 0);
    }
    ck_assert_int_lt(left - refused, READERS);
    ck_assert_int_gt(left - refused, READERS / 4);
    for (int i = 0; i < READERS; i++) {
        if (d[i].fd >= 0) {
            leave(&d[i]);
        }
    }
    settle();
    ck_assert_uint_eq(engine->long_replies_bytes, 0);
    leave(&c);
}
END_TEST

/* Bytes that were read no longer count: a session that keeps reading is not closed, however much all have requested. */
START_TEST(a_session_that_reads_has_room_again)
{
    struct client c = come(), d[READERS];
    char pattern[NAME];
    size_t asked = 0, left = 0;

    conf->limit_output_bytes = OUTPUT;
    lock_many(&c, pattern);
    stop_the_clock(); /* so dead_peer closes no session, however long this takes */
    for (int i = 0; i < READERS; i++) {
        d[i] = come();
        ask_for_all(&d[i]);
        asked += chunks_bytes(&d[i].s->later);
        while (!list_alone(&d[i].s->later.list)) { /* all but the last chunk, so that some of it waits */
            struct buf b;

            buf_init(&b, 0);
            receives(&d[i], &b);
            buf_fini(&b);
            turn();
        }
        left += chunks_bytes(&d[i].s->later);
        ck_assert_uint_eq(engine->long_replies_bytes, left);
    }
    ck_assert_uint_gt(asked, LONGS); /* more than may wait at once */
    for (int i = 0; i < READERS; i++) {
        ck_assert_ptr_nonnull(session_find(engine, d[i].id));
        leave(&d[i]);
    }
    ck_assert_uint_eq(engine->long_replies_bytes, 0);
    leave(&c);
}
END_TEST

int
main(void)
{
    /* The last two depend on how much work fits into the milliseconds of a turn. */
    const TTest *tests[] = {
        a_long_reply_takes_several_turns,
        forgotten_with_its_session,
        a_long_reply_leaves_in_chunks,
#ifdef RLOCKD_TEST_CLOCK
        a_listing_in_chunks_is_checked_again,
#endif
        chunks_go_with_their_session,
        a_session_that_reads_has_room_again,
        by_turns,
        many_dear_ones_are_bounded_together,
    };

    TCase *tc = house_tcase(tests, sizeof(tests) / sizeof(tests[0]) - (is_slowed() ? 2 : 0));

    tcase_add_loop_test(tc, long_replies_have_their_share_of_memory, 0, 3);
    return house_run("listing", tc);
}
