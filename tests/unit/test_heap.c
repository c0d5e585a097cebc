/*
 * test_heap.c -- order, ties, moves and removals, against a plain array that is searched.
 */
#include "daemon/base/heap.c"

#include <check.h>
#include <stdlib.h>

#include "tests/unit/rng.h"

#define NODES 200

/* H1 and H2 of heap.c. No ck_assert in inner loops: each one is a system call. */
static bool
is_sound(const struct heap *h)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct heap_slot *s = &h->slot[i], *up = &h->slot[i > 0 ? (i - 1) / CHILDREN : 0];

        if (s->node->pos != i + 1 || up->at_us > s->at_us || (up->at_us == s->at_us && up->seq > s->seq)) {
            return false;
        }
    }
    return true;
}

START_TEST(empty)
{
    struct heap h;
    struct heap_node out = {.pos = 0};

    heap_init(&h);
    ck_assert_ptr_null(heap_min(&h));
    heap_remove(&h, &out);
    heap_fini(&h);
}
END_TEST

START_TEST(ties_by_arming)
{
    struct heap h;
    struct heap_node n[50] = {{.pos = 0}};

    heap_init(&h);
    for (int i = 0; i < 50; i++) {
        heap_set(&h, &n[(i * 7) % 50], 1000);
    }
    /* A node that is armed again, even for the same time, goes behind the others of that time. */
    heap_set(&h, &n[0], 1000);
    for (int i = 1; i < 50; i++) {
        ck_assert_ptr_eq(heap_min(&h), &n[(i * 7) % 50]);
        heap_remove(&h, heap_min(&h));
    }
    ck_assert_ptr_eq(heap_min(&h), &n[0]);
    heap_fini(&h);
}
END_TEST

START_TEST(extremes)
{
    struct heap h;
    struct heap_node n[3] = {{.pos = 0}};

    heap_init(&h);
    heap_set(&h, &n[0], INT64_MAX);
    heap_set(&h, &n[1], 0);
    heap_set(&h, &n[2], INT64_MIN);
    ck_assert_ptr_eq(heap_min(&h), &n[2]);
    heap_set(&h, &n[2], INT64_MAX);
    ck_assert_ptr_eq(heap_min(&h), &n[1]);
    heap_remove(&h, &n[1]);
    ck_assert_ptr_eq(heap_min(&h), &n[0]);
    heap_fini(&h);
}
END_TEST

/* The array grows by doubling. */
START_TEST(grows)
{
    struct heap h;
    struct heap_node n[100] = {{.pos = 0}};

    heap_init(&h);
    ck_assert_int_eq(heap_min_at(&h), INT64_MAX);
    ck_assert_uint_eq(h.room, 0);
    for (int i = 0; i < 100; i++) {
        heap_set(&h, &n[i], 100 - i);
        ck_assert(is_sound(&h));
        ck_assert_uint_le(h.room, i < 16 ? 16 : 2 * i);
    }
    heap_fini(&h);
    ck_assert_uint_eq(n[0].pos, 0);
}
END_TEST

START_TEST(too_many)
{
    struct heap_slot slot;
    struct heap h = {.slot = &slot, .count = HEAP_MAX, .room = HEAP_MAX};
    struct heap_node n = {.pos = 0};

    heap_set(&h, &n, 1);
}
END_TEST

/* The test's own notes about a node. */
struct model {
    bool armed;
    int64_t at_us;
    int step; /* the step that armed it */
};

/* The earliest node that is armed; NULL: none. */
static struct heap_node *
model_min(struct heap_node *n, const struct model *m)
{
    int min = -1;

    for (int i = 0; i < NODES; i++) {
        if (m[i].armed && (min < 0 || m[i].at_us < m[min].at_us ||
                           (m[i].at_us == m[min].at_us && m[i].step < m[min].step))) {
            min = i;
        }
    }
    return min < 0 ? NULL : &n[min];
}

START_TEST(random_ops)
{
    struct rng r = rng_of(_i);
    unsigned span = _i % 3 == 0 ? 5 : 100000; /* every third seed: nearly all are ties */
    struct heap_node n[NODES] = {{.pos = 0}};
    struct model m[NODES] = {{.armed = false}};
    struct heap h;
    size_t count = 0;

    heap_init(&h);
    for (int step = 0; step < 2000; step++) {
        unsigned i = rng_below(&r, NODES), what = rng_below(&r, 10);
        struct heap_node *min;

        if (what < 6) {
            int64_t at = (int64_t)rng_below(&r, span);

            count += m[i].armed ? 0 : 1;
            m[i] = (struct model){true, at, step};
            heap_set(&h, &n[i], at);
            ck_assert(heap_at(&h, &n[i]) == at && heap_min_at(&h) <= at);
        } else if (what < 9) {
            count -= m[i].armed ? 1 : 0;
            m[i].armed = false;
            heap_remove(&h, &n[i]);
        } else if ((min = heap_min(&h)) != NULL) {
            m[min - n].armed = false;
            count--;
            heap_remove(&h, min);
        }
        ck_assert_msg(h.count == count && heap_min(&h) == model_min(n, m) && is_sound(&h), "step %d", step);
    }
    for (int i = 0; i < NODES; i++) {
        ck_assert_int_eq(n[i].pos != 0, m[i].armed);
    }
    while (heap_min(&h) != NULL) {
        struct heap_node *min = heap_min(&h);

        ck_assert_ptr_eq(min, model_min(n, m));
        m[min - n].armed = false;
        heap_remove(&h, min);
    }
    heap_fini(&h);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("heap");
    TCase *tc = tcase_create("all");
    SRunner *sr;
    int failed;

    tcase_add_test(tc, empty);
    tcase_add_test(tc, ties_by_arming);
    tcase_add_test(tc, extremes);
    tcase_add_test(tc, grows);
    if (getenv("CK_FORK") == NULL) { /* the test ends its process; valgrind runs all tests in one process */
        tcase_add_exit_test(tc, too_many, MEMORY_STATUS);
    }
    tcase_add_loop_test(tc, random_ops, 0, 50);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
