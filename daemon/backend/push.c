/*
 * push.c -- one send() in place of what a bufferevent does for a write: asking epoll whether there is room, and one
 * more turn of the loop. The simulator has its own.
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
    if (sent < 0) { /* no room, or an error, which the bufferevent meets as well */
        sent = 0;
    }
    if ((size_t)sent < n) {
        bufferevent_write(bev, p + sent, n - (size_t)sent);
    }
}
