/*
 * test_channels.c -- channels with many subscribers: a turn sends a bounded number of events, the order of a channel
 * stays, a new subscriber receives no earlier events, and a session that publishes too much waits.
 */
#pragma GCC diagnostic ignored "-Wunused-function" /* of house.h */
#include "tests/unit/house.h"

#include "daemon/serve/pubsub.h"

enum {
    MANY = 100,
    EVENTS = 150,
    OF_A_TURN = 4096 + 64, /* a turn ends after a whole visit */
    HELD_UP = 1024,        /* a session waits with so many of its own events, or with ... */
    SHARE = 16,            /* ... so many of its own among ... */
    ALL = 16384            /* ... so many of all */
};

static uint64_t cause; /* the session that causes the events */

static void
publish(const char *name, uint64_t token)
{
    struct core_publish news = {.news = CORE_NEWS_GRANTED, .name = slice_of(name), .token = token, .owner = 4,
                                .owner_name = SLICE_LIT("o"), .session = cause};

    pubsub_news(engine->pubsub, &news);
}

static void
come_all(struct client *c)
{
    stop_the_clock();
    cause = UINT64_MAX; /* no session */
    for (int i = 0; i < MANY; i++) {
        c[i] = come();
        ck_assert_int_eq(pubsub_subscribe(engine->pubsub, c[i].s, SLICE_LIT("lock:a"), false), 1);
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

/* A channel with few subscribers does not wait for one with many. */
START_TEST(a_turn_publishes_a_bounded_number)
{
    struct client c[MANY], few = come();
    uint64_t token[MANY] = {0}, few_token = 100;
    unsigned reported, turns = 0;
    bool more = true;

    come_all(c);
    ck_assert_int_eq(pubsub_subscribe(engine->pubsub, few.s, SLICE_LIT("lock:b"), false), 1);
    for (unsigned i = 1; i <= EVENTS; i++) {
        publish("a", i);
    }
    publish("b", 101);
    for (; more; turns++) {
        more = one_turn();
        reported = 0;
        for (int i = 0; i < MANY; i++) {
            reported += receive_events(&c[i], &token[i]);
        }
        /* in the first turn also what was left of the last one */
        ck_assert_uint_le(reported, turns == 0 ? 2 * OF_A_TURN : OF_A_TURN);
        ck_assert_uint_eq(receive_events(&few, &few_token), turns == 0);
    }
    ck_assert_uint_ge(turns, MANY * EVENTS / OF_A_TURN - 1);
    for (int i = 0; i < MANY; i++) {
        ck_assert_uint_eq(token[i], EVENTS);
    }
    publish("a", EVENTS + 1); /* no subscriber is behind now: it comes at once */
    (void)one_turn();
    for (int i = 0; i < MANY; i++) {
        ck_assert_uint_eq(receive_events(&c[i], &token[i]), 1);
    }
    leave(&few);
    leave_all(c);
}
END_TEST

/* Also the first subscriber leaves, and the one that the channel would go on with. */
START_TEST(subscribers_come_and_go_meanwhile)
{
    struct client c[MANY], comes = come();
    uint64_t token[MANY] = {0}, last = EVENTS;

    come_all(c);
    for (unsigned i = 1; i <= EVENTS; i++) {
        publish("a", i);
    }
    ck_assert(one_turn());
    ck_assert_int_gt(pubsub_subscribe(engine->pubsub, comes.s, SLICE_LIT("lock:a"), false), 0);
    for (int i = 0; i < MANY; i++) {
        (void)receive_events(&c[i], &token[i]);
    }
    for (int i = 0; i < MANY; i++) { /* a subscriber with fewer events than the one before it is next */
        if (i % 10 == 0 || (i > 0 && token[i] < token[i - 1])) {
            pubsub_unsubscribe(engine->pubsub, c[i].s, SLICE_LIT("lock:a"), false);
        }
    }
    publish("a", EVENTS + 1);
    turn();
    for (int i = 0; i < MANY; i++) {
        bool left = pubsub_count(c[i].s) == 0;

        ck_assert_uint_eq(receive_events(&c[i], &token[i]) == 0, left);
        ck_assert_uint_eq(token[i] == EVENTS + 1, !left);
    }
    ck_assert_uint_eq(receive_events(&comes, &last), 1);
    leave(&comes);
    leave_all(c);
}
END_TEST

/* Nothing is left of a channel that has no subscribers any more. */
START_TEST(all_go_meanwhile)
{
    struct client c[MANY], publisher = come();

    come_all(c);
    cause = publisher.id;
    for (unsigned i = 1; i <= EVENTS; i++) {
        publish("a", i);
    }
    ck_assert_uint_gt(publisher.s->events_kept, SHARE);
    leave_all(c);
    ck_assert_uint_eq(publisher.s->events_kept, 0);
    ck_assert_uint_eq(engine->events_kept, 0);
    ck_assert(!pubsub_lags(engine->pubsub));
    leave(&publisher);
}
END_TEST

START_TEST(a_session_that_publishes_too_much_waits)
{
    struct client c[MANY], publisher = come(), other = come();
    unsigned turns = 0;

    come_all(c);
    cause = publisher.id;
    for (unsigned i = 1; i <= HELD_UP + 3 * EVENTS; i++) {
        publish("a", i);
    }
    sends(&publisher, "PING\nPING\n");
    sends(&other, "PING\n");
    for (; publisher.s->events_kept >= HELD_UP; turns++) {
        ck_assert_uint_eq(publisher.s->requests_n, 0);
        (void)one_turn();
        ck_assert_uint_eq(other.s->requests_n, 1);
    }
    ck_assert_uint_ge(turns, 3);
    turn();
    expect(&publisher, "+PONG\r\n+PONG\r\n");
    ck_assert_uint_eq(publisher.s->events_kept, 0);
    leave(&publisher);
    leave(&other);
    leave_all(c);
}
END_TEST

static void
publish_for(const struct client *c, unsigned events)
{
    cause = c->id;
    for (unsigned i = 1; i <= events; i++) {
        publish("a", i);
    }
}

/* Until channels keep very many events: then a few of its own are enough. */
START_TEST(a_session_that_publishes_little_does_not_wait_for_others)
{
    struct client c[MANY], many[ALL / HELD_UP + 1], some = come(), few = come();
    unsigned turns = 0;

    for (unsigned i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
        many[i] = come();
    }
    come_all(c);
    publish_for(&many[0], 2 * HELD_UP);
    publish_for(&some, 2 * SHARE);
    sends(&some, "PING\n");
    (void)one_turn();
    ck_assert_uint_eq(some.s->requests_n, 1);
    for (unsigned i = 1; i < sizeof(many) / sizeof(many[0]); i++) {
        publish_for(&many[i], HELD_UP);
    }
    publish_for(&few, SHARE / 2);
    sends(&some, "PING\n");
    sends(&few, "PING\n");
    (void)one_turn();
    ck_assert_uint_eq(few.s->requests_n, 1);
    for (; engine->events_kept >= ALL; turns++) {
        ck_assert_uint_eq(some.s->requests_n, 1);
        (void)one_turn();
    }
    ck_assert_uint_gt(turns, 1);
    turn();
    ck_assert_uint_eq(some.s->requests_n, 2);
    leave_all(c);
    for (unsigned i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
        leave(&many[i]);
    }
    leave(&some);
    leave(&few);
}
END_TEST

/* The session ends at once, although many of its events are still to be sent. */
START_TEST(a_session_that_is_held_up_may_end)
{
    struct client c[MANY], publisher = come();

    come_all(c);
    publish_for(&publisher, 3 * HELD_UP);
    (void)one_turn();
    ck_assert_uint_gt(publisher.s->events_kept, HELD_UP);
    ck_assert_int_eq(shutdown(publisher.fd, SHUT_WR), 0);
    (void)one_turn();
    (void)one_turn();
    ck_assert_ptr_null(session_find(engine, publisher.id));
    ck_assert_uint_gt(engine->events_kept, HELD_UP);
    close(publisher.fd);
    leave_all(c);
    ck_assert_uint_eq(engine->events_kept, 0);
}
END_TEST

/* The cause of an event is the session whose request brings it, not the holder. */
START_TEST(the_asker_has_caused_it)
{
    struct client c[MANY], holder = come(), asker = come();

    come_all(c);
    sends(&holder, "LOCK a OWNER h\n");
    settle();
    for (unsigned i = 1; i <= 2 * EVENTS; i++) {
        publish("a", i);
    }
    sends(&asker, "LOCK a OWNER x\n");
    ck_assert(one_turn());
    ck_assert_uint_eq(holder.s->events_kept, 0);
    ck_assert_uint_eq(asker.s->events_kept, 1); /* the event `wanted` */
    settle();
    ck_assert_uint_eq(asker.s->events_kept, 0);
    leave(&asker);
    leave(&holder);
    leave_all(c);
}
END_TEST

#ifdef RLOCKD_TEST_CLOCK
/* P4: the lease ends while the event of the grant is kept. */
START_TEST(a_grant_past_its_deadline_is_not_published)
{
    struct client c[MANY], holder = come();
    struct buf b;

    come_all(c);
    for (unsigned i = 1; i <= EVENTS; i++) {
        publish("a", i);
    }
    sends(&holder, "LOCK a OWNER me LEASE 1s\n");
    ck_assert(one_turn() && answer_all());
    expect(&holder, "");
    clock_advance_us(2 * US_PER_S);
    turn();
    buf_init(&b, 0);
    receives(&c[MANY - 1], &b);
    ck_assert_ptr_nonnull(strstr(b.p, "granted 150 o\r\n"));
    ck_assert_ptr_null(strstr(b.p, "granted 101 me\r\n"));
    ck_assert_ptr_nonnull(strstr(b.p, "lost 101 me\r\n"));
    buf_fini(&b);
    leave(&holder);
    leave_all(c);
}
END_TEST
#endif

int
main(void)
{
    const TTest *const tests[] = {a_turn_publishes_a_bounded_number, subscribers_come_and_go_meanwhile,
                                  all_go_meanwhile,
                                  a_session_that_publishes_too_much_waits,
                                  a_session_that_publishes_little_does_not_wait_for_others,
                                  a_session_that_is_held_up_may_end, the_asker_has_caused_it,
#ifdef RLOCKD_TEST_CLOCK
                                  a_grant_past_its_deadline_is_not_published,
#endif
    };

    return house_run("channels", house_tcase(tests, sizeof(tests) / sizeof(tests[0])));
}
