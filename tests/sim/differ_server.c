/*
 * differ_server.c -- a redis-server for the test: private directory, Unix socket, the test's clock; it ends with the
 * test.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/differ.h"

static void __attribute__((noreturn))
give_up(const char *why)
{
    fprintf(stderr, "differ: %s\n", why);
    exit(2);
}

static void
make_clock(struct server *s, int64_t now_us)
{
    int fd = open(s->clock, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    void *p;

    if (fd < 0 || ftruncate(fd, sizeof(*s->now_us)) != 0) {
        give_up("no clock");
    }
    p = mmap(NULL, sizeof(*s->now_us), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED) {
        give_up("no clock");
    }
    s->now_us = p;
    *s->now_us = now_us;
}

static void __attribute__((noreturn))
become_redis(const struct server *s, const char *preload, pid_t parent)
{
    int null = open("/dev/null", O_RDWR);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(98);
    }
    dup2(null, 0);
    dup2(null, 1);
    setenv("RLOCKD_SIM_CLOCK", s->clock, 1);
    setenv("LD_PRELOAD", preload, 1);
    execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", s->sock, "--save", "", "--appendonly", "no",
           "--dir", s->dir, "--enable-debug-command", "yes", "--maxmemory-policy", "noeviction", "--loglevel",
           "warning", (char *)NULL);
    _exit(97);
}

/* A connection; NULL while the server does not listen. */
static redisContext *
dial(const struct server *s)
{
    struct timeval patience = {.tv_sec = 30};
    redisContext *c = redisConnectUnixWithTimeout(s->sock, patience);

    if (c == NULL || c->err != 0) {
        if (c != NULL) {
            redisFree(c);
        }
        return NULL;
    }
    redisSetTimeout(c, patience);
    redisReaderFree(c->reader);
    c->reader = reply_reader_new(NULL);
    if (c->reader == NULL) {
        give_up("out of memory");
    }
    return c;
}

struct reply *
server_read(redisContext *c)
{
    void *r = NULL;

    if (redisGetReply(c, &r) != REDIS_OK) {
        give_up(c->errstr);
    }
    return r;
}

void
server_append(redisContext *c, int words, const struct slice *word)
{
    const char *p[LINK_WORDS_MAX];
    size_t n[LINK_WORDS_MAX];

    for (int i = 0; i < words; i++) {
        p[i] = word[i].p;
        n[i] = word[i].n;
    }
    if (redisAppendCommandArgv(c, words, p, n) != REDIS_OK) {
        give_up(c->errstr);
    }
}

struct reply *
server_ask(redisContext *c, int words, const struct slice *word)
{
    server_append(c, words, word);
    return server_read(c);
}

void
server_start(struct server *s, const char *preload, int64_t now_us)
{
    const struct slice lazy[] = {SLICE_LIT("DEBUG"), SLICE_LIT("SET-ACTIVE-EXPIRE"), SLICE_LIT("0")};
    pid_t parent = getpid();
    struct reply *r;

    *s = (struct server){.dir = "/tmp/rlockd-differ-XXXXXX"};
    if (mkdtemp(s->dir) == NULL) {
        give_up("no directory");
    }
    snprintf(s->sock, sizeof(s->sock), "%s/redis.sock", s->dir);
    snprintf(s->clock, sizeof(s->clock), "%s/clock", s->dir);
    make_clock(s, now_us);
    s->pid = fork();
    if (s->pid < 0) {
        give_up("no process");
    } else if (s->pid == 0) {
        become_redis(s, preload, parent);
    }
    for (int i = 0; (s->to = dial(s)) == NULL; i++) { /* only its socket shows that it is there */
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid || i == 10000) {
            give_up("redis-server does not start");
        }
        usleep(1000);
    }
    s->subscriber = dial(s);
    if (s->subscriber == NULL) {
        give_up("no second connection");
    }
    /* expired keys are deleted by the next access, and not before: as in the simulated one */
    r = server_ask(s->to, 3, lazy);
    if (r->type != REPLY_STATUS) {
        give_up("no DEBUG");
    }
    reply_free(r);
}

void
server_stop(struct server *s)
{
    redisFree(s->to);
    redisFree(s->subscriber);
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
    munmap((void *)(uintptr_t)s->now_us, sizeof(*s->now_us));
    unlink(s->sock);
    unlink(s->clock);
    rmdir(s->dir);
}
