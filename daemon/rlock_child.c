/*
 * rlock_child.c -- the command that rlock runs: its process group and the terminal.
 *
 * Knows nothing of locks. The command leads a process group of its own, so that a signal to the group reaches its
 * children, too. So rlock gives the group the terminal, as a shell does for its jobs: at once if stdin and stdout are
 * the terminal, else (stdout is a file, or a pipe to a pager) when the command was stopped for using the terminal.
 */
#include "daemon/rlock_child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/rlock.h"

/* Puts the group in the foreground. SIGTTOU is blocked meanwhile: rlock itself may be in the background. */
static void
terminal_give(pid_t group)
{
    sigset_t ttou, was;

    sigemptyset(&ttou);
    sigaddset(&ttou, SIGTTOU);
    sigprocmask(SIG_BLOCK, &ttou, &was);
    tcsetpgrp(STDIN_FILENO, group);
    sigprocmask(SIG_SETMASK, &was, NULL);
}

static bool
terminal_is_of(pid_t group)
{
    return tcgetpgrp(STDIN_FILENO) == group;
}

/* Between fork and exec. When exec fails, errno is written to `report`. */
static _Noreturn void
become(char **command, pid_t parent, bool foreground, const sigset_t *mask, int report)
{
    setpgid(0, 0);
    if (foreground) {
        terminal_give(getpid());
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(RLOCK_LOST); /* the parent died before prctl() */
    }
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(command[0], command);
    _exit(write(report, &errno, sizeof(errno)) > 0 ? RLOCK_NO_EXEC : RLOCK_NO_COMMAND);
}

static int
fail(const char *what, int err)
{
    fprintf(stderr, "rlock: %s: %s\n", what, strerror(err));
    return err == ENOENT ? RLOCK_NO_COMMAND : RLOCK_NO_EXEC;
}

int
child_start(struct child *c, char **command, const char *name, int64_t token, const sigset_t *mask)
{
    pid_t self = getpid();
    char number[24];
    int report[2], err = 0;
    ssize_t n;

    snprintf(number, sizeof(number), "%" PRId64, token);
    if (setenv("RLOCK_NAME", name, 1) != 0 || setenv("RLOCK_TOKEN", number, 1) != 0 || pipe2(report, O_CLOEXEC) != 0) {
        return fail(command[0], errno);
    }
    c->terminal = isatty(STDIN_FILENO) && terminal_is_of(getpgrp());
    c->pid = fork();
    if (c->pid == 0) {
        become(command, self, c->terminal && isatty(STDOUT_FILENO), mask, report[1]);
    }
    err = errno;
    close(report[1]);
    if (c->pid < 0) {
        c->pid = 0;
        close(report[0]);
        return fail(command[0], err);
    }
    setpgid(c->pid, c->pid);
    do {
        n = read(report[0], &err, sizeof(err));
    } while (n < 0 && errno == EINTR);
    close(report[0]);
    if (n == (ssize_t)sizeof(err)) {
        waitpid(c->pid, &c->status, 0);
        if (c->terminal && terminal_is_of(c->pid)) {
            terminal_give(getpgrp());
        }
        c->pid = 0;
        return fail(command[0], err);
    }
    return 0;
}

enum child_news
child_poll(struct child *c)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (pid != c->pid) {
            continue; /* one that the command has left behind, see descendants_adopt() */
        }
        if (!WIFSTOPPED(status)) {
            c->status = status;
            if (c->terminal && terminal_is_of(c->pid)) {
                terminal_give(getpgrp());
            }
            return CHILD_ENDED;
        }
        if (!c->terminal) {
            continue;
        }
        if ((WSTOPSIG(status) == SIGTTIN || WSTOPSIG(status) == SIGTTOU) && terminal_is_of(getpgrp())) {
            child_continue(c);
            continue;
        }
        /* the user wants the prompt: the whole job stops, as it would without rlock */
        if (terminal_is_of(c->pid)) {
            terminal_give(getpgrp());
        }
        kill(0, SIGSTOP);
        return CHILD_PAUSED;
    }
    return CHILD_RUNS;
}

void
child_signal(const struct child *c, int sig)
{
    if (c->pid != 0) {
        kill(-c->pid, sig);
    }
}

void
child_continue(const struct child *c)
{
    if (terminal_is_of(getpgrp())) {
        terminal_give(c->pid);
    }
    child_signal(c, SIGCONT);
}
