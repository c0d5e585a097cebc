/*
 * test_writer.c -- the exact bytes of each form in RESP2 and RESP3, and that no text breaks framing.
 */
#include "proto/writer.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rng.h"

struct fixture {
    struct buf out;
    struct writer w;
};

static void
begin(struct fixture *f, int proto)
{
    buf_init(&f->out, 0);
    f->w = (struct writer){&f->out, proto};
}

static void
end(struct fixture *f, const char *want, size_t n)
{
    buf_add(&f->out, "", 1);
    ck_assert_str_eq(f->out.p, want);
    ck_assert_uint_eq(f->out.n, n + 1);
    ck_assert(memcmp(f->out.p, want, n) == 0);
    buf_fini(&f->out);
}

#define END(f, want) end((f), (want), sizeof(want) - 1)

/* Forms that are the same in both RESPs. */
START_TEST(common_forms)
{
    struct fixture f;

    begin(&f, _i);
    writer_simple(&f.w, "OK");
    writer_int(&f.w, 0);
    writer_int(&f.w, -1);
    writer_int(&f.w, 1187);
    writer_int(&f.w, INT64_MAX);
    writer_int(&f.w, INT64_MIN);
    writer_bulk(&f.w, (struct slice){"a\r\n\0b", 5});
    writer_bulk(&f.w, (struct slice){NULL, 0});
    writer_text(&f.w, "name");
    writer_array(&f.w, 0);
    writer_array(&f.w, 12);
    END(&f, "+OK\r\n:0\r\n:-1\r\n:1187\r\n:9223372036854775807\r\n:-9223372036854775808\r\n$5\r\na\r\n\0b\r\n$0\r\n\r\n"
            "$4\r\nname\r\n*0\r\n*12\r\n");
}
END_TEST

START_TEST(requests)
{
    const struct slice words[] = {{"GET", 3}, {"a\r\n\0b", 5}, {NULL, 0}};
    struct fixture f;

    begin(&f, 2);
    ck_assert(writer_request(&f.out, 3, words) && writer_request(&f.out, 1, words));
    END(&f, "*3\r\n$3\r\nGET\r\n$5\r\na\r\n\0b\r\n$0\r\n\r\n*1\r\n$3\r\nGET\r\n");
    buf_init(&f.out, 80);
    ck_assert(writer_request(&f.out, 1, words) && !writer_request(&f.out, 3, words) && f.out.failed);
    buf_cut(&f.out, f.out.n);
    END(&f, "*1\r\n$3\r\nGET\r\n");
}
END_TEST

START_TEST(resp2_forms)
{
    struct fixture f;

    begin(&f, 2);
    writer_null(&f.w);
    writer_map(&f.w, 3);
    writer_set(&f.w, 2);
    writer_push(&f.w, 3);
    writer_verbatim(&f.w, SLICE_LIT("# Locks\r\n"));
    END(&f, "$-1\r\n*6\r\n*2\r\n*3\r\n$9\r\n# Locks\r\n\r\n");
}
END_TEST

START_TEST(resp3_forms)
{
    struct fixture f;

    begin(&f, 3);
    writer_null(&f.w);
    writer_map(&f.w, 3);
    writer_set(&f.w, 2);
    writer_push(&f.w, 3);
    writer_verbatim(&f.w, SLICE_LIT("# Locks\r\n"));
    END(&f, "_\r\n%3\r\n~2\r\n>3\r\n=13\r\ntxt:# Locks\r\n\r\n");
}
END_TEST

START_TEST(errors)
{
    struct fixture f;

    begin(&f, 2 + _i);
    writer_error_plain(&f.w, ERR_NOT_HELD);
    writer_error(&f.w, ERR_SYNTAX, "unknown command '%s', with args beginning with: %s", "FOO", "'a' 'b' ");
    writer_error(&f.w, ERR_UNAVAILABLE, "%s", "");
    END(&f, "-NOTHELD this owner does not hold the lock\r\n"
            "-ERR unknown command 'FOO', with args beginning with: 'a' 'b' \r\n-UNAVAILABLE \r\n");
}
END_TEST

START_TEST(errors_are_escaped)
{
    struct fixture f;

    begin(&f, 2);
    writer_int(&f.w, 7); /* earlier output stays as it is */
    writer_error(&f.w, ERR_SYNTAX, "'%s' %d", "a\r\n+OK\r\n\t\x01\x7f\xff\\\"~ ", 5);
    END(&f, ":7\r\n-ERR 'a\\x0d\\x0a+OK\\x0d\\x0a\\x09\\x01\\x7f\\xff\\\"~ ' 5\r\n");
}
END_TEST

/* Every row's prefix is one upper-case word, and its text needs no escape. */
START_TEST(rows)
{
    struct fixture f;
    struct buf want;

    begin(&f, 2);
    buf_init(&want, 0);
    ck_assert_uint_eq(strspn(error_rows[_i].prefix, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), strlen(error_rows[_i].prefix));
    ck_assert_uint_gt(strlen(error_rows[_i].meaning), 0);
    writer_error_plain(&f.w, (enum error_code)_i);
    buf_printf(&want, "-%s %s\r\n", error_rows[_i].prefix, error_rows[_i].text);
    ck_assert(slice_eq(buf_slice(&f.out), buf_slice(&want)));
    buf_fini(&want);
    buf_fini(&f.out);
}
END_TEST

/* Whatever the text, an error is one line that starts with -ERR and has one CR and LF, at its end. */
START_TEST(random_errors)
{
    struct rng rng = rng_of(_i);
    struct fixture f;
    bool sound = true;

    begin(&f, 2);
    for (int round = 0; round < 200; round++) {
        char text[300];
        size_t n = rng_below(&rng, sizeof(text));

        for (size_t i = 0; i < n; i++) {
            text[i] = (char)(1 + rng_below(&rng, rng_below(&rng, 2) == 0 ? 255 : 40));
        }
        text[n] = '\0';
        buf_clear(&f.out, 10000);
        writer_error(&f.w, ERR_SYNTAX, "%s", text);
        sound = sound && f.out.n >= n + 7 && memcmp(f.out.p, "-ERR ", 5) == 0 &&
                memcmp(f.out.p + f.out.n - 2, "\r\n", 2) == 0;
        for (size_t i = 0; i < f.out.n - 2; i++) {
            sound = sound && f.out.p[i] >= 0x20 && f.out.p[i] <= 0x7e;
        }
    }
    ck_assert(sound);
    buf_fini(&f.out);
}
END_TEST

/* A full buffer fails as a whole: no crash, and its owner can see the failure. */
START_TEST(buffer_full)
{
    struct buf out;
    struct writer w = {&out, 2};

    buf_init(&out, (size_t)_i);
    writer_error(&w, ERR_SYNTAX, "%s", "\x01\x02\x03");
    writer_bulk(&w, SLICE_LIT("hello"));
    ck_assert_int_eq(out.failed, _i < 5 + 12 + 2 + 4 + 7);
    ck_assert_uint_le(out.n, (size_t)_i);
    buf_fini(&out);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("writer");
    TCase *tc = tcase_create("all");
    SRunner *sr;
    int failed;

    tcase_add_loop_test(tc, common_forms, 2, 4);
    tcase_add_test(tc, requests);
    tcase_add_test(tc, resp2_forms);
    tcase_add_test(tc, resp3_forms);
    tcase_add_loop_test(tc, errors, 0, 2);
    tcase_add_test(tc, errors_are_escaped);
    tcase_add_loop_test(tc, rows, 0, ERRORS);
    tcase_add_loop_test(tc, random_errors, 0, 20);
    tcase_add_loop_test(tc, buffer_full, 1, 40);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
