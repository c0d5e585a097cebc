/*
 * rlock_guard.c -- the process that is started as `rlock run`: it watches the one that does the work.
 *
 * Two processes, so that the command never outlives both of them because one was killed: the inner one (rlock_run.c)
 * holds the lock and is the command's parent; this one is its parent, passes signals on, and does nothing else. Whichever
 * of them is killed, the other one kills all that the command has started, and only then gives the lock back. Until then
 * nobody else has it: the owner's hold outlives its connections (GRACE).
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

/* The inner process was killed, and all that the command has started is dead. */
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

static int
inner_ended(const struct rlock_run *want, int status)
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

/* What the kernel sends to the process group (the terminal's signals), the inner process has got itself. */
static int
watch(const struct rlock_run *want, pid_t inner, const sigset_t *signals)
{
    for (;;) {
        siginfo_t si;
        int sig = sigwaitinfo(signals, &si), status;
        pid_t pid;

        if (sig > 0 && sig != SIGCHLD && si.si_code <= 0) {
            kill(inner, sig);
        }
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid == inner) {
                return inner_ended(want, status);
            }
        }
    }
}

int
rlock_run(const struct rlock_run *asked)
{
    struct rlock_run want = *asked;
    char owner[RLOCK_OWNER_BYTES];
    sigset_t signals, mask;
    pid_t self = getpid(), inner;

    if (!draw_owner(owner)) {
        fprintf(stderr, "rlock: %s: no random bytes\n", want.name);
        return RLOCK_UNREACHABLE;
    }
    want.owner = owner;
    tree_adopt();
    signal(SIGCHLD, SIG_DFL);
    rlock_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, &mask);
    inner = fork();
    if (inner < 0) {
        fprintf(stderr, "rlock: %s: %s\n", want.command[0], strerror(errno));
        return RLOCK_NO_EXEC;
    }
    if (inner == 0) {
        prctl(PR_SET_PDEATHSIG, RLOCK_GUARD_DIED);
        exit(getppid() == self ? rlock_inner(&want, &mask) : RLOCK_LOST);
    }
    return watch(&want, inner, &signals);
}
