/*
 * identity.c -- the files `id` and `lock` of the state directory.
 *
 * `id` is text, a word and its value on each line. Every start writes it anew, because the nonce is new: as `id.new`,
 * which replaces `id` when it is on the disk, so a reader always finds a whole file. An `id` that is not understood, or
 * that others might have read, ends the start: a daemon that went on under another name would leave its locks behind.
 */
#include "daemon/serve/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ID_ROOM = 512 };

bool
identity_dir(const char *configured, char dir[IDENTITY_DIR_BYTES])
{
    const char *systemd = getenv("STATE_DIRECTORY");
    const char *from = configured[0] != '\0' || systemd == NULL ? configured : systemd;

    if (strcmp(configured, "none") == 0) {
        return false;
    }
    snprintf(dir, IDENTITY_DIR_BYTES, "%.*s", (int)strcspn(from, from == systemd ? ":" : ""), from);
    return dir[0] != '\0';
}

static bool
draw(void *p, size_t n)
{
    return getrandom(p, n, 0) == (ssize_t)n;
}

/*
 * A version 4 uuid: unique, with 74 random bits. It ends in "rlockd", so that scripts/fair.lua can distinguish owners
 * of daemons from Redisson's clients.
 */
static bool
draw_uuid(char uuid[37])
{
    unsigned char b[16];

    if (!draw(b, sizeof(b))) {
        return false;
    }
    memcpy(b + 10, "rlockd", 6);
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    snprintf(uuid, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3],
             b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return true;
}

static bool
is_uuid(const char *uuid)
{
    for (size_t i = 0; i < 36; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (dash ? uuid[i] != '-' : uuid[i] == '\0' || strchr("0123456789abcdef", uuid[i]) == NULL) {
            return false;
        }
    }
    return strcmp(uuid + 24, "726c6f636b64") == 0;
}

bool
identity_draw(struct identity *id)
{
    *id = (struct identity){.lock = -1, .dir = -1};
    return draw_uuid(id->uuid) && draw(&id->secret, sizeof(id->secret)) &&
           draw(&id->nonces.now, sizeof(id->nonces.now)) && (id->nonces.now |= 1) != 0;
}

/* ---- the file `id` ---- */

static bool
parse(struct identity *id, const char *text)
{
    uint64_t *was = id->nonces.was;
    int end = 0, n;

    n = sscanf(text, "rlockd 1\nid %36s\nsecret %16" SCNx64 "%16" SCNx64 "\nnonces %16" SCNx64 " %16" SCNx64
                     " %16" SCNx64 " %16" SCNx64 "\n%n",
               id->uuid, &id->secret.k0, &id->secret.k1, &was[0], &was[1], &was[2], &was[3], &end);
    return n == 7 && end > 0 && text[end] == '\0' && is_uuid(id->uuid) && was[0] != 0;
}

/* 1: read, 0: there is none, -1: it cannot be used. */
static int
read_id(struct identity *id, char error[160])
{
    char text[ID_ROOM];
    struct stat st;
    ssize_t n;
    int fd = openat(id->dir, "id", O_RDONLY | O_NOFOLLOW | O_CLOEXEC), rc = -1;

    if (fd < 0) {
        snprintf(error, 160, "id: %s", strerror(errno));
        return errno == ENOENT ? 0 : -1;
    }
    n = read(fd, text, sizeof(text) - 1);
    if (n < 0 || fstat(fd, &st) != 0) {
        snprintf(error, 160, "id: %s", strerror(errno));
    } else if (!S_ISREG(st.st_mode) || (st.st_mode & 077) != 0 || st.st_uid != geteuid()) {
        snprintf(error, 160, "id: others may read it (mode %04o, uid %d): it must be the daemon's alone, mode 0600",
                 (unsigned)(st.st_mode & 07777), (int)st.st_uid);
    } else {
        text[n] = '\0';
        rc = parse(id, text) ? 1 : -1;
        snprintf(error, 160, "id: not understood; without it, the locks that it stands for run out by themselves");
    }
    close(fd);
    return rc;
}

static bool
write_id(const struct identity *id)
{
    const uint64_t *was = id->nonces.was;
    int fd = openat(id->dir, "id.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && fchmod(fd, 0600) == 0;

    ok = ok && dprintf(fd, "rlockd 1\nid %s\nsecret %016" PRIx64 "%016" PRIx64 "\nnonces %016" PRIx64 " %016" PRIx64
                           " %016" PRIx64 " %016" PRIx64 "\n",
                       id->uuid, id->secret.k0, id->secret.k1, id->nonces.now, was[0], was[1], was[2]) > 0;
    ok = ok && fsync(fd) == 0;
    if (fd >= 0 && close(fd) != 0) {
        ok = false;
    }
    return ok && renameat(id->dir, "id.new", id->dir, "id") == 0 && fsync(id->dir) == 0;
}

/* ---- the directory ---- */

static bool
open_dir(struct identity *id, const char *dir, char error[160])
{
    struct stat st;

    (void)mkdir(dir, 0700);
    id->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (id->dir < 0 || fstat(id->dir, &st) != 0) {
        snprintf(error, 160, "%s", strerror(errno));
        return false;
    }
    if ((st.st_mode & 022) != 0) {
        snprintf(error, 160, "others may write to it (mode %04o)", (unsigned)(st.st_mode & 07777));
        return false;
    }
    return true;
}

bool
identity_boot(char boot[40])
{
    int fd = open(IDENTITY_BOOT_FILE, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, boot, 39) : -1;
    int why = n < 0 ? errno : ENODATA;

    boot[n > 0 ? n : 0] = '\0';
    boot[strcspn(boot, "\n")] = '\0';
    if (fd >= 0) {
        close(fd);
    }
    errno = why;
    return boot[0] != '\0';
}

/*
 * Whether the process that `lock` names, the last one to lock it, has ended. This process has locked it now, so the
 * last one has ended, unless this directory is a copy, and that process uses the original. If another process has its
 * pid by now, or the boot is not known, the start is only delayed until the daemon's registration in Redis has lapsed.
 */
static bool
has_ended(const char *last, const char *boot)
{
    char at[40] = "";
    long pid = 0;

    if (sscanf(last, "%ld %39s", &pid, at) != 2 || strcmp(at, boot) != 0) {
        return false;
    }
    return pid == (long)getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
}

/* One process at a time. The lock ends with the process, however that ends; pid and boot are for has_ended(). */
static bool
lock_dir(struct identity *id, char error[160])
{
    char last[64] = "", boot[40];
    ssize_t n;

    id->lock = openat(id->dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (id->lock < 0) {
        snprintf(error, 160, "lock: %s", strerror(errno));
        return false;
    }
    if (flock(id->lock, LOCK_EX | LOCK_NB) != 0) {
        n = errno == EWOULDBLOCK ? pread(id->lock, last, sizeof(last) - 1, 0) : 0;
        if (n > 0) {
            snprintf(error, 160, "in use by another rlockd, pid %.*s", (int)strcspn(last, " \n"), last);
        } else {
            snprintf(error, 160, "lock: %s", errno == EWOULDBLOCK ? "in use by another rlockd" : strerror(errno));
        }
        return false;
    }
    (void)identity_boot(boot);
    id->predecessor_ended = pread(id->lock, last, sizeof(last) - 1, 0) > 0 && has_ended(last, boot);
    if (ftruncate(id->lock, 0) != 0 || dprintf(id->lock, "%ld %s\n", (long)getpid(), boot) < 0) {
        snprintf(error, 160, "lock: %s", strerror(errno));
        return false;
    }
    return true;
}

bool
identity_take(struct identity *id, const char *dir, char error[160])
{
    struct identity fresh;
    int had;

    *id = (struct identity){.lock = -1, .dir = -1};
    if (!open_dir(id, dir, error) || !lock_dir(id, error)) {
        goto fail;
    }
    had = read_id(id, error);
    if (had < 0) {
        goto fail;
    }
    if (!identity_draw(&fresh)) {
        snprintf(error, 160, "no random bytes");
        goto fail;
    }
    id->nonces.now = fresh.nonces.now;
    if (had == 0) {
        memcpy(id->uuid, fresh.uuid, sizeof(id->uuid));
        id->secret = fresh.secret;
    }
    if (!write_id(id)) {
        snprintf(error, 160, "id.new: %s", strerror(errno));
        goto fail;
    }
    return true;

fail:
    identity_release(id);
    return false;
}

void
identity_release(struct identity *id)
{
    if (id->lock >= 0) {
        close(id->lock);
    }
    if (id->dir >= 0) {
        close(id->dir);
    }
    id->lock = id->dir = -1;
}
