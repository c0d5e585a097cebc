/*
 * etc.c -- preloaded into rlockd: replaces /etc/hosts and /etc/resolv.conf by the files of the same name in $ETC.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int open(const char *path, int flags, ...);
int open64(const char *path, int flags, ...);

static int
open_ours(const char *name, const char *path, int flags, va_list args)
{
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, name);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
    char ours[4096];

    if (strcmp(path, "/etc/hosts") == 0 || strcmp(path, "/etc/resolv.conf") == 0) {
        snprintf(ours, sizeof(ours), "%s/%s", getenv("ETC"), path + 5);
        path = ours;
    }
    return next(path, flags, mode);
}

int
open(const char *path, int flags, ...)
{
    va_list args;
    int fd;

    va_start(args, flags);
    fd = open_ours("open", path, flags, args);
    va_end(args);
    return fd;
}

int
open64(const char *path, int flags, ...)
{
    va_list args;
    int fd;

    va_start(args, flags);
    fd = open_ours("open64", path, flags, args);
    va_end(args);
    return fd;
}
