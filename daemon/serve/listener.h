/*
 * listener.h -- listening sockets: unix:PATH and tcp:HOST:PORT, or passed by systemd.
 */
#ifndef RLOCKD_SERVE_LISTENER_H
#define RLOCKD_SERVE_LISTENER_H

#include "daemon/serve/engine.h"

struct listener;

/*
 * Opens one address ("unix:PATH", "tcp:HOST:PORT", tcp port 0 = any free one); a stale Unix socket is
 * removed only when nobody answers on it. NULL with a message in `error`.
 */
struct listener *listener_open(struct engine *e, const char *addr, char error[160]);

/* Takes a listening fd that systemd passed. */
struct listener *listener_adopt(struct engine *e, int fd, char error[160]);

/* "unix:/run/x.sock" or "tcp:127.0.0.1:5625", with the real port. */
const char *listener_addr(const struct listener *l);

/* Stops accepting; removes the Unix socket's path unless it was adopted. */
void listener_close(struct listener **l);

#endif
