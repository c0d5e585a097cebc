/*
 * suite.h -- the main() of a test that needs nothing special.
 */
#ifndef RLOCKD_TESTS_SUITE_H
#define RLOCKD_TESTS_SUITE_H

#include <check.h>
#include <stddef.h>

/* Runs the suite, prints the result, and frees it. Returns the value for main(): 0 when all tests passed. */
static inline int
suite_run(Suite *s)
{
    SRunner *r = srunner_create(s);
    int failed;

    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}

/* The same for n tests in a row, each of which may take 300 s; setup and teardown may be NULL. */
static inline int
suite_main_with(const char *title, const TTest *const *tests, size_t n, SFun setup, SFun teardown)
{
    Suite *s = suite_create(title);
    TCase *t = tcase_create("all");

    tcase_set_timeout(t, 300);
    if (setup != NULL || teardown != NULL) {
        tcase_add_checked_fixture(t, setup, teardown);
    }
    for (size_t i = 0; i < n; i++) {
        tcase_add_test(t, tests[i]);
    }
    suite_add_tcase(s, t);
    return suite_run(s);
}

static inline int
suite_main(const char *title, const TTest *const *tests, size_t n)
{
    return suite_main_with(title, tests, n, NULL, NULL);
}

#endif
