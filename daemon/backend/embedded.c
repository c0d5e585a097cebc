/*
 * embedded.c -- a private redis-server as a child.
 */
#include "daemon/backend/embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/clock.h"

#define AGAIN_MAX 5              /* starts in a row of a server that does not stay */
#define STAYS_US (10 * US_PER_S) /* what has run so long stays */

struct embedded {
    pid_t pid;
    int64_t started_us;
    unsigned again; /* starts since one that stayed */
    char dir[PATH_MAX];
    char url[PATH_MAX + 32];
};

/* In the child. What goes wrong is an errno on the pipe; a pipe that closes unwritten means: it runs. */
static void
become_redis(const char *dir, pid_t parent, int report)
{
    char socket[PATH_MAX + 16], log[PATH_MAX + 16], path[PATH_MAX];
    sigset_t none;
    int error;

    snprintf(path, sizeof(path), "%s", dir);
    snprintf(socket, sizeof(socket), "%s/redis.sock", dir);
    snprintf(log, sizeof(log), "%s/redis.log", dir);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0); /* a Ctrl-C at the terminal is the daemon's: Redis must outlive its last releases */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(1); /* the parent has died already */
    }
    execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--save",
           "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--daemonize", "no", "--dir", path,
           "--logfile", log, (char *)NULL);
    error = errno;
    (void)!write(report, &error, sizeof(error));
    _exit(127);
}

/* Waits until the child has become redis-server, or says why it could not. */
static int
await_exec(int report)
{
    int error = 0;
    ssize_t n;

    do {
        n = read(report, &error, sizeof(error));
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(error) ? error : 0;
}

static bool
prepare(struct embedded *e, const char *run_dir, char error[160])
{
    char socket[PATH_MAX + 16];

    if ((mkdir(run_dir, 0700) != 0 && errno != EEXIST) || realpath(run_dir, e->dir) == NULL) {
        snprintf(error, 160, "%.100s: %s", run_dir, strerror(errno));
        return false;
    }
    snprintf(socket, sizeof(socket), "%s/redis.sock", e->dir);
    if (strlen(socket) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
        snprintf(error, 160, "the path of the run directory is too long for a Unix socket");
        return false;
    }
    unlink(socket); /* of one that was killed; the daemon's own socket is what keeps two daemons apart */
    snprintf(e->url, sizeof(e->url), "unix:%s", socket);
    return true;
}

static bool
launch(struct embedded *e, char error[160])
{
    pid_t parent = getpid();
    int report[2], why;

    if (pipe2(report, O_CLOEXEC) != 0) {
        snprintf(error, 160, "pipe: %s", strerror(errno));
        return false;
    }
    e->started_us = clock_now_us();
    e->pid = fork();
    if (e->pid == 0) {
        become_redis(e->dir, parent, report[1]);
    }
    close(report[1]);
    why = e->pid < 0 ? errno : await_exec(report[0]);
    close(report[0]);
    if (why != 0) {
        snprintf(error, 160, "redis-server: %s%s", strerror(why),
                 why == ENOENT ? " (is the package redis-server installed?)" : "");
        if (e->pid > 0) {
            waitpid(e->pid, NULL, 0);
        }
        e->pid = -1;
        return false;
    }
    return true;
}

struct embedded *
embedded_start(const char *run_dir, char error[160])
{
    struct embedded *e = calloc(1, sizeof(*e));

    if (e == NULL) {
        snprintf(error, 160, "out of memory");
        return NULL;
    }
    if (!prepare(e, run_dir, error) || !launch(e, error)) {
        free(e);
        return NULL;
    }
    return e;
}

bool
embedded_again(struct embedded *e, char error[160])
{
    if (e->pid > 0 && waitpid(e->pid, NULL, WNOHANG) == 0) {
        return true; /* it was not ours that ended */
    }
    e->pid = -1;
    e->again = clock_now_us() - e->started_us >= STAYS_US ? 1 : e->again + 1;
    if (e->again > AGAIN_MAX) {
        snprintf(error, 160, "it does not stay; see %.100s/redis.log", e->dir);
        return false;
    }
    unlink(e->url + strlen("unix:"));
    return launch(e, error);
}

const char *
embedded_url(const struct embedded *e)
{
    return e->url;
}

pid_t
embedded_pid(const struct embedded *e)
{
    return e->pid;
}

void
embedded_stop(struct embedded **ep)
{
    struct embedded *e = *ep;

    if (e == NULL) {
        return;
    }
    /* Nothing in it outlives us: no need to ask politely. */
    if (e->pid > 0) {
        kill(e->pid, SIGKILL);
        while (waitpid(e->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    unlink(e->url + strlen("unix:"));
    free(e);
    *ep = NULL;
}
