/*
 * listener.c -- listening sockets: unix:PATH and tcp:HOST:PORT, or passed by systemd.
 *
 * Owns the sockets and the paths it made; removes only a path that is still its own, or a stale one while it has
 * PATH.lock: a socket between bind() and listen() of its owner looks stale to every other process. When file
 * descriptors run out, a spare one is used to send the client the reason, and the listener accepts nothing for a
 * moment: a full table must not make the loop spin.
 */
#include "daemon/serve/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/memory.h"
#include "daemon/serve/session.h"
#include "daemon/serve/session_record.h"

#define BACKLOG 511
#define ACCEPTS_PER_TURN 64
#define PAUSE_US (100 * 1000)

union address {
    struct sockaddr any;
    struct sockaddr_un un;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
};

struct listener {
    struct engine *engine; /* borrowed */
    struct listener_callbacks callbacks;
    struct listening on;   /* owned, with its fd */
    int spare_fd;          /* owned; -1 = spent */
    struct event *ev;      /* owned: a connection waits */
    struct event *pause;   /* owned: the pause is over */
};

/* ---- sockets ---- */

static int
fail(char error[160], const char *addr, const char *what)
{
    snprintf(error, 160, "%.100s: %s", addr, what);
    return -1;
}

static int
fail_errno(char error[160], const char *addr)
{
    return fail(error, addr, strerror(errno));
}

static bool
unix_address(const char *path, struct sockaddr_un *un)
{
    size_t n = strlen(path);

    memset(un, 0, sizeof(*un));
    un->sun_family = AF_UNIX;
    if (n == 0 || n >= sizeof(un->sun_path)) {
        return false;
    }
    memcpy(un->sun_path, path, n);
    return true;
}

/* 1 = the path is free now, 0 = another process answers there, -1 = errno. */
static int
clear_path(const struct sockaddr_un *un)
{
    struct stat st;
    int fd, res, why;

    if (lstat(un->sun_path, &st) != 0) {
        return errno == ENOENT ? 1 : -1;
    }
    if (!S_ISSOCK(st.st_mode)) {
        errno = EEXIST;
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    res = connect(fd, (const struct sockaddr *)un, sizeof(*un));
    why = errno;
    close(fd);
    if (res == 0 || why == EAGAIN) {
        return 0;
    }
    if (why != ECONNREFUSED && why != ENOENT) {
        errno = why;
        return -1;
    }
    return unlink(un->sun_path) == 0 || errno == ENOENT ? 1 : -1;
}

/*
 * Makes the directory of the path, if only that is missing: /run is empty after a boot. If this fails, path_lock_take()
 * reports it.
 */
static void
make_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];

    if (slash != NULL && slash > path) {
        snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
        (void)mkdir(dir, 0755);
    }
}

/* From now on no other daemon replaces or removes the socket at that path. */
static bool
lock_path(struct path_lock *lock, const char *addr, const char *path, char error[160])
{
    char file[sizeof(((struct sockaddr_un *)0)->sun_path) + 8], why[160];

    make_directory(path);
    snprintf(file, sizeof(file), "%s.lock", path);
    if (path_lock_take(lock, file, why)) {
        return true;
    }
    snprintf(error, 160, "%.60s%s: %.80s", addr, strncmp(why, "already", 7) == 0 ? "" : ".lock", why);
    return false;
}

/* With the path's lock. */
static int
bind_unix(const char *addr, const struct sockaddr_un *un, unsigned mode, char error[160])
{
    mode_t mask;
    int fd, res = clear_path(un);

    if (res <= 0) {
        return res == 0 ? fail(error, addr, "already running: another process answers there") : fail_errno(error, addr);
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return fail_errno(error, addr);
    }
    /* The mask, not a chmod() afterwards: at no moment is the socket more open than it should be. */
    mask = umask(0777 & ~(mode_t)mode);
    res = bind(fd, (const struct sockaddr *)un, sizeof(*un));
    (void)umask(mask);
    if (res != 0 || listen(fd, BACKLOG) != 0) {
        fail_errno(error, addr);
        if (res == 0) {
            (void)unlink(un->sun_path);
        }
        close(fd);
        return -1;
    }
    return fd;
}

static int
listen_unix(const char *addr, const char *path, unsigned mode, struct path_lock *lock, char error[160])
{
    struct sockaddr_un un;
    int fd;

    if (!unix_address(path, &un)) {
        return fail(error, addr, "the path is empty or too long for a Unix socket");
    }
    if (!lock_path(lock, addr, path, error)) {
        return -1;
    }
    fd = bind_unix(addr, &un, mode, error);
    if (fd < 0) {
        path_lock_release(lock);
    }
    return fd;
}

/* `both`: an IPv6 socket takes connections over IPv4, too, whatever the system's default is. */
static int
listen_at(const struct addrinfo *ai, bool both)
{
    int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, ai->ai_protocol);
    int one = 1, zero = 0, why;

    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (both && ai->ai_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    }
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
        return fd;
    }
    why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* Splits "HOST:PORT" or "[HOST]:PORT"; an empty host or "*" means every address. */
static bool
split_host(const char *text, char host[256], char port[16])
{
    const char *colon = strrchr(text, ':');
    size_t n;

    if (colon == NULL || colon[1] == '\0' || strlen(colon + 1) >= 16) {
        return false;
    }
    n = (size_t)(colon - text);
    if (n >= 2 && text[0] == '[' && colon[-1] == ']') {
        text++;
        n -= 2;
    }
    if (n >= 256) {
        return false;
    }
    memcpy(host, text, n);
    host[n] = '\0';
    snprintf(port, 16, "%s", colon + 1);
    return true;
}

/* Listens at the first address of the family that can be bound. -1: errno, which stays as it was without an address. */
static int
listen_in_family(const struct addrinfo *ai, int family, bool both)
{
    int fd = -1;

    for (; ai != NULL && fd < 0; ai = ai->ai_next) {
        if (ai->ai_family == family) {
            fd = listen_at(ai, both);
        }
    }
    return fd;
}

/*
 * "localhost" means 127.0.0.1 to most people, so IPv4 comes first. For every address (an empty host, or "*") there is
 * one IPv6 socket for both families, and an IPv4 socket only on a machine without IPv6: where the port is taken in one
 * family, a socket of the other one would not serve every address.
 */
static int
listen_tcp(const char *addr, const char *text, char error[160])
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *all = NULL;
    char host[256], port[16];
    bool every;
    int fd, why;

    if (!split_host(text, host, port)) {
        return fail(error, addr, "not HOST:PORT");
    }
    every = host[0] == '\0' || strcmp(host, "*") == 0;
    why = getaddrinfo(every ? NULL : host, port, &hints, &all);
    if (why != 0) {
        return fail(error, addr, gai_strerror(why));
    }
    errno = EADDRNOTAVAIL; /* the host has no address of the family */
    fd = listen_in_family(all, every ? AF_INET6 : AF_INET, every);
    if (fd < 0 && (!every || errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
        fd = listen_in_family(all, every ? AF_INET : AF_INET6, every);
    }
    if (fd < 0) {
        fail_errno(error, addr);
    }
    freeaddrinfo(all);
    return fd;
}

static bool
is_loopback(const union address *a)
{
    switch (a->any.sa_family) {
    case AF_INET:
        return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr) && a->v6.sin6_addr.s6_addr[12] == 127);
    default:
        return a->any.sa_family == AF_UNIX;
    }
}

/* Writes where the socket really is. False when it is neither a Unix nor a TCP socket. */
static bool
describe(struct listening *l)
{
    union address a;
    socklen_t n = sizeof(a);
    char host[INET6_ADDRSTRLEN] = "?";

    memset(&a, 0, sizeof(a));
    if (getsockname(l->fd, &a.any, &n) != 0) {
        return false;
    }
    l->is_unix = a.any.sa_family == AF_UNIX;
    l->other_hosts = !is_loopback(&a);
    switch (a.any.sa_family) {
    case AF_UNIX:
        snprintf(l->addr, sizeof(l->addr), "unix:%.*s", (int)sizeof(a.un.sun_path), a.un.sun_path);
        return true;
    case AF_INET:
        inet_ntop(AF_INET, &a.v4.sin_addr, host, sizeof(host));
        snprintf(l->addr, sizeof(l->addr), "tcp:%s:%u", host, (unsigned)ntohs(a.v4.sin_port));
        return true;
    case AF_INET6:
        inet_ntop(AF_INET6, &a.v6.sin6_addr, host, sizeof(host));
        snprintf(l->addr, sizeof(l->addr), "tcp:[%s]:%u", host, (unsigned)ntohs(a.v6.sin6_port));
        return true;
    default:
        return false;
    }
}

bool
listening_open(struct listening *l, const char *addr, unsigned mode, char error[160])
{
    struct stat st;

    memset(l, 0, sizeof(*l));
    l->fd = -1;
    l->lock = PATH_LOCK_NONE;
    if (strncmp(addr, "unix:", 5) == 0) {
        l->fd = listen_unix(addr, addr + 5, mode, &l->lock, error);
    } else if (strncmp(addr, "tcp:", 4) == 0) {
        l->fd = listen_tcp(addr, addr + 4, error);
    } else {
        fail(error, addr, "not unix:PATH or tcp:HOST:PORT");
    }
    if (l->fd < 0) {
        return false;
    }
    if (!describe(l)) {
        listening_close(l);
        fail(error, addr, "has no address");
        return false;
    }
    if (l->is_unix && lstat(addr + 5, &st) == 0) {
        l->path = mem_text(slice_of(addr + 5));
        l->dev = st.st_dev;
        l->ino = st.st_ino;
    }
    return true;
}

bool
listening_adopt(struct listening *l, int fd, char error[160])
{
    int yes = 0;
    socklen_t n = sizeof(yes);

    memset(l, 0, sizeof(*l));
    l->fd = fd;
    l->lock = PATH_LOCK_NONE; /* systemd made the socket: its path must not be replaced */
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &n) != 0 || !yes || !describe(l)) {
        close(fd);
        fail(error, "passed socket", "is not a listening Unix or TCP socket");
        return false;
    }
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return true;
}

/* Removes the path, unless another process has put its own socket there meanwhile, and gives up its lock. */
static void
remove_path(struct listening *l)
{
    struct stat st;

    if (l->path != NULL && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino) {
        (void)unlink(l->path);
    }
    free(l->path);
    l->path = NULL;
    path_lock_release(&l->lock);
}

void
listening_close(struct listening *l)
{
    remove_path(l);
    close(l->fd);
    l->fd = -1;
}

/* ---- accepting ---- */

static void
open_spare(struct listener *l)
{
    if (l->spare_fd < 0) {
        l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
}

/* What an operator can do against an error of accept4(). */
static const char *
remedy_of(int err)
{
    return err == EMFILE   ? "raise LimitNOFILE, or lower limits.sessions"
           : err == ENFILE ? "raise the sysctl fs.file-max"
                           : "free memory of the host";
}

/* No descriptor is left: refuses one client with the spare one, then pauses for a moment. */
static void
refuse_and_pause(struct listener *l)
{
    struct timeval pause = {.tv_sec = 0, .tv_usec = PAUSE_US};
    int why = errno, fd;

    l->engine->metrics.connections_refused++;
    if (l->spare_fd >= 0) {
        close(l->spare_fd);
        l->spare_fd = -1;
        fd = accept4(l->on.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            l->callbacks.refuse(fd);
            close(fd);
        }
        open_spare(l);
    }
    log_event(l->engine->log, LOG_WARN, "listener", "accepts no connections", "address", LOG_S(l->on.addr),
              "for_ms", LOG_N(PAUSE_US / 1000), "error", LOG_S(strerror(why)), "remedy", LOG_S(remedy_of(why)), NULL);
    if (event_add(l->pause, &pause) == 0) { /* else the listener does not pause: nothing would end that */
        event_del(l->ev);
    }
}

static void
on_pause_over(evutil_socket_t fd, short what, void *arg)
{
    struct listener *l = arg;
    struct timeval pause = {.tv_sec = 0, .tv_usec = PAUSE_US};

    (void)fd;
    (void)what;
    open_spare(l);
    if (event_add(l->ev, NULL) != 0 && event_add(l->pause, &pause) != 0) {
        event_active(l->pause, EV_TIMEOUT, 0);
    }
}

static void
on_connect(evutil_socket_t lfd, short what, void *arg)
{
    struct listener *l = arg;
    int i, fd;

    (void)what;
    for (i = 0; i < ACCEPTS_PER_TURN; i++) {
        fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            l->callbacks.connected(l->callbacks.ctx, fd, &l->on);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            refuse_and_pause(l);
            return;
        }
        /* any other error concerns that client alone: see "network errors" in accept(2) */
    }
}

/* ---- life ---- */

struct listener *
listener_start(struct engine *e, struct listening *on, struct listener_callbacks callbacks, char error[160])
{
    struct listener *l = mem_zalloc(sizeof(*l));

    l->engine = e;
    l->callbacks = callbacks;
    l->on = *on;
    l->spare_fd = -1;
    open_spare(l);
    l->ev = event_new(e->base, on->fd, EV_READ | EV_PERSIST, on_connect, l);
    l->pause = event_new(e->base, -1, 0, on_pause_over, l);
    if (event_add(l->ev, NULL) != 0) {
        fail(error, on->addr, strerror(errno));
        listener_close(&l);
        return NULL;
    }
    return l;
}

static void
open_session(void *ctx, int fd, const struct listening *on)
{
    (void)session_open(ctx, fd, on->is_unix, on->addr);
}

static void
refuse_session(int fd)
{
    session_refuse(fd, ERR_MAX_CLIENTS);
}

struct listener *
listener_serve(struct engine *e, struct listening *on, char error[160])
{
    struct listener_callbacks callbacks = {open_session, e, refuse_session};

    return listener_start(e, on, callbacks, error);
}

const char *
listener_addr(const struct listener *l)
{
    return l->on.addr;
}

void
listener_close(struct listener **lp)
{
    struct listener *l = *lp;

    if (l == NULL) {
        return;
    }
    if (l->ev != NULL) {
        event_free(l->ev);
    }
    if (l->pause != NULL) {
        event_free(l->pause);
    }
    listening_close(&l->on);
    if (l->spare_fd >= 0) {
        close(l->spare_fd);
    }
    free(l);
    *lp = NULL;
}
