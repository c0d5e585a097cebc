/*
 * proxy.c -- the fault proxy: `proxy unix:CONTROL`. Runs until its control socket's first connection ends, or TERM.
 *
 * On the control socket each line is answered by one line, `ok ...` or `error ...`:
 *   route NAME LISTEN TARGET         unix:PATH or tcp:HOST:PORT; answers the port
 *   target NAME TARGET               for connections to come
 *   set NAME up|down|both FAULT N    see FAULTS in proxy.h; 0 ends it
 *   clear NAME                       no faults, connections stay
 *   reset NAME    end NAME           every connection is reset, or closed
 *   refuse NAME 0|1                  new connections are reset
 *   stats NAME                       counts of events: name=number ...
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#include "tests/chaos/proxy.h"

static const char *const FAULT_NAMES[] = {
#define X(name) #name,
    FAULTS(X)
#undef X
};

int64_t
proxy_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

bool
addr_parse(struct addr *out, const char *text)
{
    memset(out, 0, sizeof(*out));
    if (strncmp(text, "unix:", 5) == 0) {
        struct sockaddr_un *un = (struct sockaddr_un *)(void *)&out->sa;

        un->sun_family = AF_UNIX;
        out->len = sizeof(*un);
        return snprintf(un->sun_path, sizeof(un->sun_path), "%s", text + 5) < (int)sizeof(un->sun_path);
    }
    if (strncmp(text, "tcp:", 4) == 0 && strchr(text + 4, ':') != NULL) {
        struct sockaddr_in *in = (struct sockaddr_in *)(void *)&out->sa;
        const char *colon = strrchr(text, ':');
        char host[INET_ADDRSTRLEN];

        snprintf(host, sizeof(host), "%.*s", (int)(colon - text) - 4, text + 4);
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)atoi(colon + 1));
        out->len = sizeof(*in);
        return inet_pton(AF_INET, host, &in->sin_addr) == 1;
    }
    return false;
}

static int
listen_at(const struct addr *a)
{
    int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (const struct sockaddr *)&a->sa, a->len) != 0 || listen(fd, 512) != 0 ||
        evutil_make_socket_nonblocking(fd) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int
port_of(int fd)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof(sa);

    if (getsockname(fd, (struct sockaddr *)&sa, &len) != 0 || sa.ss_family != AF_INET) {
        return 0;
    }
    return ntohs(((struct sockaddr_in *)(void *)&sa)->sin_port);
}

static void
on_accept(evutil_socket_t fd, short what, void *arg)
{
    struct route *r = arg;
    int client;

    (void)what;
    while ((client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        if (r->refuse != 0) {
            struct linger now = {.l_onoff = 1, .l_linger = 0};

            (void)setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
            close(client);
            r->refused++;
            continue;
        }
        r->accepted++;
        (void)conn_open(r, client);
    }
}

static struct route *
find_route(struct proxy *x, const char *name)
{
    struct list *at, *next;

    list_for_each_safe(at, next, &x->routes) {
        struct route *r = container_of(at, struct route, in_proxy);

        if (strcmp(r->name, name) == 0) {
            return r;
        }
    }
    return NULL;
}

static void
do_route(struct proxy *x, char **word, struct evbuffer *out)
{
    struct route *r = calloc(1, sizeof(*r));
    struct addr at;

    if (r == NULL || find_route(x, word[1]) != NULL || !addr_parse(&at, word[2]) || !addr_parse(&r->target, word[3]) ||
        (r->fd = listen_at(&at)) < 0) {
        evbuffer_add_printf(out, "error no such route can be made: %s\n", strerror(errno));
        free(r);
        return;
    }
    snprintf(r->name, sizeof(r->name), "%s", word[1]);
    r->proxy = x;
    list_init(&r->conns);
    list_push_back(&x->routes, &r->in_proxy);
    r->ready = event_new(x->base, r->fd, EV_READ | EV_PERSIST, on_accept, r);
    event_add(r->ready, NULL);
    evbuffer_add_printf(out, "ok %d\n", port_of(r->fd));
}

static void
tell_conns(struct route *r)
{
    struct list *at, *next;

    list_for_each_safe(at, next, &r->conns) {
        conn_changed(container_of(at, struct conn, in_route));
    }
}

static void
do_target(struct route *r, char **word, struct evbuffer *out)
{
    struct addr a;

    if (!addr_parse(&a, word[2])) {
        evbuffer_add_printf(out, "error what address is this?\n");
        return;
    }
    r->target = a;
    evbuffer_add_printf(out, "ok\n");
}

static void
do_set(struct route *r, char **word, struct evbuffer *out)
{
    bool way[WAYS] = {strcmp(word[2], "down") != 0, strcmp(word[2], "up") != 0};

    for (int f = 0; f < FAULT_KINDS; f++) {
        if (strcmp(word[3], FAULT_NAMES[f]) != 0) {
            continue;
        }
        for (int w = 0; w < WAYS; w++) {
            struct list *at, *next;

            if (!way[w]) {
                continue;
            }
            r->fault[w][f] = atol(word[4]);
            list_for_each_safe(at, next, &r->conns) {
                if (f == FAULT_cut) {
                    container_of(at, struct conn, in_route)->pipe[w].passed = 0;
                }
            }
        }
        tell_conns(r);
        evbuffer_add_printf(out, "ok\n");
        return;
    }
    evbuffer_add_printf(out, "error no such fault\n");
}

static void
do_clear(struct route *r, char **word, struct evbuffer *out)
{
    (void)word;
    memset(r->fault, 0, sizeof(r->fault));
    r->refuse = 0;
    tell_conns(r);
    evbuffer_add_printf(out, "ok\n");
}

static void
do_end(struct route *r, char **word, struct evbuffer *out)
{
    struct list *at, *next;

    list_for_each_safe(at, next, &r->conns) {
        conn_close(container_of(at, struct conn, in_route), strcmp(word[0], "reset") == 0);
    }
    evbuffer_add_printf(out, "ok\n");
}

static void
do_refuse(struct route *r, char **word, struct evbuffer *out)
{
    r->refuse = atol(word[2]);
    evbuffer_add_printf(out, "ok\n");
}

static void
do_stats(struct route *r, char **word, struct evbuffer *out)
{
    struct list *at, *next;
    unsigned open = 0;

    (void)word;
    list_for_each_safe(at, next, &r->conns) {
        open++;
    }
    evbuffer_add_printf(out, "ok open=%u accepted=%llu refused=%llu resets=%llu up=%llu down=%llu", open,
                        (unsigned long long)r->accepted, (unsigned long long)r->refused, (unsigned long long)r->resets,
                        (unsigned long long)r->bytes[UP], (unsigned long long)r->bytes[DOWN]);
    for (int f = 0; f < FAULT_KINDS; f++) {
        evbuffer_add_printf(out, " %s=%llu", FAULT_NAMES[f], (unsigned long long)r->happened[f]);
    }
    evbuffer_add_printf(out, "\n");
}

static const struct {
    const char *name;
    int words;
    void (*run)(struct route *r, char **word, struct evbuffer *out);
} COMMANDS[] = {
    {"target", 3, do_target}, {"set", 5, do_set},       {"clear", 2, do_clear}, {"reset", 2, do_end},
    {"end", 2, do_end},       {"refuse", 3, do_refuse}, {"stats", 2, do_stats},
};

static void
command(struct proxy *x, char *line, struct evbuffer *out)
{
    char *word[8], *save = NULL;
    int n = 0;

    for (char *w = strtok_r(line, " ", &save); w != NULL && n < 8; w = strtok_r(NULL, " ", &save)) {
        word[n++] = w;
    }
    if (n == 4 && strcmp(word[0], "route") == 0) {
        do_route(x, word, out);
        return;
    }
    for (size_t i = 0; i < sizeof(COMMANDS) / sizeof(COMMANDS[0]); i++) {
        if (n == COMMANDS[i].words && strcmp(word[0], COMMANDS[i].name) == 0) {
            struct route *r = find_route(x, word[1]);

            if (r != NULL) {
                COMMANDS[i].run(r, word, out);
            } else {
                evbuffer_add_printf(out, "error no such route\n");
            }
            return;
        }
    }
    evbuffer_add_printf(out, "error no such command\n");
}

static void
on_control(struct bufferevent *bev, void *arg)
{
    struct evbuffer *in = bufferevent_get_input(bev);
    char *line;

    while ((line = evbuffer_readln(in, NULL, EVBUFFER_EOL_CRLF)) != NULL) {
        command(arg, line, bufferevent_get_output(bev));
        free(line);
    }
}

static void
on_control_end(struct bufferevent *bev, short what, void *arg)
{
    struct proxy *x = arg;

    (void)what;
    bufferevent_free(bev);
    event_base_loopbreak(x->base);
}

static void
on_control_accept(evutil_socket_t fd, short what, void *arg)
{
    struct proxy *x = arg;
    int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct bufferevent *bev = client < 0 ? NULL : bufferevent_socket_new(x->base, client, BEV_OPT_CLOSE_ON_FREE);

    (void)what;
    if (bev != NULL) {
        bufferevent_setcb(bev, on_control, NULL, on_control_end, x);
        bufferevent_enable(bev, EV_READ | EV_WRITE);
    }
}

int
main(int argc, char **argv)
{
    struct event_config *config = event_config_new();
    struct proxy x = {.random = (uint64_t)proxy_now_us() | 1};
    struct addr at;
    struct event *ready;
    int fd;

    if (argc != 2 || !addr_parse(&at, argv[1]) || (fd = listen_at(&at)) < 0 || config == NULL) {
        fprintf(stderr, "usage: proxy unix:CONTROL: %s\n", strerror(errno));
        return 64;
    }
    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    x.base = event_base_new_with_config(config);
    event_config_free(config);
    list_init(&x.routes);
    ready = event_new(x.base, fd, EV_READ | EV_PERSIST, on_control_accept, &x);
    event_add(ready, NULL);
    event_base_dispatch(x.base);
    /* The process ends here: the kernel closes all open connections. */
    return 0;
}
