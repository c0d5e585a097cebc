/*
 * tls.h -- TLS to Redis as bytes in and bytes out, without socket or loop: a link has one write path, with or without.
 *
 * A `tls` stands for the files of the configuration, a `tls_connection` for one connection. The certificate of Redis
 * and the name in it are always verified. TLS 1.2 or later. Texts are for people, and contain no secret.
 */
#ifndef RLOCKD_BACKEND_TLS_H
#define RLOCKD_BACKEND_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/slice.h"

enum { TLS_ERROR_ROOM = 160, TLS_REASON_ROOM = 320 };

/* The files of the configuration; NULL or "" = not given. They may be "credential:NAME": base/credential.h. */
struct tls_files {
    const char *ca_file;             /* trusted certificates; not given: the system's store */
    const char *cert_file, *key_file; /* the daemon's certificate and key, if Redis wants one */
    const char *server_name;         /* the name that Redis's certificate must have; not given: the host of the URL */
};

struct tls;
struct tls_connection;

/* The last warning about one certificate. */
struct certificate_warning {
    int64_t expires_s; /* the expiry that was warned of */
    int64_t again_us;  /* no warning about the same expiry before this time */
};

/* Makes OpenSSL allocate by base/memory.h. Call it before any other use of OpenSSL. */
void tls_use_memory(void);

/*
 * Reads the files. NULL with a message in `error`. `warning` gets a message about a certificate that has expired or is
 * not valid yet, or "".
 */
struct tls *tls_open(const struct tls_files *files, char error[TLS_ERROR_ROOM], char warning[TLS_ERROR_ROOM]);

/* Adds an owner: each owner calls tls_close(). NULL is fine. */
struct tls *tls_share(struct tls *t);

/* Connections go on. */
void tls_close(struct tls **t);

/* A connection to `host` has been made: the first bytes wait in tls_out(). */
struct tls_connection *tls_begin(struct tls *t, const char *host);
void tls_end(struct tls_connection **s);

enum tls_state {
    TLS_HANDSHAKE, /* the handshake needs more bytes of Redis */
    TLS_OPEN,
    TLS_FAILED, /* tls_reason() says why */
};

/* Takes bytes from the socket, and continues the handshake. Borrows them until tls_read() returns 0. */
enum tls_state tls_take(struct tls_connection *s, struct slice bytes);

/* Decrypts bytes of Redis. Returns their number; 0: there are no more; -1: the connection has failed. */
ssize_t tls_read(struct tls_connection *s, char *p, size_t room);

/* Encrypts bytes for Redis; the connection must be OPEN. False: it has failed. */
bool tls_write(struct tls_connection *s, struct slice bytes);

/* The bytes for the socket; call tls_sent() when they have left. */
struct slice tls_out(struct tls_connection *s);
void tls_sent(struct tls_connection *s);

/* The validity of a certificate, in s of the wall clock; 0 = no certificate, or not readable. */
struct tls_validity {
    int64_t begins_s, expires_s;
};

/* A connection for INFO; "" = not known. */
struct tls_view {
    char version[16], cipher[40];
    struct tls_validity peer; /* the certificate of Redis */
};

void tls_connection_view(const struct tls_connection *s, struct tls_view *out);

/* The daemon's own certificate. */
struct tls_validity tls_own(const struct tls *t);

/* The last warning about the daemon's certificate, for all connections that share the files. */
struct certificate_warning *tls_own_warning(struct tls *t);

/* Why the connection has failed; "" = it has not. */
const char *tls_reason(const struct tls_connection *s);

#endif
