/*
 * push.h -- writes bytes to a socket at once; its bufferevent writes those that the socket does not take.
 */
#ifndef RLOCKD_BACKEND_PUSH_H
#define RLOCKD_BACKEND_PUSH_H

#include <stddef.h>

struct bufferevent;

/*
 * The socket is connected. Bytes leave in the order of the calls. The bufferevent reports errors of the socket in a
 * later turn.
 */
void push_bytes(struct bufferevent *bev, const char *p, size_t n);

#endif
