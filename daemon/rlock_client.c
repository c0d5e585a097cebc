/*
 * rlock_client.c -- one connection to rlockd: connect, words out, replies in.
 *
 * Owns the socket and the reply handed out last. Refuses replies that are deeper or larger than any of rlockd: a server
 * that sends such replies is no rlockd. Every wait here has a deadline, except for a name to be resolved. The socket is
 * closed on exec: a child that kept it open would keep the lock.
 */
#include "daemon/rlock_client.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "daemon/base/units.h"

#define SEND_US (5 * US_PER_S)
#define REPLY_BYTES_MAX (256u << 20)
#define ITEMS_MAX (1 << 22) /* of one array: hiredis allocates as many as are announced */
#define CHUNK_BYTES 65536
#define WORDS_MAX 20 /* of a request; hold_send_lock() has the most */

enum { SILENT_S = 11, PROBES = 3, PROBE_S = 2 };

#define WHAT_BYTES_MAX 120 /* of an address, in an error: the reason needs room behind it */

static bool
fail(struct client *c, const char *what, int err)
{
    snprintf(c->error, sizeof(c->error), "%.*s: %s", WHAT_BYTES_MAX, what, strerror(err));
    return false;
}

static bool
no_address(struct client *c, const char *addr)
{
    snprintf(c->error, sizeof(c->error), "%.*s: an address is unix:PATH or tcp:HOST:PORT", WHAT_BYTES_MAX, addr);
    return false;
}

static bool
not_rlockds(struct client *c)
{
    snprintf(c->error, sizeof(c->error), "the reply is not rlockd's");
    return false;
}

/* Waits until the socket is ready for `what`. False with `error`: the deadline came first, or had passed already. */
static bool
wait_for(struct client *c, short what, int64_t deadline_us)
{
    struct pollfd p = {.fd = c->fd, .events = what};

    for (;;) {
        int64_t left_us = deadline_us - clock_now_us();

        if (left_us <= 0) {
            return fail(c, "no answer", ETIMEDOUT);
        }
        if (poll(&p, 1, (int)((left_us + US_PER_MS - 1) / US_PER_MS)) > 0) {
            return true;
        }
    }
}

/* Connects the new socket c->fd. */
static bool
connect_fd(struct client *c, const struct sockaddr *to, socklen_t bytes, int64_t patience_us)
{
    int err = 0;
    socklen_t err_bytes = sizeof(err);

    if (c->fd < 0) {
        return false;
    }
    if (connect(c->fd, to, bytes) == 0) {
        return true;
    }
    if (errno != EINPROGRESS) {
        return false;
    }
    if (!wait_for(c, POLLOUT, clock_now_us() + patience_us)) {
        errno = ETIMEDOUT;
        return false;
    }
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &err_bytes) != 0 || err != 0) {
        errno = err;
        return false;
    }
    return true;
}

static bool
open_unix(struct client *c, const char *path, int64_t patience_us)
{
    const struct timeval patience = {.tv_sec = patience_us / US_PER_S, .tv_usec = patience_us % US_PER_S};
    struct sockaddr_un to = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(to.sun_path)) {
        return fail(c, path, ENAMETOOLONG);
    }
    memcpy(to.sun_path, path, strlen(path));
    /* Not SOCK_NONBLOCK: when the daemon's queue of connections is full, that would fail instead of waiting. */
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd >= 0) {
        (void)setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    }
    return connect_fd(c, (const struct sockaddr *)&to, sizeof(to), patience_us) ? true : fail(c, path, errno);
}

/* Has the kernel end the connection when the daemon's host has not answered for SILENT_S, also while rlock waits. */
static void
watch_host(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, SILENT_S - PROBES * PROBE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S},
        {IPPROTO_TCP, TCP_KEEPCNT, PROBES},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, SILENT_S * 1000},
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
    }
}

static bool
open_tcp(struct client *c, const char *host_port, int64_t patience_us)
{
    const struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    const char *colon = strrchr(host_port, ':');
    char host[256];
    size_t n;
    int err, last = 0;

    if (colon == NULL || colon == host_port || colon[1] == '\0') {
        return no_address(c, host_port);
    }
    if (host_port[0] == '[' && colon[-1] == ']') {
        n = (size_t)snprintf(host, sizeof(host), "%.*s", (int)(colon - host_port - 2), host_port + 1);
    } else {
        n = (size_t)snprintf(host, sizeof(host), "%.*s", (int)(colon - host_port), host_port);
    }
    if (n >= sizeof(host)) {
        return fail(c, host_port, ENAMETOOLONG);
    }
    err = getaddrinfo(host, colon + 1, &want, &all);
    if (err != 0) {
        snprintf(c->error, sizeof(c->error), "%.*s: %s", WHAT_BYTES_MAX, host_port, gai_strerror(err));
        return false;
    }
    for (const struct addrinfo *a = all; a != NULL; a = a->ai_next) {
        c->fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        if (connect_fd(c, a->ai_addr, a->ai_addrlen, patience_us)) {
            watch_host(c->fd);
            freeaddrinfo(all);
            return true;
        }
        last = errno;
        if (c->fd >= 0) {
            close(c->fd);
            c->fd = -1;
        }
    }
    freeaddrinfo(all);
    return fail(c, host_port, last);
}

static bool
authenticate(struct client *c, const char *password, int64_t patience_us)
{
    const char *const words[] = {"AUTH", password, NULL};
    const struct redisReply *v = client_send(c, words) ? client_wait(c, patience_us) : NULL;

    if (v != NULL && v->type == REDIS_REPLY_ERROR) {
        snprintf(c->error, sizeof(c->error), "%s", v->str);
        return false;
    }
    return v != NULL;
}

static void *
create_array(const redisReadTask *task, client_items n)
{
    struct client *c = task->privdata;

    c->array_too_large = n > ITEMS_MAX;
    return c->array_too_large ? NULL : c->create_array(task, n);
}

void
client_init(struct client *c)
{
    *c = (struct client){.fd = -1, .reader = redisReaderCreate()};
    if (c->reader == NULL) {
        mem_exhausted(sizeof(*c->reader));
    }
    c->functions = *c->reader->fn;
    c->create_array = c->functions.createArray;
    c->functions.createArray = create_array;
    c->reader->privdata = c;
    c->reader->fn = &c->functions;
}

bool
client_open(struct client *c, const char *addr, const char *password, int64_t patience_us)
{
    bool ok;

    client_init(c);
    if (patience_us <= 0) { /* SO_SNDTIMEO takes 0 for no bound */
        return fail(c, addr, ETIMEDOUT);
    }
    if (strncmp(addr, "unix:", 5) == 0) {
        ok = open_unix(c, addr + 5, patience_us);
    } else if (strncmp(addr, "tcp:", 4) == 0) {
        ok = open_tcp(c, addr + 4, patience_us);
    } else if (strchr(addr, '/') != NULL) {
        ok = open_unix(c, addr, patience_us);
    } else {
        ok = no_address(c, addr);
    }
    return ok && (password == NULL || authenticate(c, password, patience_us));
}

void
client_close(struct client *c)
{
    if (c->fd >= 0) {
        close(c->fd);
    }
    redisReaderFree(c->reader);
    freeReplyObject(c->reply);
    *c = (struct client){.fd = -1};
}

void
client_peer(const struct client *c, char out[80])
{
    struct sockaddr_storage a;
    socklen_t n = sizeof(a);
    char host[56], port[8];

    out[0] = '\0';
    if (getpeername(c->fd, (struct sockaddr *)&a, &n) == 0 && a.ss_family != AF_UNIX &&
        getnameinfo((struct sockaddr *)&a, n, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) ==
            0) {
        snprintf(out, 80, a.ss_family == AF_INET6 ? "tcp:[%s]:%s" : "tcp:%s:%s", host, port);
    }
}

bool
client_send(struct client *c, const char *const *words)
{
    const char *word[WORDS_MAX];
    char *out = NULL;
    int n = 0, bytes, at = 0;
    bool ok = true;

    while (words[n] != NULL) {
        assert(n < WORDS_MAX);
        word[n] = words[n];
        n++;
    }
    bytes = redisFormatCommandArgv(&out, n, word, NULL);
    if (bytes < 0) {
        mem_exhausted(0); /* of an unknown size */
    }
    while (ok && at < bytes) {
        ssize_t sent = send(c->fd, out + at, (size_t)(bytes - at), MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent > 0) {
            at += (int)sent;
        } else if (errno == EAGAIN) {
            ok = wait_for(c, POLLOUT, clock_now_us() + SEND_US);
        } else if (errno != EINTR) {
            ok = fail(c, "send", errno);
        }
    }
    free(out);
    return ok;
}

bool
client_fill(struct client *c)
{
    char chunk[CHUNK_BYTES];

    for (;;) {
        ssize_t n = recv(c->fd, chunk, sizeof(chunk), MSG_DONTWAIT);

        if (n > 0) {
            c->unread += (size_t)n;
            if (c->unread > REPLY_BYTES_MAX) {
                return not_rlockds(c);
            }
            if (redisReaderFeed(c->reader, chunk, (size_t)n) != REDIS_OK) {
                mem_exhausted(c->unread); /* a reader that has found a bad reply is fed no more */
            }
            return true;
        }
        if (n == 0) {
            snprintf(c->error, sizeof(c->error), "the daemon closed the connection");
            return false;
        }
        if (errno == EAGAIN) {
            return true;
        }
        if (errno != EINTR) {
            return fail(c, "read", errno);
        }
    }
}

enum client_result
client_next(struct client *c, const struct redisReply **out)
{
    void *reply = NULL;

    freeReplyObject(c->reply);
    c->reply = NULL;
    if (redisReaderGetReply(c->reader, &reply) != REDIS_OK) {
        if (c->reader->err == REDIS_ERR_OOM && !c->array_too_large) {
            mem_exhausted(0); /* of an unknown size */
        }
        (void)not_rlockds(c);
        return CLIENT_BAD;
    }
    if (reply == NULL) {
        return CLIENT_MORE;
    }
    *out = c->reply = reply;
    c->unread = c->reader->len - c->reader->pos;
    return CLIENT_READY;
}

const struct redisReply *
client_wait(struct client *c, int64_t timeout_us)
{
    int64_t deadline_us = clock_now_us() + timeout_us;
    const struct redisReply *v = NULL;
    enum client_result r;

    while ((r = client_next(c, &v)) == CLIENT_MORE) {
        if (!wait_for(c, POLLIN, deadline_us) || !client_fill(c)) {
            return NULL;
        }
    }
    return r == CLIENT_READY ? v : NULL;
}

const struct redisReply *
reply_field(const struct redisReply *map, const char *key)
{
    for (size_t i = 0; i + 1 < map->elements; i += 2) {
        if (slice_is(reply_text(map->element[i]), key)) {
            return map->element[i + 1];
        }
    }
    return NULL;
}

int64_t
reply_number(const struct redisReply *v)
{
    int64_t n;

    if (v != NULL && v->type == REDIS_REPLY_INTEGER) {
        return v->integer;
    }
    return v != NULL && v->type == REDIS_REPLY_STRING && number_parse(reply_text(v), &n) ? n : 0;
}
