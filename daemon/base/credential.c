/*
 * credential.c -- secrets in files.
 */
#include "daemon/base/credential.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "credential:"

bool
credential_path(const char *name, char path[PATH_MAX], char why[CREDENTIAL_WHY_ROOM])
{
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    int n;

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) {
        n = snprintf(path, PATH_MAX, "%s", name);
    } else if (directory == NULL || directory[0] == '\0') {
        snprintf(why, CREDENTIAL_WHY_ROOM, "is a credential, and systemd has passed none (LoadCredential=)");
        return false;
    } else if (name[strlen(PREFIX)] == '\0' || name[strlen(PREFIX)] == '.' || strchr(name, '/') != NULL) {
        snprintf(why, CREDENTIAL_WHY_ROOM, "is not the name of a credential");
        return false;
    } else {
        n = snprintf(path, PATH_MAX, "%s/%s", directory, name + strlen(PREFIX));
    }
    if (n >= PATH_MAX) {
        snprintf(why, CREDENTIAL_WHY_ROOM, "cannot be opened: %s", strerror(ENAMETOOLONG));
    }
    return n < PATH_MAX;
}

int
credential_open(const char *name, char why[CREDENTIAL_WHY_ROOM])
{
    char path[PATH_MAX];
    struct stat st;
    int fd;

    if (!credential_path(name, path, why)) {
        return -1;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        snprintf(why, CREDENTIAL_WHY_ROOM, "cannot be opened: %s", strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        snprintf(why, CREDENTIAL_WHY_ROOM, S_ISDIR(st.st_mode) ? "is a directory" : "is not a regular file");
    } else if ((st.st_mode & S_IROTH) != 0) {
        snprintf(why, CREDENTIAL_WHY_ROOM, "may be read by everyone (mode %04o): chmod o-r",
                 (unsigned)st.st_mode & 07777);
    } else {
        return fd;
    }
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}
