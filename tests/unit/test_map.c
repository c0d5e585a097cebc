/*
 * test_map.c -- finding, shared numbers, and growth chain by chain; against a plain array.
 */
#include <check.h>
#include <stdlib.h>

#include "tests/unit/rng.h"
#include "tests/unit/suite.h"

#include "tests/unit/counted_alloc.h"
#include "daemon/base/map.c"
#include "tests/unit/counted_alloc_end.h"

#define NODES 300

/* M1 and M2 of map.c. */
static bool
is_sound(const struct map *m)
{
    size_t count = 0;

    for (size_t i = 0; i < m->chains; i++) {
        for (struct map_node *n = m->chain[i]; n != NULL; n = n->next) {
            if (chain_of(m, n->number) != &m->chain[i]) {
                return false;
            }
            count++;
        }
    }
    return count == m->count && m->count <= m->chains && m->chains <= m->room && m->half <= m->chains &&
           (m->chains == 0 || m->chains < 2 * m->half) && (m->half & (m->half - 1)) == 0;
}

START_TEST(empty)
{
    struct map m;

    map_init(&m);
    ck_assert_ptr_null(map_find(&m, 0));
    ck_assert_ptr_null(map_first(&m));
    ck_assert(is_sound(&m));
    map_fini(&m);
}
END_TEST

/* The walk reaches all nodes, however many there are, also while each is removed. */
START_TEST(all_of_them)
{
    struct map_node n[NODES], *at, *next;
    struct map m;

    map_init(&m);
    for (size_t i = 0; i < NODES; i++) {
        bool seen[NODES] = {false};
        size_t count = 0;

        map_add(&m, &n[i], i / 3 * 1000);
        map_for_each_safe(at, next, &m)
        {
            count += !seen[at - n];
            seen[at - n] = true;
        }
        ck_assert_uint_eq(count, i + 1);
    }
    map_for_each_safe(at, next, &m)
    {
        map_remove(&m, at);
        at->next = at; /* as if it were freed */
    }
    ck_assert_uint_eq(m.count, 0);
    ck_assert_ptr_null(map_first(&m));
    map_fini(&m);
}
END_TEST

START_TEST(one_number_for_several)
{
    struct map_node n[4];
    struct map m;

    map_init(&m);
    map_add(&m, &n[0], 7);
    map_add(&m, &n[1], 8);
    map_add(&m, &n[2], 7);
    map_add(&m, &n[3], 7);
    for (int i = 0; i < 3; i++) {
        struct map_node *first = map_find(&m, 7), *one;
        int seen = 0;

        for (one = first; one != NULL; one = map_next(one)) {
            ck_assert_uint_eq(one->number, 7);
            seen++;
        }
        ck_assert_int_eq(seen, 3 - i);
        map_remove(&m, first);
    }
    ck_assert_ptr_null(map_find(&m, 7));
    ck_assert_ptr_eq(map_find(&m, 8), &n[1]);
    ck_assert_ptr_null(map_next(&n[1]));
    map_remove(&m, &n[1]);
    ck_assert_ptr_null(map_find(&m, 8));
    map_fini(&m);
}
END_TEST

/* Ids that count up, by ones or by more, spread evenly: chains stay short, however many ids there are. */
START_TEST(ids_do_not_crowd)
{
    static const uint64_t strides[] = {1, 3, 64, 512, 1000, UINT64_C(1) << 32};
    struct map_node *n = calloc(100000, sizeof(*n));

    for (size_t s = 0; s < sizeof(strides) / sizeof(strides[0]); s++) {
        size_t longest = 0;
        struct map m;

        map_init(&m);
        for (uint64_t i = 0; i < 100000; i++) {
            map_add(&m, &n[i], i * strides[s]);
        }
        ck_assert(is_sound(&m));
        for (size_t i = 0; i < m.chains; i++) {
            size_t length = 0;

            for (struct map_node *at = m.chain[i]; at != NULL; at = at->next) {
                length++;
            }
            longest = length > longest ? length : longest;
        }
        ck_assert_uint_le(longest, 16);
        map_fini(&m);
    }
    free(n);
}
END_TEST

/* Ids that follow each other are in neighbouring chains, except where a page ends. */
START_TEST(neighbours_lie_together)
{
    enum { MANY = 100000 };
    struct map_node *n = calloc(MANY, sizeof(*n));
    size_t *at = calloc(MANY, sizeof(*at)), together = 0;
    struct map m;

    map_init(&m);
    for (size_t i = 0; i < MANY; i++) {
        map_add(&m, &n[i], 1000 + i);
    }
    for (size_t i = 0; i < m.chains; i++) {
        for (struct map_node *one = m.chain[i]; one != NULL; one = one->next) {
            at[one->number - 1000] = i;
        }
    }
    for (size_t i = 1; i < MANY; i++) {
        together += at[i] == at[i - 1] + 1;
    }
    ck_assert_uint_ge(together, MANY - MANY / 100);
    map_fini(&m);
    free(at);
    free(n);
}
END_TEST

/* The table allocates only when it is full. */
START_TEST(grows)
{
    struct map_node n[40];
    struct map m;

    map_init(&m);
    for (size_t i = 0; i < 40; i++) {
        barred = i < m.room;
        map_add(&m, &n[i], i);
        barred = false;
        ck_assert(is_sound(&m) && m.count == i + 1);
        ck_assert_ptr_eq(map_find(&m, i), &n[i]);
    }
    map_fini(&m);
    ck_assert_int_eq(alive, 0);
}
END_TEST

START_TEST(random_ops)
{
    struct rng r = rng_of(_i);
    unsigned span = _i % 2 == 0 ? 1000000 : 50; /* every other seed: many share a number */
    struct map_node n[NODES];
    bool in[NODES] = {false};
    struct map m;

    map_init(&m);
    for (int step = 0; step < 5000; step++) {
        unsigned i = rng_below(&r, NODES);
        uint64_t number = rng_below(&r, span);
        bool there = false, found = false;

        if (in[i]) {
            map_remove(&m, &n[i]);
        } else {
            map_add(&m, &n[i], number);
        }
        in[i] = !in[i];
        for (unsigned k = 0; k < NODES; k++) {
            there = there || (in[k] && n[k].number == n[i].number);
        }
        for (struct map_node *at = map_find(&m, n[i].number); at != NULL; at = map_next(at)) {
            found = found || at == &n[i];
            there = there && in[at - n];
        }
        if (found != in[i] || there != (map_find(&m, n[i].number) != NULL) || (step % 50 == 0 && !is_sound(&m))) {
            ck_abort_msg("seed %d, step %d", _i, step);
        }
    }
    map_fini(&m);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("map");
    TCase *t = tcase_create("all");

    tcase_add_test(t, empty);
    tcase_add_test(t, all_of_them);
    tcase_add_test(t, one_number_for_several);
    tcase_add_test(t, ids_do_not_crowd);
    tcase_add_test(t, neighbours_lie_together);
    tcase_add_test(t, grows);
    tcase_add_loop_test(t, random_ops, 0, 20);
    suite_add_tcase(s, t);
    return suite_run(s);
}
