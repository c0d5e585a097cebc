/*
 * test_conf_bad.c -- files that are wrong: each complaint with its place and words, hostile shapes, random edits.
 */
#include "tests/unit/conf_fixture.h"
#include "tests/unit/rng.h"

#define DURATION_ERROR "a duration such as 250ms, 30s, 2m or 1h"
#define SERVER_TWICE URL_ERROR "names a server twice: another database of it is no other node\n"
#define BYTES_16 "aaaaaaaaaaaaaaaa"
#define BYTES_64 BYTES_16 BYTES_16 BYTES_16 BYTES_16
#define BYTES_256 BYTES_64 BYTES_64 BYTES_64 BYTES_64
#define HOST_OF_256 URL_ERROR "has a host of 256 bytes; a name of a host has at most 255\n"
#define SENTINELS_17 "a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9,a:10,a:11,a:12,a:13,a:14,a:15,a:16,a:17"
#define QUORUM "quorum:redis://a:1,redis://b:1,redis://c:1"
#define CLUSTER_DB "takes no database number, and nothing else behind the nodes: a cluster has one database\n"
#define CLUSTER_ERROR "1:9: redis.url: locks in a cluster have no wakes, and "
#define QUORUM_ERROR "1:9: redis.url: a quorum has the kinds reentrant and simple, without replicas, and "
#define URL_ERROR "1:14: redis.url: "
#define ADDRESS_ERROR "1:10: listen: "
#define BAD_HOST "has a host that cannot be one; an IPv6 address stands in [brackets]\n"

static const struct {
    const char *yaml, *complaints;
} bad[] = {
    /* Not YAML. */
    {"locks:\n\tlease: 5s\n", "2:1: found character that cannot start any token (while scanning for the next token): "
                              "there is a tab; YAML is indented with blanks\n"},
    {"# \xc3\xa9\nlocks: {lease: 1s,\n\t", "4:1: did not find expected node content (while parsing a flow node)\n"},
    {"listen: [unix:/a, tcp:x:1\nlocks: {}\n",
     "2:6: did not find expected ',' or ']' (while parsing a flow sequence that begins at 1:9)\n"},
    {"\"locks: {}\n", "2:1: found unexpected end of stream (while scanning a quoted scalar that begins at 1:1)\n"},
    {"locks: {}\n  lease: 5s\n", "2:3: did not find expected key (while parsing a block mapping that begins at 1:1)\n"},
    {"a: [1, 2]]\n", "1:10: did not find expected key (while parsing a block mapping that begins at 1:1)\n"},
    {"%YAML 1.3\n--- {}\n", "1:1: found incompatible YAML document\n"},
    {"a: \"\xff\"\n", "1:5: invalid leading UTF-8 octet: the file must be UTF-8 text\n"},
    {"a: b\n\xc3\xa9: \"\xc3\"\n", "2:6: invalid trailing UTF-8 octet: the file must be UTF-8 text\n"},
    {"a: b\nc: \x01\n", "2:4: control characters are not allowed: the file must be UTF-8 text\n"},
    {"locks: @x\n", "1:8: found character that cannot start any token (while scanning for the next token)\n"},
    /* YAML that is no configuration. */
    {"hello\n", "1:1: a configuration is a mapping of keys to values\n"},
    {"[1, 2]\n", "1:1: a configuration is a mapping of keys to values\n"},
    {"''\n", "1:1: a configuration is a mapping of keys to values\n"},
    {"--- {}\n--- {}\n", "2:1: a second document: a configuration has only one\n"},
    {"--- {}\n--- {}\n--- {}\n", "2:1: a second document: a configuration has only one\n"},
    {"locks: *x\n", "1:8: an alias: not supported, write the value itself\n"},
    {"locks: &x {lease: 5s}\nrules: [{match: a, lease: *y}, *x]\n",
     "1:8: an anchor: not supported, nor are aliases that would refer to it\n"
     "2:27: an alias: not supported, write the value itself\n2:32: an alias: not supported, write the value itself\n"},
    {"locks: !!map {lease: !x 5s}\nlisten: !!seq []\n",
     "1:8: a tag: not supported, the key says the type of its value\n"
     "1:22: a tag: not supported, the key says the type of its value\n"
     "2:9: a tag: not supported, the key says the type of its value\n"},
    {"? [a]\n: b\n? {a: b}\n: c\n", "1:3: a key must be a word\n3:3: a key must be a word\n"},
    {"<<: {lease: 5s}\n", "1:1: unknown key \"<<\"\n"},
    /* Unknown and double keys. */
    {"lisen: []\n", "1:1: unknown key \"lisen\"; did you mean \"listen\"?\n"},
    {"locks:\n  laese: 5s\n", "2:3: unknown key \"laese\" in \"locks\"; did you mean \"lease\"?\n"},
    {"lease: 5s\n", "1:1: unknown key \"lease\"; did you mean \"lease\" in locks?\n"},
    {"timeout: 5s\n", "1:1: unknown key \"timeout\"\n"},
    {"locks: {abc: 1}\n", "1:9: unknown key \"abc\" in \"locks\"\n"},
    {"locks: {match: a}\n", "1:9: unknown key \"match\" in \"locks\"; did you mean \"match\" in rules?\n"},
    {"locks: {redis: {}}\n", "1:9: unknown key \"redis\" in \"locks\"; did you mean \"redis\" at the top?\n"},
    {"auth: {passwort: x}\n", "1:8: unknown key \"passwort\" in \"auth\"; did you mean \"password\"?\n"},
    {"\"\\n\\e[31m\\\"\": 1\n", "1:1: unknown key \"\\x0a\\x1b[31m\\x22\"\n"},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: 1\n",
     "1:1: unknown key \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\"\n"},
    {"Locks: {}\n", "1:1: unknown key \"Locks\"; did you mean \"locks\"?\n"},
    {"log: {level: info}\nlog: {level: debug}\n", "2:1: duplicate key \"log\": it is set at 1:1 already\n"},
    {"locks:\n  lease: 5s\n  wait: 1s\n  lease: 6s\n", "4:3: duplicate key \"lease\": it is set at 2:3 already\n"},
    {"locks: {on_loss: notify}\non_loss: close\n", "2:1: duplicate key \"on_loss\": it is set at 1:9 already\n"},
    {"on_loss: close\nlocks: {on_loss: notify}\n", "2:9: duplicate key \"on_loss\": it is set at 1:1 already\n"},
    /* Wrong types. */
    {"locks: 5\n", "1:8: locks: takes keys of its own\n"},
    {"locks: []\n", "1:8: locks: takes keys of its own\n"},
    {"locks: ''\n", "1:8: locks: takes keys of its own\n"},
    {"listen: tcp:a:1\n",
     "1:9: listen: takes a list such as [unix:/run/rlockd/rlockd.sock, tcp:127.0.0.1:5625]\n"},
    {"listen: [[]]\n",
     "1:10: listen: takes a list such as [unix:/run/rlockd/rlockd.sock, tcp:127.0.0.1:5625]\n"},
    {"listen: [~]\n",
     "1:10: listen: has no value; it takes a list such as [unix:/run/rlockd/rlockd.sock, tcp:127.0.0.1:5625]\n"},
    {"locks: {lease: [1]}\n", "1:16: locks.lease: takes " DURATION_ERROR " (1s to 24h)\n"},
    {"locks: {lease: {a: b}}\n", "1:16: locks.lease: takes " DURATION_ERROR " (1s to 24h)\n"},
    {"locks: {lease: }\n", "1:16: locks.lease: has no value; it takes " DURATION_ERROR " (1s to 24h)\n"},
    {"locks: {prefix: null}\n", "1:17: locks.prefix: has no value; it takes a text\n"},
    {"auth: {password: ~}\n", "1:18: auth.password: has no value; it takes a text\n"},
    {"rules: {match: a}\n", "1:8: rules: takes a list of rules, each a mapping with `match`\n"},
    {"locks: {lease: soon}\n", "1:16: locks.lease: \"soon\" is not " DURATION_ERROR " (1s to 24h)\n"},
    {"locks: {lease: forever}\n", "1:16: locks.lease: \"forever\" is not " DURATION_ERROR " (1s to 24h)\n"},
    {"locks: {lease: 5S}\n", "1:16: locks.lease: \"5S\" is not " DURATION_ERROR " (1s to 24h)\n"},
    {"locks: {wait: 8761h}\n",
     "1:15: locks.wait: \"8761h\" is not " DURATION_ERROR " (0ms to 8760h, or forever)\n"},
    {"limits: {words: -1}\n", "1:17: limits.words: \"-1\" is not a whole number (16 to 64 words)\n"},
    {"limits: {line_bytes: 16KB}\n",
     "1:22: limits.line_bytes: \"16KB\" is not a size such as 4096, 16KiB or 1MiB (512 to 1MiB)\n"},
    {"auth: {unix: yes}\n", "1:14: auth.unix: \"yes\" is not true or false\n"},
    {"socket_mode: 0o660\n",
     "1:14: socket_mode: \"0o660\" is not a file mode in octal such as 0660 (0000 to 0777)\n"},
    {"socket_mode: 0680\n",
     "1:14: socket_mode: \"0680\" is not a file mode in octal such as 0660 (0000 to 0777)\n"},
    {"locks: {kind: fare}\n",
     "1:15: locks.kind: \"fare\" is not a kind of lock: "
     "one of reentrant, simple, counter, fair, rw, semaphore, fenced\n"},
    {"locks: {wakes: all}\n",
     "1:16: locks.wakes: \"all\" is not a library: one of none, spring, python-redis-lock\n"},
    {"locks: {foreign: ask}\n", "1:18: locks.foreign: \"ask\" is not an action: one of refuse, wait\n"},
    {"deadlock_delay: 2h\n", "1:17: deadlock_delay: \"2h\" is out of range: 0ms to 1h\n"},
    {"locks: {value: md5}\n",
     "1:16: locks.value: \"md5\" is not a format of values: one of uuid, hex32, base64-uuid, base64-url\n"},
    {"locks: {on_loss: kill}\n", "1:18: locks.on_loss: \"kill\" is not an action: one of notify, close\n"},
    {"log: {level: warning}\n", "1:14: log.level: \"warning\" is not a level: one of error, warn, info, debug\n"},
    /* Out of range. */
    {"locks: {lease: 999}\n", "1:16: locks.lease: \"999\" is out of range: 1s to 24h\n"},
    {"locks: {lease: 25h}\n", "1:16: locks.lease: \"25h\" is out of range: 1s to 24h\n"},
    {"locks: {linger: 2s}\n", "1:17: locks.linger: \"2s\" is out of range: 0ms to 1s\n"},
    {"redis: {links: 17}\n", "1:16: redis.links: \"17\" is out of range: 1 to 16 connections\n"},
    {"limits: {name_bytes: 0}\n", "1:22: limits.name_bytes: \"0\" is out of range: 1 to 4KiB\n"},
    {"socket_mode: 1777\n", "1:14: socket_mode: \"1777\" is out of range: 0000 to 0777\n"},
    {"locks: {prefix: \"a\\0b\"}\n", "1:17: locks.prefix: has a character that cannot be printed\n"},
    {"locks: {prefix: \"a\\Lb\"}\n", "1:17: locks.prefix: has a character that cannot be printed\n"},
    /* Forms. */
    {"locks: {key: lock}\n", "1:14: locks.key: must contain {name} once and no other braces\n"},
    {"locks: {key: ''}\n", "1:14: locks.key: must not be empty\n"},
    {"locks: {key: '{name}{name}'}\n", "1:14: locks.key: must contain {name} once and no other braces\n"},
    {"locks: {key: '{name}:{x}'}\n", "1:14: locks.key: must contain {name} once and no other braces\n"},
    {"locks: {key: '{{name}'}\n", "1:14: locks.key: must contain {name} once and no other braces\n"},
    {"locks: {key: 'rlock:{name}'}\n", "1:14: locks.key: must not begin with rlock:, which is for rlockd itself\n"},
    {"listen: [/run/x]\n", ADDRESS_ERROR "must be unix:PATH or tcp:HOST:PORT\n"},
    {"listen: ['']\n", ADDRESS_ERROR "must not be empty\n"},
    {"listen: ['unix:']\n", ADDRESS_ERROR "has no path after unix:\n"},
    {"listen: ['unix:" PATH_108 "']\n", ADDRESS_ERROR "has a path of 108 bytes; a socket's path has at most 107\n"},
    {"listen: ['tcp:a']\n", ADDRESS_ERROR "must end in :PORT, a number from 0 to 65535\n"},
    {"listen: ['tcp::1']\n", ADDRESS_ERROR "has no host in front of the port\n"},
    {"listen: ['tcp:a:65536']\n", ADDRESS_ERROR "must end in :PORT, a number from 0 to 65535\n"},
    {"listen: ['tcp:::1:1']\n", ADDRESS_ERROR BAD_HOST},
    {"listen: ['tcp:[::1:1']\n", ADDRESS_ERROR BAD_HOST},
    {"listen: ['tcp:a b:1']\n", ADDRESS_ERROR BAD_HOST},
    {"http: {listen: 80}\n", "1:16: http.listen: must be unix:PATH or tcp:HOST:PORT\n"},
    {"redis: {url: ''}\n", URL_ERROR "must not be empty\n"},
    {"redis: {url: localhost}\n",
     URL_ERROR "must be redis://[user:password@]host:port[/db], rediss://..., unix:PATH[?db=N], embedded, "
              "sentinel:host:port,.../MASTER[?db=N], cluster:host:port,... or quorum:URL,URL,URL\n"},
    {"redis: {url: 'redis://h'}\n", URL_ERROR "must end in :PORT, a number from 1 to 65535\n"},
    {"redis: {url: 'redis://h:0'}\n", URL_ERROR "must end in :PORT, a number from 1 to 65535\n"},
    {"redis: {url: 'redis://h:1/x'}\n", URL_ERROR "must name the database by its number, 65535 at most\n"},
    {"redis: {url: 'redis://pw@h:1'}\n", URL_ERROR "must have user:password in front of the @\n"},
    {"redis: {url: 'redis://h:1/65536'}\n", URL_ERROR "must name the database by its number, 65535 at most\n"},
    {"redis: {url: 'unix:/a?x=1'}\n", URL_ERROR "takes nothing but ?db=N after the path\n"},
    {"redis: {url: 'unix:/a?db='}\n", URL_ERROR "must name the database by its number, 65535 at most\n"},
    {"redis: {url: 'rediss://h'}\n", URL_ERROR "must end in :PORT, a number from 1 to 65535\n"},
    {"redis: {tls_ca_file: ca.pem}\n",
     "1:9: redis.tls_ca_file: redis.url has no TLS (rediss://, sentinel+tls:, cluster+tls:)\n"},
    {"redis: {url: 'redis://h:1', tls_server_name: h}\n",
     "1:29: redis.tls_server_name: redis.url has no TLS (rediss://, sentinel+tls:, cluster+tls:)\n"},
    {"redis: {url: 'sentinel:a:1,b:2'}\n", URL_ERROR "must end in /MASTER, the name that the sentinels know it by\n"},
    {"redis: {url: 'sentinel:a:1,b:2/'}\n", URL_ERROR "must end in /MASTER, the name that the sentinels know it by\n"},
    {"redis: {url: 'sentinel:a:1,b:2/m m'}\n",
     URL_ERROR "has a master that cannot be one: at most 127 bytes, no blank\n"},
    {"redis: {url: 'sentinel:a:1,b/m'}\n", URL_ERROR "must end in :PORT, a number from 1 to 65535\n"},
    {"redis: {url: 'sentinel:a:1,/m'}\n", URL_ERROR "must end in :PORT, a number from 1 to 65535\n"},
    {"redis: {url: 'sentinel:::1:1/m'}\n", URL_ERROR BAD_HOST},
    {"redis: {url: 'sentinel:a:1/m?x=1'}\n", URL_ERROR "takes nothing but ?db=N after the master\n"},
    {"redis: {url: 'sentinel+tls:a:1/m?db=x'}\n", URL_ERROR "must name the database by its number, 65535 at most\n"},
    {"redis: {url: 'sentinel:" SENTINELS_17 "/m'}\n", URL_ERROR "names more than 16 sentinels\n"},
    {"redis: {url: 'cluster:a'}\n", URL_ERROR "must end in :PORT, a number from 1 to 65535\n"},
    {"redis: {url: 'cluster+tls:a:1,'}\n", URL_ERROR "must end in :PORT, a number from 1 to 65535\n"},
    {"redis: {url: 'cluster:" SENTINELS_17 "," SENTINELS_17 "," SENTINELS_17 "," SENTINELS_17 "'}\n",
     URL_ERROR "names more than 64 nodes\n"},
    {"redis: {url: 'cluster:u:p@a:1'}\n",
     URL_ERROR "takes no user and password: redis.user and redis.password are those of all nodes\n"},
    {"redis: {url: 'cluster:a:1/2'}\n", URL_ERROR CLUSTER_DB},
    {"redis: {url: 'cluster:a:1,b:1?db=2'}\n", URL_ERROR CLUSTER_DB},
    {"redis: {url: 'cluster:a:1'}\nlocks: {kind: simple, wakes: spring}\n", CLUSTER_ERROR "locks says wakes\n"},
    {"redis: {url: 'cluster+tls:a:1'}\nrules: [{match: a, replicas: 2}, {match: 'b*', kind: simple, wakes: spring}]\n",
     CLUSTER_ERROR "rules.1 (b*) says wakes\n"},
    {"redis: {url: 'cluster:a:1', tls_ca_file: ca.pem}\n",
     "1:29: redis.tls_ca_file: redis.url has no TLS (rediss://, sentinel+tls:, cluster+tls:)\n"},
    {"redis: {url: 'quorum:rediss://a:1,redis://b:1,rediss://c:1', tls_ca_file: ca.pem}\n",
     "1:62: redis.tls_ca_file: redis.url has a node without TLS\n"},
    {"redis: {url: 'quorum:a,b,c'}\n",
     URL_ERROR "must be quorum:URL,URL,URL, and each of these redis://..., rediss://... or unix:PATH\n"},
    {"redis: {url: 'quorum:redis://a:1,redis://b:1'}\n",
     URL_ERROR "needs at least 3 nodes: with fewer, no node may fail\n"},
    {"redis: {url: 'quorum:redis://a:1,redis://b:1,redis://a:1'}\n", SERVER_TWICE},
    {"redis: {url: 'quorum:redis://a:1/0,redis://a:1,redis://b:1'}\n", SERVER_TWICE},
    {"redis: {url: 'quorum:unix:/1,unix:/2?db=1,unix:/2?db=2'}\n", SERVER_TWICE},
    {"redis: {url: 'cluster:redis://a:1'}\n", URL_ERROR "takes no URLs behind cluster:, but HOST:PORT,HOST:PORT\n"},
    {"redis: {url: 'sentinel:" BYTES_256 ":1/m'}\n", HOST_OF_256},
    {"redis: {url: 'cluster:" BYTES_256 ":1'}\n", HOST_OF_256},
    {"redis: {url: 'redis://" BYTES_256 ":1'}\n", HOST_OF_256},
    {"redis: {url: 'quorum:unix:/1,unix:/2,unix:/3,unix:/4,unix:/5,unix:/6,unix:/7,unix:/8,unix:/9,unix:/10'}\n",
     URL_ERROR "names more than 9 nodes\n"},
    {"redis: {url: 'quorum:redis://u:p@a:1,redis://b:1,redis://c:1'}\n",
     URL_ERROR "takes no user and password: redis.user and redis.password are those of all nodes\n"},
    {"redis: {url: '" QUORUM "'}\nlocks: {kind: fair}\n", QUORUM_ERROR "locks says fair\n"},
    {"redis: {url: '" QUORUM "'}\nrules: [{match: a}, {match: 'b*', kind: rw}]\n",
     QUORUM_ERROR "rules.1 (b*) says rw\n"},
    {"redis: {url: '" QUORUM "'}\nlocks: {replicas: 1}\n", QUORUM_ERROR "locks says replicas\n"},
    {"redis: {url: 'quorum:redis://a:1,redis://b,redis://c:1'}\n",
     URL_ERROR "must end in :PORT, a number from 1 to 65535\n"},
    /* Pairs. */
    {"redis: {backoff_min: 3s}\n", "1:9: redis.backoff_min must not be more than redis.backoff_max\n"},
    {"redis: {backoff_max: 5ms}\n", "1:9: redis.backoff_min must not be more than redis.backoff_max\n"},
    {"limits:\n  line_bytes: 600\n  name_bytes: 601\n",
     "3:3: limits.name_bytes must not be more than limits.line_bytes\n"},
    {"auth: {unix: true}\n", "1:8: auth.unix: there is no password to log in with\n"},
    /* Rules. */
    {"rules: [{kind: simple}, 5, []]\n", "1:9: rules.0: a rule needs \"match\", the names it is for\n"
                                         "1:25: rules.1: a rule is a mapping: { match: \"...\", ... }\n"
                                         "1:28: rules.2: a rule is a mapping: { match: \"...\", ... }\n"},
    {"rules:\n- match: ''\n- { match: a, knd: simple, match: b, lease: 1ms, listen: [] }\n",
     "2:10: rules.0.match: must not be empty\n3:15: unknown key \"knd\" in a rule; did you mean \"kind\"?\n"
     "3:28: duplicate key \"match\": it is set at 3:5 already\n"
     "3:45: rules.1.lease: \"1ms\" is out of range: 1s to 24h\n3:50: unknown key \"listen\" in a rule\n"},
    /* All at once, in the order of the file. */
    {"rules: [{match: a, lease: 0}]\nlocks: {lease: 0}\nlog: {level: x}\nmax_poll: 1\nfoo: 1\n",
     "1:27: rules.0.lease: \"0\" is out of range: 1s to 24h\n2:16: locks.lease: \"0\" is out of range: 1s to 24h\n"
     "3:14: log.level: \"x\" is not a level: one of error, warn, info, debug\n"
     "4:11: max_poll: \"1\" is out of range: 100ms to 1h\n5:1: unknown key \"foo\"\n"},
};

START_TEST(bad_files)
{
    struct conf *cf = load_bytes(bad[_i].yaml, strlen(bad[_i].yaml), 0600);

    ck_assert_msg(cf == NULL, "was taken: %s", bad[_i].yaml);
    ck_assert_str_eq(complaints(), bad[_i].complaints);
}
END_TEST

static const struct {
    const char *piece;
    size_t times;
} shapes[] = {
    {"[", 3000}, {"{a: ", 3000}, {"- ", 60000}, {"? ", 60000}, {"[[],", 2000}, {"a: 1\n", 30000},
    {"\"", 100001}, {"'", 100001}, {"&a ", 50000}, {"!a ", 50000}, {"a", 200000}, {"\xc3", 10}, {"%", 999},
};

/* Files that would hurt a careless reader. */
START_TEST(hostile_files)
{
    struct conf *cf;

    buf_clear(&text, SIZE_MAX);
    for (size_t i = 0; i < shapes[_i].times; i++) {
        buf_adds(&text, shapes[_i].piece);
    }
    cf = load_bytes(text.p, text.n, 0600);
    ck_assert_ptr_null(cf);
    ck_assert_uint_gt(errors.n, 0);
}
END_TEST

START_TEST(files_that_cannot_be_read)
{
    char *big = calloc(1, 300000);
    char want[256];

    ck_assert_ptr_nonnull(big);
    snprintf(path, sizeof(path), "%s/none", dir);
    ck_assert_ptr_null(conf_load(path, NULL, &errors));
    ck_assert_str_eq(complaints(), "1:1: cannot be opened: No such file or directory\n");
    buf_clear(&errors, SIZE_MAX);
    ck_assert_ptr_null(conf_load(dir, NULL, &errors));
    snprintf(want, sizeof(want), "%s:1:1: is a directory\n", dir);
    ck_assert_str_eq(str(&errors), want);
    snprintf(path, sizeof(path), "%s/c.yaml", dir);
    ck_assert_ptr_null(load_bytes(big, 300000, 0600));
    ck_assert_str_eq(complaints(), "1:1: is larger than 262144 bytes\n");
    ck_assert_ptr_null(load_bytes(big, 100, 0600));
    ck_assert_str_eq(complaints(), "1:1: control characters are not allowed: the file must be UTF-8 text\n");
    free(big);
}
END_TEST

START_TEST(too_many_rules)
{
    struct conf *cf;

    for (int n = 1000; n <= 1001; n++) {
        buf_clear(&text, SIZE_MAX);
        buf_adds(&text, "rules:\n");
        for (int i = 0; i < n; i++) {
            buf_printf(&text, "- {match: n%d}\n", i);
        }
        cf = load_bytes(text.p, text.n, 0600);
        ck_assert(n == 1000 ? cf != NULL && cf->rules_n == 1000 : cf == NULL);
        conf_free(&cf);
    }
    ck_assert_str_eq(complaints(), "2:1: rules: there are 1001, at most 1000 are allowed\n");
}
END_TEST

/* One random change to n bytes at p, which has room for more. */
static size_t
mutate(char *p, size_t n, size_t room)
{
    static const char *const pieces[] = {"&a ", "*a ", "!!x ", "? ", "- ", "[", "]", "{", "}", "\t", "\xff", "\n---\n",
                                         "\nrules:\n  - match: a\n", ": ", "'", "\"", "#", "\n", "\\x00",
                                         "\xe2\x80\xa8",
                                         "999999999999999999999", "\n  lease: 5s\n", "%", "@", "|\n", ">-\n", "<<: "};
    const char *piece = pieces[(size_t)rand() % ROWS(pieces)];
    size_t at = (size_t)rand() % n, cut = (size_t)rand() % 9, add = strlen(piece);

    switch (rand() % 4) {
    case 0:
        p[at] = (char)(rand() % 256);
        return n;
    case 1:
        p[at] ^= (char)(1 << rand() % 8);
        return n;
    case 2:
        cut = cut < n - at ? cut : n - at;
        memmove(p + at, p + at + cut, n - at - cut);
        return n - cut > 0 ? n - cut : n;
    default:
        if (n + add > room) {
            return n;
        }
        memmove(p + at + add, p + at, n - at);
        memcpy(p + at, piece, add);
        return n + add;
    }
}

/* Every complaint stands on a line of its own, names a place, and is printable. */
static void
check_complaints(void)
{
    const char *p = complaints();

    ck_assert_str_ne(p, "");
    for (const char *q = p; *q != '\0'; q++) {
        if (*q != '\n' && (*q < 0x20 || *q > 0x7e)) {
            ck_abort_msg("%s", p); /* an assertion for each byte takes seconds */
        }
    }
    while (*p != '\0') {
        size_t line, col;
        int used = 0;

        ck_assert_msg(sscanf(p, "%zu:%zu: %n", &line, &col, &used) == 2 && used > 0, "%s", p);
        ck_assert(line > 0 && col > 0 && p[used] != '\n' && p[used] != '\0');
        p += strcspn(p, "\n") + 1;
    }
}

START_TEST(mutations)
{
    char p[32768];
    int taken = 0, refused = 0;

    srand((unsigned)_i + 1);
    uncommented(&text, true);
    ck_assert_uint_lt(text.n, sizeof(p) / 2);
    for (int round = 0; round < 100; round++) {
        size_t n = text.n;
        struct conf *cf;

        memcpy(p, text.p, n);
        for (int edits = 1 + rand() % 3; edits > 0; edits--) {
            n = mutate(p, n, sizeof(p));
        }
        cf = load_bytes(p, n, 0600);
        if (cf == NULL) {
            refused++;
            check_complaints();
        } else {
            taken++;
            round_trip(cf);
        }
        conf_free(&cf);
    }
    ck_assert_int_gt(taken, 3);
    ck_assert_int_gt(refused, 3);
}
END_TEST

/* No address is left out without a word. */
START_TEST(too_many_addresses)
{
    char yaml[2048], want[80];

    for (int n = CONF_LISTEN_MAX; n <= CONF_LISTEN_MAX + 1; n++) {
        int at = snprintf(yaml, sizeof(yaml), "\nlisten:\n");
        struct conf *cf;

        for (int i = 0; i < n; i++) {
            at += snprintf(yaml + at, sizeof(yaml) - (size_t)at, "  - unix:/run/%d\n", i);
        }
        cf = load_bytes(yaml, (size_t)at, 0600);
        ck_assert((cf != NULL) == (n == CONF_LISTEN_MAX));
        conf_free(&cf);
    }
    snprintf(want, sizeof(want), "2:1: listen: has %d addresses; at most %d can be served\n", CONF_LISTEN_MAX + 1,
             CONF_LISTEN_MAX);
    ck_assert_str_eq(complaints(), want);
}
END_TEST

int
main(void)
{
    TCase *tc = tcase_create("all");

    tcase_add_loop_test(tc, bad_files, 0, ROWS(bad));
    tcase_add_loop_test(tc, hostile_files, 0, ROWS(shapes));
    tcase_add_test(tc, files_that_cannot_be_read);
    tcase_add_test(tc, too_many_rules);
    tcase_add_test(tc, too_many_addresses);
    tcase_add_loop_test(tc, mutations, 0, rng_seeds(24));
    return run_suite("conf bad", tc);
}
