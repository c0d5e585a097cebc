/*
 * address.c -- Redis URLs.
 */
#include "daemon/backend/address.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "daemon/base/memory.h"
#include "daemon/base/units.h"

static void
wipe(char **secret)
{
    if (*secret != NULL) {
        explicit_bzero(*secret, strlen(*secret));
    }
    free(*secret);
    *secret = NULL;
}

void
address_free(struct link_address *a)
{
    if (a == NULL) {
        return;
    }
    wipe(&a->password);
    tls_close(&a->tls);
    free(a->path);
    free(a->host);
    free(a->user);
    free(a);
}

void
address_login(struct link_address *a, const char *user, const char *password)
{
    if (a->url_password) {
        return;
    }
    wipe(&a->password);
    a->password = password != NULL ? mem_text(slice_of(password)) : NULL;
    if (!a->url_user) {
        wipe(&a->user);
        a->user = password != NULL && user != NULL ? mem_text(slice_of(user)) : NULL; /* a user needs a password */
    }
}

static int
hex(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

/* A copy with %XX decoded; NULL when empty. */
static char *
decoded(struct slice s)
{
    char *out = s.n > 0 ? mem_alloc(s.n + 1) : NULL;
    size_t n = 0;

    for (size_t i = 0; out != NULL && i < s.n; i++) {
        if (s.p[i] == '%' && i + 2 < s.n && hex(s.p[i + 1]) >= 0 && hex(s.p[i + 2]) >= 0) {
            out[n++] = (char)(hex(s.p[i + 1]) << 4 | hex(s.p[i + 2]));
            i += 2;
        } else {
            out[n++] = s.p[i];
        }
        out[n] = '\0';
    }
    return out;
}

static bool
parse_number(struct slice s, int64_t max, int *out)
{
    int64_t n;

    if (!number_parse(s, &n) || n > max) {
        return false;
    }
    *out = (int)n;
    return true;
}

/* Takes off `rest` what is before its first (or last) `stop`, and the stop; without a stop, all of it. */
static struct slice
take_until(struct slice *rest, char stop, bool last)
{
    const char *at = last ? memrchr(rest->p, stop, rest->n) : memchr(rest->p, stop, rest->n);
    struct slice head = *rest;

    if (at == NULL) {
        *rest = (struct slice){rest->p + rest->n, 0};
        return head;
    }
    head.n = (size_t)(at - rest->p);
    *rest = (struct slice){at + 1, rest->n - head.n - 1};
    return head;
}

static bool
parse_unix(struct link_address *a, const char *text)
{
    struct slice rest = slice_of(text), path = take_until(&rest, '?', false);

    a->path = decoded(path);
    snprintf(a->shown, sizeof(a->shown), "unix:%.*s", (int)path.n, path.p);
    if (a->path == NULL) {
        return false;
    }
    if (rest.n == 0) {
        return true;
    }
    return rest.n > 3 && memcmp(rest.p, "db=", 3) == 0 &&
           parse_number((struct slice){rest.p + 3, rest.n - 3}, 65535, &a->db);
}

static bool
parse_tcp(struct link_address *a, const char *text)
{
    struct slice rest = slice_of(text), login, host;
    bool port_ok, db_ok = true;

    if (memchr(rest.p, '@', rest.n) != NULL) {
        login = take_until(&rest, '@', true);
        a->user = decoded(take_until(&login, ':', false));
        a->password = decoded(login);
    }
    host = take_until(&rest, '/', false);
    if (rest.n > 0) {
        db_ok = parse_number(rest, 65535, &a->db);
    }
    snprintf(a->shown, sizeof(a->shown), "%s://%.*s", a->secure ? "rediss" : "redis", (int)host.n, host.p);
    rest = host;
    if (host.n > 0 && host.p[0] == '[') { /* [::1]:6379 */
        rest = (struct slice){host.p + 1, host.n - 1};
        a->host = decoded(take_until(&rest, ']', false));
        (void)take_until(&rest, ':', false);
    } else {
        a->host = decoded(take_until(&rest, ':', true));
    }
    port_ok = rest.n == 0 || parse_number(rest, 65535, &a->port);
    return a->host != NULL && port_ok && a->port > 0 && db_ok;
}

struct link_address *
address_parse(const char *url, const char *user, const char *password, char error[160])
{
    struct link_address *a = mem_zalloc(sizeof(*a));
    bool ok = false;

    a->port = 6379;
    if (strncmp(url, "unix:", 5) == 0) {
        ok = parse_unix(a, url + 5);
    } else if (strncmp(url, "redis://", 8) == 0) {
        ok = parse_tcp(a, url + 8);
    } else if (strncmp(url, "rediss://", 9) == 0) {
        a->secure = true;
        ok = parse_tcp(a, url + 9);
    }
    a->url_user = a->user != NULL;
    a->url_password = a->password != NULL;
    address_login(a, user, password);
    if (ok) {
        return a;
    }
    snprintf(error, 160, "not a Redis URL: expected unix:PATH[?db=N] or redis[s]://[user:password@]host:port[/db]");
    address_free(a);
    return NULL;
}

struct link_address *
address_unknown(const char *shown, const char *user, const char *password, int db, bool secure)
{
    struct link_address *a = mem_zalloc(sizeof(*a));

    a->db = db;
    a->secure = secure;
    snprintf(a->shown, sizeof(a->shown), "%s", shown);
    address_login(a, user, password);
    return a;
}

void
address_show(char out[160], bool secure, const char *host, int port)
{
    bool v6 = strchr(host, ':') != NULL;

    snprintf(out, 160, "%s://%s%s%s:%d", secure ? "rediss" : "redis", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

void
address_move(struct link_address *a, const char *host, int port)
{
    free(a->host);
    a->host = mem_text(slice_of(host));
    a->port = port;
    address_show(a->shown, a->secure, host, port);
}

bool
address_names(const struct link_address *a, const char *host, int port)
{
    return a->host != NULL && a->port == port && strcasecmp(a->host, host) == 0;
}

bool
address_secure(struct link_address *a, const struct tls_files *files, char error[TLS_ERROR_ROOM],
               char warning[TLS_ERROR_ROOM])
{
    struct tls *now;

    warning[0] = '\0';
    if (!a->secure) {
        return true;
    }
    now = tls_open(files, error, warning);
    if (now == NULL) {
        return false;
    }
    tls_close(&a->tls);
    a->tls = now;
    return true;
}
