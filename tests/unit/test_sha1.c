/*
 * test_sha1.c -- the vectors of RFC 3174 and FIPS 180, and every length around the end of a block.
 */
#include <check.h>
#include <stdlib.h>

#include "daemon/base/sha1.h"

static const struct {
    const char *text;
    int times;
    const char *want;
} vectors[] = {
    {"", 1, "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
    {"abc", 1, "a9993e364706816aba3e25717850c26c9cd0d89d"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1, "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
    {"a", 1000000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f"},
    {"0123456701234567012345670123456701234567012345670123456701234567", 10,
     "dea356a2cddd90c7a7ecedc5ebb563934f460452"},
    /* The length no longer fits behind 56 bytes; at 64 the rest is empty. (Python's hashlib.) */
    {"x", 55, "cef734ba81a024479e09eb5a75b6ddae62e6abf1"},
    {"x", 56, "901305367c259952f4e7af8323f480d59f81335b"},
    {"x", 63, "0ddc4e0cccd9a12850deb5abb0853a4425559fec"},
    {"x", 64, "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163"},
    {"x", 65, "78c741ddc482e4cdf8c474a0876347a0905b6233"},
};

START_TEST(known)
{
    size_t one = strlen(vectors[_i].text), n = one * (size_t)vectors[_i].times, i;
    char *text = malloc(n + 1), got[SHA1_HEX_BYTES + 1];

    ck_assert_ptr_nonnull(text);
    for (i = 0; i < n; i += one) {
        memcpy(text + i, vectors[_i].text, one);
    }
    sha1_hex((struct slice){text, n}, got);
    ck_assert_str_eq(got, vectors[_i].want);
    free(text);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("sha1");
    TCase *tc = tcase_create("vectors");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tc, known, 0, (int)(sizeof(vectors) / sizeof(vectors[0])));
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
