/* load_net.c -- addresses, connections, RESP; see load.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

int64_t
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void
die(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fputs("load: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

void *
need(void *p)
{
    if (p == NULL) {
        die("no memory");
    }
    return p;
}

static int
try_unix(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (strlen(path) >= sizeof(a.sun_path)) {
        die("%s: too long for a Unix socket", path);
    }
    strcpy(a.sun_path, path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int
try_tcp(const char *host_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    const char *colon = strrchr(host_port, ':');
    char host[64];
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (colon == NULL || (size_t)(colon - host_port) >= sizeof(host)) {
        die("%s: not HOST:PORT", host_port);
    }
    memcpy(host, host_port, (size_t)(colon - host_port));
    host[colon - host_port] = '\0';
    a.sin_port = htons((uint16_t)atoi(colon + 1));
    if (inet_pton(AF_INET, host, &a.sin_addr) != 1) {
        die("%s: not an address", host);
    }
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

int
net_connect(const char *where)
{
    int64_t until = now_ns() + 20 * (int64_t)1000000000;
    const struct timespec pause = {.tv_nsec = 500000};

    for (;;) {
        int fd = -1;

        if (strncmp(where, "unix:", 5) == 0) {
            fd = try_unix(where + 5);
        } else if (strncmp(where, "tcp:", 4) == 0) {
            fd = try_tcp(where + 4);
        } else {
            die("%s: neither unix: nor tcp:", where);
        }
        if (fd >= 0) {
            return fd;
        }
        if (errno != EAGAIN || now_ns() > until) {
            die("%s: %s", where, strerror(errno));
        }
        nanosleep(&pause, NULL); /* between two attempts: no event shows that a Unix socket's backlog has room again */
    }
}

void
conn_init(struct conn *c, const char *where, struct client *client)
{
    memset(c, 0, sizeof(*c));
    c->fd = net_connect(where);
    c->client = client;
    c->in_max = OUT_MAX;
    c->in = need(malloc(c->in_max));
    c->out = need(malloc(OUT_MAX));
}

void
conn_close(struct conn *c)
{
    close(c->fd);
    free(c->in);
    free(c->out);
}

void
conn_put(struct conn *c, const char *bytes, size_t n)
{
    if (c->out_n + n > OUT_MAX) {
        die("more to send than fits: smaller pipeline, please");
    }
    memcpy(c->out + c->out_n, bytes, n);
    c->out_n += n;
}

bool
conn_flush(struct conn *c)
{
    while (c->out_at < c->out_n) {
        ssize_t n = send(c->fd, c->out + c->out_at, c->out_n - c->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN) {
            return false;
        }
        if (n < 0 && errno != EINTR) {
            die("send: %s", strerror(errno));
        }
        c->out_at += n > 0 ? (size_t)n : 0;
    }
    c->out_at = c->out_n = 0;
    return true;
}

bool
conn_fill(struct conn *c, bool wait)
{
    ssize_t n;

    if (c->in_n == c->in_max) {
        die("an answer of more than %zu bytes", c->in_max);
    }
    n = recv(c->fd, c->in + c->in_n, c->in_max - c->in_n, wait ? 0 : MSG_DONTWAIT);
    if (n == 0) {
        die("the server closed the connection");
    }
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            die("recv: %s", strerror(errno));
        }
        return false;
    }
    c->in_n += (size_t)n;
    return true;
}

void
conn_took(struct conn *c, size_t n)
{
    c->in_n -= n;
    if (n > 0 && c->in_n > 0) {
        memmove(c->in, c->in + n, c->in_n);
    }
}

/* The items of an array after its head, `at` bytes into p. */
static size_t
parse_items(const char *p, size_t n, size_t at, struct reply *r)
{
    int64_t i;

    for (i = 0; i < r->number; i++) {
        struct reply item;
        size_t took = reply_parse(p + at, n - at, &item);

        if (took == 0) {
            return 0;
        }
        if (i == 0 && item.n > 0) {
            r->kind = item.text[0];
        }
        at += took;
    }
    return at;
}

size_t
reply_parse(const char *p, size_t n, struct reply *r)
{
    const char *end = n < 3 ? NULL : memchr(p, '\n', n);
    size_t head;

    if (end == NULL) {
        return 0;
    }
    head = (size_t)(end - p) + 1;
    *r = (struct reply){.type = p[0], .text = p + 1, .n = head - 3};
    if (r->type == ':' || r->type == '$' || r->type == '*') {
        r->number = strtoll(p + 1, NULL, 10);
    }
    if (r->type == '*') {
        return parse_items(p, n, head, r);
    }
    if (r->type != '$') {
        return head;
    }
    if (r->number < 0) {
        r->n = 0;
        return head;
    }
    r->text = p + head;
    r->n = (size_t)r->number;
    return head + r->n + 2 <= n ? head + r->n + 2 : 0;
}

size_t
request(char *out, size_t max, size_t n, const char *const *words)
{
    size_t i, at = (size_t)snprintf(out, max, "*%zu\r\n", n);

    for (i = 0; i < n; i++) {
        at += (size_t)snprintf(out + at, at < max ? max - at : 0, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
        if (at >= max) {
            die("a request of more than %zu bytes", max);
        }
    }
    return at;
}

char *
net_ask(int fd, size_t n, const char *const *words, size_t *len)
{
    size_t max = 1 << 16, got = 0;
    char *buf = need(malloc(max)), *out;
    struct reply r;
    size_t asked = request(buf, max, n, words);

    if (send(fd, buf, asked, MSG_NOSIGNAL) != (ssize_t)asked) {
        die("send: %s", strerror(errno));
    }
    do {
        ssize_t more = recv(fd, buf + got, max - got, 0);

        if (more <= 0) {
            die("no answer to %s", words[0]);
        }
        got += (size_t)more;
        if (got == max) {
            max *= 2;
            buf = need(realloc(buf, max));
        }
    } while (reply_parse(buf, got, &r) == 0);
    if (r.type == '-') {
        die("%s: %.*s", words[0], (int)r.n, r.text);
    }
    out = need(malloc(r.n + 1));
    memcpy(out, r.text, r.n);
    out[r.n] = '\0';
    free(buf);
    if (len != NULL) {
        *len = r.n;
    }
    return out;
}
