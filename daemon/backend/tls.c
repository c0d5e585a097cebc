/*
 * tls.c -- the files of the configuration as OpenSSL's context: trusted certificates, and the daemon's own.
 *
 * Verification cannot be turned off. A certificate that no authority has signed can be given as ca_file, and the name
 * in a certificate as server_name if Redis is reached by another one. Both still prove the identity of Redis before a
 * password leaves.
 */
#include "daemon/backend/tls_private.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/backend/text.h"
#include "daemon/base/credential.h"
#include "daemon/base/memory.h"

static bool
is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Prints the reason before the path, so that a long path is cut, and the reason is not. */
static void
print_problem(char out[TLS_ERROR_ROOM], const char *key, const char *why, const char *path)
{
    size_t at;

    snprintf(out, TLS_ERROR_ROOM, "redis.%s: %.100s: ", key, why);
    at = strlen(out);
    text_print(out + at, TLS_ERROR_ROOM - at, slice_of(path));
}

static bool
refuse(char error[TLS_ERROR_ROOM], const char *key, const char *why, const char *path)
{
    print_problem(error, key, why, path);
    ERR_clear_error();
    return false;
}

/* The reason why OpenSSL has refused a file. */
static const char *
why_refused(void)
{
    unsigned long e = ERR_peek_error();

    if (ERR_SYSTEM_ERROR(e)) {
        return strerror(ERR_GET_REASON(e));
    }
    return "has no certificate in PEM format";
}

void
tls_print_time(const ASN1_TIME *at, char out[40])
{
    struct tm tm;

    if (ASN1_TIME_to_tm(at, &tm) != 1 || strftime(out, 40, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0) {
        snprintf(out, 40, "(a time that cannot be read)");
    }
}

/* 0: the time cannot be read. */
static int64_t
time_s(const ASN1_TIME *at)
{
    struct tm tm;

    return ASN1_TIME_to_tm(at, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

struct tls_validity
tls_validity(const X509 *x)
{
    return (struct tls_validity){time_s(X509_get0_notBefore(x)), time_s(X509_get0_notAfter(x))};
}

static bool
resolve(const char *name, char path[PATH_MAX], const char *key, char error[TLS_ERROR_ROOM])
{
    char why[CREDENTIAL_WHY_ROOM];

    return credential_path(name, path, why) || refuse(error, key, why, name);
}

/* ---- memory ---- */

static void *
crypto_alloc(size_t n, const char *file, int line)
{
    (void)file;
    (void)line;
    return mem_alloc(n);
}

static void *
crypto_realloc(void *old, size_t n, const char *file, int line)
{
    (void)file;
    (void)line;
    return mem_realloc(old, n);
}

static void
crypto_free(void *p, const char *file, int line)
{
    (void)file;
    (void)line;
    free(p);
}

void
tls_use_memory(void)
{
    CRYPTO_set_mem_functions(crypto_alloc, crypto_realloc, crypto_free);
}

/* ---- trusted certificates ---- */

/* Warns if all trusted certificates have expired. False: there is none, but OpenSSL has read a revocation list. */
static bool
check_trusted(SSL_CTX *ctx, const char *path, char warning[TLS_ERROR_ROOM])
{
    STACK_OF(X509_OBJECT) *all = X509_STORE_get0_objects(SSL_CTX_get_cert_store(ctx));
    char until[40] = "", why[64];

    for (int i = 0; i < sk_X509_OBJECT_num(all); i++) {
        X509 *x = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(all, i));

        if (x != NULL && X509_cmp_current_time(X509_get0_notAfter(x)) > 0) {
            return true;
        }
        if (x != NULL) {
            tls_print_time(X509_get0_notAfter(x), until);
        }
    }
    if (until[0] == '\0') {
        return false;
    }
    snprintf(why, sizeof(why), "expired on %s", until);
    print_problem(warning, "tls_ca_file", why, path);
    return true;
}

static bool
trust(struct tls *t, const char *ca_file, char error[TLS_ERROR_ROOM], char warning[TLS_ERROR_ROOM])
{
    char path[PATH_MAX];

    SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
    /* Trusts every certificate in the file, not only those of authorities. */
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(t->ctx), X509_V_FLAG_PARTIAL_CHAIN);
    if (!is_given(ca_file)) {
        t->trusted = mem_text(SLICE_LIT("the system's store"));
        return SSL_CTX_set_default_verify_paths(t->ctx) == 1 ||
               refuse(error, "tls_ca_file", "the system's store of certificates cannot be read", "");
    }
    if (!resolve(ca_file, path, "tls_ca_file", error)) {
        return false;
    }
    if (SSL_CTX_load_verify_locations(t->ctx, path, NULL) != 1 || !check_trusted(t->ctx, path, warning)) {
        return refuse(error, "tls_ca_file", why_refused(), path);
    }
    t->trusted = mem_text(slice_of(ca_file));
    return true;
}

/* ---- the daemon's own certificate ---- */

/* Refuses an encrypted key: a daemon has no terminal to ask for a passphrase. */
static int
no_passphrase(char *buf, int size, int rwflag, void *arg)
{
    (void)buf;
    (void)size;
    (void)rwflag;
    *(bool *)arg = true;
    return -1;
}

static bool
take_key(SSL_CTX *ctx, const char *name, char error[TLS_ERROR_ROOM])
{
    char why[CREDENTIAL_WHY_ROOM];
    int fd = credential_open(name, why);
    BIO *file = fd >= 0 ? BIO_new_fd(fd, BIO_CLOSE) : NULL;
    bool encrypted = false, ok;
    EVP_PKEY *key = NULL;

    if (fd < 0) {
        return refuse(error, "tls_key_file", why, name);
    }
    if (file != NULL) {
        key = PEM_read_bio_PrivateKey(file, NULL, no_passphrase, &encrypted);
        BIO_free(file);
    }
    if (key == NULL) {
        return refuse(error, "tls_key_file",
                      encrypted ? "is encrypted, and a daemon cannot ask for the passphrase"
                                : "has no private key in PEM format",
                      name);
    }
    ok = SSL_CTX_use_PrivateKey(ctx, key) == 1 && SSL_CTX_check_private_key(ctx) == 1;
    EVP_PKEY_free(key);
    return ok || refuse(error, "tls_key_file", "is not the key of the certificate in tls_cert_file", name);
}

/* Warns if the certificate has expired, or is not valid yet. */
static void
check_own(SSL_CTX *ctx, const char *path, char warning[TLS_ERROR_ROOM])
{
    const X509 *x = SSL_CTX_get0_certificate(ctx);
    bool expired = X509_cmp_current_time(X509_get0_notAfter(x)) < 0;
    char at[40], why[64];

    if (expired || X509_cmp_current_time(X509_get0_notBefore(x)) > 0) {
        tls_print_time(expired ? X509_get0_notAfter(x) : X509_get0_notBefore(x), at);
        snprintf(why, sizeof(why), expired ? "expired on %s" : "not valid before %s", at);
        print_problem(warning, "tls_cert_file", why, path);
    }
}

static bool
identify(struct tls *t, const struct tls_files *files, char error[TLS_ERROR_ROOM], char warning[TLS_ERROR_ROOM])
{
    char path[PATH_MAX];

    if (!is_given(files->cert_file)) {
        return !is_given(files->key_file) ||
               refuse(error, "tls_key_file", "there is no tls_cert_file that it belongs to", files->key_file);
    }
    if (!resolve(files->cert_file, path, "tls_cert_file", error)) {
        return false;
    }
    if (SSL_CTX_use_certificate_chain_file(t->ctx, path) != 1) {
        return refuse(error, "tls_cert_file", why_refused(), path);
    }
    if (!is_given(files->key_file)) {
        return refuse(error, "tls_cert_file", "there is no tls_key_file to it", path);
    }
    t->has_cert = true;
    if (!take_key(t->ctx, files->key_file, error)) {
        return false;
    }
    check_own(t->ctx, path, warning);
    return true;
}

/* ---- begin and end ---- */

struct tls *
tls_open(const struct tls_files *files, char error[TLS_ERROR_ROOM], char warning[TLS_ERROR_ROOM])
{
    struct tls *t = mem_zalloc(sizeof(*t));

    warning[0] = '\0';
    ERR_clear_error();
    t->users = 1;
    t->ctx = SSL_CTX_new(TLS_client_method());
    t->bytes = tls_bytes();
    if (t->ctx == NULL) {
        mem_exhausted(sizeof(*t));
    }
    t->server_name = is_given(files->server_name) ? mem_text(slice_of(files->server_name)) : NULL;
    (void)SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION);
    (void)SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_mode(t->ctx, SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_cache_mode(t->ctx, SSL_SESS_CACHE_OFF);
    if (!trust(t, files->ca_file, error, warning) || !identify(t, files, error, warning)) {
        tls_close(&t);
    }
    return t;
}

struct tls_validity
tls_own(const struct tls *t)
{
    return t->has_cert ? tls_validity(SSL_CTX_get0_certificate(t->ctx)) : (struct tls_validity){0, 0};
}

struct certificate_warning *
tls_own_warning(struct tls *t)
{
    return &t->warning;
}

struct tls *
tls_share(struct tls *t)
{
    if (t != NULL) {
        t->users++;
    }
    return t;
}

void
tls_close(struct tls **tp)
{
    struct tls *t = *tp;

    *tp = NULL;
    if (t == NULL || --t->users > 0) {
        return;
    }
    SSL_CTX_free(t->ctx);
    BIO_meth_free(t->bytes);
    free(t->server_name);
    free(t->trusted);
    free(t);
}
