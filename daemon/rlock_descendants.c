/*
 * rlock_descendants.c -- the descendants of a command.
 *
 * A process leaves its process group by setsid(), and a parent-death signal (PDEATHSIG) reaches one generation only. A
 * subreaper becomes the parent of every orphaned descendant: killing all children repeatedly reaches the whole tree.
 */
#include "daemon/rlock_descendants.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/clock.h"

#define POLL_MS 2
#define KILL_US (5 * US_PER_S)

void
descendants_adopt(void)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void
descendants_signal_kill(void)
{
    char path[64];
    FILE *f;
    long pid;

    snprintf(path, sizeof(path), "/proc/self/task/%ld/children", (long)getpid());
    f = fopen(path, "re");
    while (f != NULL && fscanf(f, "%ld", &pid) == 1) {
        kill((pid_t)pid, SIGKILL);
    }
    if (f != NULL) {
        fclose(f);
    }
}

bool
descendants_reap(void)
{
    pid_t pid;

    do {
        pid = waitpid(-1, NULL, WNOHANG);
    } while (pid > 0);
    return pid < 0 && errno == ECHILD; /* pid 0: children are left, errno is an older one */
}

bool
descendants_kill(void)
{
    int64_t deadline_us = clock_now_us() + KILL_US;

    while (!descendants_reap()) {
        if (clock_now_us() >= deadline_us) {
            return false;
        }
        descendants_signal_kill();
        (void)poll(NULL, 0, POLL_MS);
    }
    return true;
}
