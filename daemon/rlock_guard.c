/*
 * rlock_guard.c -- the two processes above the one that does the work: the one that is started as `rlock run`, and the keeper.
 *
 * Three processes in a line: started -> keeper -> inner (rlock_run.c: holds the lock, is the command's parent). Each is a
 * subreaper, and notices when one of the others is killed; those that are left kill all that the command has started, and
 * only then give the lock back. Until then nobody else has it: the owner's hold outlives its connections (GRACE).
 * One SIGKILL must not reach all three: the keeper has a process group of its own (`kill -9 %1`, timeout(1)), and
 * another name in ps (`pkill -9 rlock`, with -f as well). The rest of the job stays in the group of the terminal.
 */
#include "daemon/rlock.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/rlock_client.h"
#include "daemon/rlock_tree.h"

#define UNLOCK_US (1 * US_PER_S)

/* A name that nobody else has, nor can guess: who knows it can unlock. */
static bool
draw_owner(char owner[RLOCK_OWNER_BYTES])
{
    char host[41] = "";
    uint64_t drawn[2];

    if (getrandom(drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn)) {
        return false;
    }
    (void)gethostname(host, sizeof(host) - 1);
    for (char *p = host; *p != '\0'; p++) {
        *p = *p > ' ' && *p < 0x7f ? *p : '-';
    }
    snprintf(owner, RLOCK_OWNER_BYTES, "rlock:%s:%ld:%016" PRIx64 "%016" PRIx64, host, (long)getpid(), drawn[0],
             drawn[1]);
    return true;
}

/* The next process in line was killed, and all that the command has started is dead. */
static void
unlock(const struct rlock_run *want)
{
    struct client c;

    if (client_open(&c, want->at.addr, want->at.password, UNLOCK_US) &&
        client_send(&c, (const char *const[]){"UNLOCK", want->name, "OWNER", want->owner,
                                              want->shared ? "SHARED" : NULL, NULL})) {
        (void)client_wait(&c, UNLOCK_US);
    }
    client_close(&c);
}

/* The next process in line has ended. */
static int
next_ended(const struct rlock_run *want, int status)
{
    if (WIFEXITED(status)) {
        return WEXITSTATUS(status);
    }
    fprintf(stderr, "rlock: %s: rlock was killed, and the command with it\n", want->name);
    if (tree_kill()) {
        unlock(want);
    }
    return RLOCK_SIGNAL + WTERMSIG(status);
}

/*
 * Passes signals on to the next process in line, also RLOCK_GUARD_DIED; but what the kernel sends to the process group (the
 * terminal's signals), the inner process has got itself.
 */
static int
watch(const struct rlock_run *want, pid_t next, const sigset_t *signals)
{
    for (;;) {
        siginfo_t si;
        int sig = sigwaitinfo(signals, &si), status;
        pid_t pid;

        if (sig > 0 && sig != SIGCHLD && si.si_code <= 0) {
            kill(next, sig);
        }
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid == next) {
                return next_ended(want, status);
            }
        }
    }
}

/* A child that is told of our death. As fork(); -1 is said on stderr. */
static pid_t
fork_next(const struct rlock_run *want)
{
    pid_t self = getpid(), next = fork();

    if (next < 0) {
        fprintf(stderr, "rlock: %s: %s\n", want->command[0], strerror(errno));
    }
    if (next == 0) {
        prctl(PR_SET_PDEATHSIG, RLOCK_GUARD_DIED);
        if (getppid() != self) {
            exit(RLOCK_LOST);
        }
    }
    return next;
}

/* What ps shows of the keeper. Writes over the words of the command line: `want` must not point there any more. */
static void
rename_keeper(const struct rlock_run *want, pid_t inner)
{
    (void)prctl(PR_SET_NAME, "lock-keeper");
    memset(want->title, 0, want->title_bytes);
    snprintf(want->title, want->title_bytes, "lock-keeper of %ld", (long)inner);
}

static bool
copy_word(const char **word)
{
    *word = *word != NULL ? strdup(*word) : NULL;
    return *word != NULL;
}

/* Forks the inner process back into the process group `group`, and watches it; returns only in the keeper. */
static int
keep(struct rlock_run *want, pid_t group, const sigset_t *signals, const sigset_t *mask)
{
    /* 0: the group is that of a process outside of our pid namespace, and cannot be joined again. */
    bool apart = group != 0 && setpgid(0, 0) == 0;
    pid_t inner = fork_next(want);

    if (inner < 0) {
        return RLOCK_NO_EXEC;
    }
    if (inner == 0) {
        exit(!apart || setpgid(0, group) == 0 ? rlock_inner(want, mask) : RLOCK_LOST);
    }
    if (copy_word(&want->name) && copy_word(&want->at.addr)) {
        rename_keeper(want, inner);
        return watch(want, inner, signals);
    }
    kill(inner, RLOCK_GUARD_DIED); /* out of memory */
    return RLOCK_LOST;
}

int
rlock_run(const struct rlock_run *asked)
{
    struct rlock_run want = *asked;
    char owner[RLOCK_OWNER_BYTES];
    sigset_t signals, blocked, mask;
    pid_t group = getpgrp(), keeper;

    if (!draw_owner(owner)) {
        fprintf(stderr, "rlock: %s: no random bytes\n", want.name);
        return RLOCK_UNREACHABLE;
    }
    want.owner = owner;
    tree_adopt();
    signal(SIGCHLD, SIG_DFL);
    rlock_signals(&signals);
    /* Under `stty tostop` a message from the background would stop us with the work undone; blocked, it is written. */
    blocked = signals;
    sigaddset(&blocked, SIGTTOU);
    sigprocmask(SIG_BLOCK, &blocked, &mask);
    keeper = fork_next(&want);
    if (keeper < 0) {
        return RLOCK_NO_EXEC;
    }
    if (keeper == 0) {
        tree_adopt();
        exit(keep(&want, group, &signals, &mask));
    }
    return watch(&want, keeper, &signals);
}
