/*
 * load.h -- the parts of the load generator (load.c).
 *
 * A load is N clients, each with a connection of its own. Each client has P slots; a slot locks and unlocks one name in
 * a closed loop, as one thread of an application would. Slots of a connection are answered in the order of their
 * requests. Clients live in one worker process, or each in its own. Workers share nothing but the memory of `struct
 * board`: the parent sets the window, workers count the pairs that ended inside it.
 *
 * Times are CLOCK_MONOTONIC in nanoseconds. An error ends the process with a line on standard error, since half a
 * result is useless.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- hist.c: a histogram with 128 steps per power of two, so a quantile is at most 0.8 % off ---- */

enum { HIST_STEPS = 128, HIST_BUCKETS = 36 * HIST_STEPS };

struct hist {
    uint64_t n, max;
    uint64_t bucket[HIST_BUCKETS];
};

void hist_add(struct hist *h, uint64_t value);
void hist_merge(struct hist *into, const struct hist *from);
/* The value below which the part q (0 to 1) of all values lies; 0 when there are none. */
uint64_t hist_quantile(const struct hist *h, double q);
/* "NAME": {"n": ..., "p50": ...} in microseconds, no newline. */
void hist_print(const char *name, const struct hist *h);

/* ---- net.c ---- */

/* One RESP value at the head of some bytes. */
struct reply {
    char type;        /* '+' '-' ':' '$' '*' or '_' */
    int64_t number;   /* of ':'; of '$' and '*' the length, -1 for null */
    const char *text; /* the line of '+' '-', the bytes of '$' */
    size_t n;         /* of text */
    char kind;        /* '*': the first byte of the text of its first item, 0 without one */
};

enum { OUT_MAX = 64 * 1024 };

/* A connection. Requests gather in `out` until net_flush. */
struct conn {
    int fd;
    char *in, *out;
    size_t in_n, in_max, out_n, out_at;
    struct client *client;
    bool is_sub; /* the client's connection for SUBSCRIBE */
    bool dirty;  /* is in the worker's list of connections to flush */
};

int64_t now_ns(void);
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void *need(void *p);

/* "unix:PATH" or "tcp:HOST:PORT" (HOST a number); blocking. Waits while a backlog is full. */
int net_connect(const char *where);
void conn_init(struct conn *c, const char *where, struct client *client);
void conn_close(struct conn *c);
void conn_put(struct conn *c, const char *bytes, size_t n);
/* Writes as much as possible; true when nothing is left. */
bool conn_flush(struct conn *c);
/* Reads once; `wait`: waits for input. False when there was nothing to read. */
bool conn_fill(struct conn *c, bool wait);
void conn_took(struct conn *c, size_t n);
/* The length of the value at the head of p, 0 when it is not complete. */
size_t reply_parse(const char *p, size_t n, struct reply *r);
/* Appends a request of RESP bulk strings to out (out_n of max); returns its length. */
size_t request(char *out, size_t max, size_t n, const char *const *words);
/*
 * Sends a request over a blocking descriptor. The answer is malloced, with a 0 after it; *n is its length, if not NULL.
 */
char *net_ask(int fd, size_t n, const char *const *words, size_t *len);

/* ---- proto.c: requests, and the effects of answers ---- */

struct worker;

enum step { IDLE, LOCKING, UNLOCKING, SUBSCRIBING, LISTENING, SLEEPING };

enum { REQUEST_MAX = 512, LATCH_HEX = 32 };

struct slot {
    struct client *client;
    enum step step;
    unsigned hints; /* Redisson's recipe: messages that came during an attempt: that many more attempts */
    int64_t asked, got, again; /* LOCK first sent; granted; sleeps until */
    char *lock, *unlock, *del; /* requests, ready to send */
    size_t lock_n, unlock_n, del_n;
    size_t latch_at, del_latch_at; /* the position of the latch's number in unlock and del */
    char *channel;
    bool subscribed;
};

struct client {
    struct worker *worker;
    struct conn conn, sub;
    struct slot *slot;
    unsigned index, fifo_at, fifo_n, fifo_max;
    struct slot **fifo; /* the slots that wait for answers; NULL: an answer for no slot */
    uint64_t latch;
};

struct proto {
    const char *name;
    bool redis;              /* sends commands to Redis itself */
    const char *lock_script; /* NULL: SET NX PX, or rlockd's commands */
    const char *unlock_script;
    bool latch, del; /* Redisson 4.7: a key per unlock; the library removes it when the answer has come */
};

struct options {
    const struct proto *proto;
    const char *at, *redis, *prefix, *option;
    unsigned clients, pipeline, retry_ms;
    bool processes, hot, inlined;
    /* of all slots of a connection; its LOCKs have NOWAIT: only requests that cannot wait go side by side */
    bool one_owner;
    double seconds, warm;
    const char *cpu[8]; /* LABEL=PID */
    unsigned cpu_n;
    char lock_sha[41], unlock_sha[41];
};

const struct proto *proto_find(const char *name);
void proto_names(char *out, size_t max);
/* Loads the scripts into the Redis at o->at. */
void proto_prepare(struct options *o);
void slot_init(struct slot *s, struct client *c, const struct options *o, unsigned number);
void slot_begin(struct slot *s);
void slot_reply(struct slot *s, const struct reply *r);
/* A message or an acknowledgement on the client's connection for SUBSCRIBE. */
void slot_received(struct slot *s, const struct reply *r);
void slot_wake(struct slot *s);

/* ---- work.c: a worker's loop ---- */

struct result {
    struct hist pair, lock;
    uint64_t requests, pairs; /* from the first to the last, not only in the window */
    uint64_t refused;         /* answers -UNAVAILABLE and -LIMIT; the slot begins again */
    pid_t pid;
};

struct board {
    _Atomic unsigned ready, ended;
    _Atomic int64_t begin, end; /* the window; 0 until it is known */
};

struct worker {
    const struct options *o;
    struct board *board;
    struct result *result;
    uint64_t *counts; /* pairs in the window, from its first client on */
    struct client *clients;
    unsigned n, first, running, sleeping;
    bool alone; /* one connection: blocking reads are enough, as in a program with one lock at a time */
    struct conn **dirty;
    unsigned dirty_n;
    int epoll;
    int64_t begin, end;
};

void worker_send(struct worker *w, struct conn *c, const char *bytes, size_t n);
/* A slot has made a pair. */
void worker_pair(struct worker *w, struct slot *s, int64_t now);
/* The window is over, so this slot stops. */
bool worker_ends(struct worker *w, int64_t now);
_Noreturn void worker_run(struct worker *w, int start);

/* ---- look.c: figures of the machine and of Redis ---- */

/* Processor time of a process in seconds, all its threads. */
double cpu_of(pid_t pid);
long rss_of(pid_t pid); /* KiB resident */

struct redis_counts {
    uint64_t scripts, commands; /* EVAL and the like; all, with those inside scripts */
    double script_us;
};

void redis_counts(int fd, struct redis_counts *out);

/* ---- scale.c: subcommands that hold, wait, idle, or kill a holder ---- */

int scale_main(int argc, char **argv);

#endif
