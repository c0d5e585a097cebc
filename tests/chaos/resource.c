/*
 * resource.c -- the resource under the locks: `resource unix:PATH`. Named numbers, fenced or not, to which clients add
 * one.
 *
 *   get NAME TOKEN          ok VALUE, or no MAX when a larger token has been here
 *   put NAME TOKEN VALUE    ok, or no MAX
 *   stat NAME               ok value=V writes=N refused=N
 *
 * Token 0 is not checked. A reader brings its token, too: it may use the value that it has read only if no client with
 * a larger token has read or written since. Every writer writes the value that it has read plus one, so `writes -
 * value` updates were lost.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#define NUMBERS 256

struct number {
    char name[64];
    uint64_t token; /* the largest one so far */
    long long value;
    unsigned long long writes, refused;
};

struct resource {
    struct event_base *base;
    struct number number[NUMBERS];
};

static struct number *
find(struct resource *x, const char *name)
{
    for (int i = 0; i < NUMBERS; i++) {
        struct number *n = &x->number[i];

        if (n->name[0] == '\0') {
            snprintf(n->name, sizeof(n->name), "%s", name);
        }
        if (strcmp(n->name, name) == 0) {
            return n;
        }
    }
    abort();
}

/* False: a larger token has been here. */
static bool
may_pass(struct number *n, const char *text)
{
    uint64_t token = strtoull(text, NULL, 10);

    if (token == 0) {
        return true;
    }
    if (token < n->token) {
        n->refused++;
        return false;
    }
    n->token = token;
    return true;
}

static void
command(struct resource *x, char *line, struct evbuffer *out)
{
    char *word[5] = {0}, *save = NULL;
    int words = 0;
    struct number *n;

    for (char *w = strtok_r(line, " ", &save); w != NULL && words < 5; w = strtok_r(NULL, " ", &save)) {
        word[words++] = w;
    }
    if (words < 2) {
        evbuffer_add_printf(out, "error\n");
        return;
    }
    n = find(x, word[1]);
    if (words == 2 && strcmp(word[0], "stat") == 0) {
        evbuffer_add_printf(out, "ok value=%lld writes=%llu refused=%llu\n", n->value, n->writes, n->refused);
    } else if (words == 3 && strcmp(word[0], "get") == 0) {
        if (may_pass(n, word[2])) {
            evbuffer_add_printf(out, "ok %lld\n", n->value);
        } else {
            evbuffer_add_printf(out, "no %" PRIu64 "\n", n->token);
        }
    } else if (words == 4 && strcmp(word[0], "put") == 0) {
        if (may_pass(n, word[2])) {
            n->value = atoll(word[3]);
            n->writes++;
            evbuffer_add_printf(out, "ok\n");
        } else {
            evbuffer_add_printf(out, "no %" PRIu64 "\n", n->token);
        }
    } else {
        evbuffer_add_printf(out, "error\n");
    }
}

static void
on_read(struct bufferevent *bev, void *arg)
{
    char *line;

    while ((line = evbuffer_readln(bufferevent_get_input(bev), NULL, EVBUFFER_EOL_LF)) != NULL) {
        command(arg, line, bufferevent_get_output(bev));
        free(line);
    }
}

static void
on_end(struct bufferevent *bev, short what, void *arg)
{
    (void)what, (void)arg;
    bufferevent_free(bev);
}

static void
on_accept(evutil_socket_t fd, short what, void *arg)
{
    struct resource *x = arg;
    int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct bufferevent *bev = client < 0 ? NULL : bufferevent_socket_new(x->base, client, BEV_OPT_CLOSE_ON_FREE);

    (void)what;
    if (bev != NULL) {
        bufferevent_setcb(bev, on_read, NULL, on_end, x);
        bufferevent_enable(bev, EV_READ | EV_WRITE);
    }
}

int
main(int argc, char **argv)
{
    struct resource *x = calloc(1, sizeof(*x));
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (x == NULL || argc != 2 || strncmp(argv[1], "unix:", 5) != 0 ||
        snprintf(un.sun_path, sizeof(un.sun_path), "%s", argv[1] + 5) >= (int)sizeof(un.sun_path) ||
        bind(fd, (struct sockaddr *)&un, sizeof(un)) != 0 || listen(fd, 512) != 0) {
        fprintf(stderr, "usage: resource unix:PATH: %s\n", strerror(errno));
        return 64;
    }
    signal(SIGPIPE, SIG_IGN); /* a client may be killed before it has read its answer */
    x->base = event_base_new();
    event_add(event_new(x->base, fd, EV_READ | EV_PERSIST, on_accept, x), NULL);
    event_base_dispatch(x->base);
    return 0;
}
