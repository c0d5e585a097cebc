/*
 * rlock_guard.c -- the two outer processes of `rlock run`: the guard, which the user starts, and the keeper.
 *
 * guard -> keeper -> inner (rlock_run.c: the owner of the lock, and the command's parent). Each is a subreaper; each
 * learns of the death of the one before it (PDEATHSIG) and of the next one (SIGCHLD). After a SIGKILL of one or two of
 * them, or where one got no memory, the rest kills the command's whole process tree, and only then unlocks; until then
 * the lock stays with its owner (GRACE). No single kill may reach all three: the keeper has a process group of its own
 * (`kill -9 %1`, timeout(1)) and another name and command line (`pkill -9 rlock`, `pkill -9 -f rlock`). Guard and inner
 * stay in the terminal's group.
 */
#include "daemon/rlock.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "daemon/rlock_client.h"
#include "daemon/rlock_descendants.h"

#define UNLOCK_US (1 * US_PER_S)

/* A unique owner id that cannot be guessed: with the id any client can unlock. */
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

/* The next process was killed, and the command's process tree is dead. */
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

/* The next process (keeper or inner) has ended. */
static int
next_ended(const struct rlock_run *want, int status)
{
    bool no_memory = WIFEXITED(status) && WEXITSTATUS(status) == RLOCK_NO_MEMORY && !*want->inner_returned;

    if (WIFEXITED(status) && !no_memory) {
        return WEXITSTATUS(status);
    }
    fprintf(stderr, "rlock: %s: %s\n", want->name, no_memory ? "out of memory: rlock has killed the command"
                                                             : "rlock was killed, and the command with it");
    *want->inner_returned = true; /* the guard has nothing to do when the keeper returns */
    if (descendants_kill()) {
        unlock(want);
    }
    return no_memory ? RLOCK_NO_MEMORY : RLOCK_SIGNAL + WTERMSIG(status);
}

/* Relays signals to the next process, RLOCK_GUARD_DIED included. */
static int
watch(const struct rlock_run *want, pid_t next, const sigset_t *signals)
{
    for (;;) {
        int sig = sigwaitinfo(signals, NULL), status;
        pid_t pid;

        if (sig > 0 && sig != SIGCHLD) {
            kill(next, sig < SIGRTMIN ? RLOCK_RELAYED(sig) : sig);
        }
        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid == next) {
                return next_ended(want, status);
            }
        }
    }
}

/* fork() with a parent-death signal for the child; -1 is reported on stderr. */
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

/* Overwrites the command line, as setproctitle() does: `want` must not point there any more. */
static void
rename_keeper(const struct rlock_run *want, pid_t inner)
{
    (void)prctl(PR_SET_NAME, "lock-keeper");
    memset(want->title, 0, want->title_bytes);
    snprintf(want->title, want->title_bytes, "lock-keeper of %ld", (long)inner);
}

/* The keeper: leaves the process group, forks the inner process (which joins `group` again) and watches it. */
static int
keep(struct rlock_run *want, pid_t group, const sigset_t *signals, const sigset_t *mask)
{
    /* group 0: its leader is outside of this pid namespace, so the group could not be joined again */
    bool apart = group != 0 && setpgid(0, 0) == 0;
    pid_t inner;

    want->name = mem_text(slice_of(want->name)); /* see rename_keeper() */
    want->at.addr = mem_text(slice_of(want->at.addr));
    inner = fork_next(want);
    if (inner < 0) {
        return RLOCK_NO_EXEC;
    }
    if (inner == 0) {
        int status = !apart || setpgid(0, group) == 0 ? rlock_inner(want, mask) : RLOCK_LOST;

        *want->inner_returned = true;
        exit(status);
    }
    rename_keeper(want, inner);
    return watch(want, inner, signals);
}

int
rlock_run(const struct rlock_run *asked)
{
    struct rlock_run want = *asked;
    char owner[RLOCK_OWNER_BYTES];
    sigset_t users, relayed, blocked, mask;
    pid_t group = getpgrp(), keeper;

    if (!draw_owner(owner)) {
        fprintf(stderr, "rlock: %s: no random bytes\n", want.name);
        return RLOCK_UNREACHABLE;
    }
    want.owner = owner;
    want.inner_returned = mmap(NULL, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (want.inner_returned == MAP_FAILED) {
        mem_exhausted(sizeof(bool));
    }
    descendants_adopt();
    signal(SIGCHLD, SIG_DFL);
    rlock_signals(&users, &relayed);
    /* under `stty tostop` a message from the background would stop the process; with SIGTTOU blocked it is written */
    sigorset(&blocked, &users, &relayed);
    sigaddset(&blocked, SIGTTOU);
    sigprocmask(SIG_BLOCK, &blocked, &mask);
    keeper = fork_next(&want);
    if (keeper < 0) {
        return RLOCK_NO_EXEC;
    }
    if (keeper == 0) {
        descendants_adopt();
        exit(keep(&want, group, &relayed, &mask));
    }
    return watch(&want, keeper, &users);
}
