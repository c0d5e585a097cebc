/*
 * sha1.h -- the SHA-1 of a text (FIPS 180), by which Redis names a script.
 *
 * It identifies known texts only: SHA-1 does not protect against forgery.
 */
#ifndef RLOCKD_BACKEND_SHA1_H
#define RLOCKD_BACKEND_SHA1_H

#include "daemon/base/slice.h"

#define SHA1_HEX_BYTES 40

/* 40 lower-case hexadecimal digits and a NUL; "" where libcrypto has none. */
void sha1_hex(struct slice text, char out[SHA1_HEX_BYTES + 1]);

#endif
