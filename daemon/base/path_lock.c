/*
 * path_lock.c -- flock() on a file that may be removed.
 *
 * A lock on a removed file excludes no other process. So after flock() the path must still lead to the locked file;
 * otherwise path_lock_take() tries again with the new file. Only the owner removes the file.
 */
#include "daemon/base/path_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/memory.h"

#define TRIES_MAX 64 /* a try fails if an owner has removed the file between our open() and flock() */

enum taken { TAKEN, AGAIN, FAILED };

static enum taken
fail(int fd, char error[160])
{
    snprintf(error, 160, "%s", strerror(errno));
    if (fd >= 0) {
        close(fd);
    }
    return FAILED;
}

/* Another process has the lock: names its pid, if the file contains one. */
static enum taken
fail_taken(int fd, char error[160])
{
    char text[32] = "";
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    long pid = n > 0 ? strtol(text, NULL, 10) : 0;

    if (pid > 0) {
        snprintf(error, 160, "already running: process %ld has it", pid);
    } else {
        snprintf(error, 160, "already running: another process has it");
    }
    close(fd);
    return FAILED;
}

/* Whether the path still leads to that file. */
static bool
is_at(const char *path, dev_t dev, ino_t ino)
{
    struct stat st;

    return lstat(path, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

static enum taken
try_once(struct path_lock *l, const char *path, char error[160])
{
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct stat st;

    if (fd < 0) {
        return fail(fd, error);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK ? fail_taken(fd, error) : fail(fd, error);
    }
    if (fstat(fd, &st) != 0) {
        return fail(fd, error);
    }
    if (!is_at(path, st.st_dev, st.st_ino)) {
        close(fd);
        return AGAIN;
    }
    l->fd = fd;
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    return TAKEN;
}

bool
path_lock_take(struct path_lock *l, const char *path, char error[160])
{
    enum taken got = AGAIN;

    *l = PATH_LOCK_NONE;
    l->path = mem_text(slice_of(path));
    snprintf(error, 160, "already running: another process has it");
    for (int i = 0; i < TRIES_MAX && got == AGAIN; i++) {
        got = try_once(l, path, error);
    }
    if (got != TAKEN) {
        free(l->path);
        l->path = NULL;
        return false;
    }
    if (ftruncate(l->fd, 0) == 0) {
        (void)dprintf(l->fd, "%ld\n", (long)getpid()); /* on a full disk fail_taken() cannot name the pid */
    }
    return true;
}

void
path_lock_release(struct path_lock *l)
{
    if (l->path == NULL) {
        return;
    }
    if (is_at(l->path, l->dev, l->ino)) {
        (void)unlink(l->path); /* while the lock is held: later the file may be another owner's */
    }
    close(l->fd);
    free(l->path);
    *l = PATH_LOCK_NONE;
}
