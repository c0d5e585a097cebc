/*
 * check.h -- replaces the library Check where the worlds of tests/unit (house.h, resp.h) are built into a fuzz target:
 * an assertion ends the process. Suites are declared for these files, and never made.
 */
#ifndef RLOCKD_TESTS_FUZZ_SHIM_CHECK_H
#define RLOCKD_TESTS_FUZZ_SHIM_CHECK_H

#include "tests/fuzz/fuzz.h"

#define ck_assert_msg CHECK
#define ck_abort_msg(...) CHECK(!"reached", __VA_ARGS__)
#define ck_assert(cond) CHECK(cond)
#define ck_assert_int_eq(a, b) CHECK((intmax_t)(a) == (intmax_t)(b))
#define ck_assert_int_le(a, b) CHECK((intmax_t)(a) <= (intmax_t)(b))
#define ck_assert_int_ge(a, b) CHECK((intmax_t)(a) >= (intmax_t)(b))
#define ck_assert_uint_eq(a, b) CHECK((uintmax_t)(a) == (uintmax_t)(b))
#define ck_assert_uint_ne(a, b) CHECK((uintmax_t)(a) != (uintmax_t)(b))
#define ck_assert_uint_lt(a, b) CHECK((uintmax_t)(a) < (uintmax_t)(b))
#define ck_assert_uint_gt(a, b) CHECK((uintmax_t)(a) > (uintmax_t)(b))
#define ck_assert_ptr_eq(a, b) CHECK((const void *)(a) == (const void *)(b))
#define ck_assert_ptr_null(p) CHECK((p) == NULL)
#define ck_assert_ptr_nonnull(p) CHECK((p) != NULL)
#define ck_assert_str_eq(a, b) CHECK(strcmp((a), (b)) == 0)

typedef struct suite Suite;
typedef struct tcase TCase;
typedef struct srunner SRunner;
typedef struct ttest TTest;
enum { CK_NORMAL };

Suite *suite_create(const char *name);
TCase *tcase_create(const char *name);
SRunner *srunner_create(Suite *s);
void tcase_add_checked_fixture(TCase *tc, void (*up)(void), void (*down)(void));
void tcase_set_timeout(TCase *tc, double seconds);
void tcase_add_test(TCase *tc, const TTest *test);
void suite_add_tcase(Suite *s, TCase *tc);
void srunner_run_all(SRunner *run, int how);
int srunner_ntests_failed(SRunner *run);
void srunner_free(SRunner *run);

#endif
