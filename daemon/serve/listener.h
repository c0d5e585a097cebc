/*
 * listener.h -- listening sockets: unix:PATH and tcp:HOST:PORT, or passed by systemd.
 */
#ifndef RLOCKD_SERVE_LISTENER_H
#define RLOCKD_SERVE_LISTENER_H

#include <sys/types.h>

#include "daemon/base/path_lock.h"
#include "daemon/serve/engine.h"

struct listener;

/* A bound, listening, non-blocking socket. */
struct listening {
    int fd;         /* owned by whoever opened it */
    bool is_unix;
    bool beyond;    /* other hosts may reach it */
    char addr[160]; /* where it really is */
    char *path;     /* owned; the Unix socket's that we made, else NULL */
    dev_t dev;      /* of that path */
    ino_t ino;
    struct path_lock lock; /* owned: PATH.lock, as long as the path is ours */
};

/*
 * Opens one address ("unix:PATH", "tcp:HOST:PORT", tcp port 0 = any free one). A stale Unix socket is replaced only by
 * the process that has locked PATH.lock, and only when nobody answers on it. NULL with a message in `error`.
 */
struct listener *listener_open(struct engine *e, const char *addr, char error[160]);

/* Takes a listening fd that systemd passed. */
struct listener *listener_adopt(struct engine *e, int fd, char error[160]);

/* "unix:/run/x.sock" or "tcp:127.0.0.1:5625", with the real port. */
const char *listener_addr(const struct listener *l);

/* Who is called: gets the accepted fd, and owns it. */
struct listener_owner {
    void (*called)(void *ctx, int fd, const struct listening *on);
    void *ctx;
    const char *full; /* told to who calls when no descriptor is left */
};

/* Calls clients in at what listens; takes that, also when it fails. */
struct listener *listener_serve(struct engine *e, struct listening *on, char error[160]);

/* The same for other callers. */
struct listener *listener_start(struct engine *e, struct listening *on, struct listener_owner owner, char error[160]);

/* Stops accepting; removes the Unix socket's path unless it was adopted. */
void listener_close(struct listener **l);

/* False with a message in `error`; then nothing is left behind. */
bool listening_open(struct listening *l, const char *addr, unsigned mode, char error[160]);

/* Takes the fd, also when it fails. */
bool listening_adopt(struct listening *l, int fd, char error[160]);

/* Stops listening before anybody was called in. */
void listening_close(struct listening *l);

/* Removes the path if it is still ours, and gives its lock up. Does not close the fd. */
void listening_forget(struct listening *l);

#endif
