/*
 * test_backend_membership.c -- the backend hears whether Redis still has what it had: a new process behind the same
 * address, a flush, an older Redis, somebody else with our id. That an answer from before says nothing any more is in
 * test_backend_loss.c.
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

/* So many times in all it was said that what is held has to be asserted, last in the epoch that is known. */
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

/* Links come and go; it is the same Redis. */
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

/* It is heard without anybody asking for a lock, too. */
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

/* As long as not all is asserted Redis grants that alone, in the words of this grace. */
START_TEST(a_grace_period_grants_reclaims_only)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);
    uint64_t epoch = epoch_now();
    struct core_done d;

    w.keeps_quiet = true;
    redis("FLUSHALL");
    d = acquire("k", KIND_REENTRANT, 2);
    must(d, CORE_GRACE);
    ck_assert_int_eq(d.pttl_us, 0); /* nobody knows yet */
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

/* A reload to shorter leases: what is held was taken by the longer ones. */
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

/* Attempts of one turn, with and without: each under its own terms. */
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

/* Tokens rise over what is lost: Redis is told of the highest, whoever comes first then. */
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

/* That Redis is in an epoch before this one, and its data is what it was. */
static void
set_back(uint64_t epoch)
{
    char word[64];

    snprintf(word, sizeof(word), "%" PRIu64 "%s", epoch - 1, strchr(redis("GET rlock:epoch"), ' '));
    redis("SET rlock:epoch %s", word);
}

/*
 * The only Redis there is says an older number: what was granted since is lost there. All that is held has to be
 * asserted in a new epoch, and nobody is granted anything before that.
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

/* Another Redis stands where ours did, in an older epoch; who is connected to ours still is. */
static void
older_redis_instead(uint64_t epoch)
{
    unlink(w.sock);
    redis_start(NULL);
    redis_connect();
    open_other(1, 0); /* so that the epoch is one of its data */
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

/* As long as a link is where it was, the older one is not the one; then it is all there is. */
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
    kill(pid, SIGSTOP); /* slow to say that it is there */
    turn_until(is_down, NULL);
    turn_until(has_accepted, &(int64_t){10}); /* it has been tried again and again */
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

/* ---- somebody else with our id ---- */

static bool
other_is_refused(const void *arg)
{
    struct backend_status st;

    (void)arg;
    backend_status(other.b, &st);
    return strstr(st.last_error, "our id") != NULL;
}

static bool
we_are_refused(const void *arg)
{
    struct backend_status st;

    (void)arg;
    backend_status(w.b, &st);
    return !w.up && strstr(st.last_error, "our id") != NULL;
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

/* The process after us: it comes in at once, and we are out. */
START_TEST(the_process_after_us_takes_our_place)
{
    open_other(9, 1);
    turn_until(other_is_up, NULL);
    ck_assert_ptr_eq(strstr(redis("HGET rlock:members " UUID), "0000000000000009 "), redis("HGET rlock:members " UUID));
    turn_until(we_are_refused, NULL);
    backend_close(&other.b);
}
END_TEST

/* ---- who else is there ---- */

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

/* A daemon has registered that nobody was told of. */
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
 * It came between our greeting and our SUBSCRIBE: its word to all that listen was none to us. We ask when we listen, a
 * second at the least before the next beat would; on a busy machine that may take a few attempts to see.
 */
START_TEST(a_daemon_that_came_before_we_listened)
{
    bool met = false;
    int64_t evals;

    listeners_until("rlock:deadlock:0", 1);
    for (int i = 0; i < 4 && !met; i++) {
        redis("ZADD rlock:until XX 1 0f9b8a76-1c2d-4e3f-8a9b-000000000000");
        evals = redis_calls("evalsha");
        turn_until(has_beaten, &evals); /* the next beat is two seconds off */
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

/* Whoever it is for may be forgotten with the data: the process after us must not take itself for the only one. */
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

/* ---- who stood still ---- */

#ifdef RLOCKD_TEST_CLOCK
/* Redis may have forgotten us: it hears that we are there before it hears what we want, which waits for that. */
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

/* Nothing else is sent while that is not answered, and nothing when it is refused for now. */
START_TEST(a_daemon_that_stood_still_and_is_not_received)
{
    struct core_op op = op_on("k", KIND_REENTRANT, 1);
    int64_t calls;

    redis("ACL SETUSER default -zscore");
    calls = redis_calls("get"); /* of scripts that lock */
    clock_advance_us(EPOCH_FRESH_MS * US_PER_MS);
    must(run(&op, CORE_ACQUIRE), CORE_DOWN);
    ck_assert_str_eq(redis("EXISTS k"), "0");
    ck_assert_int_eq(redis_calls("get"), calls);
}
END_TEST

/* Between what was sent and an answer after which it would go once more. */
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

/* Also behind a word that is on its way, which does not say it. */
START_TEST(good_bye_behind_a_beat)
{
    w.keeps_quiet = true;
    redis("FLUSHALL");
    turn_until(is_reclaiming, &(size_t){2});
    redis_stop();
    backend_reclaimed(w.b, 0, epoch_now()); /* says so, unless a beat is on its way anyhow */
    backend_leave(w.b);
    redis_cont();
    turn_until(is_idle, NULL);
    ck_assert_str_eq(redis("EXISTS rlock:members"), "0");
}
END_TEST

/* Nobody to say it to: nothing waits for that. */
START_TEST(good_bye_without_redis)
{
    redis_kill();
    turn_until(is_down, NULL);
    backend_leave(w.b);
    ck_assert(backend_idle(w.b));
}
END_TEST

/* An answer of another shape: out, and in again when it is one. */
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
    ck_assert_ptr_nonnull(strstr(st.last_error, ": ACL SETUSER default +")); /* what, depends on Redis's version */
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
    return world_run("backend, presence", &tc, 1);
}
