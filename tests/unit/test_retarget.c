/*
 * test_retarget.c -- a shard whose data moves to another server (shard_retarget()).
 *
 * The servers are two doors to one Redis, so that both have the same data, and the effect of a command through one door
 * is seen through the other. A door can hold back Redis's answers.
 */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "daemon/backend/address.h"
#include "daemon/backend/shard.h"
#include "daemon/base/freelist.h"
#include "redis_world.h"

enum { DOORS = 2, PAIRS_MAX = 64, LINKS = 3 };

struct pair {
    struct bufferevent *client, *server; /* NULL: cut */
    struct door *door;
};

static struct door {
    struct evconnlistener *listener;
    int port;
    bool holds; /* answers are held back */
    struct pair pair[PAIRS_MAX];
    size_t pairs_n; /* all that were ever accepted */
} door[DOORS];

static struct link_address *address; /* of the shard */
static struct backend_env env;
static struct freelist freelist;
static struct shard *sh;

/* ---- the doors ---- */

static void
cut(struct pair *p)
{
    if (p->client != NULL) {
        bufferevent_free(p->client);
        bufferevent_free(p->server);
        p->client = p->server = NULL;
    }
}

static void
on_end(struct bufferevent *bev, short what, void *arg)
{
    struct pair *p = arg;

    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) {
        if (bev == p->client && p->door->holds) { /* its requests run all the same */
            bufferevent_disable(bev, EV_READ);
        } else {
            cut(p);
        }
    }
}

static void
on_request(struct bufferevent *bev, void *arg)
{
    bufferevent_write_buffer(((struct pair *)arg)->server, bufferevent_get_input(bev));
}

static void
on_reply(struct bufferevent *bev, void *arg)
{
    const struct pair *p = arg;

    if (!p->door->holds) {
        bufferevent_write_buffer(p->client, bufferevent_get_input(bev));
    }
}

static void
on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *addr, int n, void *arg)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    struct door *d = arg;
    struct pair *p;

    (void)l;
    (void)addr;
    (void)n;
    ck_assert_uint_lt(d->pairs_n, PAIRS_MAX);
    p = &d->pair[d->pairs_n++];
    p->door = d;
    p->client = bufferevent_socket_new(w.base, fd, BEV_OPT_CLOSE_ON_FREE);
    p->server = bufferevent_socket_new(w.base, -1, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(p->client, on_request, NULL, on_end, p);
    bufferevent_setcb(p->server, on_reply, NULL, on_end, p);
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%.90s", w.sock);
    bufferevent_enable(p->client, EV_READ | EV_WRITE);
    bufferevent_enable(p->server, EV_READ | EV_WRITE);
    bufferevent_socket_connect(p->server, (struct sockaddr *)&sun, sizeof(sun));
}

/* The answers that were held back are sent to connections that are still open. */
static void
let_through(struct door *d)
{
    d->holds = false;
    for (size_t i = 0; i < d->pairs_n; i++) {
        if (d->pair[i].client != NULL) {
            on_reply(d->pair[i].server, &d->pair[i]);
        }
    }
}

static void
doors_open(void)
{
    memset(door, 0, sizeof(door));
    for (int i = 0; i < DOORS; i++) {
        struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t n = sizeof(sin);

        door[i].listener = evconnlistener_new_bind(w.base, on_accept, &door[i],
                                                   LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, -1,
                                                   (struct sockaddr *)&sin, sizeof(sin));
        ck_assert_ptr_nonnull(door[i].listener);
        ck_assert_int_eq(getsockname(evconnlistener_get_fd(door[i].listener), (struct sockaddr *)&sin, &n), 0);
        door[i].port = ntohs(sin.sin_port);
    }
}

/* ---- the shard ---- */

static void
on_done(void *ctx, const struct core_done *done)
{
    struct core_event ev = {.type = CORE_DONE, .done = *done};

    on_post(ctx, &ev);
}

static void
on_life(void *ctx, enum shard_life what, uint64_t n)
{
    (void)ctx;
    if (what == SHARD_UP || what == SHARD_DOWN) {
        on_state(ctx, what == SHARD_UP);
    } else if (what == SHARD_NEW_EPOCH) {
        shard_reclaimed(sh, n);
    }
}

static void
begin(void)
{
    world_with_redis();
    doors_open();
    freelist = (struct freelist){0};
    env = (struct backend_env){.base = w.base,
                               .log = &w.log,
                               .metrics = &w.metrics,
                               .freelist = &freelist,
                               .uuid = UUID,
                               .nonce = 1,
                               .secret = {0x0123456789abcdef, 0xfedcba9876543210}};
    address = address_unknown("somewhere", NULL, NULL, 0, false);
    sh = shard_open(address, &w.conf, &env, (struct shard_events){.done = on_done, .life = on_life, .event =on_post});
}

static void
end(void)
{
    shard_close(&sh);
    freelist_clear(&freelist);
    for (int i = 0; i < DOORS; i++) {
        for (size_t k = 0; k < door[i].pairs_n; k++) {
            cut(&door[i].pair[k]);
        }
        evconnlistener_free(door[i].listener);
    }
    world_end();
}

static unsigned
links_up(void)
{
    struct backend_status st;

    shard_status(sh, &st);
    return st.links_up;
}

/* Turns the loop until so many links are up. */
static void
turn_until_links(unsigned n)
{
    int64_t until_us = clock_now_us() + 10 * US_PER_S * w.slow;

    while (links_up() != n) {
        ck_assert_int_lt(clock_now_us(), until_us);
        event_base_loop(w.base, EVLOOP_ONCE);
        shard_flush(sh);
    }
}

static uint64_t
ask(const char *key)
{
    struct core_op op = op_on(key, KIND_REENTRANT, 1);

    shard_perform(sh, &op, CORE_ACQUIRE);
    shard_flush(sh);
    return op.op;
}

static enum core_outcome
outcome(uint64_t op)
{
    int64_t until_us = clock_now_us() + 10 * US_PER_S * w.slow;

    while (done_of(op) == NULL) {
        ck_assert_int_lt(clock_now_us(), until_us);
        event_base_loop(w.base, EVLOOP_ONCE);
        shard_flush(sh);
    }
    return done_of(op)->outcome;
}

/* ---- tests ---- */

START_TEST(without_a_server_nothing_connects_and_all_is_down)
{
    struct backend_status st;
    int64_t until_us = clock_now_us() + 100 * US_PER_MS;

    snprintf(address->why_unknown, sizeof(address->why_unknown), "no sentinel answers");
    while (clock_now_us() < until_us) {
        event_base_loop(w.base, EVLOOP_ONCE);
    }
    shard_status(sh, &st);
    ck_assert(!st.up);
    ck_assert_str_eq(st.address, "somewhere");
    ck_assert_str_eq(st.last_error, "no sentinel answers");
    ck_assert_int_eq(outcome(ask("k")), CORE_DOWN);
}
END_TEST

START_TEST(a_new_address_closes_all_links)
{
    struct backend_status st;

    shard_retarget(sh, "127.0.0.1", door[0].port);
    turn_until_links(LINKS);
    ck_assert_int_eq(outcome(ask("a")), CORE_OK);
    ck_assert_uint_eq(door[1].pairs_n, 0);
    shard_retarget(sh, "127.0.0.1", door[1].port);
    ck_assert_uint_eq(links_up(), 0); /* at once */
    turn_until_links(LINKS);
    ck_assert_uint_eq(door[0].pairs_n, LINKS);
    ck_assert_uint_eq(door[1].pairs_n, LINKS);
    ck_assert_int_eq(outcome(ask("b")), CORE_OK);
    shard_status(sh, &st);
    ck_assert_int_eq(atoi(strrchr(st.address, ':') + 1), door[1].port);
    ck_assert_uint_eq(w.downs, 1);
}
END_TEST

/* Answers of the former server come in the same turn as shard_retarget(), or later: none counts. */
START_TEST(answers_of_the_server_before_do_not_count)
{
    uint64_t op;

    shard_retarget(sh, "127.0.0.1", door[0].port);
    turn_until_links(LINKS);
    door[0].holds = true;
    op = ask("k");
    while (redis_number(redis("EXISTS k")) == 0) { /* it has run there */
        event_base_loop(w.base, EVLOOP_NONBLOCK);
    }
    let_through(&door[0]);
    shard_retarget(sh, "127.0.0.1", door[1].port);
    ck_assert_int_eq(outcome(op), CORE_UNKNOWN);
    turn_until_links(LINKS);
    ck_assert_int_eq(outcome(ask("k")), CORE_OK); /* the same owner: it finds its own key */
}
END_TEST

/* A server hangs during the greeting; then none is there, for an hour: its pause does not count for the next server. */
START_TEST(a_server_that_never_answers_is_left)
{
    const int64_t min_us = w.conf.backoff_min_us, max_us = w.conf.backoff_max_us;

    door[0].holds = true;
    shard_retarget(sh, "127.0.0.1", door[0].port);
    while (door[0].pairs_n < LINKS) {
        event_base_loop(w.base, EVLOOP_ONCE);
    }
    w.conf.backoff_min_us = w.conf.backoff_max_us = 3600 * US_PER_S;
    shard_retarget(sh, "127.0.0.1", 1);
    for (int i = 0; i < 10; i++) {
        event_base_loop(w.base, EVLOOP_NONBLOCK);
    }
    ck_assert_uint_eq(links_up(), 0);
    w.conf.backoff_min_us = min_us;
    w.conf.backoff_max_us = max_us;
    shard_retarget(sh, "127.0.0.1", door[1].port);
    turn_until_links(LINKS);
}
END_TEST

/* The time for grants has ended, and the topology has not extended it yet: an acquire waits until it knows. */
START_TEST(acquires_wait_for_the_topology_after_the_grants_end)
{
    uint64_t op;

    shard_retarget(sh, "127.0.0.1", door[0].port);
    turn_until_links(LINKS);
    shard_grant_until(sh, clock_now_us());
    ck_assert(!shard_waits(sh));
    op = ask("k");
    ck_assert(shard_waits(sh) && !shard_idle(sh));
    for (int i = 0; i < 10; i++) {
        event_base_loop(w.base, EVLOOP_NONBLOCK);
        shard_flush(sh);
    }
    ck_assert_ptr_null(done_of(op));
    ck_assert_int_eq(redis_number(redis("EXISTS k")), 0);
    shard_grant_until(sh, clock_now_us());
    ck_assert(shard_waits(sh));
    shard_grant_until(sh, clock_now_us() + 60 * US_PER_S);
    ck_assert_int_eq(outcome(op), CORE_OK);
    shard_grant_until(sh, clock_now_us());
    op = ask("other");
    shard_grant_until(sh, 0);
    ck_assert_int_eq(outcome(op), CORE_DOWN);
    (void)ask("third"); /* it waits when the shard ends */
    shard_grant_until(sh, 1);
    (void)ask("fourth");
}
END_TEST

/* A call is in flight, so the next attempt gathers. It could leave when nothing is granted any more. */
START_TEST(what_has_gathered_is_checked_again_when_it_leaves)
{
    uint64_t first, op;

    shard_retarget(sh, "127.0.0.1", door[0].port);
    turn_until_links(LINKS);
    for (int refused = 0; refused < 2; refused++) {
        const char *key = refused ? "refused" : "waits";

        door[0].holds = true;
        first = ask("first");
        op = ask(key);
        ck_assert(!shard_waits(sh));
        shard_grant_until(sh, refused ? 0 : clock_now_us());
        let_through(&door[0]);
        ck_assert_int_eq(outcome(first), CORE_OK);
        if (refused) {
            ck_assert_int_eq(outcome(op), CORE_DOWN);
        }
        for (int i = 0; i < 10; i++) {
            event_base_loop(w.base, EVLOOP_NONBLOCK);
            shard_flush(sh);
        }
        ck_assert_int_eq(redis_number(redis("EXISTS %s", key)), 0);
        ck_assert_int_eq(shard_waits(sh), !refused);
        shard_grant_until(sh, clock_now_us() + 60 * US_PER_S);
        ck_assert_int_eq(outcome(op), refused ? CORE_DOWN : CORE_OK);
    }
}
END_TEST

/* Redis does not know the script, which is sent again with its text: but not when nothing is granted any more. */
START_TEST(what_is_sent_again_is_checked_again)
{
    uint64_t op;

    shard_retarget(sh, "127.0.0.1", door[0].port);
    turn_until_links(LINKS);
    redis("SCRIPT FLUSH");
    door[0].holds = true;
    op = ask("k");
    shard_grant_until(sh, 0);
    let_through(&door[0]);
    ck_assert_int_eq(outcome(op), CORE_DOWN);
    ck_assert_int_eq(redis_number(redis("EXISTS k")), 0);
    shard_grant_until(sh, CORE_FOREVER);
    redis("SCRIPT FLUSH");
    ck_assert_int_eq(outcome(ask("k")), CORE_OK);
}
END_TEST

START_TEST(where_grants_are_refused_the_rest_goes_on)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);

    shard_retarget(sh, "127.0.0.1", door[0].port);
    turn_until_links(LINKS);
    ck_assert_int_eq(outcome(ask("k")), CORE_OK);
    shard_grant_until(sh, 0);
    ck_assert_int_eq(outcome(ask("other")), CORE_DOWN);
    op.op = ++w.serial;
    shard_perform(sh, &op, CORE_EXTEND);
    shard_flush(sh);
    ck_assert_int_eq(outcome(op.op), CORE_OK);
    op.op = ++w.serial;
    op.holds = 0;
    shard_perform(sh, &op, CORE_RELEASE);
    shard_flush(sh);
    ck_assert_int_eq(outcome(op.op), CORE_OK);
    shard_grant_until(sh, clock_now_us() + 60 * US_PER_S);
    ck_assert_int_eq(outcome(ask("other")), CORE_OK);
}
END_TEST

int
main(void)
{
    TCase *tc = tcase_create("retarget");

    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, without_a_server_nothing_connects_and_all_is_down);
    tcase_add_test(tc, a_new_address_closes_all_links);
    tcase_add_test(tc, answers_of_the_server_before_do_not_count);
    tcase_add_test(tc, a_server_that_never_answers_is_left);
    tcase_add_test(tc, where_grants_are_refused_the_rest_goes_on);
    tcase_add_test(tc, what_has_gathered_is_checked_again_when_it_leaves);
    tcase_add_test(tc, what_is_sent_again_is_checked_again);
    tcase_add_test(tc, acquires_wait_for_the_topology_after_the_grants_end);
    return world_run("retarget", &tc, 1);
}
