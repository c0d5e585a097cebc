/*
 * push.h -- bytes that leave: at once if the socket takes them, and what it does not take through its bufferevent.
 */
#ifndef RLOCKD_BACKEND_PUSH_H
#define RLOCKD_BACKEND_PUSH_H

#include <stddef.h>

struct bufferevent;

/*
 * On a connected socket. Bytes keep their order, whatever was pushed before. Errors of the socket come by the
 * bufferevent's own event, in a later turn.
 */
void push_bytes(struct bufferevent *bev, const char *p, size_t n);

#endif
