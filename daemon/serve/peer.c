/*
 * peer.c -- the process or host at the other end of a session's socket, and whether it is still there.
 *
 * Refuses nothing: what the kernel does not report stays "?" or -1, and a process that cannot be watched stays
 * unwatched. A forked child may have inherited the socket of a process that has ended, and would hold its locks for
 * ever. So the process that connected over a Unix socket is watched by a pidfd, one for all its sessions; also while
 * dead_process is off, because a reload may turn it on when the process has gone and another process has its pid.
 */
#include "daemon/serve/peer.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "daemon/serve/sessions.h"

/*
 * PR1 A process is in engine.processes as long as some session.process points to it. When it ends all its sessions
 *     leave it.
 * PR2 After a reload the TCP sockets before engine.peer_at have the new dead_peer; NULL: all have it. New sockets get
 *     it when they connect.
 * PR3 Watching takes at most an eighth of all descriptors; beyond that only descriptors that limits.sessions does not
 *     need.
 */

enum { SOCKETS_PER_TURN = 256 }; /* sockets that get a reload's dead_peer in one turn: each takes three system calls */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5; not in the headers of Debian 12 */
#endif

struct peer_process {
    struct map_node by_pid; /* engine.processes */
    int pidfd;            /* owned */
    struct event *ev;     /* owned: the process has ended */
    struct list sessions; /* session.process_node */
};

static void
identify_unix_peer(struct session *s)
{
    struct ucred cred;
    socklen_t n = sizeof(cred);

    s->uid = (uid_t)-1;
    s->gid = (gid_t)-1;
    if (getsockopt(s->fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0) {
        s->pid = cred.pid;
        s->uid = cred.uid;
        s->gid = cred.gid;
    }
    snprintf(s->peer, sizeof(s->peer), "unix:pid=%ld,uid=%lu,gid=%lu", (long)s->pid, (unsigned long)s->uid,
             (unsigned long)s->gid);
}

static void
identify_tcp_peer(struct session *s)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } addr;
    socklen_t n = sizeof(addr);
    char host[INET6_ADDRSTRLEN] = "?";

    memset(&addr, 0, sizeof(addr));
    if (getpeername(s->fd, &addr.any, &n) != 0) {
        snprintf(s->peer, sizeof(s->peer), "?");
    } else if (addr.any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&addr.v6.sin6_addr)) {
        inet_ntop(AF_INET, addr.v6.sin6_addr.s6_addr + 12, host, sizeof(host)); /* by a socket for both families */
        snprintf(s->peer, sizeof(s->peer), "%s:%u", host, (unsigned)ntohs(addr.v6.sin6_port));
    } else if (addr.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &addr.v6.sin6_addr, host, sizeof(host));
        snprintf(s->peer, sizeof(s->peer), "[%s]:%u", host, (unsigned)ntohs(addr.v6.sin6_port));
    } else {
        inet_ntop(AF_INET, &addr.v4.sin_addr, host, sizeof(host));
        snprintf(s->peer, sizeof(s->peer), "%s:%u", host, (unsigned)ntohs(addr.v4.sin_port));
    }
}

struct option {
    int level, name, value;
};

/* An option that the kernel refuses is left out. */
static void
set_options(const struct session *s, const struct option *o, size_t n)
{
    for (; n > 0; n--, o++) {
        (void)setsockopt(s->fd, o->level, o->name, &o->value, sizeof(o->value));
    }
}

/* A TCP peer that has vanished is found within dead_peer, or up to a second later: keepalive counts whole seconds. */
static void
set_dead_peer(const struct session *s)
{
    int dead_s = (int)(s->engine->conf->dead_peer_us / US_PER_S);
    int idle_s = dead_s / 2 > 0 ? dead_s / 2 : 1;
    int interval_s = (dead_s - idle_s) / 3 > 0 ? (dead_s - idle_s) / 3 : 1;
    int user_timeout_ms = (int)(s->engine->conf->dead_peer_us / US_PER_MS);
    const struct option options[] = {
        {IPPROTO_TCP, TCP_KEEPIDLE, idle_s},
        {IPPROTO_TCP, TCP_KEEPINTVL, interval_s},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, user_timeout_ms},
    };

    set_options(s, options, sizeof(options) / sizeof(options[0]));
}

static void
watch_tcp_peer(const struct session *s)
{
    static const struct option options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1}, {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPCNT, 3}};

    set_options(s, options, sizeof(options) / sizeof(options[0]));
    set_dead_peer(s);
}

void
peer_identify(struct session *s)
{
    if (s->is_unix) {
        identify_unix_peer(s);
    } else {
        identify_tcp_peer(s);
        watch_tcp_peer(s);
    }
}

/* ---- the process behind a Unix socket ---- */

static bool
has_event(int fd, short what)
{
    struct pollfd p = {.fd = fd, .events = what};

    return poll(&p, 1, 0) > 0 && (p.revents & what) != 0;
}

static void
process_free(struct engine *e, struct peer_process *p)
{
    map_remove(&e->processes, &p->by_pid);
    if (p->ev != NULL) {
        event_free(p->ev);
    }
    close(p->pidfd);
    free(p);
}

static void
leave_process(struct session *s)
{
    struct peer_process *p = s->process;

    if (p == NULL) {
        return;
    }
    s->process = NULL;
    list_remove(&s->process_node);
    if (list_empty(&p->sessions)) {
        process_free(s->engine, p);
    }
}

void
peer_leave(struct session *s)
{
    leave_process(s);
    if (s->engine->peer_at == &s->node) {
        s->engine->peer_at = s->node.next;
    }
}

bool
peer_is_only_session(const struct session *s)
{
    return list_alone(&s->process_node);
}

/* A socket that no process has open reports a hang-up by itself; one that a child inherited does not. */
static void
end_orphan(struct session *s)
{
    if (s->engine->conf->dead_process && !has_event(s->fd, POLLHUP)) {
        session_orphan(s);
    }
}

static void
on_ended(evutil_socket_t fd, short what, void *arg)
{
    struct peer_process *p = arg;
    bool last = false;

    (void)fd;
    (void)what;
    while (!last) {
        struct session *s = container_of(p->sessions.next, struct session, process_node);

        last = s->process_node.next == &p->sessions;
        leave_process(s); /* with the last session `p` is freed */
        s->process_ended = true;
        end_orphan(s);
    }
}

bool
peer_turn(struct engine *e)
{
    for (int n = 0; e->peer_at != NULL && n < SOCKETS_PER_TURN; n++) {
        const struct session *s = container_of(e->peer_at, struct session, node);

        if (e->peer_at == &e->sessions) {
            e->peer_at = NULL;
        } else {
            e->peer_at = e->peer_at->next;
            if (!s->is_unix) {
                set_dead_peer(s);
            }
        }
    }
    return e->peer_at != NULL;
}

void
peer_reload(struct engine *e)
{
    struct list *node, *next;

    list_for_each_safe(node, next, &e->sessions) {
        struct session *s = container_of(node, struct session, node);

        if (s->process_ended) {
            end_orphan(s);
        }
    }
    if (e->dead_peer_us != e->conf->dead_peer_us) {
        e->dead_peer_us = e->conf->dead_peer_us;
        e->peer_at = e->sessions.next;
        (void)peer_turn(e);
    }
}

/* The pidfd of the process that connected, if the kernel keeps it, else of the process that has its pid now. */
static int
open_pidfd(const struct session *s)
{
    int fd = -1;
    socklen_t n = sizeof(fd);

    if (getsockopt(s->fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &n) == 0) {
        return fd;
    }
#ifdef SYS_pidfd_open
    fd = (int)syscall(SYS_pidfd_open, s->pid, 0);
#endif
    return fd;
}

/* Keeps PR3. */
static bool
may_watch(const struct engine *e)
{
    rlim_t used = e->processes.count;
    struct rlimit r;

    return getrlimit(RLIMIT_NOFILE, &r) == 0 &&
           (used < r.rlim_cur / 8 || used + (rlim_t)e->conf->limit_sessions + ENGINE_FILES_BESIDE < r.rlim_cur);
}

static struct peer_process *
process_new(struct session *s)
{
    struct engine *e = s->engine;
    struct peer_process *p = mem_zalloc(sizeof(*p));

    list_init(&p->sessions);
    p->pidfd = open_pidfd(s);
    p->ev = p->pidfd < 0 ? NULL : event_new(e->base, p->pidfd, EV_READ, on_ended, p);
    if (p->ev != NULL && event_add(p->ev, NULL) == 0) {
        map_add(&e->processes, &p->by_pid, (uint64_t)s->pid);
        return p;
    }
    if (p->ev != NULL) {
        event_free(p->ev);
    }
    if (p->pidfd >= 0) {
        close(p->pidfd);
    }
    free(p);
    return NULL;
}

void
peer_watch(struct session *s)
{
    struct engine *e = s->engine;
    struct map_node *n;
    struct peer_process *p;

    if (!s->is_unix || s->pid <= 0) { /* 0: in a pid namespace that this process cannot see */
        return;
    }
    n = map_find(&e->processes, (uint64_t)s->pid);
    p = n != NULL ? container_of(n, struct peer_process, by_pid) : NULL;
    if (p != NULL && has_event(p->pidfd, POLLIN)) {
        return; /* that process has ended, and the new peer has its pid: the new peer stays unwatched */
    }
    if (p == NULL) {
        p = may_watch(e) ? process_new(s) : NULL;
    }
    if (p != NULL) {
        s->process = p;
        list_push_back(&p->sessions, &s->process_node);
    }
}

uint64_t
user_key(const struct session *s)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a;
    unsigned char id[9] = {0};
    socklen_t n = sizeof(a);

    memset(&a, 0, sizeof(a));
    if (s->is_unix) {
        id[0] = 'u';
        memcpy(id + 1, &s->uid, sizeof(s->uid));
    } else if (getpeername(s->fd, &a.any, &n) != 0) {
        id[0] = '?';
    } else if (a.any.sa_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr)) {
        id[0] = '6';
        memcpy(id + 1, &a.v6.sin6_addr, 8);
    } else {
        id[0] = '4';
        memcpy(id + 1, a.any.sa_family == AF_INET6 ? (const void *)(a.v6.sin6_addr.s6_addr + 12) : &a.v4.sin_addr, 4);
    }
    return hash_bytes(&s->engine->hash, id, sizeof(id)) | 1;
}
