/*
 * test_freelist.c -- records that are used again: for which sizes, how many of them are kept, and the rest is freed.
 */
#include "daemon/base/freelist.h"

#include <string.h>

#include "tests/unit/suite.h"

#include "tests/unit/counted_alloc.h"

#define FREELIST_NONE 0
#include "daemon/base/freelist.c"

#include "tests/unit/counted_alloc_end.h"

START_TEST(go_round)
{
    struct freelist s = {0};
    void *p = freelist_take(&s, 40), *q = freelist_take(&s, 40);

    ck_assert_int_eq(alive, 2);
    memset(p, 1, 40);
    memset(q, 2, 40);
    freelist_give(&s, p, 40);
    freelist_give(&s, q, 40);
    freelist_give(&s, NULL, 40);
    ck_assert_int_eq(alive, 2);
    barred = true; /* a take must not allocate */
    ck_assert_ptr_eq(freelist_take(&s, 40), q); /* the record that was given last */
    ck_assert_ptr_eq(freelist_take(&s, 25), p); /* malloc would have rounded 25 up to 40 */
    barred = false;
    freelist_give(&s, p, 25);
    freelist_give(&s, q, 40);
    freelist_clear(&s);
    ck_assert_int_eq(alive, 0);
}
END_TEST

/* A record has all the bytes of its size, and is reused only for sizes that malloc rounds alike. */
START_TEST(sizes)
{
    struct freelist s = {0};

    for (size_t n = 1; n <= FREELIST_RECORD_MAX; n++) {
        void *p = freelist_take(&s, n), *other;

        memset(p, 0xff, n);
        freelist_give(&s, p, n);
        other = freelist_take(&s, n + 16);
        ck_assert_int_eq(alive, 2); /* the other size gets a record of its own */
        free(other), alive--;
        barred = n <= FREELIST_RECORD_MAX;
        other = freelist_take_zeroed(&s, n);
        barred = false;
        ck_assert_ptr_eq(other, p);
        for (size_t i = 0; i < n; i++) {
            ck_assert_int_eq(((char *)other)[i], 0);
        }
        freelist_give(&s, other, n);
        freelist_clear(&s);
    }
    ck_assert_int_eq(alive, 0);
}
END_TEST

static void
give_all(struct freelist *s, void **p, int n, size_t bytes)
{
    for (int i = 0; i < n; i++) {
        freelist_give(s, p[i], bytes);
    }
}

static void
take_all(struct freelist *s, void **p, int n, size_t bytes)
{
    for (int i = 0; i < n; i++) {
        p[i] = freelist_take(s, bytes);
    }
}

/*
 * Of each size 128 records are kept, and of all sizes together 4 MiB more; a record above the largest size is not kept.
 */
START_TEST(so_many)
{
    enum { N = 20000, SHARED = FREELIST_SHARED_BYTES / 264 };
    enum { BACK = 100, LEFT = FREELIST_SHARED_BYTES - (SHARED - BACK) * 264 };
    struct freelist s = {0};
    static void *p[N], *q[N];
    void *large = freelist_take(&s, FREELIST_RECORD_MAX + 1);

    freelist_give(&s, large, FREELIST_RECORD_MAX + 1);
    ck_assert_int_eq(alive, 0);
    take_all(&s, p, N, 264);
    give_all(&s, p, N, 264);
    ck_assert_int_eq(alive, FREELIST_CLASS_MAX + SHARED);
    take_all(&s, q, N, 152);
    give_all(&s, q, N, 152); /* the shared 4 MiB are used up, the 128 of this size are not */
    ck_assert_int_eq(alive, 2 * FREELIST_CLASS_MAX + SHARED);
    take_all(&s, p, BACK, 264); /* the shared bytes of these records are free again */
    take_all(&s, q, N, 152);
    ck_assert_int_eq(alive, FREELIST_CLASS_MAX + SHARED + N);
    give_all(&s, q, N, 152);
    ck_assert_int_eq(alive, 2 * FREELIST_CLASS_MAX + SHARED + LEFT / 152);
    give_all(&s, p, BACK, 264);
    ck_assert_int_eq(alive, 2 * FREELIST_CLASS_MAX + SHARED - BACK + LEFT / 152);
    freelist_clear(&s);
    ck_assert_int_eq(alive, 0);
    take_all(&s, p, N, 264);
    give_all(&s, p, N, 264); /* the whole share is free again */
    ck_assert_int_eq(alive, FREELIST_CLASS_MAX + SHARED);
    freelist_clear(&s);
    freelist_give(NULL, freelist_take(NULL, 264), 264);
    ck_assert_int_eq(alive, 0);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {go_round, sizes, so_many};

    return suite_main("spares", tests, sizeof(tests) / sizeof(tests[0]));
}
