/*
 * sha1.c -- the SHA-1 of a text, as RFC 3174 says it. Owns nothing and keeps nothing.
 */
#include "daemon/base/sha1.h"

#include <stdint.h>
#include <stdio.h>

#define BLOCK_BYTES 64
#define LENGTH_BYTES 8 /* the text's length in bits ends the last block */

static uint32_t
turned(uint32_t x, int bits)
{
    return x << bits | x >> (32 - bits);
}

static uint32_t
mixed(int t, const uint32_t h[5])
{
    switch (t / 20) {
    case 0:
        return 0x5a827999 + ((h[1] & h[2]) | (~h[1] & h[3]));
    case 1:
        return 0x6ed9eba1 + (h[1] ^ h[2] ^ h[3]);
    case 2:
        return 0x8f1bbcdc + ((h[1] & h[2]) | (h[1] & h[3]) | (h[2] & h[3]));
    default:
        return 0xca62c1d6 + (h[1] ^ h[2] ^ h[3]);
    }
}

static void
add_block(uint32_t sum[5], const unsigned char *block)
{
    uint32_t h[5], w[80], next;
    int t;

    memcpy(h, sum, sizeof(h));
    for (t = 0; t < 80; t++) {
        const unsigned char *b = block + 4 * t;

        w[t] = t < 16 ? (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]
                      : turned(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
        next = turned(h[0], 5) + mixed(t, h) + h[4] + w[t];
        h[4] = h[3];
        h[3] = h[2];
        h[2] = turned(h[1], 30);
        h[1] = h[0];
        h[0] = next;
    }
    for (t = 0; t < 5; t++) {
        sum[t] += h[t];
    }
}

/* What is left of the text, a one bit, and the length at the very end: one block, or two when it does not fit. */
static void
add_end(uint32_t sum[5], struct slice rest, uint64_t text_bits)
{
    unsigned char end[2 * BLOCK_BYTES] = {0};
    size_t n = rest.n + 1 + LENGTH_BYTES <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES, i;

    if (rest.n > 0) {
        memcpy(end, rest.p, rest.n);
    }
    end[rest.n] = 0x80;
    for (i = 1; i <= LENGTH_BYTES; i++) {
        end[n - i] = (unsigned char)(text_bits >> 8 * (i - 1));
    }
    for (i = 0; i < n; i += BLOCK_BYTES) {
        add_block(sum, end + i);
    }
}

void
sha1_hex(struct slice text, char out[SHA1_HEX_BYTES + 1])
{
    uint32_t sum[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    size_t i;

    for (i = 0; text.n - i >= BLOCK_BYTES; i += BLOCK_BYTES) {
        add_block(sum, (const unsigned char *)text.p + i);
    }
    add_end(sum, (struct slice){text.n > i ? text.p + i : NULL, text.n - i}, (uint64_t)text.n * 8);
    for (i = 0; i < 5; i++) {
        snprintf(out + 8 * i, 9, "%08x", (unsigned)sum[i]);
    }
}
