/*
 * listener.h -- listening sockets: unix:PATH and tcp:HOST:PORT, or passed by systemd.
 */
#ifndef RLOCKD_SERVE_LISTENER_H
#define RLOCKD_SERVE_LISTENER_H

#include <sys/types.h>

#include "daemon/base/path_lock.h"
#include "daemon/serve/engine_record.h"

struct listener;

/* A bound, listening, non-blocking socket. */
struct listening {
    int fd;         /* owned by its opener */
    bool is_unix;
    bool other_hosts; /* other hosts may reach it, too */
    char addr[160]; /* where it really is */
    char *path;     /* owned; of a Unix socket that this process made, else NULL */
    dev_t dev;      /* of that path */
    ino_t ino;
    struct path_lock lock; /* owned: PATH.lock, as long as the path belongs to this process */
};

/* "unix:/run/x.sock" or "tcp:127.0.0.1:5625", with the real port. */
const char *listener_addr(const struct listener *l);

/* Receives connections: `connected` gets the accepted fd, and owns it. */
struct listener_callbacks {
    void (*connected)(void *ctx, int fd, const struct listening *on);
    void *ctx;
    void (*refuse)(int fd); /* no descriptor is left for this client: sends that; the listener closes the fd */
};

/* Accepts clients at a listening socket (taken over, also on failure). NULL with a message in `error`. */
struct listener *listener_serve(struct engine *e, struct listening *on, char error[160]);

/* The same, with another receiver of the connections. */
struct listener *listener_start(struct engine *e, struct listening *on, struct listener_callbacks callbacks,
                                char error[160]);

/* Stops accepting; removes the Unix socket's path unless it was adopted. */
void listener_close(struct listener **l);

/*
 * Opens one address ("unix:PATH", "tcp:HOST:PORT", tcp port 0 = any free one). A stale Unix socket is replaced only by
 * the process that has locked PATH.lock, and only when no process answers on it. False with a message in `error`; then
 * nothing is left behind.
 */
bool listening_open(struct listening *l, const char *addr, unsigned mode, char error[160]);

/* Takes over a listening fd that systemd passed, also on failure. */
bool listening_adopt(struct listening *l, int fd, char error[160]);

/* Stops listening, where no listener was made of it. */
void listening_close(struct listening *l);

#endif
