/*
 * test_backend_watch.c -- what wakes a lock with waiters: messages on the channels of its kind, and changes of a key
 * whose holder publishes nothing.
 */
#include "watch_world.h"

static struct core_op
watched(const char *key, enum kind kind, uint64_t owner, uint64_t lock)
{
    struct core_op op = op_on(key, kind, owner);

    op.queue = lock;
    return op;
}

/* ---- channels ---- */

START_TEST(each_kind_subscribes_to_the_channel_of_its_library)
{
    static const struct {
        enum kind kind;
        const char *channel; /* as Redisson names it for the key `k` */
    } want[] = {
        {KIND_REENTRANT, "redisson_lock__channel:{k}"}, {KIND_SIMPLE, "redisson_lock__channel:{k}"},
        {KIND_COUNTER, "redisson_lock__channel:{k}"},   {KIND_FAIR, "redisson_lock__channel:{k}"},
        {KIND_FENCED, "redisson_lock__channel:{k}"},    {KIND_RW, "redisson_rwlock:{k}"},
        {KIND_SEMAPHORE, "redisson_sc:{k}"},
    };

    ck_assert_uint_eq(sizeof(want) / sizeof(want[0]), KINDS);
    for (size_t i = 0; i < KINDS; i++) {
        struct core_op op = watched("k", want[i].kind, 1, 10 + i);

        watch_op(&op, CORE_WATCH);
        must_post(CORE_SUBSCRIBED, 10 + i, 1);
        ck_assert_str_eq(redis("PUBLISH %s 0", want[i].channel), "1");
        must_post(CORE_HINT, 10 + i, 1);
        watch_op(&op, CORE_UNWATCH);
        listeners_until(want[i].channel, 0);
    }
}
END_TEST

#define PLAIN "redisson_lock__channel:{q}"
#define OWN PLAIN ":" UUID

START_TEST(fair_subscribes_to_the_channel_of_its_head_too)
{
    struct core_op op = watched("q", KIND_FAIR, 7, 1);
    struct backend_status st;

    watch_op(&op, CORE_WATCH);
    must_post(CORE_SUBSCRIBED, 1, 1);
    ck_assert_str_eq(redis("PUBSUB NUMSUB " PLAIN " " OWN ":7"), PLAIN " 1 " OWN ":7 1 ");
    backend_status(w.b, &st);
    ck_assert_uint_eq(st.watched, 2);
    redis("PUBLISH " OWN ":7 0");
    must_post(CORE_HINT, 1, 1);
    redis("PUBLISH " PLAIN " 0");
    must_post(CORE_HINT, 1, 2);
    ck_assert_uint_eq(watchings(1), 1); /* once, although two channels were confirmed */
    watch_op(&op, CORE_UNWATCH);
    listeners_until(PLAIN, 0);
    listeners_until(OWN ":7", 0);
    backend_status(w.b, &st);
    ck_assert_uint_eq(st.watched, 0);
}
END_TEST

START_TEST(another_head_another_channel)
{
    struct core_op op = watched("q", KIND_FAIR, 7, 1);

    watch_op(&op, CORE_WATCH);
    must_post(CORE_SUBSCRIBED, 1, 1);
    perform(&op, CORE_UNWATCH);
    op.owner = 8;
    perform(&op, CORE_WATCH);
    flush();
    must_post(CORE_SUBSCRIBED, 1, 2);
    ck_assert_str_eq(redis("PUBSUB NUMSUB " PLAIN " " OWN ":7 " OWN ":8"), PLAIN " 1 " OWN ":7 0 " OWN ":8 1 ");
    ck_assert_str_eq(redis("PUBLISH " OWN ":7 0"), "0");
    redis("PUBLISH " OWN ":8 0");
    must_post(CORE_HINT, 1, 1);
    redis("PUBLISH " PLAIN " 0");
    must_post(CORE_HINT, 1, 2);
    ck_assert_uint_eq(watchings(1), 2);
}
END_TEST

/* No answer to the first watch has come when the second begins: only the answers to the second count. */
START_TEST(a_head_that_changes_before_it_is_confirmed)
{
    struct core_op op = watched("q", KIND_FAIR, 1, 1);

    for (uint64_t owner = 1; owner <= 20; owner++) {
        op.owner = owner;
        perform(&op, CORE_WATCH);
        perform(&op, CORE_UNWATCH);
    }
    perform(&op, CORE_WATCH);
    flush();
    must_post(CORE_SUBSCRIBED, 1, 1);
    ck_assert_str_eq(redis("PUBSUB NUMSUB " PLAIN " " OWN ":19 " OWN ":20"), PLAIN " 1 " OWN ":19 0 " OWN ":20 1 ");
    redis("PUBLISH " OWN ":20 0");
    must_post(CORE_HINT, 1, 1);
    ck_assert_uint_eq(watchings(1), 1);
}
END_TEST

static size_t
first_event(enum core_event_type type, uint64_t lock)
{
    size_t i = 0;

    while (i < w.events_n && (w.event[i].type != type || w.event[i].queue != lock)) {
        i++;
    }
    return i;
}

/* The answer to a subscription that was withdrawn does not confirm the one after it. */
START_TEST(only_the_last_answer_counts)
{
    struct core_op op = watched("a", KIND_SIMPLE, 1, 1), between = watched("b", KIND_SIMPLE, 1, 2);

    perform(&op, CORE_WATCH);
    perform(&op, CORE_UNWATCH);
    perform(&between, CORE_WATCH);
    perform(&op, CORE_WATCH);
    flush();
    must_post(CORE_SUBSCRIBED, 1, 1);
    must_post(CORE_SUBSCRIBED, 2, 1);
    ck_assert_uint_lt(first_event(CORE_SUBSCRIBED, 2), first_event(CORE_SUBSCRIBED, 1)); /* in the order asked for */
    ck_assert_uint_eq(watchings(1), 1);
}
END_TEST

/* Two names can have one key: they share the plain channel, but not the channels of the owners. */
START_TEST(two_locks_of_a_key_leave_one_by_one)
{
    struct core_op a = watched("q", KIND_FAIR, 7, 1), b = watched("q", KIND_FAIR, 8, 2);

    watch_op(&a, CORE_WATCH);
    watch_op(&b, CORE_WATCH);
    must_post(CORE_SUBSCRIBED, 1, 1);
    must_post(CORE_SUBSCRIBED, 2, 1);
    redis("PUBLISH " OWN ":8 0");
    must_post(CORE_HINT, 2, 1);
    ck_assert_uint_eq(hints(1), 0);
    redis("PUBLISH " PLAIN " 0");
    must_post(CORE_HINT, 1, 1);
    must_post(CORE_HINT, 2, 2);
    watch_op(&a, CORE_UNWATCH);
    listeners_until(OWN ":7", 0);
    ck_assert_str_eq(redis("PUBLISH " PLAIN " 0"), "1");
    must_post(CORE_HINT, 2, 3);
    ck_assert_uint_eq(hints(1), 1);
    ck_assert_uint_eq(watchings(1), 1); /* the second confirmation of the plain channel was for the other lock */
}
END_TEST

START_TEST(both_channels_come_back_with_the_link)
{
    struct core_op op = watched("q", KIND_FAIR, 7, 1);

    watch_op(&op, CORE_WATCH);
    must_post(CORE_SUBSCRIBED, 1, 1);
    redis("CLIENT KILL TYPE pubsub");
    must_post(CORE_SUBSCRIBED, 1, 2);
    redis("PUBLISH " OWN ":7 0");
    must_post(CORE_HINT, 1, 1);
    redis("PUBLISH " PLAIN " 0");
    must_post(CORE_HINT, 1, 2);
    ck_assert_uint_eq(watchings(1), 2);
}
END_TEST

START_TEST(a_second_watch_takes_the_place_of_the_first)
{
    struct core_op op = watched("q", KIND_FAIR, 7, 1);

    watch_op(&op, CORE_WATCH);
    op.owner = 8;
    watch_op(&op, CORE_WATCH);
    must_post(CORE_SUBSCRIBED, 1, 1);
    ck_assert_str_eq(redis("PUBSUB NUMSUB " PLAIN " " OWN ":7 " OWN ":8"), PLAIN " 1 " OWN ":7 0 " OWN ":8 1 ");
}
END_TEST

/* One channel is refused: the other channels of the link and of the lock still work, and the link stays. */
START_TEST(a_refused_channel_endangers_no_other)
{
    struct core_op op = watched("q", KIND_FAIR, 7, 1), rw = watched("r", KIND_RW, 1, 2);
    struct core_op ok = watched("k", KIND_SIMPLE, 1, 3);
    uint64_t lost;

    up_as("resetchannels &rlock:* &redisson_lock__channel:{q} &redisson_lock__channel:{k}");
    lost = w.metrics.redis_disconnects;
    for (int i = 0; i < 3; i++) {
        watch_op(&rw, CORE_WATCH); /* none of its channels is allowed */
        watch_op(&op, CORE_WATCH); /* the plain channel is allowed, the owner's is not */
        watch_op(&ok, CORE_WATCH);
        must_post(CORE_SUBSCRIBED, 3, (size_t)i + 1);
        must_post(CORE_SUBSCRIBED, 1, (size_t)i + 1);
        redis("PUBLISH " PLAIN " 0");
        must_post(CORE_HINT, 1, (size_t)i + 1);
        watch_op(&op, CORE_UNWATCH);
        watch_op(&rw, CORE_UNWATCH);
        watch_op(&ok, CORE_UNWATCH);
    }
    ck_assert_uint_eq(watchings(2), 0);
    ck_assert_uint_eq(w.metrics.redis_disconnects, lost);
    ck_assert_int_eq(log_count("not subscribed"), 1);
}
END_TEST

/* ---- tracking ---- */

static struct core_op
tracked(const char *key, uint64_t lock)
{
    struct core_op op = watched(key, KIND_SIMPLE, 1, lock);

    op.tracking = true;
    return op;
}

static struct core_op
track(const char *key, uint64_t lock)
{
    struct core_op op = tracked(key, lock);

    watch_op(&op, CORE_WATCH);
    must_post(CORE_SUBSCRIBED, lock, 1);
    return op;
}

/* The id of the connection that reads keys for the backend: the client list shows it as tracking. */
static const char *
reader_id(void)
{
    static char id[24];
    char *line, *save = NULL, list[8192];

    snprintf(list, sizeof(list), "%s", redis("CLIENT LIST TYPE normal"));
    id[0] = '\0';
    for (line = strtok_r(list, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        const char *redir = strstr(line, " redir=");

        if (redir != NULL && redis_number(redir + 7) > 0) {
            ck_assert_str_eq(id, "");
            snprintf(id, sizeof(id), "%" PRId64, redis_number(line + 3));
        }
    }
    ck_assert_str_ne(id, "");
    return id;
}

START_TEST(a_holder_that_publishes_nothing_is_noticed)
{
    redis("SET k somebody PX 60000");
    track("k", 1);
    redis("CONFIG RESETSTAT");
    redis("DEL k");
    must_post(CORE_HINT, 1, 1);
    ck_assert_int_eq(redis_calls("publish"), 0);
    ck_assert_uint_eq(watchings(1), 1);
    ck_assert_uint_eq(w.metrics.redis_protocol_errors, 0);
}
END_TEST

START_TEST(each_change_is_received_and_the_alarm_stays_set)
{
    redis("SET k somebody PX 60000");
    track("k", 1);
    for (size_t i = 1; i <= 20; i++) {
        redis("PEXPIRE k %d", 60000 + (int)i);
        must_post(CORE_HINT, 1, i);
    }
    redis("DEL k");
    must_post(CORE_HINT, 1, 21);
    redis("SET k somebody"); /* a key that does not exist has an alarm, too */
    must_post(CORE_HINT, 1, 22);
    ck_assert_uint_eq(watchings(1), 1);
}
END_TEST

/* Many changes between two reads give at least one hint, and the last change is not missed. */
START_TEST(changes_faster_than_we_read)
{
    struct awaited a = {CORE_HINT, 1, 1};

    track("k", 1);
    for (int i = 0; i < 300; i++) {
        redis("SET k %d", i);
        event_base_loop(w.base, EVLOOP_NONBLOCK);
    }
    turn_until(is_posted, &a);
    redis("SET k last");
    track("other", 2); /* all messages about k have arrived before that is confirmed */
    a.n = hints(1) + 1;
    redis("DEL k");
    turn_until(is_posted, &a);
}
END_TEST

START_TEST(only_tracked_keys_cost_something)
{
    struct core_op op = watched("k", KIND_SIMPLE, 1, 1);

    redis("CONFIG RESETSTAT");
    watch_op(&op, CORE_WATCH);
    must_post(CORE_SUBSCRIBED, 1, 1);
    redis("SET k x");
    redis("PUBLISH redisson_lock__channel:{k} 0");
    must_post(CORE_HINT, 1, 1);
    redis("CLIENT KILL TYPE pubsub");
    must_post(CORE_SUBSCRIBED, 1, 2);
    ck_assert_int_eq(redis_calls("client|tracking") + redis_calls("client|caching") + redis_calls("pttl"), 0);
    ck_assert_str_eq(redis("PUBSUB NUMSUB __redis__:invalidate"), "__redis__:invalidate 0 ");
}
END_TEST

START_TEST(a_tracked_lock_subscribes_to_its_channel_too)
{
    track("k", 1);
    ck_assert_str_eq(redis("PUBLISH redisson_lock__channel:{k} 0"), "1");
    must_post(CORE_HINT, 1, 1);
}
END_TEST

START_TEST(a_key_no_longer_watched_sets_no_alarm)
{
    struct core_op op = track("k", 1), more = tracked("k", 2);
    int64_t reads;

    watch_op(&more, CORE_WATCH);
    must_post(CORE_SUBSCRIBED, 2, 1);
    watch_op(&op, CORE_UNWATCH);
    redis("SET k x");
    must_post(CORE_HINT, 2, 1);
    ck_assert_uint_eq(hints(1), 0);
    watch_op(&more, CORE_UNWATCH);
    reads = redis_calls("client|caching");
    redis("SET k y");
    track("other", 3);
    redis("SET other y"); /* its message comes behind that about k */
    must_post(CORE_HINT, 3, 1);
    ck_assert_uint_eq(hints(2), 1);
    ck_assert_int_eq(redis_calls("client|caching"), reads + 2);
    more.queue = 4; /* a new watch of the key */
    watch_op(&more, CORE_WATCH);
    must_post(CORE_SUBSCRIBED, 4, 1);
    redis("DEL k");
    must_post(CORE_HINT, 4, 1);
}
END_TEST

START_TEST(a_new_subscriber_connection_tracks_the_old_keys)
{
    track("a", 1);
    track("b", 2);
    for (size_t i = 1; i <= 3; i++) {
        ck_assert_str_eq(redis("CLIENT KILL TYPE pubsub"), "1");
        must_post(CORE_SUBSCRIBED, 1, i + 1);
        must_post(CORE_SUBSCRIBED, 2, i + 1);
        redis("SET a x");
        must_post(CORE_HINT, 1, i);
        redis("SET b x");
        must_post(CORE_HINT, 2, i);
        ck_assert_uint_eq(watchings(1), i + 1); /* one confirmation for channel and key together */
    }
    ck_assert_uint_eq(w.downs, 0);
}
END_TEST

START_TEST(a_new_reading_connection_reads_the_old_keys)
{
    track("a", 1);
    track("b", 2);
    for (size_t i = 1; i <= 3; i++) {
        ck_assert_str_eq(redis("CLIENT KILL ID %s", reader_id()), "1");
        must_post(CORE_SUBSCRIBED, 1, i + 1);
        must_post(CORE_SUBSCRIBED, 2, i + 1);
        redis("SET a x");
        must_post(CORE_HINT, 1, i);
        redis("SET b x");
        must_post(CORE_HINT, 2, i);
    }
    turn_until(is_all_up, NULL);
}
END_TEST

START_TEST(a_change_while_the_links_are_away_is_found)
{
    redis("SET k x");
    track("k", 1);
    redis("CLIENT KILL TYPE pubsub");
    redis("DEL k"); /* no message reports it: SUBSCRIBED makes the core ask */
    must_post(CORE_SUBSCRIBED, 1, 2);
    redis("CLIENT KILL TYPE normal SKIPME yes");
    must_post(CORE_SUBSCRIBED, 1, 3);
    redis("SET k x");
    must_post(CORE_HINT, 1, 1);
}
END_TEST

START_TEST(a_killed_redis_tracks_again)
{
    track("k", 1);
    redis_kill();
    turn_until(is_down, NULL);
    unlink(w.sock);
    redis_start(NULL);
    redis_connect();
    must_post(CORE_SUBSCRIBED, 1, 2);
    redis("SET k x");
    must_post(CORE_HINT, 1, 1);
}
END_TEST

START_TEST(an_emptied_redis_is_news_for_every_key)
{
    static const char *const flush_by[] = {"FLUSHALL", "FLUSHDB", "FLUSHALL ASYNC"};

    redis("MSET a x b x");
    track("a", 1);
    track("b", 2);
    for (size_t i = 0; i < 3; i++) {
        redis(flush_by[i]);
        must_post(CORE_HINT, 1, 2 * i + 1);
        must_post(CORE_HINT, 2, 2 * i + 1);
        redis("MSET a x b x");
        must_post(CORE_HINT, 1, 2 * i + 2);
        must_post(CORE_HINT, 2, 2 * i + 2);
    }
}
END_TEST

/*
 * RESP2 names the key without its database: a change of the same name elsewhere is a needless hint, and the alarm stays
 * set.
 */
START_TEST(the_same_name_in_another_database)
{
    track("k", 1);
    redis("SELECT 5");
    redis("SET k x");
    must_post(CORE_HINT, 1, 1);
    redis("SELECT 0");
    redis("SET k x");
    must_post(CORE_HINT, 1, 2);
}
END_TEST

START_TEST(our_own_database_is_tracked)
{
    char url[160];

    backend_close(&w.b);
    w.up = false;
    snprintf(url, sizeof(url), "unix:%s?db=3", w.sock);
    w.conf.url = url;
    w.conf.links = 4; /* whichever link carries the attempts on the key */
    open_up();
    track("k", 1);
    track("kk", 2);
    track("kkk", 3);
    redis("SELECT 3");
    redis("SET k x");
    must_post(CORE_HINT, 1, 1);
    redis("SET kk x");
    must_post(CORE_HINT, 2, 1);
    redis("SET kkk x");
    must_post(CORE_HINT, 3, 1);
}
END_TEST

START_TEST(a_thousand_keys)
{
    char key[16];

    for (uint64_t i = 0; i < 1000; i++) {
        struct core_op op;

        snprintf(key, sizeof(key), "k%d", (int)i);
        op = tracked(key, 10 + i);
        perform(&op, CORE_WATCH);
    }
    flush();
    for (uint64_t i = 0; i < 1000; i++) {
        must_post(CORE_SUBSCRIBED, 10 + i, 1);
    }
    redis("SET k777 x");
    must_post(CORE_HINT, 787, 1);
    redis("FLUSHALL");
    for (uint64_t i = 0; i < 1000; i++) {
        must_post(CORE_HINT, 10 + i, i == 777 ? 2 : 1);
    }
}
END_TEST

START_TEST(names_of_bytes_are_tracked)
{
    char key[300];
    struct core_op op = tracked("", 1);

    for (size_t i = 0; i < sizeof(key); i++) {
        key[i] = (char)(i * 7);
    }
    op.key = (struct slice){key, sizeof(key)};
    watch_op(&op, CORE_WATCH);
    must_post(CORE_SUBSCRIBED, 1, 1);
    redis("SET %b x", key, sizeof(key));
    must_post(CORE_HINT, 1, 1);
}
END_TEST

/*
 * The answer to the read that sets the alarm comes too late, and no link is lost: the key is read again, and until then
 * the lock is not watched.
 */
START_TEST(an_alarm_that_was_not_confirmed_is_set_again)
{
    redisReply *r;

    backend_close(&w.b);
    w.up = false;
    w.conf.timeout_us = 400 * US_PER_MS * w.slow;
    open_up();
    track("k", 1);
    redisAppendCommand(w.cli, "SET k x");
    redisAppendCommand(w.cli, "CLIENT PAUSE %d", 600 * w.slow);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(redisGetReply(w.cli, (void **)&r), REDIS_OK);
        freeReplyObject(r);
    }
    must_post(CORE_SUBSCRIBED, 1, 2);
    ck_assert_uint_eq(w.downs, 0);
    redis("SET k y");
    must_post(CORE_HINT, 1, 1);
}
END_TEST

/*
 * Redis is too old, or the commands are renamed or not allowed: the channels still work, and the log has one line about
 * that.
 */
static void
goes_on_without_tracking(void)
{
    struct core_op op = tracked("k", 1);

    for (size_t i = 1; i <= 3; i++) {
        op.queue = i;
        watch_op(&op, CORE_WATCH);
        must_post(CORE_SUBSCRIBED, i, 1);
        redis("PUBLISH redisson_lock__channel:{k} 0");
        must_post(CORE_HINT, i, 1);
    }
    redis("CLIENT KILL TYPE pubsub");
    must_post(CORE_SUBSCRIBED, 1, 2);
    must_post(CORE_SUBSCRIBED, 3, 2);
    redis("PUBLISH redisson_lock__channel:{k} 0");
    must_post(CORE_HINT, 3, 2);
    redis("CLIENT KILL TYPE normal SKIPME yes"); /* a new connection may have more rights: it tries, and is refused */
    must_post(CORE_SUBSCRIBED, 1, 3);
    turn_until(is_all_up, NULL);
    ck_assert_int_eq(log_count("not tracking"), 1);
}

START_TEST(tracking_that_is_not_allowed)
{
    static const char *const rules[] = {"-client|tracking", "-client|caching", "-client|id", "-pttl",
                                        "resetchannels &redisson* &rlock:*"};

    up_as(rules[_i]);
    goes_on_without_tracking();
}
END_TEST

/*
 * The core learns when Redis does not count us as a subscriber: while the link is away, and where Redis refuses the
 * channel.
 */
START_TEST(the_core_receives_unsubscribed)
{
    bool tracks = _i == 1;
    struct core_op op = tracks ? tracked("k", 1) : watched("k", KIND_SIMPLE, 1, 1);

    up_as("");
    watch_op(&op, CORE_WATCH);
    must_post(CORE_SUBSCRIBED, 1, 1);
    ck_assert_uint_eq(count_events(CORE_UNSUBSCRIBED, 1), 0);
    redis("CLIENT KILL TYPE pubsub");
    must_post(CORE_SUBSCRIBED, 1, 2);
    ck_assert_uint_eq(count_events(CORE_UNSUBSCRIBED, 1), 1);
    ck_assert_uint_lt(first_event(CORE_UNSUBSCRIBED, 1), w.events_n - 1);
    redis("ACL SETUSER locks resetchannels &rlock:* &__redis__:invalidate");
    redis("CLIENT KILL TYPE pubsub");
    must_post(CORE_UNSUBSCRIBED, 1, 2);
    if (tracks) {
        must_post(CORE_SUBSCRIBED, 1, 3); /* the key is read; UNSUBSCRIBED comes last */
        must_post(CORE_UNSUBSCRIBED, 1, 3);
        ck_assert(w.event[w.events_n - 1].type == CORE_UNSUBSCRIBED);
    }
}
END_TEST

START_TEST(it_comes_back_when_it_is_allowed)
{
    up_as("-client|tracking");
    track("k", 1);
    redis("ACL SETUSER locks +client|tracking");
    redis("CLIENT KILL TYPE pubsub");
    must_post(CORE_SUBSCRIBED, 1, 2);
    for (int n = 0; redis_calls("client|caching") == 0; n++) {
        ck_assert_int_lt(n, 100000);
        event_base_loop(w.base, EVLOOP_NONBLOCK);
    }
    redis("SET k x");
    must_post(CORE_HINT, 1, 1);
}
END_TEST

/* The redirection names a connection that Redis has closed already, and the backend has not noticed that yet. */
START_TEST(both_connections_are_killed_at_once)
{
    for (size_t i = 1; i <= 5; i++) {
        char key[8];

        snprintf(key, sizeof(key), "k%zu", i);
        track(key, i);
        redis("CLIENT KILL TYPE pubsub");
        redis("CLIENT KILL TYPE normal SKIPME yes");
        must_post(CORE_SUBSCRIBED, i, 2);
        redis("SET %s x", key);
        must_post(CORE_HINT, i, 1);
    }
}
END_TEST

START_TEST(closing_in_the_middle)
{
    for (int turns = 0; turns < 12; turns++) {
        struct core_op op = tracked("k", 1);

        watch_op(&op, CORE_WATCH);
        for (int i = 0; i < turns; i++) {
            event_base_loop(w.base, EVLOOP_NONBLOCK);
        }
        backend_close(&w.b);
        w.up = false;
        open_up();
    }
}
END_TEST

static void
up_without_client(void)
{
    static const char *const args[] = {"--rename-command", "CLIENT", "\"\"", NULL};

    world_begin();
    redis_start(args);
    redis_connect();
    log_keep();
    open_up();
}

START_TEST(a_redis_without_client_commands)
{
    struct core_op op = tracked("k", 1);

    watch_op(&op, CORE_WATCH);
    must_post(CORE_SUBSCRIBED, 1, 1);
    redis("PUBLISH redisson_lock__channel:{k} 0");
    must_post(CORE_HINT, 1, 1);
    ck_assert_int_eq(log_count("not tracking"), 1);
}
END_TEST

int
main(void)
{
    const TTest *const up[] = {
        each_kind_subscribes_to_the_channel_of_its_library,
        fair_subscribes_to_the_channel_of_its_head_too,
        another_head_another_channel,
        a_head_that_changes_before_it_is_confirmed,
        only_the_last_answer_counts,
        two_locks_of_a_key_leave_one_by_one,
        both_channels_come_back_with_the_link,
        a_second_watch_takes_the_place_of_the_first,
        a_holder_that_publishes_nothing_is_noticed,
        each_change_is_received_and_the_alarm_stays_set,
        changes_faster_than_we_read,
        only_tracked_keys_cost_something,
        a_tracked_lock_subscribes_to_its_channel_too,
        a_key_no_longer_watched_sets_no_alarm,
        a_new_subscriber_connection_tracks_the_old_keys,
        a_new_reading_connection_reads_the_old_keys,
        a_change_while_the_links_are_away_is_found,
        a_killed_redis_tracks_again,
        an_emptied_redis_is_news_for_every_key,
        the_same_name_in_another_database,
        our_own_database_is_tracked,
        a_thousand_keys,
        names_of_bytes_are_tracked,
        an_alarm_that_was_not_confirmed_is_set_again,
        both_connections_are_killed_at_once,
        closing_in_the_middle,
    };
    TCase *tc[] = {tcase_create("up"), tcase_create("users"), tcase_create("no CLIENT")};

    tcase_add_checked_fixture(tc[0], world_up, world_end);
    for (size_t i = 0; i < sizeof(up) / sizeof(up[0]); i++) {
        tcase_add_test(tc[0], up[i]);
    }
    tcase_add_checked_fixture(tc[1], world_with_redis, world_end);
    tcase_add_test(tc[1], a_refused_channel_endangers_no_other);
    tcase_add_loop_test(tc[1], tracking_that_is_not_allowed, 0, 5);
    tcase_add_loop_test(tc[1], the_core_receives_unsubscribed, 0, 2);
    tcase_add_test(tc[1], it_comes_back_when_it_is_allowed);
    tcase_add_checked_fixture(tc[2], up_without_client, world_end);
    tcase_add_test(tc[2], a_redis_without_client_commands);
    return world_run("backend_watch", tc, 3);
}
