/*
 * test_replication.c -- what a master answers about its settings.
 */
#include "daemon/backend/replication.h"

#include "fake_redis.h"

#define DOWN_AFTER_MS 5000
#define BOUNDED "*4\r\n$21\r\nmin-replicas-to-write\r\n$1\r\n1\r\n$20\r\nmin-replicas-max-lag\r\n$1\r\n3\r\n"

static struct replication replication;
static const char *settings; /* the answer to CONFIG GET */
static bool up;

static void
fake_line(const char *line, struct evbuffer *out)
{
    if (strcmp(line, "CONFIG") == 0) {
        evbuffer_add_printf(out, "%s", settings);
    } else if (strcmp(line, "INFO") == 0) {
        evbuffer_add_printf(out, "$13\r\nrole:master\r\n\r\n");
    }
}

static void
on_greet(void *ctx, struct redis_link *link)
{
    (void)ctx;
    replication_greet(&replication, link);
}

static void
on_state(void *ctx, struct redis_link *link, bool is_up)
{
    (void)ctx;
    (void)link;
    up = is_up;
}

/* Connects, and is greeted with this answer. */
static void
greet(const char *answer)
{
    if (up) {
        link_reconnect(l, "again");
    }
    settings = answer;
    up = false;
    RUN_UNTIL(up);
}

static void
world_begin(void)
{
    up = false;
    fake_begin("test_replication", US_PER_S);
    replication_init(&replication, &env, address);
    l = link_open(address, &conf, &env, NULL, false, (struct link_callbacks){.greet = on_greet, .state = on_state});
}

START_TEST(a_refusal_is_named_until_an_answer_comes)
{
    greet("-NOPERM this user has no permissions to run the 'config|get' command\r\n");
    ck_assert(!replication_bounded(&replication, DOWN_AFTER_MS));
    ck_assert_str_eq(replication.why_unbounded, "CONFIG GET is refused: allow it (+config|get)");
    greet(BOUNDED);
    ck_assert(replication_bounded(&replication, DOWN_AFTER_MS));
}
END_TEST

/* Redis runs a script: the settings are what they were, and no right is missing. */
START_TEST(a_busy_redis_refuses_nothing)
{
    greet("-BUSY Redis is busy running a script.\r\n");
    ck_assert(!replication_bounded(&replication, DOWN_AFTER_MS));
    ck_assert_str_eq(replication.why_unbounded, "the settings of Redis are not known");
    ck_assert(!replication.logged);
    greet(BOUNDED);
    greet("-BUSY Redis is busy running a script.\r\n");
    ck_assert(replication_bounded(&replication, DOWN_AFTER_MS));
    ck_assert_int_eq(replication.asked_us, 0); /* the next tick asks */
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        a_refusal_is_named_until_an_answer_comes,
        a_busy_redis_refuses_nothing,
    };

    return suite_main_with("replication", tests, sizeof(tests) / sizeof(tests[0]), world_begin, fake_end);
}
