/*
 * sha1.c -- SHA-1 by libcrypto, printed as Redis prints it.
 */
#include "daemon/backend/sha1.h"

#include <openssl/sha.h>
#include <stdio.h>

void
sha1_hex(struct slice text, char out[SHA1_HEX_BYTES + 1])
{
    unsigned char digest[SHA_DIGEST_LENGTH];

    out[0] = '\0';
    if (SHA1((const unsigned char *)text.p, text.n, digest) == NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof(digest); i++) {
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
    }
}
