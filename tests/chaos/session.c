/*
 * session.c -- a blocking connection with deadlines, a small reader of RESP, and the writer of histories.
 */
#include "tests/chaos/session.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

int64_t
now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void
sleep_us(int64_t us)
{
    int64_t end = now_us() + us;

    while (!stopping && now_us() < end) {
        int64_t left = end - now_us();
        struct timespec t = {.tv_sec = left / 1000000, .tv_nsec = left % 1000000 * 1000};

        if (left > 0) {
            /* the only pause of a client, except for the time for which it is stopped: see session.h */
            (void)nanosleep(&t, NULL);
        }
    }
}

void
say(struct client *c, const char *proc, const char *fmt, ...)
{
    char line[512];
    int n = snprintf(line, sizeof(line), "%lld %s ", (long long)now_us(), proc);
    va_list args;

    va_start(args, fmt);
    n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, args);
    va_end(args);
    line[n++] = '\n';
    if (write(c->history, line, (size_t)n) != n) {
        abort();
    }
}

int
dial(const char *address)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET};
    bool local = strncmp(address, "unix:", 5) == 0;
    int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, got;

    if (fd < 0) {
        return -1;
    }
    if (local) {
        snprintf(un.sun_path, sizeof(un.sun_path), "%s", address + 5);
        got = connect(fd, (struct sockaddr *)&un, sizeof(un));
    } else {
        char host[INET_ADDRSTRLEN];

        snprintf(host, sizeof(host), "%.*s", (int)strcspn(address + 4, ":"), address + 4);
        in.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
        (void)inet_pton(AF_INET, host, &in.sin_addr);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        got = connect(fd, (struct sockaddr *)&in, sizeof(in));
    }
    if (got != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

bool
session_open(struct client *c, struct session *s)
{
    s->fd = dial(c->o.daemon);
    s->have = 0;
    if (s->fd >= 0) {
        snprintf(s->proc, sizeof(s->proc), "%s.%u", c->o.id, c->conns++);
    }
    return s->fd >= 0;
}

void
session_close(struct client *c, struct session *s)
{
    if (s->fd >= 0) {
        say(c, s->proc, "close");
        close(s->fd);
        s->fd = -1;
    }
}

bool
session_send(struct session *s, const char *fmt, ...)
{
    char line[512];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    for (int at = 0; at < n;) {
        ssize_t put = send(s->fd, line + at, (size_t)(n - at), MSG_NOSIGNAL);

        if (put < 0 && errno == EINTR && !stopping) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        at += (int)put;
    }
    return true;
}

static bool
fill(struct session *s, int64_t until)
{
    for (;;) {
        int64_t left = until - now_us();
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        ssize_t got;

        if (left <= 0 || stopping || s->have == sizeof(s->buf)) {
            return false;
        }
        if (poll(&p, 1, (int)(left / 1000) + 1) <= 0) {
            continue;
        }
        got = recv(s->fd, s->buf + s->have, sizeof(s->buf) - s->have, 0);
        if (got <= 0) {
            return false;
        }
        s->have += (size_t)got;
        return true;
    }
}

static void
drop(struct session *s, size_t n)
{
    s->have -= n;
    memmove(s->buf, s->buf + n, s->have);
}

/* One line without its end. */
static bool
read_line(struct session *s, char *out, size_t room, int64_t until)
{
    char *end;

    while ((end = memchr(s->buf, '\n', s->have)) == NULL) {
        if (!fill(s, until)) {
            return false;
        }
    }
    snprintf(out, room, "%.*s", (int)(end - s->buf) - 1, s->buf);
    drop(s, (size_t)(end - s->buf) + 1);
    return true;
}

static bool
read_value(struct session *s, struct answer *a, bool top, int64_t until)
{
    char line[256];
    long long n;
    char *item = a->items < 40 ? a->item[a->items] : NULL;

    if (!read_line(s, line, sizeof(line), until)) {
        return false;
    }
    n = atoll(line + 1);
    if (top) {
        a->type = line[0] == '$' && n < 0 ? '_' : line[0];
        a->n = n;
    }
    if (line[0] == '*') {
        for (long long i = 0; i < n; i++) {
            if (!read_value(s, a, false, until)) {
                return false;
            }
        }
        return true;
    }
    if (line[0] == '$' && n >= 0) {
        while (s->have < (size_t)n + 2) {
            if (!fill(s, until)) {
                return false;
            }
        }
        if (item != NULL) {
            snprintf(item, sizeof(a->item[0]), "%.*s", n < 47 ? (int)n : 47, s->buf);
            a->items++;
        }
        drop(s, (size_t)n + 2);
    } else if (item != NULL) {
        snprintf(item, sizeof(a->item[0]), "%.47s", line + 1);
        a->items++;
    }
    return true;
}

bool
session_read(struct session *s, struct answer *a, int64_t until_us)
{
    memset(a, 0, sizeof(*a));
    if (s->fd >= 0 && read_value(s, a, true, until_us)) {
        return true;
    }
    a->type = 0;
    return false;
}

long long
answer_field(const struct answer *a, const char *key)
{
    for (int i = 0; i + 1 < a->items; i += 2) {
        if (strcmp(a->item[i], key) == 0) {
            return atoll(a->item[i + 1]);
        }
    }
    return -1;
}

enum outcome
answer_outcome(const struct answer *a)
{
    if (a->type == 0 || (a->type == '-' && strncmp(a->item[0], "UNAVAILABLE", 11) == 0)) {
        return UNKNOWN;
    }
    return a->type == '-' || a->type == '_' ? REFUSED : DONE;
}
