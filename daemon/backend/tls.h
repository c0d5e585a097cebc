/*
 * tls.h -- TLS to Redis as bytes in and bytes out: no socket and no loop, so a link keeps its one write path.
 *
 * A `tls` is what the files of the configuration come to; a `tls_session` is one connection's. The certificate of
 * Redis is always verified, its name too. TLS 1.2 or later. Texts are for people, and hold no secret.
 */
#ifndef RLOCKD_BACKEND_TLS_H
#define RLOCKD_BACKEND_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "daemon/base/slice.h"

enum { TLS_ERROR_ROOM = 160, TLS_REASON_ROOM = 320 };

/* As in the configuration; NULL or "" = not given. Files may be "credential:NAME": base/credential.h. */
struct tls_files {
    const char *ca_file;             /* whom to trust; none: the system's store */
    const char *cert_file, *key_file; /* ours, where Redis wants one */
    const char *server_name;         /* what the certificate of Redis must be for; none: the host of the URL */
};

struct tls;
struct tls_session;

/* OpenSSL's memory is there, or the process ends (base/memory.h). Before anything else that uses OpenSSL. */
void tls_use_memory(void);

/*
 * Reads the files. NULL with a sentence in `error`; `warning` has one, or "", on what was read and will not do: a
 * certificate of ours that has expired.
 */
struct tls *tls_open(const struct tls_files *files, char error[TLS_ERROR_ROOM], char warning[TLS_ERROR_ROOM]);

/* Sessions that have begun go on. */
void tls_close(struct tls **t);

/* A connection to `host` (borrowed) has been made: the first bytes wait in tls_out(). */
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

/* Why it has failed, "" when it has not. */
const char *tls_reason(const struct tls_session *s);

#endif
