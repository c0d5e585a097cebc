/*
 * path_lock.h -- a lock file: one process at a time owns what it stands for.
 *
 * The lock is an flock(): the kernel drops it when the process ends, however it ends, so the file of a killed process
 * locks no other one out. The file contains the owner's pid, for people only.
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
 * Makes the file when there is none, and locks it for this process. False with a message in `error`; the message for a
 * lock that is taken begins with "already running" and names the pid, where that is known.
 */
bool path_lock_take(struct path_lock *l, const char *path, char error[160]);

/* Removes the file and gives the lock up. Nothing happens where none was taken. */
void path_lock_release(struct path_lock *l);

#endif
