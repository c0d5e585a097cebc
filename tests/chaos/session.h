/*
 * session.h -- a client's connection to rlockd, and the history of what it has asked and heard.
 *
 * A line of a history is written in one write(2), so that it is whole even when the client is killed behind it:
 *   TIME PROCESS inv ID OP NAME key=value ...     asked: LOCK AGAIN CHECK RENEW UNLOCK
 *   TIME PROCESS ret ID OK|FAIL|INFO key=value ... heard; INFO: nobody knows whether it was done
 *   TIME PROCESS queued ID                        the daemon was seen to have it in the queue
 *   TIME PROCESS lost NAME TOKEN                  the daemon tells everybody who listens
 *   TIME PROCESS close                            the connection has ended, or ends now
 * TIME is CLOCK_MONOTONIC in us; a PROCESS is one connection.
 */
#ifndef RLOCKD_CHAOS_SESSION_H
#define RLOCKD_CHAOS_SESSION_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/rng.h"

enum outcome { DONE, REFUSED, UNKNOWN };

/* One value that was read: numbers and strings in a row, whatever they were nested in. */
struct answer {
    char type;    /* of the first byte; 0: the connection ended or the time was over */
    long long n;  /* of an integer, or the elements of an aggregate */
    int items;
    char item[40][48];
};

struct session {
    char proc[48];
    int fd;     /* -1: closed */
    size_t have;
    char buf[16384];
};

struct options {
    const char *id, *tag, *daemon, *history, *resource, *mode, *names;
    long seed, wait, lease, watchdog, pause, named, think;
};

struct client {
    struct options o;
    struct rng rng;
    int history, resource;
    unsigned conns, ops;
};

int64_t now_us(void);
/*
 * A pause that is part of what a client does: it holds, it thinks, or it asks again a little later. Shorter when TERM
 * has come. Nothing is waited for in this way: what can be heard is polled for, see session_read().
 */
void sleep_us(int64_t us);
void say(struct client *c, const char *proc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* unix:PATH or tcp:ADDRESS:PORT; -1 when nobody is there. */
int dial(const char *address);
bool session_open(struct client *c, struct session *s);
void session_close(struct client *c, struct session *s);
bool session_send(struct session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* One reply, waited for until `until_us`. False: none; the session should be closed. */
bool session_read(struct session *s, struct answer *a, int64_t until_us);

/* The number behind a key of a map; -1: it is not there. */
long long answer_field(const struct answer *a, const char *key);
enum outcome answer_outcome(const struct answer *a);

extern volatile sig_atomic_t stopping; /* TERM has come */

void fifo_run(struct client *c);

#endif
