/*
 * path_lock.h -- lock files: one process at a time has the lock of a path.
 *
 * The lock is an flock(), which the kernel drops when the process ends, however it ends: so the file of a killed
 * process excludes no other process. The file contains the owner's pid, for people only.
 */
#ifndef RLOCKD_BASE_PATH_LOCK_H
#define RLOCKD_BASE_PATH_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

struct path_lock {
    int fd;     /* owned; -1 = not taken */
    char *path; /* owned */
    dev_t dev;  /* of the file that is locked */
    ino_t ino;
};

#define PATH_LOCK_NONE ((struct path_lock){.fd = -1})

/*
 * Creates the file if there is none, and locks it. False with a message in `error`. If another process has the lock,
 * the message begins with "already running" and names the pid, if that is known.
 */
bool path_lock_take(struct path_lock *l, const char *path, char error[160]);

/* Removes the file and drops the lock. Does nothing if the lock was not taken. */
void path_lock_release(struct path_lock *l);

#endif
