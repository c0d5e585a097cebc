/*
 * test_buf.c -- growing, capping, dropping, escaping.
 */
#include "daemon/base/buf.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rng.h"

static void
assert_holds(const struct buf *b, const char *want, size_t n)
{
    ck_assert_uint_eq(b->n, n);
    ck_assert(n == 0 || memcmp(b->p, want, n) == 0);
}

START_TEST(appends)
{
    struct buf b;

    buf_init(&b, 0);
    ck_assert_ptr_null(b.p);
    buf_add(&b, "a\0b", 3);
    buf_adds(&b, "cd");
    buf_add_slice(&b, SLICE_LIT("ef"));
    buf_add_slice(&b, (struct slice){NULL, 0});
    buf_printf(&b, "%d-%s", 42, "x");
    assert_holds(&b, "a\0bcdef42-x", 11);
    ck_assert(slice_eq(buf_slice(&b), (struct slice){"a\0bcdef42-x", 11}));
    buf_fini(&b);
    ck_assert_ptr_null(b.p);
    ck_assert_uint_eq(b.room, 0);
}
END_TEST

START_TEST(printf_grows)
{
    struct buf b;
    char long_text[5001];

    memset(long_text, 'y', 5000);
    long_text[5000] = '\0';
    buf_init(&b, 0);
    buf_printf(&b, "[%s]", long_text);
    ck_assert_uint_eq(b.n, 5002);
    ck_assert_int_eq(b.p[5001], ']');
    buf_printf(&b, "%s", "");
    ck_assert_uint_eq(b.n, 5002);
    buf_fini(&b);
}
END_TEST

START_TEST(numbers)
{
    static const int64_t n[] = {0, 1, 9, 10, 11, 99, 100, 1763701200123456, INT64_MAX, -1, -10, INT64_MIN};
    struct buf b, want;

    buf_init(&b, 0);
    buf_init(&want, 0);
    for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
        buf_add_i64(&b, n[i]);
        buf_add_u64(&b, (uint64_t)n[i]);
        buf_printf(&want, "%lld%llu", (long long)n[i], (unsigned long long)n[i]);
    }
    for (uint64_t tens = 1, k = 0; k < 20; k++, tens *= 10) { /* each number of digits; 0 and 9 among them */
        buf_add_u64(&b, tens - 1);
        buf_add_u64(&b, tens);
        buf_add_u64(&b, tens + 5 * (tens / 10) + tens / 100);
        buf_printf(&want, "%llu%llu%llu", (unsigned long long)tens - 1, (unsigned long long)tens,
                   (unsigned long long)(tens + 5 * (tens / 10) + tens / 100));
    }
    assert_holds(&b, want.p, want.n);
    buf_fini(&b);
    buf_fini(&want);
}
END_TEST

START_TEST(cut)
{
    struct buf b;

    buf_init(&b, 8);
    buf_adds(&b, "abc");
    buf_adds(&b, "too much");
    ck_assert(b.failed);
    buf_cut(&b, 3);
    ck_assert(!b.failed);
    buf_adds(&b, "d");
    assert_holds(&b, "abcd", 4);
    buf_cut(&b, 0);
    assert_holds(&b, "", 0);
    buf_fini(&b);
}
END_TEST

/* Every length around the powers of two at which the buffer grows. */
START_TEST(printf_every_length)
{
    struct buf b;

    buf_init(&b, 0);
    for (int n = 0; n < 300; n++) {
        buf_clear(&b, 0);
        buf_printf(&b, "%0*d", n + 1, 7);
        ck_assert_uint_eq(b.n, (size_t)n + 1);
        ck_assert_int_eq(b.p[n], '7');
    }
    buf_fini(&b);
}
END_TEST

START_TEST(capped)
{
    struct buf b;

    buf_init(&b, 10);
    buf_adds(&b, "0123456789");
    ck_assert(!b.failed);
    buf_add(&b, "", 0);
    ck_assert(!b.failed);
    buf_adds(&b, "x");
    ck_assert(b.failed);
    assert_holds(&b, "0123456789", 10);
    buf_drop(&b, 5);
    buf_adds(&b, "y");
    assert_holds(&b, "56789", 5); /* the failure is sticky */
    ck_assert_ptr_null(buf_space(&b, 1));
    buf_clear(&b, 1000);
    ck_assert(!b.failed);
    buf_printf(&b, "%s", "abcdefghij");
    ck_assert(!b.failed);
    buf_clear(&b, 1000);
    buf_printf(&b, "%s", "abcdefghijk");
    ck_assert(b.failed);
    ck_assert_uint_eq(b.n, 0);
    buf_fini(&b);
    ck_assert_uint_eq(b.max, 10);
}
END_TEST

START_TEST(absurd_sizes)
{
    struct buf b;

    buf_init(&b, 0);
    buf_adds(&b, "abc");
    ck_assert_ptr_null(buf_space(&b, SIZE_MAX));
    ck_assert(b.failed);
    buf_clear(&b, 1000);
    ck_assert_ptr_null(buf_space(&b, SIZE_MAX / 2));
    ck_assert(b.failed);
    buf_fini(&b);
}
END_TEST

START_TEST(space)
{
    struct buf b;
    char *p;

    buf_init(&b, 0);
    ck_assert_ptr_nonnull(buf_space(&b, 0));
    p = buf_space(&b, 1000);
    memset(p, 'z', 1000);
    b.n += 1000;
    p = buf_space(&b, 3);
    ck_assert_ptr_eq(p, b.p + 1000);
    memcpy(p, "end", 3);
    b.n += 3;
    ck_assert_uint_eq(b.n, 1003);
    ck_assert_int_eq(b.p[999], 'z');
    ck_assert_int_eq(b.p[1002], 'd');
    buf_fini(&b);
}
END_TEST

START_TEST(drop_and_clear)
{
    struct buf b;
    size_t room;

    buf_init(&b, 0);
    buf_drop(&b, 0);
    buf_adds(&b, "hello world");
    buf_drop(&b, 6);
    assert_holds(&b, "world", 5);
    buf_drop(&b, 5);
    ck_assert_uint_eq(b.n, 0);
    room = b.room;
    buf_clear(&b, room);
    ck_assert_ptr_nonnull(b.p);
    buf_clear(&b, room - 1);
    ck_assert_ptr_null(b.p);
    ck_assert_uint_eq(b.room, 0);
    buf_adds(&b, "again");
    assert_holds(&b, "again", 5);
    buf_fini(&b);
}
END_TEST

/* A long buffer that is read in small parts. */
START_TEST(drops_move_no_byte_twice)
{
    enum { LONG = 1 << 20, BIT = 100 };
    struct buf b;
    size_t moved = 0, n = LONG;

    buf_init(&b, 0);
    for (int i = 0; i < LONG; i++) {
        buf_add(&b, &(char){(char)(i % 251)}, 1);
    }
    while (b.n > 0) {
        const char *next = b.p + (b.n < BIT ? b.n : BIT);

        buf_drop(&b, (size_t)(next - b.p));
        moved += b.p != next ? b.n : 0;
        n -= n < BIT ? n : BIT;
        ck_assert_uint_eq(b.n, n);
        ck_assert(n == 0 || b.p[0] == (char)((LONG - n) % 251));
    }
    ck_assert_uint_le(moved, LONG);
    ck_assert_ptr_eq(b.p, buf_block(&b));
    ck_assert_uint_ge(b.room, LONG);
    buf_fini(&b);
}
END_TEST

/* An empty buffer begins at its block, so that its memory can be handed over. */
START_TEST(an_empty_buffer_begins_at_its_block)
{
    struct buf b;
    char *block;
    size_t room;

    buf_init(&b, 0);
    buf_adds(&b, "hello world");
    block = b.p;
    room = b.room;
    buf_drop(&b, 2);
    buf_cut(&b, 3);
    assert_holds(&b, "llo", 3);
    buf_cut(&b, 0);
    ck_assert_ptr_eq(b.p, block);
    ck_assert_uint_eq(b.room, room);
    buf_adds(&b, "hello world");
    buf_drop(&b, 2);
    buf_clear(&b, room);
    ck_assert_ptr_eq(b.p, block);
    ck_assert_uint_eq(b.room, room);
    buf_fini(&b);
}
END_TEST

START_TEST(escapes)
{
    struct buf b;

    buf_init(&b, 0);
    buf_add_escaped(&b, (struct slice){"a b\r\n\0\x7f\xff\"\\~'c", 13});
    buf_add_escaped(&b, (struct slice){NULL, 0});
    ck_assert_uint_eq(b.n, strlen("a b\\x0d\\x0a\\x00\\x7f\\xff\\x22\\x5c~'c"));
    ck_assert(memcmp(b.p, "a b\\x0d\\x0a\\x00\\x7f\\xff\\x22\\x5c~'c", b.n) == 0);
    buf_fini(&b);
}
END_TEST

/* Random appends and drops against a plain array. */
START_TEST(random_ops)
{
    static char model[1 << 16];
    struct rng r = rng_of(_i);
    struct buf b;
    size_t n = 0;

    buf_init(&b, 0);
    for (int step = 0; step < 500; step++) {
        char chunk[200];
        size_t len = rng_below(&r, sizeof(chunk));

        if (rng_below(&r, 3) > 0 && n + len < sizeof(model)) {
            for (size_t i = 0; i < len; i++) {
                chunk[i] = (char)rng_next(&r);
            }
            buf_add(&b, chunk, len);
            memcpy(model + n, chunk, len);
            n += len;
        } else {
            len = rng_below(&r, (unsigned)n + 1);
            buf_drop(&b, len);
            memmove(model, model + len, n - len);
            n -= len;
        }
        assert_holds(&b, model, n);
        ck_assert_uint_le(b.n, b.room);
    }
    buf_fini(&b);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("buf");
    TCase *tc = tcase_create("all");
    SRunner *sr;
    int failed;

    tcase_add_test(tc, appends);
    tcase_add_test(tc, numbers);
    tcase_add_test(tc, cut);
    tcase_add_test(tc, printf_grows);
    tcase_add_test(tc, printf_every_length);
    tcase_add_test(tc, capped);
    tcase_add_test(tc, absurd_sizes);
    tcase_add_test(tc, space);
    tcase_add_test(tc, drop_and_clear);
    tcase_add_test(tc, drops_move_no_byte_twice);
    tcase_add_test(tc, an_empty_buffer_begins_at_its_block);
    tcase_add_test(tc, escapes);
    tcase_add_loop_test(tc, random_ops, 0, 20);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
