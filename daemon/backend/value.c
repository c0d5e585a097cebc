/*
 * value.c -- deriving and printing the values of `simple` locks and the permits of `semaphore`s.
 */
#include "daemon/backend/value.h"

#include <assert.h>
#include <openssl/evp.h>
#include <string.h>

static char *
print_byte(unsigned char b, char *out)
{
    static const char digit[] = "0123456789abcdef";

    *out++ = digit[b >> 4];
    *out++ = digit[b & 15];
    return out;
}

static size_t
print_hex(const unsigned char b[16], char *out)
{
    for (int i = 0; i < 16; i++) {
        out = print_byte(b[i], out);
    }
    *out = '\0';
    return 32;
}

/* Version 4, variant 1, as Java and Redisson would write it. */
static size_t
print_uuid(const unsigned char b[16], char *out)
{
    unsigned char u[16];
    char *at = out;

    memcpy(u, b, sizeof(u));
    u[6] = (unsigned char)((u[6] & 0x0f) | 0x40);
    u[8] = (unsigned char)((u[8] & 0x3f) | 0x80);
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            *at++ = '-';
        }
        at = print_byte(u[i], at);
    }
    *at = '\0';
    return (size_t)(at - out);
}

static size_t
print_base64(const unsigned char b[16], char *out)
{
    return (size_t)EVP_EncodeBlock((unsigned char *)out, b, 16);
}

/* The digits of RFC 4648's section 5, and no padding. */
static size_t
print_base64_url(const unsigned char b[16], char *out)
{
    size_t n = print_base64(b, out) - 2;

    for (size_t i = 0; i < n; i++) {
        out[i] = out[i] == '+' ? '-' : out[i] == '/' ? '_' : out[i];
    }
    out[n] = '\0';
    return n;
}

static size_t (*const printers[VALUES])(const unsigned char b[16], char *out) = {
    [VALUE_UUID] = print_uuid,
    [VALUE_HEX32] = print_hex,
    [VALUE_BASE64_UUID] = print_base64,
    [VALUE_BASE64_URL] = print_base64_url,
};

size_t
value_print(const unsigned char bytes[VALUE_BYTES], enum value_format format, char out[VALUE_ROOM])
{
    assert((unsigned)format < VALUES);
    return printers[format](bytes, out);
}

void
value_bytes(const struct hash_key *secret, uint64_t claim, uint64_t owner, unsigned char out[VALUE_BYTES])
{
    for (uint64_t half = 0; half < 2; half++) {
        uint64_t in[3] = {half, claim, owner}, h = hash_bytes(secret, in, sizeof(in));

        memcpy(out + 8 * half, &h, sizeof(h));
    }
}

size_t
value_of_claim(const struct hash_key *secret, uint64_t claim, uint64_t owner, enum value_format format,
               char out[VALUE_ROOM])
{
    unsigned char bytes[VALUE_BYTES];

    value_bytes(secret, claim, owner, bytes);
    return value_print(bytes, format, out);
}
