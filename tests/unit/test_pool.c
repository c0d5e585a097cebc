/*
 * test_pool.c -- memory that is used again: the pool lends what it has got back, and frees what does not fit.
 */
#include "daemon/base/pool.h"

#include <check.h>
#include <stdlib.h>

#include "tests/unit/suite.h"

START_TEST(bufs_go_round)
{
    struct pool p = {.bufs_n = 0};
    struct buf a, b;
    const char *memory;

    buf_init(&a, 0);
    buf_init(&b, 100);
    pool_lend(&p, &a); /* the pool has none yet */
    ck_assert_ptr_null(a.p);
    buf_adds(&a, "text");
    memory = a.p;
    pool_lend(&p, &a); /* the buffer has memory already */
    ck_assert_ptr_eq(a.p, memory);
    pool_take_back(&p, &a);
    ck_assert(a.p == NULL && a.n == 0 && a.room == 0);
    pool_take_back(&p, &a); /* the buffer has none */
    ck_assert_uint_eq(p.bufs_n, 1);
    pool_lend(&p, &b);
    ck_assert_ptr_eq(b.p, memory);
    ck_assert(b.n == 0 && b.room > 0 && b.max == 100);
    buf_adds(&b, "other text");
    ck_assert_ptr_eq(b.p, memory);
    buf_adds(&b, " that is longer than what is dropped");
    buf_drop(&b, 1); /* the bytes begin after the start of the memory now */
    ck_assert_ptr_eq(b.p, memory + 1);
    b.failed = true;
    pool_take_back(&p, &b);
    ck_assert(b.p == NULL && !b.failed && b.max == 100);
    pool_lend(&p, &b);
    ck_assert_ptr_eq(b.p, memory);
    pool_take_back(&p, &b);
    pool_fini(&p);
}
END_TEST

START_TEST(a_buffer_that_does_not_fit_is_freed)
{
    struct pool p = {.bufs_n = 0};
    struct buf b;
    int i;

    buf_init(&b, 0);
    ck_assert_ptr_nonnull(buf_space(&b, POOL_BUF_BYTES + 1));
    pool_take_back(&p, &b); /* too large */
    ck_assert(b.p == NULL && p.bufs_n == 0);
    ck_assert_ptr_null(pool_lend_ring(&p));
    for (i = 0; i < POOL_BUFS + 10; i++) {
        buf_init(&b, 0);
        buf_adds(&b, "text");
        pool_take_back(&p, &b);
        ck_assert_ptr_null(b.p);
    }
    ck_assert_uint_eq(p.bufs_n, POOL_BUFS);
    for (i = 0; i < POOL_RINGS + 10; i++) {
        pool_take_back_ring(&p, malloc(1)); /* the sanitizer reports any that leak */
    }
    ck_assert_uint_eq(p.rings_n, POOL_RINGS);
    free(pool_lend_ring(&p));
    ck_assert_uint_eq(p.rings_n, POOL_RINGS - 1);
    pool_fini(&p);
    ck_assert(p.bufs_n == 0 && p.rings_n == 0);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {bufs_go_round, a_buffer_that_does_not_fit_is_freed};

    return suite_main("pool", tests, sizeof(tests) / sizeof(tests[0]));
}
