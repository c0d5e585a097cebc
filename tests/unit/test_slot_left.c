/*
 * test_slot_left.c -- a node of a cluster ends subscriptions while the daemon ends some itself.
 */
#include "fake_redis.h"

static unsigned asked, answered_n, left_n;
static char left[8]; /* the channel of the last message */

/* The answers to SUNSUBSCRIBE come from the test. */
static void
fake_line(const char *line, struct evbuffer *out)
{
    (void)out;
    asked += strcmp(line, "SUNSUBSCRIBE") == 0;
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
    (void)link;
    (void)up;
}

static void
on_message(void *ctx, struct slice channel, const struct reply *what)
{
    (void)ctx;
    ck_assert_int_eq(what->type, REPLY_INT);
    snprintf(left, sizeof(left), "%.*s", (int)channel.n, channel.p);
    left_n++;
}

static void
on_answer(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    (void)arg;
    (void)r;
    (void)sent_us;
    answered_n += result == LINK_ANSWERED;
}

static void
world_begin(void)
{
    asked = answered_n = left_n = 0;
    fake_begin("test_slot_left", 5 * US_PER_S);
    l = link_open(address, &conf, &env, NULL, true,
                  (struct link_callbacks){.greet = on_greet, .state = on_state, .message = on_message});
    RUN_UNTIL(link_up(l));
}

/* The daemon ends its subscription to `a`, and the node writes this. */
static void
leaves_a(const char *bytes)
{
    const struct slice word[2] = {SLICE_LIT("SUNSUBSCRIBE"), SLICE_LIT("a")};

    ck_assert(link_send(l, 2, word, on_answer, NULL));
    RUN_UNTIL(asked > 0);
    fake_says(bytes);
    RUN_UNTIL(answered_n > 0);
}

#define LEFT(channel) "*3\r\n$12\r\nsunsubscribe\r\n$1\r\n" channel "\r\n:0\r\n"

START_TEST(an_answer_is_no_message)
{
    leaves_a(LEFT("a"));
    ck_assert_uint_eq(left_n, 0);
}
END_TEST

/* The slot of `b` has left before the node has read the command. */
START_TEST(a_message_is_no_answer_to_a_command_about_another_channel)
{
    leaves_a(LEFT("b") LEFT("a"));
    ck_assert_uint_eq(left_n, 1);
    ck_assert_str_eq(left, "b");
    ck_assert_uint_eq(link_in_flight(l), 0);
    ck_assert(link_up(l));
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        an_answer_is_no_message,
        a_message_is_no_answer_to_a_command_about_another_channel,
    };

    return suite_main_with("slot_left", tests, sizeof(tests) / sizeof(tests[0]), world_begin, fake_end);
}
