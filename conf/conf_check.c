/*
 * conf_check.c -- checks of texts beyond their length: addresses, URLs, key formats, unprintable characters.
 *
 * Checks the form only; nothing is opened, looked up or connected. A complaint never repeats the text, which may hold a
 * password.
 */
#include "conf/conf_keys.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon/base/units.h"

#define UNIX_PATH_BYTES_MAX 107 /* of sockaddr_un, without its NUL */

/* The bounds of address.c, sentinel_url.h, cluster_url.h and tally.h (TALLY_NODES_MAX) in daemon/backend. */
enum { DB_MAX = 65535, SENTINELS_LISTED_MAX = 16, SENTINEL_MASTER_MAX = 127, CLUSTER_LISTED_MAX = 64 };
enum { QUORUM_NODES_MIN = 3, QUORUM_NODES_MAX = 9, HOST_BYTES_MAX = 255 };

#define NOT_A_CHAR UINT32_C(0xffffffff)

/* Takes the next code point off s; NOT_A_CHAR where it is no UTF-8 (the command line is not checked before). */
static uint32_t
next_char(struct slice *s)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    unsigned char c = (unsigned char)s->p[0];
    size_t more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
    uint32_t v = more == 0 ? c : c & (0x3fu >> more);
    bool good = c < 0x80 || (more > 0 && c < 0xf8);

    s->p++;
    s->n--;
    for (size_t i = 0; i < more && good; i++) {
        good = s->n > 0 && ((unsigned char)s->p[0] & 0xc0) == 0x80;
        if (good) {
            v = v << 6 | ((unsigned char)s->p[0] & 0x3fu);
            s->p++;
            s->n--;
        }
    }
    return good && v >= least[more] && v <= 0x10ffff && (v & 0xfffff800) != 0xd800 ? v : NOT_A_CHAR;
}

/* Refuses bytes that can neither be seen nor be written back as YAML. */
bool
conf_check_printable(struct slice text, struct buf *why)
{
    while (text.n > 0) {
        uint32_t c = next_char(&text);
        bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
        bool separator = c == 0x2028 || c == 0x2029;
        bool no_char = c == 0xfeff || (c & 0xfffe) == 0xfffe; /* NOT_A_CHAR too */

        if (control || separator || no_char) {
            buf_adds(why, "has a character that cannot be printed");
            return false;
        }
    }
    return true;
}

/* Takes the word off the front. */
static bool
skip(struct slice *s, const char *word)
{
    size_t n = strlen(word);

    if (s->n < n || memcmp(s->p, word, n) != 0) {
        return false;
    }
    s->p += n;
    s->n -= n;
    return true;
}

/* Everything before the last c; false when there is none. `rest` is what follows. */
static bool
split_last(struct slice s, char c, struct slice *front, struct slice *rest)
{
    const char *at = s.n > 0 ? memrchr(s.p, c, s.n) : NULL;

    if (at == NULL) {
        return false;
    }
    *front = (struct slice){s.p, (size_t)(at - s.p)};
    *rest = (struct slice){at + 1, s.n - front->n - 1};
    return true;
}

static bool
check_path(struct slice path, struct buf *why)
{
    if (path.n == 0) {
        buf_adds(why, "has no path after unix:");
        return false;
    }
    if (path.n > UNIX_PATH_BYTES_MAX) {
        buf_printf(why, "has a path of %zu bytes; a socket's path has at most %d", path.n, UNIX_PATH_BYTES_MAX);
        return false;
    }
    return true;
}

/* HOST:PORT, an IPv6 address in brackets. */
static bool
check_host_port(struct slice s, int64_t port_min, struct buf *why)
{
    struct slice host, digits;
    bool bracketed;
    int64_t port;

    if (!split_last(s, ':', &host, &digits) || !number_parse(digits, &port) || port < port_min || port > 65535) {
        buf_printf(why, "must end in :PORT, a number from %d to 65535", (int)port_min);
        return false;
    }
    bracketed = host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
    if (host.n == 0) {
        buf_adds(why, "has no host in front of the port");
        return false;
    }
    if (host.n > HOST_BYTES_MAX) {
        buf_printf(why, "has a host of %zu bytes; a name of a host has at most %d", host.n, HOST_BYTES_MAX);
        return false;
    }
    for (size_t i = 0; i < host.n; i++) {
        bool edge = i == 0 || i + 1 == host.n;

        if (strchr(" /@?#\"'", host.p[i]) != NULL || (strchr("[]", host.p[i]) != NULL && !(bracketed && edge)) ||
            (host.p[i] == ':' && !bracketed)) {
            buf_adds(why, "has a host that cannot be one; an IPv6 address stands in [brackets]");
            return false;
        }
    }
    return true;
}

static bool
check_db(struct slice digits, struct buf *why)
{
    int64_t db;

    if (!number_parse(digits, &db) || db > DB_MAX) {
        buf_printf(why, "must name the database by its number, %d at most", DB_MAX);
        return false;
    }
    return true;
}

bool
conf_check_address(struct slice text, struct buf *why)
{
    if (skip(&text, "unix:")) {
        return check_path(text, why);
    }
    if (skip(&text, "tcp:")) {
        return check_host_port(text, 0, why);
    }
    buf_adds(why, "must be unix:PATH or tcp:HOST:PORT");
    return false;
}

/* Of an address that conf_check_address() has let through. Names are not looked up: only `localhost` is known. */
bool
conf_address_is_local(const char *text)
{
    struct in_addr v4;
    struct in6_addr v6;
    char host[128];
    const char *colon = strrchr(text, ':'), *from = text + 4;
    size_t n;

    if (strncmp(text, "tcp:", 4) != 0 || colon < from) {
        return true;
    }
    from += *from == '[';
    n = (size_t)(colon - from) - (colon > from && colon[-1] == ']');
    if (n >= sizeof(host)) {
        return false;
    }
    memcpy(host, from, n);
    host[n] = '\0';
    if (inet_pton(AF_INET6, host, &v6) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
    }
    return strcasecmp(host, "localhost") == 0 || (inet_aton(host, &v4) != 0 && ntohl(v4.s_addr) >> 24 == 127);
}

static bool
check_unix_url(struct slice text, struct buf *why)
{
    struct slice path, query;

    if (!split_last(text, '?', &path, &query)) {
        return check_path(text, why);
    }
    if (!skip(&query, "db=")) {
        buf_adds(why, "takes nothing but ?db=N after the path");
        return false;
    }
    return check_path(path, why) && check_db(query, why);
}

static bool
check_redis_url(struct slice text, struct buf *why)
{
    struct slice user, rest, host, db;

    if (split_last(text, '@', &user, &rest)) {
        if (memchr(user.p, ':', user.n) == NULL) {
            buf_adds(why, "must have user:password in front of the @");
            return false;
        }
        text = rest;
    }
    if (split_last(text, '/', &host, &db)) {
        if (!check_db(db, why)) {
            return false;
        }
        text = host;
    }
    return check_host_port(text, 1, why);
}

/* HOST:PORT,HOST:PORT/MASTER[?db=N] */
static bool
check_sentinel_url(struct slice text, struct buf *why)
{
    struct slice master, query, one;
    const char *comma;
    size_t n = 0;

    if (split_last(text, '?', &text, &query)) {
        if (!skip(&query, "db=")) {
            buf_adds(why, "takes nothing but ?db=N after the master");
            return false;
        }
        if (!check_db(query, why)) {
            return false;
        }
    }
    if (!split_last(text, '/', &text, &master) || master.n == 0) {
        buf_adds(why, "must end in /MASTER, the name that the sentinels know it by");
        return false;
    }
    if (master.n > SENTINEL_MASTER_MAX || memchr(master.p, ' ', master.n) != NULL) {
        buf_printf(why, "has a master that cannot be one: at most %d bytes, no blank", SENTINEL_MASTER_MAX);
        return false;
    }
    do {
        comma = memchr(text.p, ',', text.n);
        one = (struct slice){text.p, comma != NULL ? (size_t)(comma - text.p) : text.n};
        if (!check_host_port(one, 1, why)) {
            return false;
        }
        text = (struct slice){text.p + one.n + (comma != NULL), text.n - one.n - (comma != NULL)};
    } while (comma != NULL && ++n < SENTINELS_LISTED_MAX);
    if (comma != NULL) {
        buf_printf(why, "names more than %d sentinels", SENTINELS_LISTED_MAX);
    }
    return comma == NULL;
}

static bool
check_one_url(struct slice text, struct buf *why)
{
    if (memchr(text.p, '@', text.n) != NULL) {
        buf_adds(why, "takes no user and password: redis.user and redis.password are those of all nodes");
        return false;
    }
    if (skip(&text, "unix:")) {
        return check_unix_url(text, why);
    }
    if (skip(&text, "redis://") || skip(&text, "rediss://")) {
        return check_redis_url(text, why);
    }
    buf_adds(why, "must be quorum:URL,URL,URL, and each of these redis://..., rediss://... or unix:PATH");
    return false;
}

/* A URL without its database. */
static struct slice
server_of(struct slice url)
{
    struct slice server, db;
    bool is_unix = url.n > 5 && memcmp(url.p, "unix:", 5) == 0;

    return split_last(url, is_unix ? '?' : '/', &server, &db) && server.p[server.n - 1] != '/' ? server : url;
}

/* URL,URL,URL: each server once, because the second node of a server that is named twice would have no vote. */
static bool
check_quorum_url(struct slice text, struct buf *why)
{
    struct slice one[QUORUM_NODES_MAX];
    size_t n = 0;

    for (bool more = true; more; n++) {
        const char *comma = memchr(text.p, ',', text.n);

        more = comma != NULL;
        if (n == QUORUM_NODES_MAX) {
            buf_printf(why, "names more than %d nodes", QUORUM_NODES_MAX);
            return false;
        }
        one[n] = (struct slice){text.p, more ? (size_t)(comma - text.p) : text.n};
        text = (struct slice){text.p + one[n].n + more, text.n - one[n].n - more};
        if (!check_one_url(one[n], why)) {
            return false;
        }
        for (size_t i = 0; i < n; i++) {
            if (slice_eq(server_of(one[i]), server_of(one[n]))) {
                buf_adds(why, "names a server twice: another database of it is no other node");
                return false;
            }
        }
    }
    if (n < QUORUM_NODES_MIN) {
        buf_printf(why, "needs at least %d nodes: with fewer, no node may fail", QUORUM_NODES_MIN);
    }
    return n >= QUORUM_NODES_MIN;
}

/* HOST:PORT,HOST:PORT */
static bool
check_cluster_url(struct slice text, struct buf *why)
{
    const char *comma;
    size_t n = 0;

    if (memchr(text.p, '@', text.n) != NULL) {
        buf_adds(why, "takes no user and password: redis.user and redis.password are those of all nodes");
        return false;
    }
    if (memmem(text.p, text.n, "://", 3) != NULL) {
        buf_adds(why, "takes no URLs behind cluster:, but HOST:PORT,HOST:PORT");
        return false;
    }
    if (memchr(text.p, '/', text.n) != NULL || memchr(text.p, '?', text.n) != NULL) {
        buf_adds(why, "takes no database number, and nothing else behind the nodes: a cluster has one database");
        return false;
    }
    do {
        struct slice one;

        comma = text.n > 0 ? memchr(text.p, ',', text.n) : NULL;
        one = (struct slice){text.p, comma != NULL ? (size_t)(comma - text.p) : text.n};
        if (!check_host_port(one, 1, why)) {
            return false;
        }
        text = (struct slice){text.p + one.n + (comma != NULL), text.n - one.n - (comma != NULL)};
    } while (comma != NULL && ++n < CLUSTER_LISTED_MAX);
    if (comma != NULL) {
        buf_printf(why, "names more than %d nodes", CLUSTER_LISTED_MAX);
    }
    return comma == NULL;
}

bool
conf_check_url(struct slice text, struct buf *why)
{
    if (slice_eq(text, SLICE_LIT("embedded"))) {
        return true;
    }
    if (skip(&text, "unix:")) {
        return check_unix_url(text, why);
    }
    if (skip(&text, "redis://") || skip(&text, "rediss://")) {
        return check_redis_url(text, why);
    }
    if (skip(&text, "sentinel:") || skip(&text, "sentinel+tls:")) {
        return check_sentinel_url(text, why);
    }
    if (skip(&text, "quorum:")) {
        return check_quorum_url(text, why);
    }
    if (skip(&text, "cluster:") || skip(&text, "cluster+tls:")) {
        return check_cluster_url(text, why);
    }
    buf_adds(why, "must be redis://[user:password@]host:port[/db], rediss://..., unix:PATH[?db=N], embedded, "
                  "sentinel:host:port,.../MASTER[?db=N], cluster:host:port,... or quorum:URL,URL,URL");
    return false;
}

struct slice
conf_url_password(struct slice url)
{
    const struct slice none = {NULL, 0};
    struct slice user, rest;
    const char *colon;

    if ((!skip(&url, "redis://") && !skip(&url, "rediss://")) || !split_last(url, '@', &user, &rest)) {
        return none;
    }
    colon = memchr(user.p, ':', user.n);
    return colon == NULL ? none : (struct slice){colon + 1, user.n - (size_t)(colon + 1 - user.p)};
}

bool
conf_check_key(struct slice text, struct buf *why)
{
    static const char stand_in[] = "{name}";
    size_t braces = 0;
    bool found = memmem(text.p, text.n, stand_in, sizeof(stand_in) - 1) != NULL;

    for (size_t i = 0; i < text.n; i++) {
        braces += text.p[i] == '{' || text.p[i] == '}';
    }
    if (!found || braces != 2) {
        buf_adds(why, "must contain {name} once and no other braces");
        return false;
    }
    if (conf_key_is_own(text)) {
        buf_adds(why, "must not begin with " CONF_OWN_KEYS ", which is for rlockd itself");
        return false;
    }
    return true;
}
