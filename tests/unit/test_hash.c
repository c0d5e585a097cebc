/*
 * test_hash.c -- SipHash-1-3 against vectors that were not made by this code.
 *
 * `counting` was computed by a separate implementation in Python, which gives the published vectors of SipHash-2-4 with
 * 2 and 4 rounds. `cpython` has the hashes of CPython 3.11's own siphash13 with PYTHONHASHSEED=0 (a key of zeros).
 */
#include "daemon/base/hash.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rng.h"

/* The key is the bytes 00..0f, message n is the bytes 00..n-1. */
static const struct hash_key counting_key = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};

static const uint64_t counting[64] = {
    UINT64_C(0xabac0158050fc4dc), UINT64_C(0xc9f49bf37d57ca93), UINT64_C(0x82cb9b024dc7d44d),
    UINT64_C(0x8bf80ab8e7ddf7fb), UINT64_C(0xcf75576088d38328), UINT64_C(0xdef9d52f49533b67),
    UINT64_C(0xc50d2b50c59f22a7), UINT64_C(0xd3927d989bb11140), UINT64_C(0x369095118d299a8e),
    UINT64_C(0x25a48eb36c063de4), UINT64_C(0x79de85ee92ff097f), UINT64_C(0x70c118c1f94dc352),
    UINT64_C(0x78a384b157b4d9a2), UINT64_C(0x306f760c1229ffa7), UINT64_C(0x605aa111c0f95d34),
    UINT64_C(0xd320d86d2a519956), UINT64_C(0xcc4fdd1a7d908b66), UINT64_C(0x9cf2689063dbd80c),
    UINT64_C(0x8ffc389cb473e63e), UINT64_C(0xf21f9de58d297d1c), UINT64_C(0xc0dc2f46a6cce040),
    UINT64_C(0xb992abfe2b45f844), UINT64_C(0x7ffe7b9ba320872e), UINT64_C(0x525a0e7fdae6c123),
    UINT64_C(0xf464aeb267349c8c), UINT64_C(0x45cd5928705b0979), UINT64_C(0x3a3e35e3ca9913a5),
    UINT64_C(0xa91dc74e4ade3b35), UINT64_C(0xfb0bed02ef6cd00d), UINT64_C(0x88d93cb44ab1e1f4),
    UINT64_C(0x540f11d643c5e663), UINT64_C(0x2370dd1f8c21d1bc), UINT64_C(0x81157b6c16a7b60d),
    UINT64_C(0x4d54b9e57a8ff9bf), UINT64_C(0x759f12781f2a753e), UINT64_C(0xcea1a3bebf186b91),
    UINT64_C(0x2cf508d3ada26206), UINT64_C(0xb6101c2da3c33057), UINT64_C(0xb3f47496ae3a36a1),
    UINT64_C(0x626b57547b108392), UINT64_C(0xc1d2363299e41531), UINT64_C(0x667cc1923f1ad944),
    UINT64_C(0x65704ffec8138825), UINT64_C(0x24f280d1c28949a6), UINT64_C(0xc2ca1cedfaf8876b),
    UINT64_C(0xc2164bfc9f042196), UINT64_C(0xa16e9c9368b1d623), UINT64_C(0x49fb169c8b5114fd),
    UINT64_C(0x9f3143f8df074c46), UINT64_C(0xc6fdaf2412cc86b3), UINT64_C(0x7eaf49d10a52098f),
    UINT64_C(0x1cf313559d292f9a), UINT64_C(0xc44a30dda2f41f12), UINT64_C(0x36fae98943a71ed0),
    UINT64_C(0x318fb34c73f0bce6), UINT64_C(0xa27abf3670a7e980), UINT64_C(0xb4bcc0db243c6d75),
    UINT64_C(0x23f8d852fdb71513), UINT64_C(0x8f035f4da67d8a08), UINT64_C(0xd89cd0e5b7e8f148),
    UINT64_C(0xf6f4e6bcf7a644ee), UINT64_C(0xaec59ad80f1837f2), UINT64_C(0xc3b2f6154b6694e0),
    UINT64_C(0x9d199062b7bbb3a8),
};

static void
count_up(unsigned char *p, size_t n, unsigned modulus)
{
    for (size_t i = 0; i < n; i++) {
        p[i] = (unsigned char)(i % modulus);
    }
}

START_TEST(counting_vectors)
{
    unsigned char message[64];

    count_up(message, sizeof(message), 256);
    ck_assert_uint_eq(hash_bytes(&counting_key, message, (size_t)_i), counting[_i]);
}
END_TEST

START_TEST(cpython_vectors)
{
    static const struct hash_key zero;
    unsigned char message[100];

    count_up(message, sizeof(message), 256);
    ck_assert_uint_eq(hash_bytes(&zero, "a", 1), UINT64_C(0x407448d2b89b1813));
    ck_assert_uint_eq(hash_bytes(&zero, "orders:42", 9), UINT64_C(0xdc6067b1547e7885));
    ck_assert_uint_eq(hash_bytes(&zero, message, 100), UINT64_C(0x1c6a66e1506e7908));
}
END_TEST

/* The length's low byte is part of the hash: 1000 bytes are past it. */
START_TEST(long_message)
{
    unsigned char message[1000];

    count_up(message, sizeof(message), 251);
    ck_assert_uint_eq(hash_bytes(&counting_key, message, 1000), UINT64_C(0xd77fd9228db4050a));
}
END_TEST

START_TEST(nothing_at_all)
{
    ck_assert_uint_eq(hash_bytes(&counting_key, NULL, 0), counting[0]);
}
END_TEST

/* Where the bytes start in memory must not matter. */
START_TEST(unaligned)
{
    char room[64 + 8];
    struct rng r = rng_of(_i);
    size_t n = rng_below(&r, 64);
    uint64_t want;

    for (size_t i = 0; i < n; i++) {
        room[i] = (char)rng_next(&r);
    }
    want = hash_bytes(&counting_key, room, n);
    memmove(room + 1 + _i % 7, room, n);
    ck_assert_uint_eq(hash_bytes(&counting_key, room + 1 + _i % 7, n), want);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("hash");
    TCase *tc = tcase_create("all");
    SRunner *sr;
    int failed;

    tcase_add_loop_test(tc, counting_vectors, 0, 64);
    tcase_add_test(tc, cpython_vectors);
    tcase_add_test(tc, long_message);
    tcase_add_test(tc, nothing_at_all);
    tcase_add_loop_test(tc, unaligned, 0, 100);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
