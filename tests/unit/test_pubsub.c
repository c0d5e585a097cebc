/*
 * test_pubsub.c -- SUBSCRIBE and its family byte by byte, in both RESPs, and the end of subscribed sessions.
 */
#pragma GCC diagnostic ignored "-Wunused-function" /* of house.h */
#include "tests/unit/house.h"

#include "daemon/serve/pubsub.h"

/* ---- frames ---- */

START_TEST(subscribing_resp2)
{
    struct client c = come();

    sends(&c, "SUBSCRIBE lock:a lock:b\nPSUBSCRIBE lock:*\nSUBSCRIBE lock:a\n");
    settle();
    expect(&c, "*3\r\n$9\r\nsubscribe\r\n$6\r\nlock:a\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$6\r\nlock:b\r\n:2\r\n"
               "*3\r\n$10\r\npsubscribe\r\n$6\r\nlock:*\r\n:3\r\n*3\r\n$9\r\nsubscribe\r\n$6\r\nlock:a\r\n:3\r\n");
    sends(&c, "UNSUBSCRIBE lock:b nosuch\nUNSUBSCRIBE\nUNSUBSCRIBE\nPUNSUBSCRIBE\nPUNSUBSCRIBE\n");
    settle();
    expect(&c, "*3\r\n$11\r\nunsubscribe\r\n$6\r\nlock:b\r\n:2\r\n*3\r\n$11\r\nunsubscribe\r\n$6\r\nnosuch\r\n:2\r\n"
               "*3\r\n$11\r\nunsubscribe\r\n$6\r\nlock:a\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:1\r\n"
               "*3\r\n$12\r\npunsubscribe\r\n$6\r\nlock:*\r\n:0\r\n*3\r\n$12\r\npunsubscribe\r\n$-1\r\n:0\r\n");
    leave(&c);
}
END_TEST

START_TEST(subscribing_resp3)
{
    struct client c = come();

    c.s->proto = 3;
    sends(&c, "SUBSCRIBE lock:a\nUNSUBSCRIBE\nUNSUBSCRIBE\nPING\n");
    settle();
    expect(&c, ">3\r\n$9\r\nsubscribe\r\n$6\r\nlock:a\r\n:1\r\n>3\r\n$11\r\nunsubscribe\r\n$6\r\nlock:a\r\n:0\r\n"
               ">3\r\n$11\r\nunsubscribe\r\n_\r\n:0\r\n+PONG\r\n");
    leave(&c);
}
END_TEST

START_TEST(many_are_left_at_once)
{
    struct client c = come();
    int i;

    for (i = 0; i < 100; i++) {
        char text[64];

        snprintf(text, sizeof(text), "SUBSCRIBE lock:%d\nPSUBSCRIBE lock:%d\n", i, i);
        sends(&c, text);
    }
    settle();
    {
        struct buf b;

        buf_init(&b, 0);
        receives(&c, &b);
        buf_fini(&b);
    }
    ck_assert_int_eq(pubsub_count(c.s), 200);
    sends(&c, "UNSUBSCRIBE\n");
    settle();
    ck_assert_int_eq(pubsub_count(c.s), 100);
    sends(&c, "PUNSUBSCRIBE\n");
    settle();
    ck_assert_int_eq(pubsub_count(c.s), 0);
    ck_assert_ptr_null(c.s->subscriptions);
    leave(&c);
}
END_TEST

START_TEST(a_subscriber_may_do_little_in_resp2)
{
    struct client c = come();

    sends(&c, "SUBSCRIBE lock:a\nLOCK x\nPING\nPING hey\n");
    settle();
    expect(&c, "*3\r\n$9\r\nsubscribe\r\n$6\r\nlock:a\r\n:1\r\n-ERR Can't execute 'lock': only (P|S)SUBSCRIBE / "
               "(P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n"
               "*2\r\n$4\r\npong\r\n$3\r\nhey\r\n");
    ck_assert_uint_eq(redis->acquires, 0);
    sends(&c, "RESET\nLOCK x\n");
    settle();
    expect(&c, "+RESET\r\n:101\r\n");
    ck_assert_int_eq(pubsub_count(c.s), 0);
    sends(&c, "SUBSCRIBE lock:a\nQUIT\n");
    settle();
    expect(&c, "*3\r\n$9\r\nsubscribe\r\n$6\r\nlock:a\r\n:1\r\n+OK\r\n<end>");
    leave(&c);
}
END_TEST

/* ---- limits ---- */

START_TEST(subscriptions_are_limited)
{
    struct client c = come();
    int i;

    for (i = 0; i < 1023; i++) {
        char name[16];

        snprintf(name, sizeof(name), "%d", i);
        ck_assert_int_eq(pubsub_subscribe(engine->pubsub, c.s, slice_of(name), i % 2), i + 1);
    }
    sends(&c, "PSUBSCRIBE *x *y\nPSUBSCRIBE *x\nSUBSCRIBE lock:y\nPSUBSCRIBE *x\n");
    settle();
    expect(&c, "-LIMIT a session may have at most 1024 subscriptions\r\n"
               "*3\r\n$10\r\npsubscribe\r\n$2\r\n*x\r\n:1024\r\n"
               "-LIMIT a session may have at most 1024 subscriptions\r\n"
               "*3\r\n$10\r\npsubscribe\r\n$2\r\n*x\r\n:1024\r\n"); /* it has that one */
    ck_assert_int_eq(pubsub_count(c.s), 1024); /* a refused command subscribes to nothing */
    leave(&c);
}
END_TEST

START_TEST(channels_are_limited)
{
    struct client c = come();
    char text[600];

    memset(text, 'x', sizeof(text));
    memcpy(text, "SUBSCRIBE a ", 12);
    strcpy(text + 12 + 529, "\n");
    sends(&c, text);
    settle();
    expect(&c, "-LIMIT a channel may have at most 528 bytes\r\n");
    ck_assert_int_eq(pubsub_count(c.s), 0);
    leave(&c);
}
END_TEST

/* A channel that no event has is refused at once, with its whole command. */
START_TEST(channels_of_events)
{
    static const struct {
        const char *channel;
        bool taken, taken_as_pattern;
    } rows[] = {
        {"lock:a", true, true},         {"lock:", false, false},       {"lock", false, false},
        {"lock:*", true, true},         {"Lock:a", false, false},      {"locks:a", false, false},
        {"orders:42", false, false},    {"orders:*", false, false},    {"*", false, true},
        {"session:7", true, true},      {"session:", false, false},    {"session:x", false, true},
        {"session:*", false, true},     {"session:-1", false, true},   {"l*", false, true},
        {"lx*", false, false},          {"lock?a", false, true},       {"[ls]*", false, true},
        {"\\l\\ock:a", false, true},    {"lock\\*", false, false},    {"x\\", false, false},
        {"__Booksleeve_MasterChanged", true, true}, {"__keyspace@0__:k", true, true}, {"__*", true, true},
        {"_*", false, true},            {"_", false, false},           {"\xff", false, false},
    };
    char line[100], bad[200];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int pattern = 0; pattern <= 1; pattern++) {
            bool taken = pattern ? rows[i].taken_as_pattern : rows[i].taken;
            struct client c = come();
            struct buf b;

            snprintf(line, sizeof(line), "%sSUBSCRIBE lock:first %s\n", pattern ? "P" : "", rows[i].channel);
            snprintf(bad, sizeof(bad), "%s%s%s", "-ERR no event is ever published to '",
                     rows[i].channel[0] == '\xff' ? "\\xff" : rows[i].channel,
                     "'; channels are lock:<name> and session:<id>\r\n");
            sends(&c, line);
            settle();
            buf_init(&b, 0);
            receives(&c, &b);
            ck_assert_msg((b.p[0] == '*') == taken, "%s", line);
            ck_assert_msg(taken || strcmp(b.p, bad) == 0, "%s%s", line, b.p);
            ck_assert_int_eq(pubsub_count(c.s), taken ? 2 : 0);
            buf_fini(&b);
            leave(&c);
        }
    }
}
END_TEST

/* ---- news ---- */

static struct core_publish
news_of(enum core_news news, const char *name, const char *owner_name)
{
    return (struct core_publish){
        .news = news,
        .name = slice_of(name),
        .token = 17,
        .owner = 4,
        .owner_name = slice_of(owner_name),
        .session = 7,
    };
}

START_TEST(news_words)
{
    static const char *const words[] = {"granted", "released", "lost", "wanted"};
    struct client c = come();
    struct core_publish news = news_of((enum core_news)_i, "orders:42", "w7");
    char want[200];

    ck_assert_int_eq(pubsub_subscribe(engine->pubsub, c.s, slice_of("lock:orders:42"), false), 1);
    pubsub_news(engine->pubsub, &news);
    turn();
    snprintf(want, sizeof(want), "*3\r\n$7\r\nmessage\r\n$14\r\nlock:orders:42\r\n$%zu\r\n%s 17 w7\r\n",
             strlen(words[_i]) + 6, words[_i]);
    expect(&c, want);
    leave(&c);
}
END_TEST

/* Whatever an owner's id is: an event is three words of a text line, or three and a name. */
START_TEST(owners_are_one_word)
{
    static const struct {
        const char *owner, *printed;
    } rows[] = {
        {"w7", "w7"},
        {"host:pid:task=1", "host:pid:task=1"},
        {"back\\slash", "back\\slash"},
        {"m\xc3\xbcller", "m\xc3\xbcller"},
        {"my job", "\"my job\""},
        {" ", "\" \""},
        {"\"", "\"\\x22\""},
        {"it's", "\"it's\""},
        {"a\"b c\\", "\"a\\x22b c\\x5c\""},
        {"two\r\nlines", "\"two\\x0d\\x0alines\""},
        {"tab\tvt\v\f", "\"tab\\x09vt\\x0b\\x0c\""},
        {"\x7f\xc3\xbc", "\"\\x7f\\xc3\\xbc\""},
    };
    static const struct reader_limits limits = {.words = 8, .line_bytes = 512, .word_bytes = 512};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client channel = come(), session = come();
        struct core_publish news = news_of(CORE_NEWS_LOST, "my name", rows[i].owner);
        char payload[200], want[300];
        struct reader r;
        struct words words;

        pubsub_subscribe(engine->pubsub, channel.s, slice_of("lock:my name"), false);
        pubsub_subscribe(engine->pubsub, session.s, slice_of("session:7"), false);
        pubsub_news(engine->pubsub, &news);
        turn();
        snprintf(payload, sizeof(payload), "lost 17 %s", rows[i].printed);
        snprintf(want, sizeof(want), "*3\r\n$7\r\nmessage\r\n$12\r\nlock:my name\r\n$%zu\r\n%s\r\n",
                 strlen(payload), payload);
        expect(&channel, want);
        snprintf(want, sizeof(want), "*3\r\n$7\r\nmessage\r\n$9\r\nsession:7\r\n$%zu\r\n%s my name\r\n",
                 strlen(payload) + 8, payload);
        expect(&session, want);
        reader_init(&r, &limits);
        reader_feed(&r, payload, strlen(payload));
    reader_feed(&r, "\n", 1);
        ck_assert_int_eq(reader_next(&r, &words), READER_READY);
        ck_assert_uint_eq(words.n, 3);
        ck_assert_uint_eq(words.word[2].n, strlen(rows[i].owner));
        ck_assert_int_eq(memcmp(words.word[2].p, rows[i].owner, words.word[2].n), 0);
        reader_fini(&r);
        leave(&channel);
        leave(&session);
    }
}
END_TEST

START_TEST(subscribers_of_each_sort)
{
    struct client channel = come(), pattern = come(), session = come(), unsubscribed = come();
    struct core_publish news = news_of(CORE_NEWS_LOST, "a", "");
    char want[300];

    pattern.s->proto = 3;
    pubsub_subscribe(engine->pubsub, channel.s, slice_of("lock:a"), false);
    pubsub_subscribe(engine->pubsub, pattern.s, slice_of("lock:*"), true);
    pubsub_subscribe(engine->pubsub, pattern.s, slice_of("lock:b*"), true);
    pubsub_subscribe(engine->pubsub, session.s, slice_of("session:7"), false);
    pubsub_subscribe(engine->pubsub, unsubscribed.s, slice_of("lock:b"), false);
    pubsub_subscribe(engine->pubsub, unsubscribed.s, slice_of("lock:a"), true); /* no star: one name */
    pubsub_unsubscribe(engine->pubsub, unsubscribed.s, slice_of("lock:a"), true);
    pubsub_news(engine->pubsub, &news);
    turn();
    snprintf(want, sizeof(want), "*3\r\n$7\r\nmessage\r\n$6\r\nlock:a\r\n$46\r\nlost 17 %s:4\r\n", engine->uuid);
    expect(&channel, want);
    snprintf(want, sizeof(want), ">4\r\n$8\r\npmessage\r\n$6\r\nlock:*\r\n$6\r\nlock:a\r\n$46\r\nlost 17 %s:4\r\n",
             engine->uuid);
    expect(&pattern, want);
    snprintf(want, sizeof(want), "*3\r\n$7\r\nmessage\r\n$9\r\nsession:7\r\n$48\r\nlost 17 %s:4 a\r\n", engine->uuid);
    expect(&session, want);
    expect(&unsubscribed, "");
    leave(&channel);
    leave(&pattern);
    leave(&session);
    leave(&unsubscribed);
}
END_TEST

START_TEST(both_resps_subscribe_to_the_same_channel)
{
    struct client two = come(), three = come(), again = come();
    struct core_publish news = news_of(CORE_NEWS_GRANTED, "a", "o");

    three.s->proto = 3;
    pubsub_subscribe(engine->pubsub, two.s, slice_of("lock:a"), false);
    pubsub_subscribe(engine->pubsub, three.s, slice_of("lock:a"), false);
    pubsub_subscribe(engine->pubsub, again.s, slice_of("lock:a"), false);
    pubsub_news(engine->pubsub, &news);
    pubsub_news(engine->pubsub, &news);
    turn();
#define BODY "3\r\n$7\r\nmessage\r\n$6\r\nlock:a\r\n$12\r\ngranted 17 o\r\n"
    expect(&two, "*" BODY "*" BODY);
    expect(&three, ">" BODY ">" BODY);
    expect(&again, "*" BODY "*" BODY);
    leave(&two);
    leave(&three);
    leave(&again);
}
END_TEST

/* From LOCK to message; the session that did not subscribe gets no byte. */
START_TEST(locks_are_news)
{
    struct client c = come(), locker = come();
    char text[64], want[400];

    snprintf(text, sizeof(text), "SUBSCRIBE lock:a session:%u\n", (unsigned)locker.id);
    sends(&c, text);
    settle();
    {
        struct buf b;

        buf_init(&b, 0);
        receives(&c, &b);
        buf_fini(&b);
    }
    sends(&locker, "LOCK a OWNER me\nUNLOCK a OWNER me\n");
    settle();
    expect(&locker, ":101\r\n:0\r\n");
    snprintf(want, sizeof(want),
             "*3\r\n$7\r\nmessage\r\n$6\r\nlock:a\r\n$14\r\ngranted 101 me\r\n"
             "*3\r\n$7\r\nmessage\r\n$9\r\nsession:%u\r\n$16\r\ngranted 101 me a\r\n"
             "*3\r\n$7\r\nmessage\r\n$6\r\nlock:a\r\n$15\r\nreleased 101 me\r\n"
             "*3\r\n$7\r\nmessage\r\n$9\r\nsession:%u\r\n$17\r\nreleased 101 me a\r\n",
             (unsigned)locker.id, (unsigned)locker.id);
    expect(&c, want);
    leave(&locker);
    leave(&c);
}
END_TEST

/* ---- the end ---- */

START_TEST(a_session_that_goes_is_forgotten)
{
    struct client goes = come(), stays = come();
    struct core_publish news = news_of(CORE_NEWS_GRANTED, "a", "o");

    pubsub_subscribe(engine->pubsub, goes.s, slice_of("lock:a"), false);
    pubsub_subscribe(engine->pubsub, goes.s, slice_of("*"), true);
    pubsub_subscribe(engine->pubsub, stays.s, slice_of("lock:a"), false);
    leave(&goes);
    pubsub_news(engine->pubsub, &news);
    turn();
    expect(&stays, "*" BODY);
    leave(&stays);
    pubsub_news(engine->pubsub, &news); /* without subscribers: no effect */
}
END_TEST

START_TEST(binary_channels)
{
    struct client c = come();
    struct core_publish news = news_of(CORE_NEWS_GRANTED, "", "o");
    struct buf b;

    news.name = (struct slice){"\0\r\n", 3};
    ck_assert_int_eq(send(c.fd, "*2\r\n$9\r\nsubscribe\r\n$8\r\nlock:\0\r\n\r\n", 33, 0), 33);
    settle();
    buf_init(&b, 0);
    receives(&c, &b);
    buf_clear(&b, 0);
    pubsub_news(engine->pubsub, &news);
    turn();
    receives(&c, &b);
    ck_assert_ptr_nonnull(memmem(b.p, b.n, "$8\r\nlock:\0\r\n\r\n$12\r\ngranted 17 o\r\n", 32));
    buf_fini(&b);
    leave(&c);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("pubsub");
    TCase *tc = tcase_create("pubsub");
    SRunner *run;
    int failed;

    tcase_add_checked_fixture(tc, build, take_down);
    tcase_add_test(tc, subscribing_resp2);
    tcase_add_test(tc, subscribing_resp3);
    tcase_add_test(tc, many_are_left_at_once);
    tcase_add_test(tc, a_subscriber_may_do_little_in_resp2);
    tcase_add_test(tc, subscriptions_are_limited);
    tcase_add_test(tc, channels_are_limited);
    tcase_add_test(tc, channels_of_events);
    tcase_add_test(tc, owners_are_one_word);
    tcase_add_loop_test(tc, news_words, 0, 4);
    tcase_add_test(tc, subscribers_of_each_sort);
    tcase_add_test(tc, both_resps_subscribe_to_the_same_channel);
    tcase_add_test(tc, locks_are_news);
    tcase_add_test(tc, a_session_that_goes_is_forgotten);
    tcase_add_test(tc, binary_channels);
    suite_add_tcase(s, tc);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
