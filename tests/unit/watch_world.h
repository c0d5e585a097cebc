/*
 * watch_world.h -- redis_world.h, and what the tests of watches and broadcasts share: watching, waiting for events,
 * users of Redis with few rights, and counting lines of the log.
 */
#ifndef RLOCKD_TESTS_WATCH_WORLD_H
#define RLOCKD_TESTS_WATCH_WORLD_H

#include <sys/mman.h>

#include "redis_world.h"

struct awaited {
    enum core_event_type type;
    uint64_t lock;
    size_t n;
};

static inline bool
is_posted(const void *arg)
{
    const struct awaited *a = arg;

    return count_events(a->type, a->lock) >= a->n;
}

/* Waits until there were n such events since the beginning. */
#define must_post(type, lock, n) turn_until(is_posted, (&(struct awaited){type, lock, n}))

#define watchings(lock) count_events(CORE_SUBSCRIBED, lock)
#define hints(lock) count_events(CORE_HINT, lock)

static inline void
watch_op(const struct core_op *op, enum core_action_type verb)
{
    perform(op, verb);
    flush();
}

/* Asks Redis until this is its reply, while the loop turns. */
static inline void
redis_until(const char *want, const char *fmt, const char *arg)
{
    for (int n = 0; strcmp(redis(fmt, arg), want) != 0; n++) {
        ck_assert_msg(n < 100000, "%s %s is not %s", fmt, arg, want);
        event_base_loop(w.base, EVLOOP_NONBLOCK);
        flush();
    }
}

static inline void
listeners_until(const char *channel, int n)
{
    char want[256];

    snprintf(want, sizeof(want), "%s %d ", channel, n);
    redis_until(want, "PUBSUB NUMSUB %s", channel);
}

/* The log goes into memory from here on. */
static inline void
log_keep(void)
{
    w.log.fd = memfd_create("log", MFD_CLOEXEC);
    ck_assert_int_ge(w.log.fd, 0);
}

/* How often the log has this text. */
static inline int
log_count(const char *text)
{
    static char all[1 << 20];
    ssize_t n = pread(w.log.fd, all, sizeof(all) - 1, 0);
    int count = 0;

    ck_assert_int_ge(n, 0);
    all[n] = '\0';
    for (const char *at = all; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

/* The backend logs in as a user with these rules, and comes up. */
static inline void
up_as(const char *rules)
{
    char command[256];

    snprintf(command, sizeof(command), "ACL SETUSER locks on >pass ~* &* +@all %s", rules);
    ck_assert_str_eq(redis(command), "OK");
    w.conf.user = "locks";
    w.conf.password = "pass";
    log_keep();
    open_up();
}

/* The id that Redis has given to a link without subscriptions. */
static inline long long
some_link(void)
{
    const char *list = redis("CLIENT LIST TYPE normal"), *at = strstr(list, " name=rlockd");

    while (at > list && at[-1] != '\n') {
        at--;
    }
    ck_assert(strncmp(at, "id=", 3) == 0);
    return redis_number(at + 3);
}

#endif
