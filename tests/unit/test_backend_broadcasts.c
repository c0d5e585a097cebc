/*
 * test_backend_broadcasts.c -- every daemon on a Redis receives what one of them broadcasts about deadlocks.
 */
#include "daemon/backend/broadcasts.h"
#include "watch_world.h"

/* ---- a second daemon ---- */

static struct {
    struct backend *b;
    unsigned received_n;
    char received[64];
} other;

static void
other_post(void *ctx, const struct core_event *ev)
{
    (void)ctx;
    if (ev->type == CORE_RECLAIM) {
        return;
    }
    ck_assert_int_eq(ev->type, CORE_RECEIVED);
    snprintf(other.received, sizeof(other.received), "%.*s", (int)ev->received.n, ev->received.p);
    other.received_n++;
}

static void
other_state(void *ctx, bool up)
{
    (void)ctx;
    (void)up;
}

static bool
other_is_up(const void *arg)
{
    struct backend_status st;

    (void)arg;
    backend_status(other.b, &st);
    return st.links_up == st.links;
}

static void
open_other(void)
{
    memset(&other, 0, sizeof(other));
    other.b = open_another(other_post, other_state);
    turn_until(other_is_up, NULL);
}

/* ---- sending ---- */

static void
sends(struct backend *b, const void *p, size_t n)
{
    char *spoiled = malloc(n);

    memcpy(spoiled, p, n);
    w.inside = true;
    backend_broadcast(b, (struct slice){spoiled, n});
    backend_flush(b);
    w.inside = false;
    memset(spoiled, '#', n); /* the backend must have copied it */
    free(spoiled);
}

static bool
both_received(const void *n)
{
    return w.received_n >= *(const unsigned *)n && other.received_n >= *(const unsigned *)n;
}

static bool
is_ours_received(const void *n)
{
    return w.received_n >= *(const unsigned *)n;
}

static bool
last_was(const void *text)
{
    return strcmp(w.received, text) == 0;
}

#define must_receive(n) turn_until(is_ours_received, (&(unsigned){n}))

START_TEST(every_daemon_receives_a_broadcast)
{
    open_other();
    listeners_until("rlock:deadlock:0", 2);
    sends(w.b, "who waits for 7?", 16);
    turn_until(both_received, &(unsigned){1});
    ck_assert_str_eq(w.received, "who waits for 7?");
    ck_assert_str_eq(other.received, "who waits for 7?");
    sends(other.b, "I do", 4);
    turn_until(both_received, &(unsigned){2});
    ck_assert_str_eq(w.received, "I do");
    ck_assert_str_eq(other.received, "I do");
    backend_close(&other.b);
    listeners_until("rlock:deadlock:0", 1);
}
END_TEST

START_TEST(a_daemon_in_another_database_does_not)
{
    char url[160];

    snprintf(url, sizeof(url), "unix:%s?db=3", w.sock);
    w.conf.url = url;
    open_other();
    listeners_until("rlock:deadlock:0", 1);
    listeners_until("rlock:deadlock:3", 1);
    sends(w.b, "zero", 4);
    sends(other.b, "three", 5);
    turn_until(both_received, &(unsigned){1});
    ck_assert_str_eq(w.received, "zero");
    ck_assert_str_eq(other.received, "three");
    redis("PUBLISH rlock:deadlock:3 again");
    turn_until(both_received, &(unsigned){1});
    sends(w.b, "end", 3);
    must_receive(2);
    ck_assert_str_eq(w.received, "end");
    backend_close(&other.b);
}
END_TEST

START_TEST(bytes_up_to_a_limit)
{
    static char big[BROADCAST_TEXT_MAX + 1];

    for (size_t i = 0; i < sizeof(big); i++) {
        big[i] = (char)(i * 7);
    }
    listeners_until("rlock:deadlock:0", 1);
    ck_assert_int_eq(redis_calls("publish"), 1); /* the greeting here has asked for other daemons */
    sends(w.b, big, sizeof(big)); /* not sent */
    sends(w.b, big, sizeof(big) - 1);
    must_receive(1);
    ck_assert_int_eq(redis_calls("publish"), 2);
    ck_assert_uint_eq(w.received_bytes, BROADCAST_TEXT_MAX);
    ck_assert_mem_eq(w.received, big, BROADCAST_TEXT_MAX);
    redis("PUBLISH rlock:deadlock:0 %b", big, sizeof(big)); /* not received */
    redis("PUBLISH rlock:deadlock:0 end");
    turn_until(last_was, "end");
    ck_assert_uint_eq(w.received_n, 2);
    ck_assert_uint_eq(w.metrics.redis_protocol_errors, 0);
}
END_TEST

static bool
is_quiet(const void *arg)
{
    struct backend_status st;

    (void)arg;
    backend_status(w.b, &st);
    return st.in_flight == 0;
}

/* The reply to a broadcast answers no operation, and the replies to operations still find their own. */
START_TEST(a_broadcast_is_no_operation)
{
    struct core_op op[20];

    listeners_until("rlock:deadlock:0", 1);
    for (unsigned i = 0; i < 20; i++) {
        char key[8];

        sends(w.b, "x", 1);
        ck_assert(i > 0 || backend_idle(w.b));
        snprintf(key, sizeof(key), "k%u", i / 2);
        op[i] = op_on(key, KIND_SIMPLE, i);
        op[i].op = perform(&op[i], CORE_ACQUIRE);
        flush();
        sends(w.b, "y", 1);
    }
    for (int i = 0; i < 20; i++) {
        must(await(op[i].op), i % 2 == 0 ? CORE_OK : CORE_TAKEN);
    }
    must_receive(40);
    turn_until(is_quiet, NULL);
    ck_assert(backend_idle(w.b));
    ck_assert_uint_eq(w.metrics.redis_protocol_errors + w.metrics.redis_disconnects, 0);
}
END_TEST

START_TEST(received_again_after_the_link_was_lost)
{
    for (unsigned i = 1; i <= 3; i++) {
        listeners_until("rlock:deadlock:0", 1);
        sends(w.b, "x", 1);
        must_receive(i);
        ck_assert_str_eq(redis("CLIENT KILL TYPE pubsub"), "1");
    }
}
END_TEST

START_TEST(no_broadcast_without_a_link)
{
    redis_kill();
    turn_until(is_down, NULL);
    sends(w.b, "lost", 4);
    ck_assert(backend_idle(w.b));
    unlink(w.sock);
    redis_start(NULL);
    redis_connect();
    turn_until(is_all_up, NULL);
    listeners_until("rlock:deadlock:0", 1);
    sends(w.b, "now", 3);
    must_receive(1);
    ck_assert_str_eq(w.received, "now");
}
END_TEST

/* ---- users that may not ---- */

static bool
is_refused(const void *unused)
{
    (void)unused;
    return log_count("cannot register") > 0;
}

/* If Redis loses its data, the other daemons cannot learn of the locks of such a daemon: it must grant none. */
START_TEST(a_daemon_that_may_not_publish_stays_outside)
{
    up_as("resetchannels &redisson* &rlock:*");
    must(acquire("k", KIND_SIMPLE, 1), CORE_OK);
    redis("ACL SETUSER locks resetchannels &redisson*");
    redis("FLUSHALL");
    redis("CLIENT KILL TYPE normal SKIPME yes");
    turn_until(is_refused, NULL);
    ck_assert_int_ge(log_count("&rlock:deadlock:*"), 1); /* the missing right */
    must(acquire("q", KIND_SIMPLE, 1), CORE_DOWN);
    redis("ACL SETUSER locks &rlock:*");
    turn_until(is_all_up, NULL);
}
END_TEST

/* Wake-ups are hints: without them the daemon polls. */
START_TEST(a_daemon_without_the_right_to_subscribe_still_locks)
{
    struct core_op op = op_on("k", KIND_SIMPLE, 1);

    up_as("resetchannels &rlock:*");
    for (int i = 0; i < 5; i++) {
        watch_op(&op, CORE_WATCH);
        must(acquire("k", KIND_SIMPLE, 1), CORE_OK);
        must(release("k", KIND_SIMPLE, 1, 0), CORE_OK);
        watch_op(&op, CORE_UNWATCH);
    }
    redis_until("1", "EXISTS %s", "rlock:clock");
    ck_assert_uint_eq(watchings(op.queue), 0);
    ck_assert_uint_eq(w.metrics.redis_disconnects, 0);
    ck_assert_int_eq(log_count("not subscribed"), 1);
}
END_TEST

int
main(void)
{
    TCase *tc[] = {tcase_create("up"), tcase_create("users")};

    tcase_add_checked_fixture(tc[0], world_up, world_end);
    tcase_add_test(tc[0], every_daemon_receives_a_broadcast);
    tcase_add_test(tc[0], a_daemon_in_another_database_does_not);
    tcase_add_test(tc[0], bytes_up_to_a_limit);
    tcase_add_test(tc[0], a_broadcast_is_no_operation);
    tcase_add_test(tc[0], received_again_after_the_link_was_lost);
    tcase_add_test(tc[0], no_broadcast_without_a_link);
    tcase_add_checked_fixture(tc[1], world_with_redis, world_end);
    tcase_add_test(tc[1], a_daemon_that_may_not_publish_stays_outside);
    tcase_add_test(tc[1], a_daemon_without_the_right_to_subscribe_still_locks);
    return world_run("backend_broadcast", tc, 2);
}
