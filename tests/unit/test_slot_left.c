/*
 * test_slot_left.c -- a node of a cluster ends subscriptions while the daemon ends some itself.
 */
#include "fake_redis.h"

static unsigned answered_n, ended_n, left_n;
static char left[8];       /* the channel of the last message */
static char subscribed[8]; /* the channel of the last answer to SSUBSCRIBE */

static const char *to_leave, *to_ping; /* what the node writes when it reads SUNSUBSCRIBE, and PING */

#define LEFT(channel) "*3\r\n$12\r\nsunsubscribe\r\n$1\r\n" channel "\r\n:0\r\n"
#define PONG "*2\r\n$4\r\npong\r\n$0\r\n\r\n" /* to a subscriber */

static void
fake_line(const char *line, struct evbuffer *out)
{
    if (strcmp(line, "SUNSUBSCRIBE") == 0) {
        evbuffer_add_printf(out, "%s", to_leave);
    } else if (strcmp(line, "PING") == 0) {
        evbuffer_add_printf(out, "%s", to_ping);
    } else if (strcmp(line, "SSUBSCRIBE") == 0) {
        evbuffer_add_printf(out, "*3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n");
    }
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
    (void)sent_us;
    if (result == LINK_UNKNOWN) {
        ended_n++;
        return;
    }
    answered_n++;
    if (r->type == REPLY_ARRAY && r->count == 3 && slice_is(r->item[0]->text, "ssubscribe")) {
        snprintf(subscribed, sizeof(subscribed), "%.*s", (int)r->item[1]->text.n, r->item[1]->text.p);
    }
}

static void
world_begin(void)
{
    to_ping = PONG;
    answered_n = ended_n = left_n = 0;
    subscribed[0] = '\0';
    metrics = (struct metrics){0};
    fake_begin("test_slot_left", 5 * US_PER_S);
    l = link_open(address, &conf, &env, NULL, true,
                  (struct link_callbacks){.greet = on_greet, .state = on_state, .message = on_message});
    RUN_UNTIL(link_up(l));
}

/* The daemon ends its subscription to `a`, which the node answers so, and begins another. */
static void
leaves_a(const char *answer)
{
    const struct slice word[2] = {SLICE_LIT("SUNSUBSCRIBE"), SLICE_LIT("a")};
    const struct slice next[2] = {SLICE_LIT("SSUBSCRIBE"), SLICE_LIT("c")};

    fake.pings_to_line = true;
    to_leave = answer;
    ck_assert(link_send(l, 2, word, NULL, NULL));
    ck_assert(link_send(l, 2, next, on_answer, NULL));
    RUN_UNTIL(answered_n > 0 || !link_up(l));
}

/* The answer to the next command is its own, and no other command waits for one. */
static void
check_in_step(void)
{
    ck_assert(link_up(l));
    ck_assert_uint_eq(answered_n, 1);
    ck_assert_str_eq(subscribed, "c");
    ck_assert_uint_eq(link_in_flight(l), 0);
    ck_assert_uint_eq(metrics.redis_protocol_errors, 0);
}

START_TEST(an_answer_is_no_message)
{
    leaves_a(LEFT("a"));
    ck_assert_uint_eq(left_n, 0);
    check_in_step();
}
END_TEST

/* The slot of `b` has left before the node has read the command. */
START_TEST(a_message_is_no_answer_to_a_command_about_another_channel)
{
    leaves_a(LEFT("b") LEFT("a"));
    ck_assert_uint_eq(left_n, 1);
    ck_assert_str_eq(left, "b");
    check_in_step();
}
END_TEST

/* The slot of `a` has left before the node has read the command: the message and the answer are one end. */
START_TEST(an_error_behind_a_message_about_the_channel_answers_no_other_command)
{
    leaves_a(LEFT("a") "-MOVED 15495 127.0.0.1:1\r\n");
    ck_assert_uint_eq(left_n, 0);
    check_in_step();
}
END_TEST

/* The slot has come back before the node has read the command. */
START_TEST(an_answer_behind_a_message_about_the_channel_answers_no_other_command)
{
    leaves_a(LEFT("a") LEFT("a"));
    ck_assert_uint_eq(left_n, 0);
    check_in_step();
}
END_TEST

/* A node without any subscription of this client answers PING by a status. */
START_TEST(an_error_alone_is_an_answer)
{
    to_ping = "+PONG\r\n";
    leaves_a("-CLUSTERDOWN Hash slot not served\r\n");
    ck_assert_uint_eq(left_n, 0);
    check_in_step();
}
END_TEST

/* The error may be the answer to SUNSUBSCRIBE, or to the PING behind it. */
START_TEST(a_transient_error_reconnects)
{
    to_ping = "-LOADING Redis is loading the dataset in memory\r\n";
    leaves_a(LEFT("a"));
    RUN_UNTIL(!link_up(l));
    ck_assert_uint_eq(answered_n, 0);
    ck_assert_uint_eq(ended_n, 1);
    ck_assert_uint_eq(left_n, 0);
}
END_TEST

/* An ACL forbids PING, in the words of Redis 6, 7.0 and 7.2: no other answer to it follows. */
START_TEST(a_forbidden_ping_reconnects)
{
    static const char *const words[] = {
        "-NOPERM this user has no permissions to run the 'ping' command or its subcommand\r\n",
        "-NOPERM this user has no permissions to run the 'ping' command\r\n",
        "-NOPERM User x has no permissions to run the 'ping' command\r\n",
    };

    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        RUN_UNTIL(link_up(l));
        to_ping = words[i];
        leaves_a(LEFT("a"));
        RUN_UNTIL(!link_up(l));
        ck_assert_uint_eq(answered_n, 0);
        ck_assert_uint_eq(ended_n, i + 1);
        fake.pings_to_line = false;
    }
}
END_TEST

/* The answer to the PING follows. */
START_TEST(a_forbidden_sunsubscribe_is_an_answer)
{
    leaves_a("-NOPERM this user has no permissions to run the 'sunsubscribe' command\r\n");
    check_in_step();
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        an_answer_is_no_message,
        a_message_is_no_answer_to_a_command_about_another_channel,
        an_error_behind_a_message_about_the_channel_answers_no_other_command,
        an_answer_behind_a_message_about_the_channel_answers_no_other_command,
        an_error_alone_is_an_answer,
        a_transient_error_reconnects,
        a_forbidden_ping_reconnects,
        a_forbidden_sunsubscribe_is_an_answer,
    };

    return suite_main_with("slot_left", tests, sizeof(tests) / sizeof(tests[0]), world_begin, fake_end);
}
