/*
 * peek.c -- reading ahead: a request is copied out of the socket, and its bytes stay in the kernel until the reply.
 *
 * Taking bytes out of a Unix socket wakes a process that sleeps at its other end, because there is room again: a
 * process in recv() finds no reply and sleeps again, once for each request, which costs more than the request. A
 * process with one connection most likely sleeps in recv(), so its request is only peeked at, and taken out after the
 * reply was sent, which wakes the process in any case. The price is one more system call. Sessions of processes with
 * several connections (which sleep in epoll, and are not woken), or with several requests under way, are read as usual.
 */
#include "daemon/serve/session_out.h"

#include <errno.h>
#include <sys/socket.h>

#include "daemon/serve/peer.h"

/*
 * PK1 session.peeked bytes at the head of the socket have been read already; at most as many as engine.scratch takes.
 *     Nothing more is read while there are any.
 * PK2 After a hang-up the session is read to the end, so nothing is left in the socket.
 * PK3 Bytes in the socket take the sender's room, and its next bytes may be what its reply waits for. So bytes stay
 *     there only while they are all that was sent, and until the next check (recheck.c), some ms later, at most.
 */

ssize_t
peek_read(struct session *s, char *p, size_t n)
{
    bool peeks = peer_is_only_session(s) && !s->hung_up;
    ssize_t got;

    peek_take(s);
    got = recv(s->fd, p, n, peeks ? MSG_DONTWAIT | MSG_PEEK : MSG_DONTWAIT);
    if (peeks && got > 0) {
        s->peeked = (size_t)got;
    }
    return got;
}

void
peek_take(struct session *s)
{
    while (s->peeked > 0 && !s->closed) {
        ssize_t n = recv(s->fd, s->engine->scratch, s->peeked, MSG_DONTWAIT);

        if (n > 0) {
            s->peeked -= (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            session_close(s, CLOSE_ERROR);
        }
    }
}
