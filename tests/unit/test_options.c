/*
 * test_options.c -- the words of LOCK, UNLOCK, RENEW, MLOCK and MUNLOCK; and the search in the command table.
 *
 * Lines go through the reader, so that a case reads as a user would type it.
 */
#include "proto/options.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/units.h"
#include "tests/unit/rng.h"

#define NAME_MAX_BYTES 512

static const struct reader_limits wide = {.line_bytes = 16384, .word_bytes = 16384, .words = 64};

/* One typed line as words; they live in the reader. */
static enum command_id
type(struct reader *r, struct words *w, const char *line)
{
    int id;

    reader_init(r, &wide);
    reader_feed(r, line, strlen(line));
    reader_feed(r, "\n", 1);
    ck_assert_int_eq(reader_next(r, w), READER_READY);
    id = command_find(w->word[0]);
    ck_assert_int_ge(id, 0);
    return (enum command_id)id;
}

/* The names of *o are in *w. */
static bool
parse(struct reader *r, struct words *w, const char *line, struct lock_options *o, char error[OPTIONS_ERROR_BYTES])
{
    enum command_id id = type(r, w, line);

    memset(error, 'z', OPTIONS_ERROR_BYTES);
    return options_parse(id, w, NAME_MAX_BYTES, o, error);
}

/* --- accepted ------------------------------------------------------------------------------------ */

struct good {
    const char *line;
    struct lock_options want; /* name and owner are given as texts below */
    const char *name, *owner; /* of several names the last one */
};

#define S(n) (INT64_C(n) * 1000000)

static const struct good good[] = {
    {"LOCK a", {.kind = KIND_REENTRANT}, "a", ""},
    {"lock orders:42 wait 5s lease 1m kind simple owner w7 once full",
     {.has_wait = true, .wait_us = S(5), .has_lease = true, .lease_us = S(60), .has_kind = true, .kind = KIND_SIMPLE,
      .once = true, .full = true},
     "orders:42", "w7"},
    {"LOCK a FULL ONCE OWNER \"b c\" KIND COUNTER LEASE 10 WAIT 250",
     {.has_wait = true, .wait_us = 250000, .has_lease = true, .lease_us = 10000, .has_kind = true,
      .kind = KIND_COUNTER, .once = true, .full = true},
     "a", "b c"},
    {"LOCK a NOWAIT", {.has_wait = true, .wait_us = 0}, "a", ""},
    {"LOCK a WAIT 0", {.has_wait = true, .wait_us = 0}, "a", ""},
    {"LOCK a WAIT 0s", {.has_wait = true, .wait_us = 0}, "a", ""},
    {"LOCK a WAIT forever", {.has_wait = true, .wait_us = DURATION_FOREVER}, "a", ""},
    {"LOCK a WAIT Forever", {.has_wait = true, .wait_us = DURATION_FOREVER}, "a", ""},
    {"LOCK a LEASE 8760h", {.has_lease = true, .lease_us = S(365) * 24 * 3600}, "a", ""},
    {"LOCK a KIND reentrant", {.has_kind = true, .kind = KIND_REENTRANT}, "a", ""},
    /* values that look like options, names that look like anything */
    {"LOCK WAIT OWNER NOWAIT", {.kind = KIND_REENTRANT}, "WAIT", "NOWAIT"},
    {"LOCK \"a\\r\\nb c\" OWNER '\"'", {.kind = KIND_REENTRANT}, "a\r\nb c", "\""},
    {"UNLOCK a", {.token = 0}, "a", ""},
    {"UNLOCK a OWNER b TOKEN 1187", {.token = 1187}, "a", "b"},
    {"unlock a token 9223372036854775807 owner b", {.token = INT64_MAX}, "a", "b"},
    {"LOCK a SHARED KIND rw", {.has_kind = true, .kind = KIND_RW, .shared = true}, "a", ""},
    {"LOCK SHARED shared", {.shared = true}, "SHARED", ""},
    {"LOCK a LIMIT 1", {.limit = 1}, "a", ""},
    {"LOCK a KIND Semaphore LIMIT 1000000", {.has_kind = true, .kind = KIND_SEMAPHORE, .limit = 1000000}, "a", ""},
    {"UNLOCK a SHARED OWNER b TOKEN 7", {.shared = true, .token = 7}, "a", "b"},
    {"MLOCK 1 a", {.names = 1}, "a", ""},
    {"MLOCK 2 a b", {.names = 2}, "b", ""},
    {"mlock 3 a WAIT 5s wait 5s lease 1m kind rw shared limit 2 owner w7 once full",
     {.names = 3, .has_wait = true, .wait_us = S(5), .has_lease = true, .lease_us = S(60), .has_kind = true,
      .kind = KIND_RW, .shared = true, .limit = 2, .once = true, .full = true},
     "5s", "w7"},
    {"MLOCK 2 a A NOWAIT", {.names = 2, .has_wait = true}, "A", ""},
    {"MUNLOCK 2 OWNER b OWNER c", {.names = 2}, "b", "c"},
    {"RENEW a 30s", {.has_lease = true, .lease_us = S(30)}, "a", ""},
    {"RENEW a 1500 TOKEN 7 OWNER b", {.has_lease = true, .lease_us = 1500000, .token = 7}, "a", "b"},
};

START_TEST(accepted)
{
    const struct good *g = &good[_i];
    struct reader r;
    struct words w;
    struct lock_options o;
    char error[OPTIONS_ERROR_BYTES];

    ck_assert_msg(parse(&r, &w, g->line, &o, error), "%s", error);
    ck_assert_uint_eq(o.names, g->want.names == 0 ? 1 : g->want.names);
    ck_assert(slice_eq(o.name[o.names - 1], slice_of(g->name)));
    ck_assert(slice_eq(o.owner, slice_of(g->owner)));
    ck_assert_int_eq(o.has_wait, g->want.has_wait);
    ck_assert_int_eq(o.has_lease, g->want.has_lease);
    ck_assert_int_eq(o.has_kind, g->want.has_kind);
    ck_assert_int_eq(o.shared, g->want.shared);
    ck_assert_uint_eq(o.limit, g->want.limit);
    ck_assert_int_eq(o.once, g->want.once);
    ck_assert_int_eq(o.full, g->want.full);
    ck_assert_int_eq(o.wait_us, g->want.wait_us);
    ck_assert_int_eq(o.lease_us, g->want.lease_us);
    ck_assert_int_eq(o.kind, g->want.kind);
    ck_assert_uint_eq(o.token, g->want.token);
    reader_fini(&r);
}
END_TEST

/* --- refused -------------------------------------------------------------------------------------- */

#define DURATION "a duration of 10ms to 8760h such as 1500 (ms), 250ms, 5s, 2m or 1h"
#define WAITING "a duration of up to 8760h such as 1500 (ms), 250ms, 5s, 2m or 1h, or forever"
#define KINDS_THERE "one of: reentrant simple counter fair rw semaphore fenced"
#define LIMITS "a whole number from 1 to 1000000"

struct wrong {
    const char *line, *sentence;
};

static const struct wrong wrong[] = {
    {"LOCK", "LOCK lacks its name"},
    {"RENEW", "RENEW lacks its name"},
    {"RENEW a", "RENEW lacks the new lease"},
    {"LOCK \"\"", "the name is empty"},
    {"UNLOCK \"\" FOO", "the name is empty"},
    /* unknown words */
    {"LOCK a FOO", "LOCK has no option 'FOO'"},
    {"LOCK a \"\"", "LOCK has no option ''"},
    {"LOCK a \"x\\r\\n\\x00y\"", "LOCK has no option 'x\\x0d\\x0a\\x00y'"},
    {"LOCK a 12345678901234567890123456789012", "LOCK has no option '12345678901234567890123456789012'"},
    {"LOCK a 123456789012345678901234567890123", "LOCK has no option '12345678901234567890123456789012...'"},
    {"LOCK a TOKEN 5", "LOCK has no option 'TOKEN'"},
    {"LOCK a SHARE", "LOCK has no option 'SHARE'"},
    {"RENEW a 5s SHARED", "RENEW has no option 'SHARED'"},
    {"UNLOCK a LIMIT 5", "UNLOCK has no option 'LIMIT'"},
    {"MUNLOCK 1 a TOKEN 5", "MUNLOCK has no option 'TOKEN'"},
    {"MUNLOCK 1 a SHARED", "MUNLOCK has no option 'SHARED'"},
    {"MLOCK 1 a b", "MLOCK has no option 'b'"},
    /* counts and names */
    {"MLOCK", "MLOCK lacks its names"},
    {"MUNLOCK", "MUNLOCK lacks its names"},
    {"MLOCK 1", "1 names are announced, 0 are given"},
    {"MLOCK 3 a b", "3 names are announced, 2 are given"},
    {"MLOCK 9223372036854775807 a", "9223372036854775807 names are announced, 1 are given"},
    {"MLOCK a b", "the number of names must be a whole number above 0, not 'a'"},
    {"MLOCK 0 a", "the number of names must be a whole number above 0, not '0'"},
    {"MUNLOCK -1 a", "the number of names must be a whole number above 0, not '-1'"},
    {"MLOCK 2 a \"\"", "the name is empty"},
    {"MLOCK 3 a b a", "the name 'a' is given twice"},
    {"MUNLOCK 2 \"\\x00\" \"\\x00\"", "the name '\\x00' is given twice"},
    {"LOCK a WAI 5s", "LOCK has no option 'WAI'"},
    {"LOCK a WAITS 5s", "LOCK has no option 'WAITS'"},
    {"LOCK a TTL 5s", "LOCK has no option 'TTL': write LEASE"},
    {"MLOCK 1 a nx", "MLOCK has no option 'nx': write NOWAIT"},
    {"UNLOCK a PX 5", "UNLOCK has no option 'PX'"},
    {"LOCK a WAIT 5 s", "LOCK has no option 's': write 5s without a blank"},
    {"LOCK a ONCE s", "LOCK has no option 's'"},
    {"LOCK 5 s", "LOCK has no option 's'"},
    {"RENEW a 5000 ms", "RENEW has no option 'ms': write 5000ms without a blank"},
    {"CANCEL a WAIT 5", "CANCEL has no option 'WAIT'"},
    {"UNLOCK a WAIT 5s", "UNLOCK has no option 'WAIT'"},
    {"UNLOCK a 5", "UNLOCK has no option '5'"},
    {"RENEW a 5s ONCE", "RENEW has no option 'ONCE'"},
    {"RENEW a 5s LEASE 5s", "RENEW has no option 'LEASE'"},
    /* given twice, or together */
    {"LOCK a WAIT 5s WAIT 5s", "WAIT is given twice"},
    {"LOCK a FULL once full", "FULL is given twice"},
    {"LOCK a OWNER b ONCE OWNER b", "OWNER is given twice"},
    {"UNLOCK a TOKEN 1 TOKEN 1", "TOKEN is given twice"},
    {"LOCK a WAIT 5s NOWAIT", "NOWAIT cannot be given with WAIT"},
    {"LOCK a NOWAIT WAIT 5s", "WAIT cannot be given with NOWAIT"},
    {"LOCK a NOWAIT NOWAIT", "NOWAIT is given twice"},
    /* no value */
    {"LOCK a WAIT", "WAIT lacks its value, " WAITING},
    {"LOCK a LEASE", "LEASE lacks its value, " DURATION},
    {"LOCK a KIND", "KIND lacks its value, " KINDS_THERE},
    {"LOCK a OWNER", "OWNER lacks its value, 1 to 128 bytes"},
    {"LOCK a GRACE 5s", "GRACE is for an OWNER: what a session holds is freed when the session ends"},
    {"LOCK a OWNER b GRACE 61m", "GRACE must be a duration of up to 1h such as 1500 (ms), 250ms, 5s or 2m, not '61m'"},
    {"UNLOCK a TOKEN", "TOKEN lacks its value, a whole number above 0"},
    /* wrong values */
    {"LOCK a WAIT -1", "WAIT must be " WAITING ", not '-1'"},
    {"LOCK a WAIT 5x", "WAIT must be " WAITING ", not '5x'"},
    {"LOCK a WAIT NOWAIT", "WAIT must be " WAITING ", not 'NOWAIT'"},
    {"LOCK a WAIT 1.5s", "WAIT must be " WAITING ", not '1.5s'"},
    {"LOCK a WAIT 9223372036854775807h", "WAIT must be " WAITING ", not '9223372036854775807h'"},
    {"LOCK a WAIT 99999999999999999999", "WAIT must be " WAITING ", not '99999999999999999999'"},
    {"LOCK a LEASE 0", "LEASE must be " DURATION ", not '0'"},
    {"LOCK a LEASE 0s", "LEASE must be " DURATION ", not '0s'"},
    {"LOCK a LEASE -5s", "LEASE must be " DURATION ", not '-5s'"},
    {"LOCK a LEASE forever", "LEASE must be " DURATION ", not 'forever'"},
    {"LOCK a LEASE 8761h", "LEASE must be " DURATION ", not '8761h'"},
    {"LOCK a LEASE \"\"", "LEASE must be " DURATION ", not ''"},
    {"LOCK a KIND fare", "KIND must be " KINDS_THERE ", not 'fare'"},
    {"LOCK a LIMIT", "LIMIT lacks its value, " LIMITS},
    {"LOCK a LIMIT 0", "LIMIT must be " LIMITS ", not '0'"},
    {"LOCK a LIMIT 1000001", "LIMIT must be " LIMITS ", not '1000001'"},
    {"MLOCK 1 a LIMIT x", "LIMIT must be " LIMITS ", not 'x'"},
    {"LOCK a SHARED SHARED", "SHARED is given twice"},
    {"LOCK a OWNER \"\"", "OWNER must be 1 to 128 bytes, not ''"},
    {"UNLOCK a TOKEN 0", "TOKEN must be a whole number above 0, not '0'"},
    {"UNLOCK a TOKEN -1", "TOKEN must be a whole number above 0, not '-1'"},
    {"UNLOCK a TOKEN 9223372036854775808", "TOKEN must be a whole number above 0, not '9223372036854775808'"},
    {"UNLOCK a TOKEN x", "TOKEN must be a whole number above 0, not 'x'"},
    {"RENEW a 0", "the new lease must be " DURATION ", not '0'"},
    {"RENEW a OWNER b", "the new lease must be " DURATION ", not 'OWNER'"},
};

START_TEST(refused)
{
    struct reader r;
    struct words w;
    struct lock_options o;
    char error[OPTIONS_ERROR_BYTES], want[512];
    enum command_id id = type(&r, &w, wrong[_i].line);

    memset(error, 'z', sizeof(error));
    ck_assert(!options_parse(id, &w, NAME_MAX_BYTES, &o, error));
    snprintf(want, sizeof(want), "%s; usage: %s %s", wrong[_i].sentence, command_rows[id].name,
             command_rows[id].usage);
    ck_assert_str_eq(error, want);
    reader_fini(&r);
}
END_TEST

START_TEST(sizes)
{
    char line[1000];
    struct reader r;
    struct words w;
    struct lock_options o;
    char error[OPTIONS_ERROR_BYTES];

    snprintf(line, sizeof(line), "LOCK %0512d OWNER %0128d", 0, 0);
    ck_assert(parse(&r, &w, line, &o, error));
    ck_assert_uint_eq(o.name[0].n, 512);
    ck_assert_uint_eq(o.owner.n, 128);
    reader_fini(&r);
    snprintf(line, sizeof(line), "LOCK %0513d", 0);
    ck_assert(!parse(&r, &w, line, &o, error));
    ck_assert_ptr_nonnull(strstr(error, "the name '00000000000000000000000000000000...' has 513 bytes, at most 512"));
    reader_fini(&r);
    snprintf(line, sizeof(line), "MLOCK 2 a %0513d", 0);
    ck_assert(!parse(&r, &w, line, &o, error));
    ck_assert_ptr_nonnull(strstr(error, "the name '00000000000000000000000000000000...' has 513 bytes, at most 512"));
    reader_fini(&r);
    snprintf(line, sizeof(line), "RENEW a 5s OWNER %0129d", 0);
    ck_assert(!parse(&r, &w, line, &o, error));
    ck_assert_ptr_nonnull(strstr(error, "OWNER must be 1 to 128 bytes, not '00000000"));
    reader_fini(&r);
}
END_TEST

/* As many names as a request can hold; and one name that is announced, but missing. */
START_TEST(most_names)
{
    struct reader r;
    struct words w;
    struct lock_options o;
    char line[400] = "MLOCK 62", error[OPTIONS_ERROR_BYTES];

    for (int i = 0; i < 62; i++) {
        snprintf(line + strlen(line), sizeof(line) - strlen(line), " n%d", i);
    }
    ck_assert_msg(parse(&r, &w, line, &o, error), "%s", error);
    ck_assert_uint_eq(o.names, 62);
    ck_assert(slice_is(o.name[61], "n61"));
    reader_fini(&r);
    line[7] = '3';
    ck_assert(!parse(&r, &w, line, &o, error));
    ck_assert_ptr_nonnull(strstr(error, "63 names are announced, 62 are given; usage: MLOCK n name ..."));
    reader_fini(&r);
}
END_TEST

/* Random words from the vocabulary: no crash; an error is printable, and always ends with the whole usage line. */
START_TEST(random_words)
{
    static const char *const vocabulary[] = {"WAIT", "NOWAIT", "LEASE", "KIND",   "OWNER", "TOKEN", "ONCE",
                                             "FULL", "5s",     "0",     "simple", "7",     "x\r\n", "",
                                             "1",    "2",      "SHARED", "LIMIT", "a"};
    static const enum command_id ids[] = {CMD_LOCK, CMD_UNLOCK, CMD_RENEW, CMD_MLOCK, CMD_MUNLOCK};
    struct rng rng = rng_of(_i);
    unsigned good_n = 0;

    for (int round = 0; round < 5000; round++) {
        enum command_id id = ids[rng_below(&rng, 5)];
        const char *usage = command_rows[id].usage;
        struct words w = {.n = 1 + rng_below(&rng, 8)};
        struct lock_options o;
        char error[OPTIONS_ERROR_BYTES];
        size_t n;

        for (unsigned i = 0; i < w.n; i++) {
            w.word[i] = slice_of(vocabulary[rng_below(&rng, sizeof(vocabulary) / sizeof(vocabulary[0]))]);
        }
        if (options_parse(id, &w, 4, &o, error)) {
            good_n++;
            continue;
        }
        n = strlen(error);
        if (n < strlen(usage) || strcmp(error + n - strlen(usage), usage) != 0 || strpbrk(error, "\r\n") != NULL) {
            ck_abort_msg("seed %d round %d: %s", _i, round, error);
        }
    }
    ck_assert_uint_gt(good_n, 50);
}
END_TEST

/* --- the command table ----------------------------------------------------------------------------- */

START_TEST(each_command_is_found)
{
    const char *name = command_rows[_i].name;
    char text[40];
    size_t n = strlen(name);

    ck_assert_uint_lt(n, sizeof(text) - 2);
    ck_assert_int_eq(command_find(slice_of(name)), _i);
    for (size_t i = 0; i < n; i++) {
        text[i] = (char)(i % 2 == 0 ? name[i] | 0x20 : name[i]);
    }
    text[n] = 'X';
    ck_assert_int_eq(command_find((struct slice){text, n}), _i);
    ck_assert_int_eq(command_find((struct slice){text, n + 1}), -1);
    text[0] = '!';
    ck_assert_int_eq(command_find((struct slice){text, n}), -1);
    ck_assert_uint_ge(command_rows[_i].words_min, 1);
    ck_assert(command_rows[_i].words_max == 0 || command_rows[_i].words_max >= command_rows[_i].words_min);
}
END_TEST

START_TEST(others_are_not)
{
    ck_assert_int_eq(command_find((struct slice){NULL, 0}), -1);
    ck_assert_int_eq(command_find(SLICE_LIT("L")), -1);
    ck_assert_int_eq(command_find(SLICE_LIT("LOC")), -1);
    ck_assert_int_eq(command_find(SLICE_LIT("MRENEW")), -1);
    ck_assert_int_eq(command_find((struct slice){"LOCK\0", 5}), -1);
    ck_assert_int_eq(command_find((struct slice){"LO\0K", 4}), -1);
    ck_assert_int_eq(command_find(SLICE_LIT("POST")), -1);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("options");
    TCase *tc = tcase_create("all");
    SRunner *sr;
    int failed;

    tcase_add_loop_test(tc, accepted, 0, sizeof(good) / sizeof(good[0]));
    tcase_add_loop_test(tc, refused, 0, sizeof(wrong) / sizeof(wrong[0]));
    tcase_add_test(tc, sizes);
    tcase_add_test(tc, most_names);
    tcase_add_loop_test(tc, random_words, 0, 10);
    tcase_add_loop_test(tc, each_command_is_found, 0, COMMANDS);
    tcase_add_test(tc, others_are_not);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
