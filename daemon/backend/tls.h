/*
 * tls.h -- TLS to Redis as bytes in and bytes out: no socket and no loop, so a link keeps its one write path.
 *
 * A `tls` stands for the files of the configuration, a `tls_session` for one connection. The certificate of Redis and
 * the name in it are always verified. TLS 1.2 or later. Texts are for people, and contain no secret.
 */
#ifndef RLOCKD_BACKEND_TLS_H
#define RLOCKD_BACKEND_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/slice.h"

enum { TLS_ERROR_ROOM = 160, TLS_REASON_ROOM = 320 };

/* As in the configuration; NULL or "" = not given. Files may be "credential:NAME": base/credential.h. */
struct tls_files {
    const char *ca_file;             /* the CAs that are trusted; none: the system's store */
    const char *cert_file, *key_file; /* ours, where Redis wants one */
    const char *server_name;         /* what the certificate of Redis must be for; none: the host of the URL */
};

struct tls;
struct tls_session;

/* OpenSSL's memory is there, or the process ends (base/memory.h). Before anything else that uses OpenSSL. */
void tls_use_memory(void);

/*
 * Reads the files. NULL with a sentence in `error`; `warning` gets one, or "", about a file that was read and does not
 * serve: an expired certificate of ours.
 */
struct tls *tls_open(const struct tls_files *files, char error[TLS_ERROR_ROOM], char warning[TLS_ERROR_ROOM]);

/* Another owner of the same: each closes it. NULL is fine. */
struct tls *tls_share(struct tls *t);

/* Sessions that have begun go on. */
void tls_close(struct tls **t);

/* A connection to `host` has been made: the first bytes wait in tls_out(). */
struct tls_session *tls_begin(struct tls *t, const char *host);
void tls_end(struct tls_session **s);

enum tls_state {
    TLS_SHAKES, /* the handshake needs more bytes of Redis */
    TLS_OPEN,
    TLS_FAILED, /* tls_reason() says why */
};

/* Bytes came from the socket: the handshake goes on. They are borrowed until tls_read() has no more of them. */
enum tls_state tls_take(struct tls_session *s, struct slice bytes);

/* Reads what Redis has said. Returns how many bytes; 0: no more has come; less: the session has failed. */
ssize_t tls_read(struct tls_session *s, char *p, size_t room);

/* Says something to Redis; the session is OPEN. False: it has failed. */
bool tls_write(struct tls_session *s, struct slice bytes);

/* Shows the bytes that must leave by the socket; tls_sent() when they have left. */
struct slice tls_out(struct tls_session *s);
void tls_sent(struct tls_session *s);

/* For how long a certificate is valid, in s of the wall clock; 0 = there is none. */
struct tls_validity {
    int64_t begins_s, expires_s;
};

/* A session, for people; "" = not known. */
struct tls_view {
    char version[16], cipher[40];
    struct tls_validity peer; /* the certificate of Redis */
};

void tls_look(const struct tls_session *s, struct tls_view *out);

/* Our own certificate. */
struct tls_validity tls_own(const struct tls *t);

/* Why it has failed, "" when it has not. */
const char *tls_reason(const struct tls_session *s);

#endif
