/*
 * push.c -- one send() instead of a bufferevent's write, which takes a call of epoll and another turn of the loop. The
 * simulator replaces this file.
 */
#include "daemon/backend/push.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <sys/socket.h>

void
push_bytes(struct bufferevent *bev, const char *p, size_t n)
{
    ssize_t sent = -1;

    if (evbuffer_get_length(bufferevent_get_output(bev)) == 0) {
        sent = send(bufferevent_getfd(bev), p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (sent < 0) { /* no room, or an error, which the bufferevent's write meets as well */
        sent = 0;
    }
    if ((size_t)sent < n) {
        bufferevent_write(bev, p + sent, n - (size_t)sent);
    }
}
