/*
 * peek.c -- what a session has heard already, and what is still in its socket.
 *
 * Who takes bytes out of a Unix socket wakes who sleeps at its other end, for there is room again. The kernel does not
 * ask what it sleeps for: in recv() it waits for the answer, finds none, and sleeps again, once for each request. That
 * costs more than the request, and the wait of others for a processor. A process with one connection most likely sleeps
 * there, so what it says is only looked at, and is taken out of the socket behind the answer, which wakes it in any
 * case. One more system call is the price: a process that has many connections waits for them with epoll, which is not
 * woken for that, and would only pay; and so would one that has asked for more than one thing.
 *
 * I1  session.unread bytes at the head of the socket have been heard; they are fewer than engine.scratch takes, or as
 *     many. Nothing is heard while there are any.
 * I2  Who has hung up is heard to the end, so nothing of it is left in the socket.
 * I3  What is in the socket takes the sender's room, and what he says next may be what its answer waits for. So it
 *     stays there only when it is all that he has asked, and until the next look (recheck.c), some ms later, at most.
 */
#include "daemon/serve/peek.h"

#include <errno.h>
#include <sys/socket.h>

#include "daemon/serve/peer.h"

ssize_t
peek_read(struct session *s, char *p, size_t n)
{
    bool looks = peer_is_alone(s) && !s->hangup;
    ssize_t got;

    peek_take(s);
    got = recv(s->fd, p, n, looks ? MSG_DONTWAIT | MSG_PEEK : MSG_DONTWAIT);
    if (looks && got > 0) {
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
