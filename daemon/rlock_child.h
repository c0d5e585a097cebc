/*
 * rlock_child.h -- the command that rlock runs: its process group and the terminal.
 */
#ifndef RLOCKD_RLOCK_CHILD_H
#define RLOCKD_RLOCK_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct child {
    pid_t pid;     /* and its process group; 0 = none */
    int status;    /* waitpid's, once it has ended */
    bool terminal; /* stdin is a terminal, and we came up in its foreground */
};

enum child_news {
    CHILD_RUNS,
    CHILD_PAUSED, /* it was stopped, and we with it, until we got CONT; it goes on by child_go_on() */
    CHILD_ENDED,
};

/*
 * Starts the command in a process group of its own, with the signal mask `mask` and RLOCK_NAME and RLOCK_TOKEN in its
 * environment; it dies with us. 0 = it runs, else what rlock ends with (with an error on stderr).
 */
int child_start(struct child *c, char **command, const char *name, int64_t token, const sigset_t *mask);

/* News of the child, by waitpid(). */
enum child_news child_poll(struct child *c);

/* To its whole process group. */
void child_signal(const struct child *c, int sig);

/* After CHILD_PAUSED: gives the terminal back to it when it is ours to give, and lets it run. */
void child_go_on(const struct child *c);

#endif
