/*
 * embedded.c -- a private redis-server as a child.
 *
 * The socket of the Redis is replaced and removed only by the process that has locked RUN_DIR/NAME.sock.lock.
 */
#include "daemon/backend/embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "daemon/base/path_lock.h"

#define RESTARTS_MAX 5           /* restarts in a row of a server that ends early */
#define READY_US (2 * US_PER_S)  /* how long a start waits for the server to listen */
#define READY_POLL_MS 5
#define STAYS_US (10 * US_PER_S) /* a server that has run this long did not end early */

struct embedded {
    pid_t pid;
    int64_t started_us;
    unsigned restarts_n; /* in a row after an early end */
    struct path_lock lock;
    char dir[PATH_MAX];
    char name[NAME_MAX];
    char url[PATH_MAX + NAME_MAX + 16];
};

/* Runs in the child. Reports a failure as an errno on the pipe; exec closes the pipe. */
static void
become_redis(const struct embedded *e, pid_t parent, int report)
{
    char socket[PATH_MAX + NAME_MAX + 8], log[PATH_MAX + NAME_MAX + 8], path[PATH_MAX];
    sigset_t none;
    int error;

    snprintf(path, sizeof(path), "%s", e->dir);
    snprintf(socket, sizeof(socket), "%s/%s.sock", e->dir, e->name);
    snprintf(log, sizeof(log), "%s/%s.log", e->dir, e->name);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0); /* a group of its own: a Ctrl-C at the terminal must not end Redis before the last releases */
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

/* Waits until the child has become redis-server. Returns 0, or the errno of its failure. */
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

/* Takes the lock of the socket's path. False with a message: another daemon has its Redis there, or a file error. */
static bool
lock_socket(struct embedded *e, const char *socket, const char *run_dir, char error[160])
{
    char file[PATH_MAX + NAME_MAX + 16], why[160];

    snprintf(file, sizeof(file), "%s.lock", socket);
    if (path_lock_take(&e->lock, file, why)) {
        return true;
    }
    snprintf(error, 160, "run_dir %.60s: %.80s", run_dir, why);
    return false;
}

static bool
prepare(struct embedded *e, const char *run_dir, char error[160])
{
    char socket[PATH_MAX + NAME_MAX + 8];

    if ((mkdir(run_dir, 0700) != 0 && errno != EEXIST) || realpath(run_dir, e->dir) == NULL) {
        snprintf(error, 160, "%.100s: %s", run_dir, strerror(errno));
        return false;
    }
    snprintf(socket, sizeof(socket), "%s/%s.sock", e->dir, e->name);
    if (strlen(socket) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
        snprintf(error, 160, "the path of the run directory is too long for a Unix socket");
        return false;
    }
    if (!lock_socket(e, socket, run_dir, error)) {
        return false;
    }
    unlink(socket); /* left by a Redis that was killed */
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
        become_redis(e, parent, report[1]);
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

static bool
listens(const struct embedded *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool yes;

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", e->url + strlen("unix:"));
    yes = fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return yes;
}

/* Waits, so that the first link connects at once. If the server ends or is slow, the links report it. */
static void
await_ready(const struct embedded *e)
{
    while (!listens(e) && clock_now_us() - e->started_us < READY_US) {
        siginfo_t si = {.si_pid = 0};

        if (waitid(P_PID, (id_t)e->pid, &si, WEXITED | WNOHANG | WNOWAIT) != 0 || si.si_pid != 0) {
            return;
        }
        (void)poll(NULL, 0, READY_POLL_MS);
    }
}

struct embedded *
embedded_start(const char *run_dir, const char *name, char error[160])
{
    struct embedded *e = mem_zalloc(sizeof(*e));

    e->lock = PATH_LOCK_NONE;
    snprintf(e->name, sizeof(e->name), "%s", name);
    if (!prepare(e, run_dir, error) || !launch(e, error)) {
        path_lock_release(&e->lock);
        free(e);
        return NULL;
    }
    await_ready(e);
    return e;
}

bool
embedded_restart(struct embedded *e, char error[160])
{
    if (e->pid > 0 && waitpid(e->pid, NULL, WNOHANG) == 0) {
        return true; /* another child has ended */
    }
    e->pid = -1;
    e->restarts_n = clock_now_us() - e->started_us >= STAYS_US ? 1 : e->restarts_n + 1;
    if (e->restarts_n > RESTARTS_MAX) {
        snprintf(error, 160, "it ends again and again; see %.80s/%.30s.log", e->dir, e->name);
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
    /* Its data need not survive, so it gets no time to save it. */
    if (e->pid > 0) {
        kill(e->pid, SIGKILL);
        while (waitpid(e->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    unlink(e->url + strlen("unix:"));
    path_lock_release(&e->lock);
    free(e);
    *ep = NULL;
}
