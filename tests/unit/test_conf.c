/*
 * test_conf.c -- files into confs and back: defaults, values, secrets, rules, round trips, the sample.
 *
 * Run from the top of the tree: the sample there is compared byte by byte.
 */
#include "tests/unit/conf_fixture.h"

#include "daemon/backend/cluster_url.h"
#include "daemon/base/clock.h"
#include "daemon/base/units.h"

#define SAMPLE "conf/rlockd.yaml"

struct wanted {
    const char *path;
    char value[512];
    bool reload;
    int found;
};

static void
match_path(void *ctx, const char *p, const char *value, bool reload)
{
    struct wanted *w = ctx;

    if (strcmp(p, w->path) == 0) {
        snprintf(w->value, sizeof(w->value), "%s", value);
        w->reload = reload;
        w->found++;
    }
}

/* What CONFIG GET would say. */
static const char *
value_of(const struct conf *cf, const char *key)
{
    static struct wanted w;

    w = (struct wanted){.path = key};
    conf_each(cf, match_path, &w);
    ck_assert_msg(w.found == 1, "%s: found %d times", key, w.found);
    return w.value;
}

START_TEST(defaults)
{
    struct conf *cf = conf_load(NULL, NULL, &errors);

    ck_assert_ptr_nonnull(cf);
    ck_assert_uint_eq(cf->listen.n, 2);
    ck_assert_str_eq(cf->listen.item[0], "unix:/run/rlockd/rlockd.sock");
    ck_assert_str_eq(cf->listen.item[1], "tcp:127.0.0.1:5625");
    ck_assert_str_eq(cf->redis_url, "redis://127.0.0.1:6379");
    ck_assert_ptr_null(cf->redis_user);
    ck_assert_ptr_null(cf->redis_password);
    ck_assert_int_eq(cf->redis_timeout_us, US_PER_S);
    ck_assert_int_eq(cf->redis_connect_us, US_PER_S);
    ck_assert_int_eq(cf->redis_backoff_min_us, 50 * US_PER_MS);
    ck_assert_int_eq(cf->redis_backoff_max_us, 2 * US_PER_S);
    ck_assert_int_eq(cf->redis_links, 1);
    ck_assert_int_eq(cf->redis_batch, 64);
    ck_assert_int_eq(cf->locks.lease_us, 30 * US_PER_S);
    ck_assert_int_eq(cf->locks.wait_us, DURATION_FOREVER);
    ck_assert_int_eq(cf->locks.owner_grace_us, 10 * US_PER_S);
    ck_assert_int_eq(cf->locks.queue_grace_us, 2 * US_PER_S);
    ck_assert_int_eq(cf->locks.linger_us, 0);
    ck_assert_int_eq(cf->locks.kind, KIND_REENTRANT);
    ck_assert_int_eq(cf->locks.value, VALUE_UUID);
    ck_assert_int_eq(cf->locks.on_loss, CONF_LOSS_NOTIFY);
    ck_assert_str_eq(cf->locks.key, "{name}");
    ck_assert_str_eq(cf->locks.prefix, "");
    ck_assert_int_eq(cf->locks.limit, 1);
    ck_assert_int_eq(cf->locks.waiters, 0);
    ck_assert_int_eq(cf->locks.foreign, CONF_FOREIGN_REFUSE);
    ck_assert(!cf->locks.tracking);
    ck_assert_uint_eq(cf->rules_n, 0);
    ck_assert_int_eq(cf->handoff_max, 64);
    ck_assert_int_eq(cf->handoff_time_us, 10 * US_PER_MS);
    ck_assert_int_eq(cf->deadlock_us, US_PER_S);
    ck_assert_int_eq(cf->max_poll_us, 5 * US_PER_S);
    ck_assert_int_eq(cf->limit_sessions, 20000);
    ck_assert_int_eq(cf->limit_waiters, 100000);
    ck_assert_int_eq(cf->limit_locks, 100000);
    ck_assert_int_eq(cf->limit_name_bytes, 512);
    ck_assert_int_eq(cf->limit_line_bytes, 16384);
    ck_assert_int_eq(cf->limit_words, 64);
    ck_assert_int_eq(cf->limit_output_bytes, 262144);
    ck_assert_int_eq(cf->limit_pipeline, 1024);
    ck_assert_int_eq(cf->limit_pipeline_bytes, 262144);
    ck_assert_ptr_null(cf->auth_password);
    ck_assert_ptr_null(cf->auth_admin_password);
    ck_assert(!cf->auth_unix);
    ck_assert_int_eq(cf->auth_timeout_us, 5 * US_PER_S);
    ck_assert_int_eq(cf->auth_bytes, 256);
    ck_assert_int_eq(cf->dead_peer_us, 10 * US_PER_S);
    ck_assert_int_eq(cf->drain_us, 10 * US_PER_S);
    ck_assert_int_eq(cf->socket_mode, 0660);
    ck_assert_int_eq(cf->log_level, LOG_INFO);
    ck_assert_str_eq(cf->http_listen, "");
    ck_assert_str_eq(cf->run_dir, "");
    conf_free(&cf);
    ck_assert_ptr_null(cf);
    conf_free(&cf);
}
END_TEST

/* Files that say nothing. */
START_TEST(empty_files)
{
    static const char *const files[] = {
        "", "\n\n", "# only this\n", "---\n", "--- ~\n", "{}", "\xef\xbb\xbf# a byte order mark\n",
        "redis:\nlocks:\n  # all commented out\n  #lease: 5s\nrules:\nlog: ~\n", "rules: []\n",
    };
    struct conf *none = conf_load(NULL, NULL, &errors), *cf = load(files[_i]);
    char *a = printed(none), *b = printed(cf);

    ck_assert_str_eq(a, b);
    free(a);
    free(b);
    conf_free(&none);
    conf_free(&cf);
}
END_TEST

/* The Config section of the contract, as it stands there. */
START_TEST(contract)
{
    struct conf *cf = load(
        "listen: [unix:/run/rlockd/rlockd.sock, tcp:127.0.0.1:5625]      # --listen replaces the list\n"
        "redis:  { url: redis://127.0.0.1:6379 }                          # --redis replaces it\n"
        "locks:\n"
        "  { lease: 30s, wait: forever, kind: reentrant, owner_grace: 10s, place_grace: 2s }\n"
        "rules:                                                           # first match wins\n"
        "  - { match: \"wl/*\", kind: simple, key: \"{name}:lock\", value: base64-uuid, linger: 0ms, on_loss: notify, "
        "limit: 5 }\n"
        "handoff: { max: 64, time: 10ms }\n"
        "limits:  { sessions: 20000, waiters: 100000, name_bytes: 512, line_bytes: 16KiB }\n"
        "log: { level: info }\n"
        "http: { listen: \"unix:/run/rlockd/http.sock\" }\n");

    ck_assert_uint_eq(cf->rules_n, 1);
    ck_assert_str_eq(cf->rules[0].match, "wl/*");
    ck_assert_int_eq(cf->rules[0].locks.kind, KIND_SIMPLE);
    ck_assert_int_eq(cf->rules[0].locks.value, VALUE_BASE64_UUID);
    ck_assert_str_eq(cf->rules[0].locks.key, "{name}:lock");
    ck_assert_int_eq(cf->rules[0].locks.limit, 5);
    ck_assert_int_eq(cf->rules[0].locks.lease_us, 30 * US_PER_S);
    ck_assert_str_eq(cf->http_listen, "unix:/run/rlockd/http.sock");
    conf_free(&cf);
}
END_TEST

static const struct {
    const char *yaml, *key, *value;
} good[] = {
    {"locks: {lease: 1500}", "locks.lease", "1500ms"},
    {"locks: {lease: '1s'}", "locks.lease", "1s"},
    {"locks: {lease: 24h}", "locks.lease", "24h"},
    {"locks: {wait: FOREVER}", "locks.wait", "forever"},
    {"locks: {wait: 0}", "locks.wait", "0ms"},
    {"locks: {wait: 8760h}", "locks.wait", "8760h"},
    {"locks: {kind: Simple}", "locks.kind", "simple"},
    {"locks: {linger: 0s}", "locks.linger", "0ms"},
    {"locks: {value: hex32}", "locks.value", "hex32"},
    {"locks: {on_loss: close}", "locks.on_loss", "close"},
    {"on_loss: close", "locks.on_loss", "close"},
    {"locks: {kind: FAIR}", "locks.kind", "fair"},
    {"locks: {foreign: Wait}", "locks.foreign", "wait"},
    {"locks: {tracking: true}", "locks.tracking", "true"},
    {"locks: {tracking: true}\nrules: [{match: a, tracking: false}]", "rules.0.tracking", "false"},
    {"locks: {foreign: wait}\nrules: [{match: a}]", "rules.0.foreign", "wait"},
    {"deadlock_delay: 0", "deadlock_delay", "0ms"},
    {"deadlock_delay: 1h", "deadlock_delay", "1h"},
    {"spin: 30us", "spin", "30us"},
    {"spin: 1ms", "spin", "1ms"},
    {"locks: {key: 'a:{name}:b'}", "locks.key", "a:{name}:b"},
    {"locks: {prefix: 'p {'}", "locks.prefix", "p {"},
    {"locks: {prefix: \"\\u00e9\"}", "locks.prefix", "\xc3\xa9"},
    {"locks: {prefix: 'null'}", "locks.prefix", "null"},
    {"listen: []", "listen", ""},
    {"listen: ['unix:" PATH_27 PATH_27 PATH_27 "']", "listen", "unix:" PATH_27 PATH_27 PATH_27},
    {"listen:\n- tcp:[::1]:0\n- unix:rel/path\n", "listen", "tcp:[::1]:0, unix:rel/path"},
    {"redis: {url: embedded}", "redis.url", "embedded"},
    {"redis: {url: 'unix:/r.sock?db=3'}", "redis.url", "unix:/r.sock?db=3"},
    {"redis: {url: 'unix:r.sock'}", "redis.url", "unix:r.sock"},
    {"redis: {url: 'redis://h:1/15'}", "redis.url", "redis://h:1/15"},
    {"redis: {url: 'redis://[::1]:6379'}", "redis.url", "redis://[::1]:6379"},
    {"redis: {url: 'redis://u:p:w@h:1'}", "redis.url", "redis://u:***@h:1"},
    {"redis: {url: 'redis://:pw@h:1/0'}", "redis.url", "redis://:***@h:1/0"},
    {"redis: {url: 'redis://u:p@/w@h:1/0'}", "redis.url", "redis://u:***@h:1/0"},
    {"redis: {url: 'redis://u:@h:1'}", "redis.url", "redis://u:@h:1"},
    {"redis: {user: me, password: pw}", "redis.password", "***"},
    {"redis: {backoff_min: 3s, backoff_max: 3s}", "redis.backoff_max", "3s"},
    {"auth: {unix: true, password: x}", "auth.unix", "true"},
    {"auth: {bytes: 1KiB}", "auth.bytes", "1KiB"},
    {"limits: {output_bytes: 64MiB}", "limits.output_bytes", "64MiB"},
    {"socket_mode: 600", "socket_mode", "0600"},
    {"log: {level: debug}", "log.level", "debug"},
    {"redis: {url: 'rediss://[::1]:1/2', tls_ca_file: credential:ca}", "redis.tls_ca_file", "credential:ca"},
    {"redis: {url: 'quorum:unix:/a,rediss://b:1,rediss://c:1', tls_ca_file: ca.pem}", "redis.tls_ca_file", "ca.pem"},
    {"http: {listen: tcp:localhost:80}", "http.listen", "tcp:localhost:80"},
    {"rules: [{match: a}, {match: 'b*', lease: 5s}]\nlocks: {lease: 7s}", "rules.0.lease", "7s"},
    {"rules: [{match: a}, {match: 'b*', lease: 5s}]\nlocks: {lease: 7s}", "rules.1.lease", "5s"},
    {"\"locks\": {\"lease\": \"5s\"}", "locks.lease", "5s"},
};

START_TEST(good_files)
{
    struct conf *cf = load(good[_i].yaml);

    ck_assert_str_eq(value_of(cf, good[_i].key), good[_i].value);
    conf_free(&cf);
}
END_TEST

START_TEST(secrets_in_a_readable_file)
{
    static const char *const files[] = {"auth: {password: hunter2}", "auth: {admin_password: hunter2}",
                                        "redis: {password: hunter2}", "redis: {url: 'redis://u:hunter2@h:1'}",
                                        "redis: {url: 'rediss://u:hunter2@h:1'}"};
    struct conf *cf;

    for (size_t i = 0; i < ROWS(files); i++) {
        cf = load_bytes(files[i], strlen(files[i]), 0644);
        ck_assert_ptr_null(cf);
        ck_assert_ptr_nonnull(
            strstr(complaints(), "a password in a file that everyone may read (mode 0644): chmod o-r"));
        ck_assert_ptr_null(strstr(str(&errors), "hunter2"));
        cf = load_bytes(files[i], strlen(files[i]), 0640);
        ck_assert_ptr_nonnull(cf);
        conf_free(&cf);
    }
    cf = load_bytes("auth: {password: ''}", 20, 0644);
    ck_assert_ptr_nonnull(cf);
    ck_assert_ptr_null(cf->auth_password);
    conf_free(&cf);
}
END_TEST

static void
count_leaks(void *ctx, const char *key, const char *value, bool reload)
{
    int *leaks = ctx;

    (void)key;
    (void)reload;
    *leaks += strstr(value, "hunter2") != NULL;
}

START_TEST(secrets_are_not_printed)
{
    struct conf *cf = load("auth: {password: hunter2, admin_password: hunter2b}\n"
                           "redis: {url: 'redis://u:hunter2c@h:1', user: u, password: hunter2d}\n");
    struct conf *none = conf_load(NULL, NULL, &errors);
    char *p = printed(cf);
    int leaks = 0;

    ck_assert_str_eq(cf->auth_password, "hunter2");
    ck_assert_str_eq(cf->auth_admin_password, "hunter2b");
    ck_assert_str_eq(cf->redis_url, "redis://u:hunter2c@h:1");
    ck_assert_str_eq(cf->redis_password, "hunter2d");
    ck_assert_ptr_null(strstr(p, "hunter2"));
    conf_each(cf, count_leaks, &leaks);
    conf_each_restart(none, cf, count_leaks, &leaks);
    ck_assert_int_eq(leaks, 0);
    ck_assert_str_eq(value_of(cf, "auth.password"), "***");
    ck_assert_str_eq(value_of(none, "auth.password"), "");
    free(p);
    conf_free(&cf);
    conf_free(&none);
    ck_assert_ptr_null(load_bytes("auth: {password: [hunter2]}\nredis: {url: 'hunter2:x@y'}\n", 56, 0600));
    ck_assert_ptr_null(strstr(str(&errors), "hunter2"));
}
END_TEST

/* A conf that takes its password from `pw`, whose contents and mode are given. */
static struct conf *
load_password(const void *p, size_t n, mode_t mode, const char *more)
{
    char pw[128], yaml[512];

    snprintf(pw, sizeof(pw), "%s/pw", dir);
    put(pw, p, n, mode);
    snprintf(yaml, sizeof(yaml), "auth: { password_file: %s%s }\n", pw, more);
    return load_bytes(yaml, strlen(yaml), 0644);
}

START_TEST(password_files)
{
    static const struct {
        const char *bytes;
        size_t n;
        mode_t mode;
        const char *more, *complaint;
    } rows[] = {
        {"secret\n", 7, 0604, "", "may be read by everyone (mode 0604): chmod o-r"},
        {"", 0, 0600, "", "has no password in it"},
        {"\n", 1, 0600, "", "has no password in it"},
        {"a\nb\n", 4, 0600, "", "has a character that cannot be printed"},
        {"a\0b", 3, 0600, "", "has a character that cannot be printed"},
        {"secret", 6, 0600, ", password: x", "password is given as well; give only one of them"},
    };
    char want[256], long_one[200];
    struct conf *cf;

    for (size_t i = 0; i < 4; i++) {
        static const char *const bytes[] = {"se cret", "se cret\n", "se cret\r\n", "se cret"};

        cf = load_password(bytes[i], strlen(bytes[i]), i == 3 ? 0640 : 0600, i == 3 ? ", password: ''" : "");
        ck_assert_msg(cf != NULL, "%s", str(&errors));
        ck_assert_str_eq(cf->auth_password, "se cret");
        conf_free(&cf);
    }
    for (size_t i = 0; i < ROWS(rows); i++) {
        bool later = rows[i].more[0] != '\0';

        cf = load_password(rows[i].bytes, rows[i].n, rows[i].mode, rows[i].more);
        ck_assert_ptr_null(cf);
        snprintf(want, sizeof(want), "1:9: auth.password_file: %s\n", rows[i].complaint);
        ck_assert_msg(strstr(complaints(), want) != NULL, "%s", complaints());
        ck_assert(later || strcmp(complaints(), want) == 0);
    }
    memset(long_one, 'x', sizeof(long_one));
    ck_assert_ptr_null(load_password(long_one, sizeof(long_one), 0600, ""));
    ck_assert_str_eq(complaints(), "1:9: auth.password_file: is longer than 128 bytes\n");
}
END_TEST

START_TEST(password_files_that_are_none)
{
    static const struct {
        const char *file, *complaint;
    } rows[] = {{"none", "cannot be opened: No such file or directory"}, {"", "is a directory"},
                {"fifo", "is not a regular file"}};
    char yaml[256], want[256];

    snprintf(yaml, sizeof(yaml), "%s/fifo", dir);
    ck_assert_int_eq(mkfifo(yaml, 0600), 0);
    for (size_t i = 0; i < ROWS(rows); i++) {
        snprintf(yaml, sizeof(yaml), "redis: { password_file: %s/%s }\n", dir, rows[i].file);
        ck_assert_ptr_null(load_bytes(yaml, strlen(yaml), 0644));
        snprintf(want, sizeof(want), "1:10: redis.password_file: %s\n", rows[i].complaint);
        ck_assert_str_eq(complaints(), want);
    }
}
END_TEST

/* Protected mode: where other hosts come in there must be a password, or protected_mode: false. */
START_TEST(addresses_of_other_hosts)
{
    static const struct {
        const char *addr;
        bool local;
    } rows[] = {
        {"unix:/x", true},           {"unix:0.0.0.0:1", true},        {"tcp:127.0.0.1:1", true},
        {"tcp:127.9.9.9:1", true},   {"tcp:localhost:1", true},       {"tcp:[::1]:1", true},
        {"tcp:[::ffff:127.0.0.1]:1", true}, {"tcp:127.1:1", true},
        {"tcp:0.0.0.0:1", false},    {"tcp:*:1", false},              {"tcp:[::]:1", false},
        {"tcp:10.0.0.1:1", false},   {"tcp:localhost.example:1", false}, {"tcp:128.0.0.1:1", false},
        {"tcp:[::ffff:10.0.0.1]:1", false}, {"tcp:[fe80::1]:1", false}, {"tcp:0:1", false},
    };
    char yaml[256], one[64], *items[] = {one};
    struct conf_overrides over = {.listen = {items, 1}};
    struct conf *cf;

    for (size_t i = 0; i < ROWS(rows); i++) {
        snprintf(yaml, sizeof(yaml), "listen: [\"unix:/y\", \"%s\"]\n", rows[i].addr);
        cf = load_bytes(yaml, strlen(yaml), 0600);
        ck_assert_msg((cf != NULL) == rows[i].local, "%s: %s", rows[i].addr, str(&errors));
        if (cf == NULL) {
            snprintf(yaml, sizeof(yaml), "1:1: listen: %s: other hosts may reach it without a password: "
                                         "set auth.password, or protected_mode: false\n", rows[i].addr);
            ck_assert_str_eq(complaints(), yaml);
        }
        conf_free(&cf);
        buf_clear(&errors, SIZE_MAX);
        snprintf(one, sizeof(one), "%s", rows[i].addr);
        cf = conf_load(NULL, &over, &errors);
        ck_assert_msg((cf != NULL) == rows[i].local, "--listen %s: %s", rows[i].addr, str(&errors));
        conf_free(&cf);
        buf_clear(&errors, SIZE_MAX);
        snprintf(yaml, sizeof(yaml), "listen: [\"%s\"]\nauth: { password: x }\n", rows[i].addr);
        cf = load_bytes(yaml, strlen(yaml), 0600);
        ck_assert_msg(cf != NULL, "%s", str(&errors));
        conf_free(&cf);
        snprintf(yaml, sizeof(yaml), "listen: [\"%s\"]\nprotected_mode: false\n", rows[i].addr);
        cf = load_bytes(yaml, strlen(yaml), 0600);
        ck_assert_msg(cf != NULL, "%s", str(&errors));
        conf_free(&cf);
    }
    put(path, "listen: [\"tcp:*:1\"]\nauth: { admin_password: x }\n", 47, 0600); /* locks need no password */
    ck_assert_ptr_null(conf_load(path, NULL, &errors));
}
END_TEST

START_TEST(overrides)
{
    char *two[] = {(char[]){"tcp:localhost:1"}, (char[]){"unix:/x"}};
    char *bad_one[] = {(char[]){"tcp:[::1]:1"}, (char[]){"nonsense"}};
    struct conf_overrides over = {.listen = {two, 2}, .redis_url = "unix:/r", .log_level = "debug"};
    struct conf *cf;

    put(path, "listen: [tcp:a:9]\nlog: {level: error}\n", 38, 0600);
    cf = conf_load(path, &over, &errors);
    ck_assert_msg(cf != NULL, "%s", str(&errors));
    ck_assert_uint_eq(cf->listen.n, 2);
    ck_assert_str_eq(cf->listen.item[0], "tcp:localhost:1");
    ck_assert_str_eq(cf->listen.item[1], "unix:/x");
    ck_assert_str_eq(cf->redis_url, "unix:/r");
    ck_assert_int_eq(cf->log_level, LOG_DEBUG);
    conf_free(&cf);
    over = (struct conf_overrides){.listen = {bad_one, 2}, .redis_url = "redis://u:hunter2@", .log_level = "loud"};
    put(path, "max_poll: 1\n", 12, 0600);
    ck_assert_ptr_null(conf_load(path, &over, &errors));
    snprintf(two[1], 8, "%s", "");
    buf_clear(&text, SIZE_MAX);
    buf_printf(&text,
               "%s:1:11: max_poll: \"1\" is out of range: 100ms to 1h\n"
               "--listen: must be unix:PATH or tcp:HOST:PORT\n--redis: must end in :PORT, a number from 1 to 65535\n"
               "--log-level: \"loud\" is not a level: one of error, warn, info, debug\n",
               path);
    ck_assert_str_eq(str(&errors), str(&text));
    buf_clear(&errors, SIZE_MAX);
    over = (struct conf_overrides){.redis_url = "unix:/\xff\xfe"};
    ck_assert_ptr_null(conf_load(NULL, &over, &errors));
    ck_assert_str_eq(str(&errors), "--redis: has a character that cannot be printed\n");
}
END_TEST

/* A file that asks for TLS is not used without it, wherever the URL comes from. */
START_TEST(tls_of_a_url_of_the_command_line)
{
    static const char yaml[] = "redis:\n  url: redis://h:1\n  tls_ca_file: ca.pem\n  tls_server_name: h\n";
    static const struct {
        const char *url, *why; /* NULL: taken */
    } rows[] = {
        {"rediss://h:1", NULL},
        {"sentinel+tls:h:1/m", NULL},
        {"quorum:unix:/a,rediss://b:1,rediss://c:1", NULL},
        {"redis://h:1", "redis.url has no TLS (rediss://, sentinel+tls:, cluster+tls:)"},
        {"unix:/r", "redis.url has no TLS (rediss://, sentinel+tls:, cluster+tls:)"},
        {"quorum:rediss://a:1,redis://b:1,rediss://c:1", "redis.url has a node without TLS"},
    };

    put(path, yaml, strlen(yaml), 0600);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct conf_overrides over = {.redis_url = rows[i].url};
        struct conf *cf;

        buf_clear(&errors, SIZE_MAX);
        buf_clear(&text, SIZE_MAX);
        cf = conf_load(path, &over, &errors);
        if (rows[i].why != NULL) {
            buf_printf(&text, "--redis: redis.tls_ca_file: %s\n--redis: redis.tls_server_name: %s\n", rows[i].why,
                       rows[i].why);
        }
        ck_assert_str_eq(str(&errors), str(&text));
        ck_assert((cf != NULL) == (rows[i].why == NULL));
        conf_free(&cf);
    }
}
END_TEST

/* The nodes of a large cluster, each by a long name. */
START_TEST(a_long_list_of_nodes)
{
    struct cluster_url url;
    char error[160];
    struct conf *cf;

    buf_clear(&text, SIZE_MAX);
    buf_adds(&text, "redis: {url: 'cluster:");
    for (int i = 0; i < CLUSTER_LISTED_MAX; i++) {
        buf_printf(&text, "%snode-%02d.redis.some-cluster.eu-central-1.cloud.example:6379", i > 0 ? "," : "", i);
    }
    buf_adds(&text, "'}\n");
    cf = load_bytes(str(&text), text.n, 0600);
    ck_assert_msg(cf != NULL, "%s", str(&errors));
    ck_assert_uint_gt(strlen(cf->redis_url), 3000);
    ck_assert_msg(cluster_url_parse(cf->redis_url, &url, error), "%s", error);
    ck_assert_uint_eq(url.listed_n, CLUSTER_LISTED_MAX);
    ck_assert_str_eq(url.listed[CLUSTER_LISTED_MAX - 1].host, "node-63.redis.some-cluster.eu-central-1.cloud.example");
    conf_free(&cf);
    buf_clear(&text, SIZE_MAX);
    buf_printf(&text, "redis: {url: 'redis://u:%04082d@h:1'}\n", 0);
    cf = load(str(&text));
    ck_assert_uint_eq(strlen(cf->redis_url), 4096);
    conf_free(&cf);
    buf_clear(&text, SIZE_MAX);
    buf_printf(&text, "redis: {url: 'redis://u:%04083d@h:1'}\n", 0);
    ck_assert_ptr_null(load_bytes(str(&text), text.n, 0600));
    ck_assert_ptr_nonnull(strstr(str(&errors), "is longer than 4096 bytes"));
}
END_TEST

START_TEST(rules_and_keys)
{
    static const struct {
        const char *name, *key;
        int64_t lease_s;
    } rows[] = {
        {"wl/a", "wl/a:lock", 7},  {"wl/", "wl/:lock", 7},         {"wl", "all:wl", 7},
        {"app:1", "x:p:app:1", 5}, {"wl/{name}", "wl/{name}:lock", 7}, {"", "all:", 7},
    };
    struct conf *cf = load("rules:\n"
                           "- { match: 'wl/*', key: '{name}:lock', prefix: '' }\n"
                           "- { match: 'app:[0-9]', lease: 5s, key: 'x:{name}', prefix: 'p:' }\n"
                           "- { match: 'app:*', lease: 1s }\n"
                           "locks: { lease: 7s, prefix: 'all:' }\n");

    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct conf_locks *cl = conf_locks_for(cf, slice_of(rows[i].name));

        buf_clear(&text, SIZE_MAX);
        conf_key_of(cl, slice_of(rows[i].name), &text);
        ck_assert_str_eq(str(&text), rows[i].key);
        ck_assert_int_eq(cl->lease_us, rows[i].lease_s * US_PER_S);
    }
    ck_assert_ptr_eq(conf_locks_for(cf, SLICE_LIT("other")), &cf->locks);
    conf_free(&cf);
}
END_TEST

struct reported {
    char line[1024];
};

static void
note(void *ctx, const char *key, const char *value, bool reload)
{
    struct reported *t = ctx;
    size_t n = strlen(t->line);

    ck_assert(!reload);
    snprintf(t->line + n, sizeof(t->line) - n, "%s=%s;", key, value);
}

START_TEST(settings_that_need_a_restart)
{
    struct reported t = {""};
    struct conf *was = load("redis: {password: a, timeout: 2s}\n");
    struct conf *now = load("redis: {password: b, tls_ca_file: '', timeout: 2000ms, links: 2}\n"
                            "locks: {lease: 5s}\nlisten: [tcp:127.0.0.1:5625]\n"
                            "socket_mode: 0600\nlimits: {words: 20}\nrules: [{match: a}]\nlog: {level: debug}\n"
                            "auth: {password: x}\n");

    conf_each_restart(was, now, note, &t);
    ck_assert_str_eq(t.line, "listen=tcp:127.0.0.1:5625;redis.links=2;socket_mode=0600;");
    t.line[0] = '\0';
    conf_keep(now, was);
    conf_each_restart(was, now, note, &t);
    ck_assert_str_eq(t.line, "");
    ck_assert_str_eq(now->redis_password, "b");
    ck_assert_int_eq(now->locks.lease_us, 5 * US_PER_S);
    conf_free(&was);
    conf_free(&now);
}
END_TEST

START_TEST(settings_for_another_url)
{
    struct conf *was = load("redis: {user: a, tls_server_name: s, url: 'rediss://h:1'}\nlocks: {lease: 5s}\n");
    struct conf *now = load("redis: {user: b, password: c, url: 'redis://h:1'}\n"
                            "locks: {prefix: p}\nrules: [{match: '*', prefix: ''}]\n");

    conf_keep(now, was);
    ck_assert_str_eq(now->redis_url, "rediss://h:1");
    ck_assert_str_eq(now->redis_user, "a");
    ck_assert_ptr_null(now->redis_password);
    ck_assert_str_eq(now->redis_tls_server_name, "s");
    ck_assert_int_eq(now->locks.lease_us, 30 * US_PER_S);
    ck_assert_str_eq(now->locks.prefix, "p"); /* the keys of names are compared as a whole */
    conf_free(&was);
    conf_free(&now);
}
END_TEST

START_TEST(settings_that_a_reload_takes)
{
    struct conf *cf = conf_load(NULL, NULL, &errors);
    struct wanted w = {.path = "locks.lease"};

    conf_each(cf, match_path, &w);
    ck_assert(w.found == 1 && w.reload);
    w = (struct wanted){.path = "redis.url"};
    conf_each(cf, match_path, &w);
    ck_assert(w.found == 1 && !w.reload);
    conf_free(&cf);
}
END_TEST

static const char *const trips[] = {
    "",
    "listen: []\n",
    "listen: ['unix:/a b, c', 'tcp:[::1]:0', 'unix:/x#y', \"unix:\\\"\\\\\"]\n",
    "locks: {prefix: 'a: b # \"c\" \\ ''d'' [e] {f}', key: ' {name} ', wait: 1ms, kind: counter, on_loss: close}\n",
    "locks: {prefix: 'null'}\nrules: [{match: '~'}, {match: 'true', prefix: '-'}, {match: ':', prefix: '? x'}]\n",
    "locks: {prefix: \"\\u00e9\\u4e2d\\U0001f512\"}\n",
    "redis: {url: 'redis://u:p w@h:1/3', user: '*u', password: '&p'}\nauth: {password: '#', unix: true}\n",
    ("rules: [{match: '*', lease: 90s, limit: 3, value: hex32, foreign: wait, tracking: true, wakes: spring}]\n"
     "socket_mode: 007\nhttp: {listen: 'tcp:a:1'}"),
};

START_TEST(round_trips)
{
    struct conf *cf = load(trips[_i]);

    round_trip(cf);
    conf_free(&cf);
}
END_TEST

START_TEST(round_trip_with_a_password_file)
{
    struct conf *cf = load_password("x", 1, 0600, "");

    ck_assert_ptr_nonnull(cf);
    round_trip(cf);
    conf_free(&cf);
}
END_TEST

static void
read_file(const char *name, struct buf *out)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    ck_assert_msg(fd >= 0, "%s: run from the top of the tree", name);
    while ((n = read(fd, buf_space(out, 4096), 4096)) > 0) {
        out->n += (size_t)n;
    }
    ck_assert_int_eq(n, 0);
    close(fd);
}

START_TEST(the_sample_is_in_the_tree)
{
    struct buf sample;

    buf_init(&sample, 0);
    conf_print_sample(&sample);
    read_file(SAMPLE, &text);
    ck_assert_msg(slice_eq(buf_slice(&sample), buf_slice(&text)),
                  SAMPLE " is not what conf/keys.def says: rlockd --sample-config >" SAMPLE);
    buf_fini(&sample);
}
END_TEST

START_TEST(the_sample_is_the_defaults)
{
    struct conf *none = conf_load(NULL, NULL, &errors), *cf;
    char *want = printed(none), *got;

    conf_print_sample(&text);
    cf = load(str(&text));
    got = printed(cf);
    ck_assert_str_eq(got, want);
    conf_free(&cf);
    free(got);
    buf_clear(&text, SIZE_MAX);
    uncommented(&text, false);
    ck_assert_ptr_nonnull(strstr(str(&text), "\n  lease: 30s\n"));
    cf = load(str(&text));
    got = printed(cf);
    ck_assert_str_eq(got, want);
    conf_free(&cf);
    free(got);
    buf_clear(&text, SIZE_MAX);
    conf_free(&none);
    free(want);
}
END_TEST

/* A library, by a name that its rule in the sample is for, and what the rule must say of it. */
static const struct {
    const char *name, *key;
    enum kind kind;
    enum value_format value;
    bool tracking;
    enum conf_foreign foreign;
    enum wakes wakes;
} libraries[] = {
    {"wl/1", "wl/1:lock", KIND_SIMPLE, VALUE_BASE64_UUID, true, CONF_FOREIGN_REFUSE, WAKES_NONE},
    {"redlock/1", "redlock/1", KIND_SIMPLE, VALUE_HEX32, true, CONF_FOREIGN_WAIT, WAKES_NONE},
    {"py/1", "py/1", KIND_SIMPLE, VALUE_HEX32, true, CONF_FOREIGN_WAIT, WAKES_NONE},
    {"redsync/1", "redsync/1", KIND_SIMPLE, VALUE_BASE64_UUID, true, CONF_FOREIGN_WAIT, WAKES_NONE},
    {"redislock/1", "redislock/1", KIND_SIMPLE, VALUE_BASE64_URL, true, CONF_FOREIGN_WAIT, WAKES_NONE},
    {"spring/1", "registry:spring/1", KIND_SIMPLE, VALUE_UUID, true, CONF_FOREIGN_REFUSE, WAKES_SPRING},
    {"prl/1", "lock:prl/1", KIND_SIMPLE, VALUE_UUID, true, CONF_FOREIGN_WAIT, WAKES_PYTHON},
    {"dapr/1", "lock||myapp||dapr/1", KIND_SIMPLE, VALUE_UUID, true, CONF_FOREIGN_REFUSE, WAKES_NONE},
    {"spin/1", "spin/1", KIND_REENTRANT, VALUE_UUID, true, CONF_FOREIGN_REFUSE, WAKES_NONE},
    {"fair/1", "fair/1", KIND_FAIR, VALUE_UUID, false, CONF_FOREIGN_REFUSE, WAKES_NONE},
    {"rw/1", "rw/1", KIND_RW, VALUE_UUID, false, CONF_FOREIGN_REFUSE, WAKES_NONE},
    {"pool/1", "pool/1", KIND_SEMAPHORE, VALUE_UUID, false, CONF_FOREIGN_REFUSE, WAKES_NONE},
    {"fenced/1", "fenced/1", KIND_FENCED, VALUE_UUID, false, CONF_FOREIGN_REFUSE, WAKES_NONE},
    {"other", "other", KIND_REENTRANT, VALUE_UUID, false, CONF_FOREIGN_REFUSE, WAKES_NONE},
};

START_TEST(the_samples_rules_are_in_force)
{
    const struct conf_locks *cl;
    struct conf *cf;
    struct buf key;

    uncommented(&text, true);
    cf = load(str(&text));
    ck_assert_uint_eq(cf->rules_n, ROWS(libraries) - 1);
    cl = conf_locks_for(cf, slice_of(libraries[_i].name));
    buf_init(&key, 0);
    conf_key_of(cl, slice_of(libraries[_i].name), &key);
    ck_assert_str_eq(str(&key), libraries[_i].key);
    ck_assert_int_eq(cl->kind, libraries[_i].kind);
    ck_assert_int_eq(cl->value, libraries[_i].value);
    ck_assert_int_eq(cl->tracking, libraries[_i].tracking);
    ck_assert_int_eq(cl->foreign, libraries[_i].foreign);
    ck_assert_int_eq(cl->wakes, libraries[_i].wakes);
    ck_assert_int_eq(cl->limit, cl->kind == KIND_SEMAPHORE ? 10 : 1);
    buf_fini(&key);
    conf_free(&cf);
}
END_TEST

static void
in_sample(void *ctx, const char *key, const char *value, bool reload)
{
    const char *name = strrchr(key, '.') != NULL ? strrchr(key, '.') + 1 : key;
    char line[64];

    (void)value;
    (void)reload;
    snprintf(line, sizeof(line), "%s#%s: ", strchr(key, '.') != NULL ? "\n  " : "\n", name);
    ck_assert_msg(strstr(ctx, line) != NULL, "%s is not in the sample", key);
}

START_TEST(the_sample_has_every_key)
{
    struct conf *cf = conf_load(NULL, NULL, &errors);
    char *sample;

    conf_print_sample(&text);
    sample = strdup(str(&text));
    ck_assert_ptr_nonnull(sample);
    conf_each(cf, in_sample, sample);
    free(sample);
    conf_free(&cf);
}
END_TEST

int
main(void)
{
    TCase *tc = tcase_create("all");

    tcase_add_test(tc, defaults);
    tcase_add_loop_test(tc, empty_files, 0, 9);
    tcase_add_test(tc, contract);
    tcase_add_loop_test(tc, good_files, 0, ROWS(good));
    tcase_add_test(tc, secrets_in_a_readable_file);
    tcase_add_test(tc, secrets_are_not_printed);
    tcase_add_test(tc, password_files);
    tcase_add_test(tc, password_files_that_are_none);
    tcase_add_test(tc, addresses_of_other_hosts);
    tcase_add_test(tc, overrides);
    tcase_add_test(tc, tls_of_a_url_of_the_command_line);
    tcase_add_test(tc, a_long_list_of_nodes);
    tcase_add_test(tc, rules_and_keys);
    tcase_add_test(tc, settings_that_need_a_restart);
    tcase_add_test(tc, settings_for_another_url);
    tcase_add_test(tc, settings_that_a_reload_takes);
    tcase_add_loop_test(tc, round_trips, 0, ROWS(trips));
    tcase_add_test(tc, round_trip_with_a_password_file);
    tcase_add_test(tc, the_sample_is_in_the_tree);
    tcase_add_test(tc, the_sample_is_the_defaults);
    tcase_add_loop_test(tc, the_samples_rules_are_in_force, 0, ROWS(libraries));
    tcase_add_test(tc, the_sample_has_every_key);
    return run_suite("conf", tc);
}
