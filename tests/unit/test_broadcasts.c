/*
 * test_broadcasts.c -- a subscription to broadcasts whose answer comes late.
 */
#include "daemon/backend/broadcasts.h"

#include "fake_redis.h"

#define SUBSCRIBED "*3\r\n$9\r\nsubscribe\r\n$16\r\nrlock:deadlock:0\r\n:1\r\n"

static struct shard_events events;
static struct broadcasts broadcasts;
static unsigned asked, subscribed_n;

/* The server keeps its answer to the first SUBSCRIBE. */
static void
fake_line(const char *line, struct evbuffer *out)
{
    if (strcmp(line, "SUBSCRIBE") == 0 && asked++ > 0) {
        evbuffer_add_printf(out, "%s", SUBSCRIBED);
    }
}

static void
on_subscribed(void *ctx)
{
    (void)ctx;
    subscribed_n++;
}

static void
on_greet(void *ctx, struct redis_link *link)
{
    (void)ctx;
    (void)link;
}

static void
on_state(void *ctx, struct redis_link *link, bool up)
{
    (void)ctx;
    if (up) {
        broadcasts_subscribe(&broadcasts, link, on_subscribed, NULL);
    }
}

static void
on_message(void *ctx, struct slice channel, const struct reply *what)
{
    (void)ctx;
    (void)channel;
    (void)what;
}

static void
world_begin(void)
{
    asked = subscribed_n = 0;
    fake_begin("test_broadcasts", 400 * US_PER_MS);
    broadcasts_init(&broadcasts, &env, &events, address, NULL);
    l = link_open(address, &conf, &env, NULL, true,
                  (struct link_callbacks){.greet = on_greet, .state = on_state, .message = on_message});
    RUN_UNTIL(asked > 0);
}

/* The answer comes between one timeout and two, when the link would stay. */
static void
answered_late(const char *what)
{
    run_ms(600);
    if (asked == 1) {
        fake_says(what);
    }
    RUN_UNTIL(subscribed_n > 0);
    ck_assert_uint_ge(asked, 2);
    ck_assert(link_up(l));
}

/* Redis stood still in a script, and refuses what came meanwhile. */
START_TEST(a_late_refusal_is_asked_again)
{
    answered_late("-BUSY\r\n");
}
END_TEST

START_TEST(a_late_success_is_asked_again)
{
    answered_late(SUBSCRIBED);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        a_late_refusal_is_asked_again,
        a_late_success_is_asked_again,
    };

    return suite_main_with("broadcasts", tests, sizeof(tests) / sizeof(tests[0]), world_begin, fake_end);
}
