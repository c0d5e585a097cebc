/*
 * test_kinds.c -- the tables of kinds and of value formats; and that the policy of the core for each kind fits its
 * flags.
 */
#include <check.h>

#include "daemon/base/kinds.h"
#include "daemon/core/kind_policy.h"

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
        [KIND_REENTRANT] = KIND_F_REENTRANT | KIND_F_HANDOFF | KIND_F_ONE_KEY,
        [KIND_SIMPLE] = KIND_F_HANDOFF | KIND_F_STRING | KIND_F_ONE_KEY,
        [KIND_COUNTER] = KIND_F_BY_EXPIRY | KIND_F_STRING,
        [KIND_FAIR] = KIND_F_REENTRANT | KIND_F_TICKETS,
        [KIND_RW] = KIND_F_REENTRANT | KIND_F_SHARED | KIND_F_HANDOFF,
        [KIND_SEMAPHORE] = KIND_F_PERMITS | KIND_F_HANDOFF | KIND_F_STRING,
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

/* The scripts in Redis, the documentation for clients and the core must agree on the properties of a kind. */
START_TEST(the_core_answers_by_the_flags)
{
    for (int i = 0; i < KINDS; i++) {
        const struct kind_policy *p = &kind_policies[i];
        unsigned flags = kind_rows[i].flags;

        ck_assert_int_eq(p->holders == HOLDERS_LIMIT, (flags & KIND_F_PERMITS) != 0);
        ck_assert_int_eq(p->holders == HOLDERS_SHARED, (flags & KIND_F_SHARED) != 0);
        ck_assert_int_eq(p->reentrant, (flags & KIND_F_REENTRANT) != 0);
        ck_assert_int_eq(p->expiry_proves, (flags & KIND_F_BY_EXPIRY) != 0);
        ck_assert_int_eq(p->tickets, (flags & KIND_F_TICKETS) != 0);
        ck_assert_int_eq(p->handoff, (flags & KIND_F_HANDOFF) != 0);
    }
}
END_TEST

/* Some policies exclude each other: no algorithm of the core is made for both. */
START_TEST(answers_that_exclude_each_other)
{
    for (int i = 0; i < KINDS; i++) {
        const struct kind_policy *p = &kind_policies[i];

        ck_assert(!p->claim_each || (p->holders == HOLDERS_LIMIT && !p->reentrant)); /* claim_index.c */
        ck_assert(p->holders != HOLDERS_LIMIT || p->claim_each); /* each holder has a token of its own */
        ck_assert(p->holders == HOLDERS_LIMIT || !p->any_makes_room);
        ck_assert(!p->two_sorts || p->holders == HOLDERS_SHARED);
        ck_assert(!p->cacheable || (p->handoff && p->holders != HOLDERS_LIMIT)); /* it may be free elsewhere */
        ck_assert(!p->called_apart || p->tickets);
        ck_assert(!p->tickets || !(p->try_behind || p->handoff)); /* Redis decides whose turn it is */
        ck_assert(!p->expiry_proves || !(p->try_behind || p->handoff)); /* one operation at a time */
    }
}
END_TEST

/* A hand-off looks at all permits of a name, so names with very many permits have none. */
START_TEST(handed_over_are_few)
{
    struct lock l = {.kind = KIND_SEMAPHORE, .limit = HANDOFF_PERMITS};

    ck_assert(lock_may_hand_off(&l));
    l.limit++;
    ck_assert(!lock_may_hand_off(&l));
    l.kind = KIND_SIMPLE; /* for other kinds the limit does not count */
    ck_assert(lock_may_hand_off(&l) && lock_holders_max(&l) == 1);
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
    tcase_add_test(tc, the_core_answers_by_the_flags);
    tcase_add_test(tc, answers_that_exclude_each_other);
    tcase_add_test(tc, handed_over_are_few);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
