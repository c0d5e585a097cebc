/*
 * tls_private.h -- shared by the files of TLS; only tls.c and tls_connection.c see it.
 */
#ifndef RLOCKD_BACKEND_TLS_PRIVATE_H
#define RLOCKD_BACKEND_TLS_PRIVATE_H

#include <openssl/ssl.h>

#include "daemon/backend/tls.h"

struct tls {
    unsigned users;    /* owners (tls_open(), tls_share()), and connections */
    SSL_CTX *ctx;      /* owned */
    BIO_METHOD *bytes; /* owned: the BIO between OpenSSL and a connection's buffers */
    char *server_name; /* owned; NULL = the host */
    char *trusted;     /* owned: where the trusted certificates are, for people */
    bool has_cert;     /* cert_file is given */
    struct certificate_warning warning; /* about that certificate */
};

/* The BIO between OpenSSL and a connection's buffers: tls_connection.c. */
BIO_METHOD *tls_bytes(void);

struct tls_validity tls_validity(const X509 *x);

/* "2026-11-23 21:05:11 UTC" */
void tls_print_time(const ASN1_TIME *at, char out[40]);

#endif
