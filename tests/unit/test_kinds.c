/*
 * test_kinds.c -- the tables of kinds and of value formats.
 */
#include <check.h>

#include "daemon/base/kinds.h"

START_TEST(kinds_by_name)
{
    enum kind k;

    ck_assert(kind_parse(SLICE_LIT("reentrant"), &k) && k == KIND_REENTRANT);
    ck_assert(kind_parse(SLICE_LIT("SIMPLE"), &k) && k == KIND_SIMPLE);
    ck_assert(kind_parse(SLICE_LIT("Counter"), &k) && k == KIND_COUNTER);
    k = KIND_SIMPLE;
    ck_assert(!kind_parse(SLICE_LIT("simpl"), &k));
    ck_assert(!kind_parse(SLICE_LIT("simple "), &k));
    ck_assert(!kind_parse((struct slice){"simple\0", 7}, &k));
    ck_assert(!kind_parse((struct slice){NULL, 0}, &k));
    ck_assert_int_eq(k, KIND_SIMPLE);
}
END_TEST

START_TEST(every_kind_is_whole)
{
    static const unsigned flags[KINDS] = {
        [KIND_REENTRANT] = KIND_F_REENTRANT | KIND_F_HANDED,
        [KIND_SIMPLE] = KIND_F_HANDED | KIND_F_STRING,
        [KIND_COUNTER] = KIND_F_STAMPED | KIND_F_STRING,
        [KIND_FAIR] = KIND_F_REENTRANT | KIND_F_TICKETS,
        [KIND_RW] = KIND_F_REENTRANT | KIND_F_SHARED | KIND_F_HANDED,
        [KIND_SEMAPHORE] = KIND_F_PERMITS | KIND_F_HANDED | KIND_F_STRING,
        [KIND_FENCED] = KIND_F_REENTRANT,
    };

    for (int i = 0; i < KINDS; i++) {
        enum kind k;

        ck_assert_ptr_nonnull(kind_rows[i].name);
        ck_assert_ptr_nonnull(kind_rows[i].help);
        ck_assert(kind_parse(slice_of(kind_rows[i].name), &k));
        ck_assert_int_eq((int)k, i);
        ck_assert_uint_eq(kind_rows[i].flags, flags[i]);
    }
}
END_TEST

START_TEST(value_formats)
{
    enum value_format v = VALUE_UUID;

    for (int i = 0; i < VALUES; i++) {
        ck_assert(value_format_parse(slice_of(value_format_name((enum value_format)i)), &v));
        ck_assert_int_eq((int)v, i);
    }
    ck_assert(value_format_parse(SLICE_LIT("BASE64-uuid"), &v) && v == VALUE_BASE64_UUID);
    ck_assert(!value_format_parse(SLICE_LIT("base64"), &v));
    ck_assert_int_eq(v, VALUE_BASE64_UUID);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("kinds");
    TCase *tc = tcase_create("all");
    SRunner *sr;
    int failed;

    tcase_add_test(tc, kinds_by_name);
    tcase_add_test(tc, every_kind_is_whole);
    tcase_add_test(tc, value_formats);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
