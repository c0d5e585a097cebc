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
    bool terminal; /* stdin is a terminal, and rlock was started in its foreground */
};

enum child_news {
    CHILD_RUNS,
    CHILD_PAUSED, /* the command was stopped, and rlock with it until CONT; child_continue() is to be called now */
    CHILD_ENDED,
};

/*
 * Starts the command in a process group of its own, with the signal mask `mask` and RLOCK_NAME and RLOCK_TOKEN in its
 * environment; the kernel kills it when this process dies. 0 = it runs, else the exit status of rlock (with an error on
 * stderr).
 */
int child_start(struct child *c, char **command, const char *name, int64_t token, const sigset_t *mask);

/* News of the child, by waitpid(). */
enum child_news child_poll(struct child *c);

/* Sends the signal to the command's whole process group. */
void child_signal(const struct child *c, int sig);

/* After CHILD_PAUSED: gives the terminal to the command, if rlock has it, and continues the command. */
void child_continue(const struct child *c);

#endif
