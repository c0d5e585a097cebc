/*
 * test_backend_membership.c -- the backend learns whether Redis still has its data: a new process at the same address,
 * a flush, an older Redis, another process with our uuid. test_backend_loss.c proves that an answer from before a loss
 * counts for nothing.
 */
#include "daemon/backend/epoch.h"
#include "watch_world.h"

static uint64_t
last_reclaim(size_t *n)
{
    uint64_t epoch = 0;

    *n = 0;
    for (size_t i = 0; i < w.events_n; i++) {
        if (w.event[i].type == CORE_RECLAIM) {
            epoch = w.event[i].epoch;
            ++*n;
        }
    }
    return epoch;
}

/* The core got CORE_RECLAIM so many times in all, last in the epoch that is known. */
static void
was_asked(size_t times)
{
    size_t n;
    uint64_t epoch = last_reclaim(&n);

    ck_assert_uint_eq(n, times);
    ck_assert_uint_eq(epoch, epoch_now());
    ck_assert_uint_eq(w.metrics.epochs, times - 1); /* the first one is no loss */
}

START_TEST(the_first_epoch_is_no_loss)
{
    char word[64];

    was_asked(1);
    snprintf(word, sizeof(word), "%" PRIu64 " ", epoch_now());
    ck_assert_ptr_eq(strstr(redis("GET rlock:epoch"), word), redis("GET rlock:epoch"));
    ck_assert_str_eq(redis("HKEYS rlock:members"), UUID " ");
    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
}
END_TEST

/* Links are lost and come back; it is the same Redis. */
START_TEST(the_same_redis_again)
{
    uint64_t epoch = epoch_now();

    for (int i = 0; i < 5; i++) {
        redis("CLIENT KILL TYPE normal");
        turn_until(is_down, NULL);
        turn_until(is_all_up, NULL);
    }
    ck_assert_uint_eq(epoch_now(), epoch);
    was_asked(1);
}
END_TEST

START_TEST(another_process)
{
    uint64_t epoch = epoch_now();
    size_t overs = 0;

    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
    redis_kill();
    turn_until(is_down, NULL);
    redis_start(NULL);
    redis_connect();
    turn_until(is_granting_anew, &epoch);
    turn_until(is_all_up, NULL);
    ck_assert_uint_gt(epoch_now(), epoch);
    was_asked(2);
    for (size_t i = 0; i < w.events_n; i++) {
        overs += w.event[i].type == CORE_GRACE_OVER;
    }
    ck_assert_uint_eq(overs, 1);
    must(acquire("k", KIND_REENTRANT, 2), CORE_OK);
}
END_TEST

/* The backend learns of a loss also when there are no requests. */
START_TEST(flushed)
{
    uint64_t epoch = epoch_now();

    redis("FLUSHALL");
    turn_until(is_granting_anew, &epoch);
    was_asked(2);
    ck_assert_uint_eq(w.downs, 0);
}
END_TEST

static bool
is_reclaiming(const void *n)
{
    size_t times;

    last_reclaim(&times);
    return times >= *(const size_t *)n;
}

/* Until all holds are reclaimed Redis grants only reclaims. */
START_TEST(a_grace_period_grants_reclaims_only)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);
    uint64_t epoch = epoch_now();
    struct core_done d;

    w.keeps_quiet = true;
    redis("FLUSHALL");
    d = acquire("k", KIND_REENTRANT, 2);
    must(d, CORE_GRACE);
    ck_assert_int_eq(d.pttl_us, 0); /* the length of the grace period is not known yet */
    turn_until(is_reclaiming, &(size_t){2});
    d = acquire("k", KIND_REENTRANT, 2);
    must(d, CORE_GRACE);
    ck_assert_int_gt(d.pttl_us, 10 * US_PER_S);
    op.reclaim = true;
    must(run(&op, CORE_ACQUIRE), CORE_OK);
    must(acquire("other", KIND_REENTRANT, 2), CORE_GRACE);
    w.keeps_quiet = false;
    turn_until(is_granting_anew, &epoch);
    must(acquire("other", KIND_REENTRANT, 2), CORE_OK);
    must(acquire("k", KIND_REENTRANT, 2), CORE_TAKEN);
}
END_TEST

/* A reload shortens the leases: what is held was taken with the longer ones. */
START_TEST(a_grace_does_not_get_shorter)
{
    struct core_done d;

    backend_configure(w.b, US_PER_S);
    w.keeps_quiet = true;
    redis("FLUSHALL");
    turn_until(is_reclaiming, &(size_t){2});
    d = acquire("k", KIND_REENTRANT, 2);
    must(d, CORE_GRACE);
    ck_assert_int_gt(d.pttl_us, 10 * US_PER_S);
}
END_TEST

/* Attempts of one turn, reclaims and others: each under its own terms. */
START_TEST(both_in_one_turn)
{
    struct core_op op[6];

    w.keeps_quiet = true;
    redis("FLUSHALL");
    turn_until(is_reclaiming, &(size_t){2});
    for (uint64_t i = 0; i < 6; i++) {
        static const char *const key[] = {"a", "b", "c", "d", "e", "f"};

        op[i] = op_on(key[i], KIND_REENTRANT, i);
        op[i].reclaim = i % 2;
        perform(&op[i], CORE_ACQUIRE);
    }
    flush();
    for (int i = 0; i < 6; i++) {
        must(await(op[i].op), i % 2 ? CORE_OK : CORE_GRACE);
    }
}
END_TEST

/*
 * Tokens rise above those of the lost data: the daemon registers the highest that it knows, whichever daemon acquires
 * next.
 */
START_TEST(the_highest_token_is_registered)
{
    uint64_t epoch = epoch_now();
    struct core_op op = op_on("k", KIND_REENTRANT, 1);
    uint64_t token;

    op.token_floor = acquire("x", KIND_REENTRANT, 1).token + UINT64_C(1000000000000);
    token = run(&op, CORE_ACQUIRE).token;
    redis("FLUSHALL");
    turn_until(is_granting_anew, &epoch);
    ck_assert_int_ge(redis_number(redis("GET rlock:clock")), (int64_t)token);
}
END_TEST

/* ---- another backend ---- */

static struct {
    struct backend *b;
    bool up;
} other;

static void
other_post(void *ctx, const struct core_event *ev)
{
    (void)ctx;
    (void)ev;
}

static void
other_state(void *ctx, bool up)
{
    (void)ctx;
    other.up = up;
}

static void
open_other(uint64_t nonce, uint64_t former)
{
    struct backend_env env = {.base = w.base,
                              .log = &w.log,
                              .metrics = &w.metrics,
                              .uuid = UUID,
                              .nonce = nonce,
                              .former_nonce = {former},
                              .post = other_post,
                              .inspected = on_inspected,
                              .state = other_state};
    char error[160];

    other.up = false;
    other.b = backend_open(&w.conf, &env, error);
    ck_assert_ptr_nonnull(other.b);
}

static bool
other_is_up(const void *arg)
{
    (void)arg;
    return other.up;
}

/* ---- an older Redis ---- */

/* Sets Redis back to an epoch before this one; its data stays. */
static void
set_back(uint64_t epoch)
{
    char word[64];

    snprintf(word, sizeof(word), "%" PRIu64 "%s", epoch - 1, strchr(redis("GET rlock:epoch"), ' '));
    redis("SET rlock:epoch %s", word);
}

/*
 * The only Redis there is reports an older epoch: it has lost what was granted since. All holds have to be reclaimed in
 * a new epoch, and nothing else is granted before.
 */
START_TEST(an_older_redis)
{
    struct core_op op = op_on("held", KIND_REENTRANT, 1);
    uint64_t epoch = epoch_now();

    w.keeps_quiet = true;
    set_back(epoch);
    must(acquire("k", KIND_REENTRANT, 1), CORE_GRACE);
    turn_until(is_reclaiming, &(size_t){2});
    turn_until(is_all_up, NULL);
    ck_assert_uint_gt(epoch_now(), epoch);
    must(acquire("k", KIND_REENTRANT, 1), CORE_GRACE);
    op.reclaim = true;
    must(run(&op, CORE_ACQUIRE), CORE_OK);
    w.keeps_quiet = false;
    turn_until(is_granting_anew, &epoch);
    was_asked(2);
    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
}
END_TEST

/* Another Redis takes the address of ours, in an older epoch; open connections to ours stay. */
static void
older_redis_instead(uint64_t epoch)
{
    unlink(w.sock);
    redis_start(NULL);
    redis_connect();
    open_other(1, 0); /* so that its data has an epoch */
    turn_until(other_is_up, NULL);
    backend_close(&other.b);
    set_back(epoch);
}

static bool
listens(const void *arg)
{
    (void)arg;
    return strstr(redis("CLIENT LIST TYPE pubsub"), "name=rlockd") != NULL;
}

static bool
has_accepted(const void *n)
{
    const char *at = strstr(redis("INFO stats"), "total_connections_received:");

    return redis_number(strchr(at, ':') + 1) >= *(const int64_t *)n;
}

/* While one link is connected to our Redis, a Redis in an older epoch is refused; then it is the only one. */
START_TEST(an_older_redis_beside_ours)
{
    uint64_t epoch = epoch_now();
    redisContext *ours = w.cli;
    pid_t pid = w.redis;
    long long one;
    char was[64];
    struct backend_status st;
    size_t n;

    turn_until(listens, NULL);
    one = some_link();
    older_redis_instead(epoch);
    snprintf(was, sizeof(was), "%s", redis("GET rlock:epoch"));
    freeReplyObject(redisCommand(ours, "CLIENT KILL ID %lld", one));
    kill(pid, SIGSTOP); /* it answers nothing, and its connections stay open */
    turn_until(is_down, NULL);
    turn_until(has_accepted, &(int64_t){10}); /* the daemon has tried again and again */
    backend_status(w.b, &st);
    ck_assert_ptr_nonnull(strstr(st.last_error, "older epoch"));
    ck_assert_str_eq(redis("GET rlock:epoch"), was);
    ck_assert_uint_eq(epoch_now(), epoch);
    last_reclaim(&n);
    ck_assert_uint_eq(n, 1);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    redisFree(ours);
    turn_until(is_granting_anew, &epoch);
    turn_until(is_all_up, NULL);
    ck_assert_uint_gt(epoch_now(), epoch);
    was_asked(2);
    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
}
END_TEST

/* ---- another process with our uuid ---- */

static bool
other_is_refused(const void *arg)
{
    struct backend_status st;

    (void)arg;
    backend_status(other.b, &st);
    return strstr(st.last_error, "our uuid") != NULL;
}

static bool
we_are_refused(const void *arg)
{
    struct backend_status st;

    (void)arg;
    backend_status(w.b, &st);
    return !w.up && strstr(st.last_error, "our uuid") != NULL;
}

START_TEST(a_twin_stays_outside)
{
    open_other(2, 0);
    turn_until(other_is_refused, NULL);
    ck_assert(!other.up);
    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
    backend_close(&other.b);
}
END_TEST

/* The process after us: it is admitted at once, and we are refused. */
START_TEST(the_process_after_us_takes_our_place)
{
    open_other(9, 1);
    turn_until(other_is_up, NULL);
    ck_assert_ptr_eq(strstr(redis("HGET rlock:members " UUID), "0000000000000009 "), redis("HGET rlock:members " UUID));
    turn_until(we_are_refused, NULL);
    backend_close(&other.b);
}
END_TEST

/* ---- other daemons ---- */

static bool
is_met(const void *arg)
{
    struct backend_status st;

    (void)arg;
    backend_status(w.b, &st);
    return st.other_daemons == 1;
}

static bool
is_alone(const void *arg)
{
    return !is_met(arg);
}

static bool
has_beaten(const void *n)
{
    return redis_calls("evalsha") > *(const int64_t *)n;
}

/* A daemon has registered, and no broadcast announced it. */
static void
a_daemon_comes_unnoticed(void)
{
    static const char them[] = "0f9b8a76-1c2d-4e3f-8a9b-000000000000";
    char ours[64], version[32];

    snprintf(ours, sizeof(ours), "%s", redis("HGET rlock:members " UUID));
    snprintf(version, sizeof(version), "%" PRId64, clock_wall_us());
    redis("HSET rlock:members %s %b", them, ours, strlen(ours));
    redis("ZADD rlock:until %lld %s", (long long)(clock_wall_us() / US_PER_MS + 60 * 1000), them);
    redis("ZADD rlock:changes %s %s %s >", version, them, version);
}

/*
 * The other daemon registered between our greeting and our SUBSCRIBE: its broadcast could not reach us. The backend
 * asks for the members when it is subscribed, at least a second before the next beat would; on a busy machine a few
 * tries may be needed to see that.
 */
START_TEST(a_daemon_that_came_before_we_listened)
{
    bool met = false;
    int64_t evals;

    listeners_until("rlock:deadlock:0", 1);
    for (int i = 0; i < 4 && !met; i++) {
        redis("ZADD rlock:until XX 1 0f9b8a76-1c2d-4e3f-8a9b-000000000000");
        evals = redis_calls("evalsha");
        turn_until(has_beaten, &evals); /* the next beat is two seconds away */
        turn_until(is_alone, NULL);
        redis("CLIENT KILL TYPE pubsub");
        a_daemon_comes_unnoticed();
        met = turn_for(is_met, NULL, US_PER_S / w.slow);
    }
    ck_assert(met);
}
END_TEST

static bool
is_recorded(const void *arg)
{
    return w.others == (arg != NULL);
}

/*
 * Redis may lose, with its data, the member that a grace period awaits: the process after us must not take itself for
 * the only daemon.
 */
START_TEST(a_grace_is_known_to_the_process_after)
{
    char word[64];
    long long until_ms = clock_wall_us() / US_PER_MS + 60 * 1000;

    ck_assert(!w.others);
    snprintf(word, sizeof(word), "%s %lld", redis("GET rlock:epoch"), until_ms);
    redis("ZADD rlock:awaited 1 0f9b8a76-1c2d-4e3f-8a9b-000000000000");
    redis("SET rlock:epoch %s", word);
    turn_until(is_recorded, ""); /* with the next beat */
    redis("DEL rlock:awaited");
    turn_until(is_recorded, NULL);
}
END_TEST

/* ---- a daemon that stood still ---- */

#ifdef RLOCKD_TEST_CLOCK
/* Redis may have forgotten us: the daemon registers before its operations leave, and they wait for the answer. */
START_TEST(a_daemon_that_stood_still_registers_first)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);

    redis("HDEL rlock:members " UUID);
    clock_advance_us(EPOCH_FRESH_MS * US_PER_MS);
    must(acquire("k", KIND_REENTRANT, 1), CORE_OK);
    ck_assert_str_eq(redis("HLEN rlock:members"), "1");
    redis("HDEL rlock:members " UUID);
    clock_advance_us(EPOCH_FRESH_MS * US_PER_MS);
    must(run(&op, CORE_EXTEND), CORE_OK);
    ck_assert_str_eq(redis("HLEN rlock:members"), "1");
    ck_assert_uint_eq(w.downs, 0);
}
END_TEST

/* No operation leaves while the registration is unanswered, nor when it is refused. */
START_TEST(a_daemon_that_stood_still_and_is_not_received)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);
    int64_t calls;

    redis("ACL SETUSER default -zscore");
    calls = redis_calls("get"); /* the scripts of locks call it */
    clock_advance_us(EPOCH_FRESH_MS * US_PER_MS);
    must(run(&op, CORE_ACQUIRE), CORE_DOWN);
    ck_assert_str_eq(redis("EXISTS k"), "0");
    ck_assert_int_eq(redis_calls("get"), calls);
}
END_TEST

/* The daemon stands still between an attempt and its NOSCRIPT, after which it would send it again. */
START_TEST(a_daemon_that_stood_still_does_not_send_again)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);

    must(acquire("other", KIND_REENTRANT, 1), CORE_OK);
    redis("SCRIPT FLUSH");
    redis_stop();
    perform(&op, CORE_ACQUIRE);
    flush();
    clock_advance_us(EPOCH_FRESH_MS * US_PER_MS);
    redis_cont();
    must(await(op.op), CORE_DOWN);
    ck_assert_str_eq(redis("EXISTS k"), "0");
}
END_TEST
#endif

/* ---- good-bye ---- */

static bool
is_idle(const void *arg)
{
    (void)arg;
    return backend_idle(w.b);
}

START_TEST(good_bye)
{
    w.inside = true;
    backend_leave(w.b);
    w.inside = false;
    ck_assert(!backend_idle(w.b));
    turn_until(is_idle, NULL);
    ck_assert_str_eq(redis("EXISTS rlock:members"), "0");
}
END_TEST

/* The good-bye leaves also behind a beat that is in flight and is none. */
START_TEST(good_bye_behind_a_beat)
{
    w.keeps_quiet = true;
    redis("FLUSHALL");
    turn_until(is_reclaiming, &(size_t){2});
    redis_stop();
    backend_reclaimed(w.b, 0, epoch_now()); /* this sends a beat, unless one is in flight */
    backend_leave(w.b);
    redis_cont();
    turn_until(is_idle, NULL);
    ck_assert_str_eq(redis("EXISTS rlock:members"), "0");
}
END_TEST

/* There is no Redis to take it: nothing waits for that. */
START_TEST(good_bye_without_redis)
{
    redis_kill();
    turn_until(is_down, NULL);
    backend_leave(w.b);
    ck_assert(backend_idle(w.b));
}
END_TEST

/* The registration fails: the links stay down, until the user has the right again. */
START_TEST(no_such_script)
{
    struct backend_status st;

    redis("ACL SETUSER default -zscore");
    redis("CLIENT KILL TYPE normal");
    turn_until(is_down, NULL);
    for (int i = 0; i < 20; i++) {
        event_base_loop(w.base, EVLOOP_ONCE);
    }
    ck_assert(!w.up);
    backend_status(w.b, &st);
    ck_assert_ptr_nonnull(strstr(st.last_error, ": ACL SETUSER default +")); /* the right depends on the version */
    redis("ACL SETUSER default +zscore");
    turn_until(is_all_up, NULL);
    was_asked(1);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {the_first_epoch_is_no_loss,
                            the_same_redis_again,
                            another_process,
                            flushed,
                            a_grace_period_grants_reclaims_only,
                            a_grace_does_not_get_shorter,
                            both_in_one_turn,
                            the_highest_token_is_registered,
                            an_older_redis,
                            an_older_redis_beside_ours,
                            a_twin_stays_outside,
                            the_process_after_us_takes_our_place,
                            a_daemon_that_came_before_we_listened, a_grace_is_known_to_the_process_after,
#ifdef RLOCKD_TEST_CLOCK
                            a_daemon_that_stood_still_registers_first, a_daemon_that_stood_still_and_is_not_received,
                            a_daemon_that_stood_still_does_not_send_again,
#endif
                            good_bye,
                            good_bye_behind_a_beat,
                            good_bye_without_redis,
                            no_such_script};
    TCase *tc = tcase_create("up");

    tcase_add_checked_fixture(tc, world_up, world_end);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    return world_run("backend, membership", &tc, 1);
}
