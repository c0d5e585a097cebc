/*
 * session.h -- a client's connection to rlockd, and the history of its requests and answers.
 *
 * A line of a history is written in one write(2), so that it is whole even when the client is killed right after it:
 *   TIME PROCESS inv ID OP NAME key=value ...      a request: LOCK AGAIN CHECK RENEW UNLOCK
 *   TIME PROCESS ret ID OK|FAIL|INFO key=value ... its answer; INFO: it is unknown whether the request was done
 *   TIME PROCESS queued ID                         the request was seen in the daemon's queue
 *   TIME PROCESS lost NAME TOKEN                   the event that the daemon sends to its subscribers
 *   TIME PROCESS close                             the connection has ended, or ends now; a PROCESS is one connection
 * TIME is CLOCK_MONOTONIC in us.
 */
#ifndef RLOCKD_CHAOS_SESSION_H
#define RLOCKD_CHAOS_SESSION_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/rng.h"

enum outcome { DONE, REFUSED, UNKNOWN };

/* One reply: its numbers and strings in a row, at any depth of nesting. */
struct answer {
    char type;    /* of the first byte; 0: the connection ended or the time was over */
    long long n;  /* of an integer, or the number of elements of an aggregate */
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
 * A pause that is part of a client's work: it holds the lock, pauses between rounds, or asks again a little later.
 * Shorter when TERM has come. To wait for an event, a client polls instead, see session_read().
 */
void sleep_us(int64_t us);
void say(struct client *c, const char *proc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* unix:PATH or tcp:ADDRESS:PORT; -1 when no process listens there. */
int dial(const char *address);
bool session_open(struct client *c, struct session *s);
void session_close(struct client *c, struct session *s);
bool session_send(struct session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* One reply, waited for until `until_us`. False: none; the session should be closed. */
bool session_read(struct session *s, struct answer *a, int64_t until_us);

/* The number after a key of a map; -1: the key is missing. */
long long answer_field(const struct answer *a, const char *key);
enum outcome answer_outcome(const struct answer *a);

extern volatile sig_atomic_t stopping; /* TERM has come */

void fifo_run(struct client *c);

#endif
