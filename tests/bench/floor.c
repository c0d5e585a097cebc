/*
 * floor.c -- the highest speed of a server: libevent, one thread, the replies of rlockd, no lock service behind.
 *
 *     floor echo PATH     every LOCK is granted at once, every UNLOCK answered: the lowest cost of own names
 *     floor hot PATH      one name with a queue in memory, first come first served: the lowest cost of a hand-off
 *
 * It reads requests as rlockd does (lines, or RESP arrays), but parses only LOCK and UNLOCK: the first byte of the verb
 * decides. One read and one write per ready connection.
 */
#include <errno.h>
#include <event2/event.h>
#include <event2/util.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { IN_MAX = 64 * 1024 };

static const char granted[] = ":1763701200123456\r\n", freed[] = ":0\r\n";

/* Invariant: `held`: a connection has the name; `first` to `last` wait for it, in the order of their requests. */
struct floor {
    struct event_base *base;
    bool hot, held;
    struct peer *first, *last;
};

struct peer {
    struct floor *floor;
    struct event *event;
    int fd;
    size_t in_n, out_n;
    char in[IN_MAX / 16], out[IN_MAX / 16];
    struct peer *next; /* in the queue */
};

static void
die(const char *what)
{
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void
flush(struct peer *p)
{
    if (p->out_n > 0 && send(p->fd, p->out, p->out_n, MSG_NOSIGNAL) != (ssize_t)p->out_n) {
        die("send");
    }
    p->out_n = 0;
}

static void
put(struct peer *p, const char *text, size_t n)
{
    if (p->out_n + n > sizeof(p->out)) {
        flush(p);
    }
    memcpy(p->out + p->out_n, text, n);
    p->out_n += n;
}

static void
lock(struct peer *p)
{
    struct floor *f = p->floor;

    if (!f->hot || !f->held) {
        f->held = true;
        put(p, granted, sizeof(granted) - 1);
        return;
    }
    p->next = NULL;
    if (f->first == NULL) {
        f->first = p;
    } else {
        f->last->next = p;
    }
    f->last = p;
}

static void
unlock(struct peer *p)
{
    struct floor *f = p->floor;
    struct peer *next = f->first;

    put(p, freed, sizeof(freed) - 1);
    if (!f->hot) {
        return;
    }
    f->held = next != NULL;
    if (next != NULL) {
        f->first = next->next;
        put(next, granted, sizeof(granted) - 1);
        flush(next);
    }
}

/* The length of the request at p, 0 when it is not complete; *verb is its first letter. */
static size_t
whole(const char *p, size_t n, char *verb)
{
    const char *end = memchr(p, '\n', n);
    long words, i;
    size_t at;

    if (end == NULL) {
        return 0;
    }
    *verb = p[0];
    if (p[0] != '*') {
        return (size_t)(end - p) + 1;
    }
    words = strtol(p + 1, NULL, 10);
    at = (size_t)(end - p) + 1;
    for (i = 0; i < words; i++) {
        end = at < n ? memchr(p + at, '\n', n - at) : NULL;
        if (end == NULL) {
            return 0;
        }
        *verb = i == 0 && end + 1 < p + n ? end[1] : *verb;
        at = (size_t)(end - p) + 1 + (size_t)strtol(p + at + 1, NULL, 10) + 2;
    }
    return at <= n ? at : 0;
}

static void
readable(evutil_socket_t fd, short what, void *ctx)
{
    struct peer *p = ctx;
    ssize_t got = recv((int)fd, p->in + p->in_n, sizeof(p->in) - p->in_n, 0);
    size_t at = 0, n;
    char verb;

    (void)what;
    if (got <= 0) {
        event_free(p->event);
        close(p->fd);
        free(p);
        return;
    }
    p->in_n += (size_t)got;
    while (at < p->in_n && (n = whole(p->in + at, p->in_n - at, &verb)) > 0) {
        if (verb == 'L') {
            lock(p);
        } else {
            unlock(p);
        }
        at += n;
    }
    p->in_n -= at;
    memmove(p->in, p->in + at, p->in_n);
    flush(p);
}

static void
acceptable(evutil_socket_t fd, short what, void *ctx)
{
    struct floor *f = ctx;
    struct peer *p;
    int peer;

    (void)what;
    while ((peer = accept4((int)fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        p = malloc(sizeof(*p));
        if (p == NULL) {
            die("malloc");
        }
        p->floor = f;
        p->fd = peer;
        p->in_n = p->out_n = 0;
        p->event = event_new(f->base, peer, EV_READ | EV_PERSIST, readable, p);
        event_add(p->event, NULL);
    }
}

static int
listen_at(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 511) < 0) {
        die(path);
    }
    return fd;
}

int
main(int argc, char **argv)
{
    struct floor f = {.hot = argc == 3 && strcmp(argv[1], "hot") == 0};
    struct rlimit files;
    int fd;

    if (argc != 3 || (!f.hot && strcmp(argv[1], "echo") != 0)) {
        fprintf(stderr, "usage: floor echo|hot PATH\n");
        return 64;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    f.base = event_base_new();
    fd = listen_at(argv[2]);
    event_add(event_new(f.base, fd, EV_READ | EV_PERSIST, acceptable, &f), NULL);
    event_base_dispatch(f.base);
    return 0;
}
