/*
 * test_glob.c -- patterns over names: a table, a slow model, and hostile patterns in bounded time.
 */
#include <check.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/base/glob.h"
#include "tests/unit/plain_glob.h"

static const struct {
    const char *pattern, *name;
    bool hit;
} table[] = {
    {"", "", true},
    {"", "a", false},
    {"a", "", false},
    {"a", "a", true},
    {"a", "A", false},
    {"ab", "a", false},
    {"a", "ab", false},
    {"*", "", true},
    {"*", "a/b c", true},
    {"**", "", true},
    {"**", "x", true},
    {"wl/*", "wl/a/b", true},
    {"wl/*", "wl/", true},
    {"wl/*", "wl", false},
    {"*:lock", "a:lock", true},
    {"*:lock", "a:lock:lock", true},
    {"*:lock", "a:lockx", false},
    {"a*b*c", "axxbyyc", true},
    {"a*b*c", "abc", true},
    {"a*b*c", "abcb", false},
    {"a*bc", "abcbbc", true},
    {"?", "", false},
    {"?", "x", true},
    {"?", "xy", false},
    {"a?c", "abc", true},
    {"*?", "", false},
    {"*?", "abc", true},
    {"?*?", "a", false},
    {"?*?", "ab", true},
    {"[abc]", "b", true},
    {"[abc]", "d", false},
    {"[a-c]x", "bx", true},
    {"[c-a]x", "bx", true},
    {"[a-c]", "d", false},
    {"[^a-c]", "d", true},
    {"[^a-c]", "b", false},
    {"[a-]", "-", true},
    {"[-a]", "-", true},
    {"[]", "]", false},
    {"[\\]]", "]", true},
    {"[\\^a]", "^", true},
    {"[a\\-c]", "b", false},
    {"[a\\-c]", "-", true},
    {"[a-\\c]", "b", true},
    {"[abc", "c", true},
    {"[abc", "d", false},
    {"[", "[", false},
    {"[^", "x", true},
    {"*[0-9]", "shard12", true},
    {"*[0-9]", "shard12x", false},
    {"\\*", "*", true},
    {"\\*", "a", false},
    {"\\?", "?", true},
    {"\\a", "a", true},
    {"\\\\", "\\", true},
    {"a\\", "a\\", true},
    {"a\\", "a", false},
    {"\\[a]", "[a]", true},
    {"\xff[\x80-\xff]", "\xff\xc3", true},
    {"\xff[\x80-\xff]", "\xff\x7f", false},
};

START_TEST(rows)
{
    ck_assert_msg(glob_match(slice_of(table[_i].pattern), slice_of(table[_i].name)) == table[_i].hit,
                  "\"%s\" over \"%s\"", table[_i].pattern, table[_i].name);
}
END_TEST

START_TEST(nul_is_a_byte)
{
    ck_assert(glob_match((struct slice){"a\0?", 3}, (struct slice){"a\0b", 3}));
    ck_assert(!glob_match((struct slice){"a\0c", 3}, (struct slice){"a\0b", 3}));
    ck_assert(glob_match((struct slice){NULL, 0}, (struct slice){NULL, 0}));
    ck_assert(glob_match(SLICE_LIT("*"), (struct slice){NULL, 0}));
}
END_TEST

/* The meaning of a glob without sets and escapes, in the simplest code. */
static bool
model(const char *p, const char *n)
{
    if (*p == '\0') {
        return *n == '\0';
    }
    if (*p == '*') {
        return model(p + 1, n) || (*n != '\0' && model(p, n + 1));
    }
    return *n != '\0' && (*p == '?' || *p == *n) && model(p + 1, n + 1);
}

START_TEST(agrees_with_the_model)
{
    int hits = 0;

    srand((unsigned)_i + 1);
    for (int round = 0; round < 20000; round++) {
        char p[9], n[11];
        int pn = rand() % 9, nn = rand() % 11;

        for (int i = 0; i < pn; i++) {
            p[i] = "ab*?"[rand() % 4];
        }
        p[pn] = '\0';
        for (int i = 0; i < nn; i++) {
            n[i] = "ab"[rand() % 2];
        }
        n[nn] = '\0';
        hits += model(p, n);
        ck_assert_msg(glob_match(slice_of(p), slice_of(n)) == model(p, n), "\"%s\" over \"%s\"", p, n);
    }
    ck_assert_int_gt(hits, 1000);
}
END_TEST

/* Names longer than one word of positions, with sets and escapes. */
START_TEST(agrees_with_the_plain_search)
{
    static const char meta[] = "**?[]^-\\abab\xff";
    int hits = 0;

    srand((unsigned)_i + 1000);
    for (int round = 0; round < 20000; round++) {
        char p[60], n[700];
        bool large = rand() % 4 == 0;
        size_t pn = (size_t)rand() % (large ? sizeof(p) : 12), nn = (size_t)rand() % (large ? sizeof(n) : 9);

        for (size_t i = 0; i < pn; i++) {
            p[i] = rand() % 3 != 0 ? "ab*?"[rand() % 4] : meta[(size_t)rand() % (sizeof(meta) - 1)];
        }
        for (size_t i = 0; i < nn; i++) {
            n[i] = large ? "ab"[rand() % 2] : "abab-]\\"[rand() % 7];
        }
        hits += plain_match((struct slice){p, pn}, (struct slice){n, nn});
        ck_assert_msg(glob_match((struct slice){p, pn}, (struct slice){n, nn}) ==
                          plain_match((struct slice){p, pn}, (struct slice){n, nn}),
                      "\"%.*s\" over \"%.*s\"", (int)pn, p, (int)nn, n);
    }
    ck_assert_int_gt(hits, 500);
}
END_TEST

typedef bool match_fn(struct slice pattern, struct slice name);

static double
seconds_of(match_fn *match, int times, struct slice pattern, struct slice name)
{
    clock_t begin = clock();

    for (int i = 0; i < times; i++) {
        ck_assert(!match(pattern, name));
    }
    return (double)(clock() - begin) / CLOCKS_PER_SEC / times;
}

static void
must_be_quick(struct slice pattern, struct slice name)
{
    double glob = seconds_of(glob_match, 20, pattern, name), plain = seconds_of(plain_match, 3, pattern, name);

    ck_assert_msg(glob * 4 < plain, "%.6f s of processor time, and the plain search %.6f s", glob, plain);
}

/*
 * Patterns for which the plain search goes back 2,000 times over 2,000 bytes take milliseconds. Both are measured, so
 * that the speed of the machine does not matter.
 */
START_TEST(hostile_patterns_end)
{
    static char name[4096], pattern[4096];

    memset(name, 'a', sizeof(name));
    memset(pattern, 'a', sizeof(pattern));
    pattern[0] = '*';
    pattern[2048] = 'b';
    must_be_quick((struct slice){pattern, 2049}, (struct slice){name, sizeof(name)});
    memset(pattern, '?', 2048);
    pattern[0] = '*';
    must_be_quick((struct slice){pattern, 2049}, (struct slice){name, sizeof(name)});
    for (size_t i = 1; i + 3 < sizeof(pattern); i += 3) {
        memcpy(pattern + i, "[a]", 3);
    }
    pattern[3073] = 'b';
    must_be_quick((struct slice){pattern, 3074}, (struct slice){name, sizeof(name)});
    memset(pattern, '[', sizeof(pattern)); /* a set that never ends */
    pattern[0] = '*';
    ck_assert(!glob_match((struct slice){pattern, sizeof(pattern)}, (struct slice){name, sizeof(name)}));
}
END_TEST

/*
 * Random bytes full of meta characters: no byte outside is read (ASan would report it; the copies have the exact size).
 */
START_TEST(random_patterns_stay_inside)
{
    static const char meta[] = "*?[]^-\\ab\xff";

    srand((unsigned)_i + 100);
    for (int round = 0; round < 20000; round++) {
        size_t pn = (size_t)(rand() % 12), nn = (size_t)(rand() % 8);
        char *p = malloc(pn > 0 ? pn : 1), *n = malloc(nn > 0 ? nn : 1);

        ck_assert(p != NULL && n != NULL);
        for (size_t i = 0; i < pn; i++) {
            p[i] = meta[(size_t)rand() % (sizeof(meta) - 1)];
        }
        for (size_t i = 0; i < nn; i++) {
            n[i] = meta[(size_t)rand() % (sizeof(meta) - 1)];
        }
        glob_match((struct slice){p, pn}, (struct slice){n, nn});
        free(p);
        free(n);
    }
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("glob");
    TCase *tc = tcase_create("all");
    SRunner *sr;
    int failed;

    tcase_add_loop_test(tc, rows, 0, sizeof(table) / sizeof(table[0]));
    tcase_add_test(tc, nul_is_a_byte);
    tcase_add_loop_test(tc, agrees_with_the_plain_search, 0, 5);
    tcase_add_loop_test(tc, agrees_with_the_model, 0, 5);
    tcase_add_test(tc, hostile_patterns_end);
    tcase_add_loop_test(tc, random_patterns_stay_inside, 0, 3);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
