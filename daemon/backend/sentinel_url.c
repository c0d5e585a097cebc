/*
 * sentinel_url.c -- URLs of sentinels.
 */
#include "daemon/backend/sentinel_url.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/units.h"

bool
host_copy(struct slice text, char out[HOST_ROOM])
{
    if (text.n == 0 || text.n >= HOST_ROOM) {
        return false;
    }
    for (size_t i = 0; i < text.n; i++) {
        if (!isalnum((unsigned char)text.p[i]) && memchr("-._:%", text.p[i], 5) == NULL) {
            return false;
        }
    }
    memcpy(out, text.p, text.n);
    out[text.n] = '\0';
    return true;
}

bool
host_port_parse(struct slice one, char out[HOST_ROOM], int *port)
{
    const char *colon = one.n > 0 ? memrchr(one.p, ':', one.n) : NULL;
    struct slice host, digits;
    int64_t n;

    if (colon == NULL) {
        return false;
    }
    host = (struct slice){one.p, (size_t)(colon - one.p)};
    digits = (struct slice){colon + 1, one.n - host.n - 1};
    if (host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']') {
        host = (struct slice){host.p + 1, host.n - 2};
    } else if (memchr(host.p, ':', host.n) != NULL) {
        return false;
    }
    if (!number_parse(digits, &n) || n < 1 || n > 65535 || !host_copy(host, out)) {
        return false;
    }
    *port = (int)n;
    return true;
}

static bool
take_sentinel(struct sentinel_url *u, struct slice one)
{
    if (u->listed_n == SENTINELS_MAX ||
        !host_port_parse(one, u->listed[u->listed_n].host, &u->listed[u->listed_n].port)) {
        return false;
    }
    u->listed_n++;
    return true;
}

static bool
take_all(struct sentinel_url *u, struct slice rest)
{
    const char *comma;

    while ((comma = memchr(rest.p, ',', rest.n)) != NULL) {
        size_t n = (size_t)(comma - rest.p);

        if (!take_sentinel(u, (struct slice){rest.p, n})) {
            return false;
        }
        rest = (struct slice){comma + 1, rest.n - n - 1};
    }
    return take_sentinel(u, rest);
}

/* "MASTER[?db=N]" */
static bool
take_master(struct sentinel_url *u, const char *text)
{
    const char *query = strchr(text, '?');
    size_t n = query != NULL ? (size_t)(query - text) : strlen(text);
    int64_t db = 0;

    if (n == 0 || n >= sizeof(u->master) || memchr(text, ' ', n) != NULL) {
        return false;
    }
    if (query != NULL &&
        (strncmp(query, "?db=", 4) != 0 || !number_parse(slice_of(query + 4), &db) || db < 0 || db > 65535)) {
        return false;
    }
    memcpy(u->master, text, n);
    u->db = (int)db;
    return true;
}

bool
sentinel_url_parse(const char *url, struct sentinel_url *u, char error[160])
{
    const char *at = url, *slash = strrchr(url, '/');

    memset(u, 0, sizeof(*u));
    u->secure = strncmp(url, "sentinel+tls:", 13) == 0;
    at += u->secure ? 13 : strncmp(url, "sentinel:", 9) == 0 ? 9 : 0;
    if (at > url && slash != NULL && slash > at && take_all(u, (struct slice){at, (size_t)(slash - at)}) &&
        take_master(u, slash + 1)) {
        return true;
    }
    snprintf(error, 160, "not a URL of sentinels: expected sentinel[+tls]:HOST:PORT,HOST:PORT/MASTER[?db=N]");
    return false;
}
