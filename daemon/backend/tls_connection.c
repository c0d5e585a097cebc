/*
 * tls_connection.c -- the TLS of one connection, between two buffers in memory.
 *
 * Not bufferevent_openssl: a link keeps its one write path, and connect_timeout covers the handshake.
 * OpenSSL reads the bytes of tls_take(), and writes those of tls_out(), so a write never waits. on_verify() words the
 * reason for refusing a certificate.
 */
#include "daemon/backend/tls_private.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/buf.h"
#include "daemon/base/memory.h"

enum { OUT_KEEP_BYTES = 64 * 1024 };

struct tls_connection {
    struct tls *tls;  /* owned, as one of its users */
    SSL *ssl;         /* owned */
    char *name;       /* owned: the name that Redis's certificate must have */
    struct slice in;  /* borrowed: bytes from the socket that OpenSSL has not read yet */
    struct buf out;   /* bytes for the socket */
    enum tls_state state;
    char reason[TLS_REASON_ROOM];
};

/* ---- the BIO ---- */

static int
on_bio_read(BIO *bio, char *p, int n)
{
    struct tls_connection *s = BIO_get_data(bio);
    size_t got = (size_t)n < s->in.n ? (size_t)n : s->in.n;

    BIO_clear_retry_flags(bio);
    if (got == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(p, s->in.p, got);
    s->in = (struct slice){s->in.p + got, s->in.n - got};
    return (int)got;
}

static int
on_bio_write(BIO *bio, const char *p, int n)
{
    struct tls_connection *s = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    buf_add(&s->out, p, (size_t)n);
    return n;
}

static long
on_bio_control(BIO *bio, int what, long number, void *p)
{
    (void)bio;
    (void)number;
    (void)p;
    return what == BIO_CTRL_FLUSH; /* done already; no other control is supported */
}

BIO_METHOD *
tls_bytes(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "rlockd");

    if (m == NULL) {
        mem_exhausted(sizeof(struct tls_connection));
    }
    (void)BIO_meth_set_read(m, on_bio_read);
    (void)BIO_meth_set_write(m, on_bio_write);
    (void)BIO_meth_set_ctrl(m, on_bio_control);
    return m;
}

/* ---- words for people ---- */

/* Replaces quotes, and all that is not printable ASCII: the certificate may be a forgery. */
static void
make_plain(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text < ' ' || *text > '~' || *text == '"') {
            *text = '?';
        }
    }
}

static void
print_name(const X509_NAME *name, char out[80])
{
    char *text = X509_NAME_oneline(name, NULL, 0);

    snprintf(out, 80, "%s", text != NULL ? text : "?");
    OPENSSL_free(text);
    make_plain(out);
}

/* Prints a DNS name or an IP address of a certificate; "" for other sorts. */
static void
print_alternative(const GENERAL_NAME *g, char out[64])
{
    const ASN1_STRING *s = g->type == GEN_DNS ? g->d.dNSName : g->type == GEN_IPADD ? g->d.iPAddress : NULL;
    const unsigned char *p = s != NULL ? ASN1_STRING_get0_data(s) : NULL;
    int n = s != NULL ? ASN1_STRING_length(s) : 0;

    out[0] = '\0';
    if (g->type == GEN_DNS) {
        snprintf(out, 64, "%.*s", n, (const char *)p);
    } else if (n == 4 || n == 16) {
        (void)inet_ntop(n == 4 ? AF_INET : AF_INET6, p, out, 64);
    }
    make_plain(out);
}

/* Prints the names in a certificate: up to four alternative names, or, if it has none, the subject. */
static void
print_names(const X509 *x, char *out, size_t room)
{
    GENERAL_NAMES *all = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
    int n = all != NULL ? sk_GENERAL_NAME_num(all) : 0, shown = 0;
    size_t at = 0;
    char one[80];

    out[0] = '\0';
    for (int i = 0; i < n && shown < 4; i++) {
        print_alternative(sk_GENERAL_NAME_value(all, i), one);
        if (one[0] != '\0' && at < room) {
            at += (size_t)snprintf(out + at, room - at, "%s%s", shown++ > 0 ? ", " : "", one);
        }
    }
    if (n > shown && shown > 0 && at < room) {
        snprintf(out + at, room - at, " and %d more", n - shown);
    }
    if (shown == 0) {
        print_name(X509_get_subject_name(x), one);
        snprintf(out, room, "%s", one);
    }
    GENERAL_NAMES_free(all);
}

static void
explain(struct tls_connection *s, const X509 *x, int error)
{
    char subject[80], issuer[80], other[160];

    print_name(X509_get_subject_name(x), subject);
    switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        tls_print_time(X509_get0_notAfter(x), other);
        snprintf(s->reason, sizeof(s->reason), "Redis's certificate \"%s\" expired on %s", subject, other);
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        tls_print_time(X509_get0_notBefore(x), other);
        snprintf(s->reason, sizeof(s->reason), "Redis's certificate \"%s\" is not valid before %s", subject, other);
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        print_names(x, other, sizeof(other));
        snprintf(s->reason, sizeof(s->reason),
                 "Redis's certificate is for %s, not for %.80s (redis.tls_server_name)", other, s->name);
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        print_name(X509_get_issuer_name(x), issuer);
        snprintf(s->reason, sizeof(s->reason),
                 "Redis's certificate \"%s\" was issued by \"%s\", who is not in %.60s (redis.tls_ca_file)", subject,
                 issuer, s->tls->trusted);
        break;
    default:
        snprintf(s->reason, sizeof(s->reason), "Redis's certificate \"%s\" is refused: %s", subject,
                 X509_verify_cert_error_string(error));
    }
}

static int
on_verify(int ok, X509_STORE_CTX *store)
{
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls_connection *s = SSL_get_app_data(ssl);
    const X509 *x = X509_STORE_CTX_get_current_cert(store);

    if (!ok && s->reason[0] == '\0' && x != NULL) {
        explain(s, x, X509_STORE_CTX_get_error(store));
    }
    return ok;
}

/* Words an error of OpenSSL, mostly an alert of Redis. */
static void
word_error(struct tls_connection *s, unsigned long e)
{
    const char *why = ERR_reason_error_string(e);

    switch (ERR_GET_LIB(e) == ERR_LIB_SSL ? ERR_GET_REASON(e) : 0) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        why = "Redis wants a certificate of ours (redis.tls_cert_file)";
        break;
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE: /* TLS 1.2 has no alert of its own for that */
        why = s->tls->has_cert ? "Redis refuses the TLS handshake"
                          : "Redis refuses the TLS handshake; it may want a certificate of ours (redis.tls_cert_file)";
        break;
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        why = "Redis does not know who issued our certificate (redis.tls_cert_file)";
        break;
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        why = "Redis reports that our certificate has expired (redis.tls_cert_file)";
        break;
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
        snprintf(s->reason, sizeof(s->reason), "Redis refuses our certificate (redis.tls_cert_file): %s", why);
        return;
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
        why = "Redis speaks no TLS 1.2 or later";
        break;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
        why = "what answers does not speak TLS; without it the URL begins with redis://";
        break;
    default:
        break;
    }
    if (why == NULL) {
        why = "the TLS session has ended";
    }
    snprintf(s->reason, sizeof(s->reason), "%s", why);
}

/* Called after a failed call of OpenSSL. True: OpenSSL only needs more bytes. */
static bool
needs_more(struct tls_connection *s, int result)
{
    int error = SSL_get_error(s->ssl, result);

    if (error == SSL_ERROR_WANT_READ) {
        return true;
    }
    if (error == SSL_ERROR_ZERO_RETURN) {
        snprintf(s->reason, sizeof(s->reason), "closed by Redis");
    } else if (s->reason[0] == '\0') {
        word_error(s, ERR_peek_error());
    }
    s->state = TLS_FAILED;
    return false;
}

/* ---- begin and end ---- */

/* Demands a certificate for the name; sends the name to Redis (SNI) unless it is an IP address. */
static bool
expect(struct tls_connection *s)
{
    X509_VERIFY_PARAM *p = SSL_get0_param(s->ssl);
    unsigned char number[16];

    if (inet_pton(AF_INET, s->name, number) == 1 || inet_pton(AF_INET6, s->name, number) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(p, s->name) == 1;
    }
    X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(p, s->name, 0) == 1 && SSL_set_tlsext_host_name(s->ssl, (uintptr_t)s->name) == 1;
}

struct tls_connection *
tls_begin(struct tls *t, const char *host)
{
    struct tls_connection *s = mem_zalloc(sizeof(*s));
    BIO *bytes;

    ERR_clear_error();
    buf_init(&s->out, 0);
    s->tls = t;
    t->users++;
    s->name = mem_text(slice_of(t->server_name != NULL ? t->server_name : host)); /* a copy: the address may move */
    s->ssl = SSL_new(t->ctx);
    bytes = BIO_new(t->bytes);
    if (s->ssl == NULL || bytes == NULL || !expect(s)) {
        mem_exhausted(sizeof(*s));
    }
    BIO_set_data(bytes, s);
    BIO_set_init(bytes, 1);
    SSL_set_bio(s->ssl, bytes, bytes);
    SSL_set_app_data(s->ssl, s);
    SSL_set_verify(s->ssl, SSL_VERIFY_PEER, on_verify);
    SSL_set_connect_state(s->ssl);
    (void)tls_take(s, (struct slice){NULL, 0});
    return s;
}

void
tls_end(struct tls_connection **s)
{
    if (*s != NULL) {
        SSL_free((*s)->ssl);
        tls_close(&(*s)->tls);
        buf_fini(&(*s)->out);
        free((*s)->name);
        free(*s);
        *s = NULL;
    }
}

/* ---- bytes ---- */

enum tls_state
tls_take(struct tls_connection *s, struct slice bytes)
{
    int result;

    if (s->state == TLS_FAILED) {
        return TLS_FAILED;
    }
    s->in = bytes;
    if (s->state == TLS_HANDSHAKE) {
        ERR_clear_error();
        result = SSL_do_handshake(s->ssl);
        if (result == 1) {
            s->state = TLS_OPEN;
        } else {
            (void)needs_more(s, result);
        }
    }
    return s->state;
}

ssize_t
tls_read(struct tls_connection *s, char *p, size_t room)
{
    int got;

    if (s->state == TLS_FAILED) {
        return -1;
    }
    ERR_clear_error();
    got = SSL_read(s->ssl, p, (int)room);
    return got > 0 ? got : needs_more(s, got) ? 0 : -1;
}

bool
tls_write(struct tls_connection *s, struct slice bytes)
{
    int sent;

    if (s->state != TLS_OPEN) {
        return false;
    }
    ERR_clear_error();
    sent = SSL_write(s->ssl, bytes.p, (int)bytes.n);
    if (sent == (int)bytes.n) {
        return true;
    }
    if (needs_more(s, sent)) { /* cannot happen: `out` takes all bytes, and there is no renegotiation */
        snprintf(s->reason, sizeof(s->reason), "the TLS session does not take what is written");
        s->state = TLS_FAILED;
    }
    return false;
}

struct slice
tls_out(struct tls_connection *s)
{
    return buf_slice(&s->out);
}

void
tls_sent(struct tls_connection *s)
{
    buf_clear(&s->out, OUT_KEEP_BYTES);
}

void
tls_connection_view(const struct tls_connection *s, struct tls_view *out)
{
    X509 *x = s->state == TLS_OPEN ? SSL_get1_peer_certificate(s->ssl) : NULL;

    *out = (struct tls_view){.version = ""};
    if (x != NULL) {
        snprintf(out->version, sizeof(out->version), "%s", SSL_get_version(s->ssl));
        snprintf(out->cipher, sizeof(out->cipher), "%s", SSL_get_cipher_name(s->ssl));
        out->peer = tls_validity(x);
        X509_free(x);
    }
}

const char *
tls_reason(const struct tls_connection *s)
{
    return s->reason;
}
