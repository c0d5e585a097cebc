/*
 * peer.c -- who is at the other end of a session's socket, and whether it is still there.
 *
 * Refuses nothing: what the kernel does not tell stays "?" or -1.
 */
#include "daemon/serve/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/clock.h"

static void
know_unix_peer(struct session *s)
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
know_tcp_peer(struct session *s)
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
    } else if (addr.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &addr.v6.sin6_addr, host, sizeof(host));
        snprintf(s->peer, sizeof(s->peer), "[%s]:%u", host, (unsigned)ntohs(addr.v6.sin6_port));
    } else {
        inet_ntop(AF_INET, &addr.v4.sin_addr, host, sizeof(host));
        snprintf(s->peer, sizeof(s->peer), "%s:%u", host, (unsigned)ntohs(addr.v4.sin_port));
    }
}

/* A TCP peer that has vanished is found within dead_peer. What the kernel refuses here costs only that. */
static void
watch_tcp_peer(const struct session *s)
{
    int dead_s = (int)(s->engine->conf->dead_peer_us / US_PER_S);
    int idle_s = dead_s / 2 > 0 ? dead_s / 2 : 1;
    int interval_s = (dead_s - idle_s) / 3 > 0 ? (dead_s - idle_s) / 3 : 1;
    int user_timeout_ms = (int)(s->engine->conf->dead_peer_us / US_PER_MS);
    const struct {
        int level, name, value;
    } opts[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},           {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, idle_s},     {IPPROTO_TCP, TCP_KEEPINTVL, interval_s},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},           {IPPROTO_TCP, TCP_USER_TIMEOUT, user_timeout_ms},
    };
    size_t i;

    for (i = 0; i < sizeof(opts) / sizeof(opts[0]); i++) {
        (void)setsockopt(s->fd, opts[i].level, opts[i].name, &opts[i].value, sizeof(opts[i].value));
    }
}

void
peer_know(struct session *s)
{
    if (s->is_unix) {
        know_unix_peer(s);
    } else {
        know_tcp_peer(s);
        watch_tcp_peer(s);
    }
}
