/*
 * test_cluster_watch.c -- watches that begin and end while the core receives events of other watches.
 */
#include <event2/event.h>
#include <stdlib.h>

#include "daemon/backend/cluster_private.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "suite.h"

enum { WATCHES = 300, SLOT = 15495 }; /* the slot of "a" */

static struct cluster *c;
static unsigned received[2 * WATCHES];
static unsigned events;
static void (*then)(uint64_t lock); /* what the core does on the event of that lock */

static void
watch(uint64_t lock, enum core_action_type verb)
{
    struct core_op op = {.queue = lock, .key = SLICE_LIT("a")};

    cluster_watch(c, &op, verb);
}

static void
on_post(void *ctx, const struct core_event *ev)
{
    (void)ctx;
    ck_assert_uint_lt(ev->queue, 2 * WATCHES);
    received[ev->queue]++;
    events++;
    then(ev->queue);
}

/* These functions are not called, because nothing is sent. */
static const char *
no_tag(void *ctx, uint16_t slot)
{
    (void)ctx;
    (void)slot;
    return "";
}

static void
no_news(void *ctx, enum generation_news news, uint16_t slot, uint64_t number)
{
    (void)ctx;
    (void)news;
    (void)slot;
    (void)number;
}

/* A cluster without masters. */
static void
begin(void)
{
    c = mem_zalloc(sizeof(*c));
    map_init(&c->watches);
    c->env = (struct backend_env){.base = event_base_new(), .post = on_post};
    cluster_slots_init(&c->slots, &c->conf, &c->env, &(struct anchors_io){.tag = no_tag, .on_news = no_news});
    events = 0;
    for (uint64_t i = 0; i < WATCHES; i++) {
        received[i] = received[WATCHES + i] = 0;
        watch(i, CORE_WATCH);
    }
}

static void
end(void)
{
    cluster_watches_forget(c);
    cluster_slots_fini(&c->slots);
    event_base_free(c->env.base);
    free(c);
}

static void
all_others_end(uint64_t lock)
{
    for (uint64_t i = 0; i < WATCHES; i++) {
        if (i != lock) {
            watch(i, CORE_UNWATCH);
        }
    }
}

static void
another_begins(uint64_t lock)
{
    watch(WATCHES + lock, CORE_WATCH);
}

static void
follow(void)
{
    slot_set_add(&c->resubscribe, SLOT);
    c->resubscribes = true;
    cluster_watches_follow(c);
}

START_TEST(one_is_received_and_all_others_end)
{
    then = all_others_end;
    follow();
    ck_assert_uint_eq(events, 1);
    ck_assert_uint_eq(c->watches.count, 1);
}
END_TEST

START_TEST(each_is_received_once_while_others_begin)
{
    then = another_begins;
    follow();
    for (unsigned i = 0; i < WATCHES; i++) {
        ck_assert_uint_eq(received[i], 1);
        ck_assert_uint_eq(received[WATCHES + i], 0);
    }
    ck_assert_uint_eq(c->watches.count, 2 * WATCHES);
}
END_TEST

static void
nothing(uint64_t lock)
{
    (void)lock;
}

/* No node serves the slot: each watch is refused whenever it is asked for. */
START_TEST(a_refused_watch_is_retried_later)
{
    int64_t began_us = clock_now_us();

    then = nothing;
    follow();
    ck_assert_uint_eq(events, WATCHES);
    follow();
    if (clock_now_us() < began_us + US_PER_S) {
        ck_assert_uint_eq(events, WATCHES);
        ck_assert(c->resubscribes);
    }
    c->resubscribed_us -= US_PER_S;
    follow();
    ck_assert_uint_eq(events, 2 * WATCHES);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("cluster watch");
    TCase *t = tcase_create("all");

    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, one_is_received_and_all_others_end);
    tcase_add_test(t, each_is_received_once_while_others_begin);
    tcase_add_test(t, a_refused_watch_is_retried_later);
    suite_add_tcase(s, t);
    return suite_run(s);
}
