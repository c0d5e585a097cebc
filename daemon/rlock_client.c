/*
 * rlock_client.c -- one connection to rlockd: connect, words out, replies in.
 *
 * Owns the socket and the reply handed out last. Refuses replies that are
 * deeper or larger than any command of rlockd answers: a daemon that sends such
 * a thing is none. Every wait has a deadline. The socket is closed on exec: a child that kept
 * it open would keep the lock.
 */
#include "daemon/rlock_client.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/units.h"
#include "proto/writer.h"

#define SEND_US (5 * US_PER_S)
#define REPLY_BYTES_MAX (256u << 20)
#define DEPTH_MAX 8
#define CHUNK_BYTES 65536

#define WHAT_BYTES_MAX 120 /* of an address, in an error: why it is none must find room behind it */

static bool
fail(struct client *c, const char *what, int err)
{
    snprintf(c->error, sizeof(c->error), "%.*s: %s", WHAT_BYTES_MAX, what, strerror(err));
    return false;
}

/* Waits until the socket can do what is asked; false with `error` when the deadline passes first. */
static bool
wait_for(struct client *c, short what, int64_t deadline_us)
{
    struct pollfd p = {.fd = c->fd, .events = what};

    for (;;) {
        int64_t left_us = deadline_us == INT64_MAX ? -1 : deadline_us - clock_now_us();
        int ms = left_us < 0 ? -1 : (int)((left_us + US_PER_MS - 1) / US_PER_MS);

        if (deadline_us != INT64_MAX && left_us <= 0) {
            return fail(c, "no answer", ETIMEDOUT);
        }
        if (poll(&p, 1, ms) > 0) {
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
        return fail(c, host_port, EINVAL);
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
    const struct value *v = client_send(c, words) ? client_wait(c, patience_us) : NULL;

    if (v != NULL && v->type == VALUE_ERROR) {
        snprintf(c->error, sizeof(c->error), "%.*s", (int)v->text.n, v->text.p);
        return false;
    }
    return v != NULL;
}

bool
client_open(struct client *c, const char *addr, const char *password, int64_t patience_us)
{
    bool ok;

    *c = (struct client){.fd = -1};
    buf_init(&c->in, REPLY_BYTES_MAX);
    if (strncmp(addr, "unix:", 5) == 0) {
        ok = open_unix(c, addr + 5, patience_us);
    } else if (strncmp(addr, "tcp:", 4) == 0) {
        ok = open_tcp(c, addr + 4, patience_us);
    } else if (strchr(addr, '/') != NULL) {
        ok = open_unix(c, addr, patience_us);
    } else {
        ok = fail(c, addr, EINVAL);
    }
    return ok && (password == NULL || authenticate(c, password, patience_us));
}

void
client_close(struct client *c)
{
    if (c->fd >= 0) {
        close(c->fd);
    }
    buf_fini(&c->in);
    free(c->node);
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
    struct buf out;
    struct writer w = {.out = &out, .proto = 2};
    size_t n = 0, at = 0;
    bool ok = true;

    while (words[n] != NULL) {
        n++;
    }
    buf_init(&out, 0);
    writer_array(&w, n);
    for (size_t i = 0; i < n; i++) {
        writer_text(&w, words[i]);
    }
    if (out.failed) {
        ok = fail(c, "send", ENOMEM);
    }
    while (ok && at < out.n) {
        ssize_t sent = send(c->fd, out.p + at, out.n - at, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent > 0) {
            at += (size_t)sent;
        } else if (errno == EAGAIN) {
            ok = wait_for(c, POLLOUT, clock_now_us() + SEND_US);
        } else if (errno != EINTR) {
            ok = fail(c, "send", errno);
        }
    }
    buf_fini(&out);
    return ok;
}

bool
client_fill(struct client *c)
{
    buf_drop(&c->in, c->used);
    c->used = 0;
    for (;;) {
        char *room = buf_space(&c->in, CHUNK_BYTES);
        ssize_t n;

        if (room == NULL) {
            return fail(c, "read", ENOMEM);
        }
        n = recv(c->fd, room, CHUNK_BYTES, MSG_DONTWAIT);
        if (n > 0) {
            c->in.n += (size_t)n;
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

static struct value *
node_new(struct client *c)
{
    if (c->nodes == c->room) {
        size_t room = c->room == 0 ? 16 : 2 * c->room;
        struct value *more = realloc(c->node, room * sizeof(*more));

        if (more == NULL) {
            return NULL;
        }
        c->node = more;
        c->room = room;
    }
    c->node[c->nodes] = (struct value){.nodes = 1};
    return &c->node[c->nodes++];
}

/* The line that starts at *at, without its end; moves *at behind it. */
static bool
take_line(const struct client *c, size_t *at, struct slice *line)
{
    const char *from = c->in.p + *at;
    const char *end = memchr(from, '\n', c->in.n - *at);

    if (end == NULL) {
        return false;
    }
    *line = (struct slice){from, (size_t)(end - from)};
    if (line->n > 0 && from[line->n - 1] == '\r') {
        line->n--;
    }
    *at += (size_t)(end - from) + 1;
    return true;
}

/* ":-12" and the like: number_parse with a sign. */
static bool
take_number(struct slice s, int64_t *n)
{
    bool minus = s.n > 0 && s.p[0] == '-';

    if (minus) {
        s.p++;
        s.n--;
    }
    if (!number_parse(s, n)) {
        return false;
    }
    *n = minus ? -*n : *n;
    return true;
}

static enum client_result
parse(struct client *c, size_t *at, int depth)
{
    struct slice line, rest;
    size_t self = c->nodes;
    struct value *v;
    int64_t n = 0;

    if (*at >= c->in.n || !take_line(c, at, &line)) {
        return CLIENT_MORE;
    }
    v = node_new(c);
    if (v == NULL || line.n == 0 || depth > DEPTH_MAX) {
        return CLIENT_BAD;
    }
    rest = (struct slice){line.p + 1, line.n - 1};
    switch (line.p[0]) {
    case '+':
    case '-':
        v->type = line.p[0] == '+' ? VALUE_SIMPLE : VALUE_ERROR;
        v->text = rest;
        return CLIENT_READY;
    case ':':
        v->type = VALUE_INT;
        return take_number(rest, &v->n) ? CLIENT_READY : CLIENT_BAD;
    case '$':
        if (!take_number(rest, &n) || n < -1 || n > (int64_t)REPLY_BYTES_MAX) {
            return CLIENT_BAD;
        }
        v->type = n < 0 ? VALUE_NULL : VALUE_BULK;
        if (n < 0) {
            return CLIENT_READY;
        }
        if (c->in.n - *at < (size_t)n + 2) {
            return CLIENT_MORE;
        }
        v->text = (struct slice){c->in.p + *at, (size_t)n};
        *at += (size_t)n + 2;
        return CLIENT_READY;
    case '*':
        if (!take_number(rest, &n) || n < -1 || n > (int64_t)REPLY_BYTES_MAX) {
            return CLIENT_BAD;
        }
        v->type = n < 0 ? VALUE_NULL : VALUE_ARRAY;
        v->n = n < 0 ? 0 : n;
        for (int64_t i = 0; i < n; i++) {
            enum client_result r = parse(c, at, depth + 1);

            if (r != CLIENT_READY) {
                return r;
            }
        }
        c->node[self].nodes = c->nodes - self; /* not through v: the array may have moved */
        return CLIENT_READY;
    default:
        return CLIENT_BAD;
    }
}

enum client_result
client_next(struct client *c, const struct value **out)
{
    size_t at = c->used;
    enum client_result r;

    c->nodes = 0;
    r = parse(c, &at, 0);
    if (r == CLIENT_BAD) {
        snprintf(c->error, sizeof(c->error), "the answer is not rlockd's");
    }
    if (r == CLIENT_READY) {
        c->used = at;
        *out = c->node;
    }
    return r;
}

const struct value *
client_wait(struct client *c, int64_t timeout_us)
{
    int64_t deadline_us = timeout_us < 0 ? INT64_MAX : clock_now_us() + timeout_us;
    struct pollfd now = {.fd = c->fd, .events = POLLIN};
    const struct value *v = NULL;
    size_t tried = 0;

    for (;;) {
        /* While more comes, a long reply is looked at only when it has grown by half: reading stays linear. */
        if (c->in.n - c->used >= tried + tried / 2 || poll(&now, 1, 0) == 0) {
            enum client_result r = client_next(c, &v);

            if (r != CLIENT_MORE) {
                return r == CLIENT_READY ? v : NULL;
            }
            tried = c->in.n - c->used;
        }
        if (!wait_for(c, POLLIN, deadline_us) || !client_fill(c)) {
            return NULL;
        }
    }
}

const struct value *
value_after(const struct value *v)
{
    return v + v->nodes;
}

const struct value *
value_field(const struct value *map, const char *key)
{
    const struct value *v = map + 1;

    for (int64_t i = 0; map->type == VALUE_ARRAY && i + 1 < map->n; i += 2) {
        const struct value *value = value_after(v);

        if (slice_is(v->text, key)) {
            return value;
        }
        v = value_after(value);
    }
    return NULL;
}

int64_t
value_number(const struct value *v, int64_t none)
{
    int64_t n;

    if (v == NULL) {
        return none;
    }
    if (v->type == VALUE_INT) {
        return v->n;
    }
    return v->type == VALUE_BULK && take_number(v->text, &n) ? n : none;
}
