/*
 * test_commands.c -- admission and its exact refusals, roles, and what each command says.
 */
#pragma GCC diagnostic ignored "-Wunused-function" /* of house.h */
#include "tests/unit/house.h"
#include "tests/unit/resp.h"

#include "daemon/serve/pubsub.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"

static void
expects_at(int line, const struct client *c, const char *request, const char *want)
{
    sends(c, request);
    settle();
    expect_at(line, c, want);
}
#define expects(c, request, want) expects_at(__LINE__, c, request, want)

/* A reply whose text has this in it. */
static void
reported_at(int line, const struct client *c, const char *request, const char *want)
{
    struct resp r = ask(c, request);

    ck_assert_msg(r.text != NULL && strstr(r.text, want) != NULL, "line %d: \"%s\" lacks \"%s\"", line, r.text, want);
    resp_fini(&r);
}
#define reported(c, request, want) reported_at(__LINE__, c, request, want)

static void
check_field(const struct resp *map, const char *key, const char *want)
{
    const struct resp *v = resp_get(map, key);

    ck_assert_msg(v != NULL, "no %s", key);
    if (want == NULL) {
        ck_assert_msg(v->text == NULL, "%s is %s", key, v->text);
    } else {
        ck_assert_msg(v->text != NULL && strcmp(v->text, want) == 0, "%s is %s, not %s", key, v->text, want);
    }
}

/* ---- admission ---- */

START_TEST(unknown_commands)
{
    struct client c = come();
    char long_arg[400], want[600];

    expects(&c, "FOO\n", "-ERR unknown command 'FOO', with args beginning with: \r\n");
    expects(&c, "foo a \"b c\" \"\"\n", "-ERR unknown command 'foo', with args beginning with: 'a' 'b c' '' \r\n");
    expects(&c, "*2\r\n$1\r\nx\r\n$3\r\na\r\n\r\n",
         "-ERR unknown command 'x', with args beginning with: 'a\\x0d\\x0a' \r\n");
    /* Cut where Redis cuts: 128 bytes of the verb, and of all arguments together. */
    memset(long_arg, 'y', sizeof(long_arg));
    memcpy(long_arg, "FOO ", 4);
    strcpy(long_arg + 4 + 200, " more\n");
    snprintf(want, sizeof(want), "-ERR unknown command 'FOO', with args beginning with: '%.128s' \r\n", long_arg + 4);
    expects(&c, long_arg, want);
    strcpy(long_arg + 200, "\n");
    snprintf(want, sizeof(want), "-ERR unknown command '%.128s', with args beginning with: \r\n", long_arg + 4);
    expects(&c, long_arg + 4, want);
    leave(&c);
}
END_TEST

START_TEST(wrong_arity)
{
    struct client c = come();

    expects(&c, "UNLOCK\n",
         "-ERR wrong number of arguments for 'unlock' command; "
         "usage: UNLOCK name [SHARED] [OWNER id] [TOKEN token]\r\n");
    expects(&c, "drain now\n", "-ERR wrong number of arguments for 'drain' command; usage: DRAIN\r\n");
    ck_assert(!engine->draining);
    leave(&c);
}
END_TEST

START_TEST(cross_protocol)
{
    static const char *const lines[] = {"POST / HTTP/1.1\r\n", "post x\n", "Host: localhost:5625\n"};
    struct client c = come();

    expects(&c, lines[_i], "<end>");
    ck_assert_ptr_null(session_find(engine, c.id));
    close(c.fd);
}
END_TEST

/* ---- roles ---- */

/* Passwords are what AUTH gives; sockets are not trusted. */
static void
build_guarded(void)
{
    build();
    conf->auth_password = strdup("sesame");
    conf->auth_admin_password = strdup("open");
    conf->auth_unix = true;
}

START_TEST(nothing_before_auth)
{
    struct client c = come();

    expects(&c, "LOCK a\nECHO x\nBREAK a\nPING\n",
         "-NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n"
         "-NOAUTH Authentication required.\r\n+PONG\r\n");
    reported(&c, "HELLO 3\n",
         "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> "
         "<pass> option can be used to authenticate the client and select the RESP protocol version at the same time");
    ck_assert_int_eq(c.s->proto, 2);
    leave(&c);
}
END_TEST

START_TEST(each_password_gives_its_role)
{
    static const struct {
        const char *request;
        bool authed, admin;
    } rows[] = {
        {"AUTH sesame\n", true, false},         {"AUTH default sesame\n", true, false},
        {"AUTH open\n", true, true},            {"AUTH admin open\n", true, true},
        {"AUTH admin sesame\n", false, false},  {"AUTH default open\n", false, false},
        {"AUTH sesamE\n", false, false},        {"AUTH sesam\n", false, false},
        {"AUTH sesamesesame\n", false, false},  {"AUTH \"\"\n", false, false},
        {"AUTH nobody sesame\n", false, false},
    };
    struct client c = come();

    expects(&c, rows[_i].request,
         rows[_i].authed ? "+OK\r\n" : "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    ck_assert_int_eq(c.s->authed, rows[_i].authed);
    ck_assert_int_eq(c.s->admin, rows[_i].admin);
    if (rows[_i].authed && !rows[_i].admin) {
        reported(&c, "BREAK a\n", "NOPERM BREAK needs the admin role");
        reported(&c, "CLIENT KILL ID 1\n", "NOPERM CLIENT KILL needs the admin role");
    }
    leave(&c);
}
END_TEST

START_TEST(three_failures_close)
{
    struct client c = come();

    expects(&c, "AUTH a\nAUTH b\n", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
                                 "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    expects(&c, "AUTH c\nPING\n", "-WRONGPASS invalid username-password pair or user is disabled.\r\n<end>");
    ck_assert_ptr_null(session_find(engine, c.id));
    ck_assert_uint_eq(engine->metrics.auth_failures, 3);
    close(c.fd);
}
END_TEST

static void
wrong_password(const char *given)
{
    struct client c = come();
    char line[64];

    snprintf(line, sizeof(line), "AUTH \"%s\"\n", given);
    expects(&c, line, "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    ck_assert(!c.s->authed);
    leave(&c);
}

/* Whatever differs, and wherever: a byte changed, all behind it left out, one put in front of it. */
START_TEST(almost_right_is_wrong)
{
    static const char secret[] = "sesame";

    for (int at = 0; at < (int)sizeof(secret); at++) {
        char given[32];

        snprintf(given, sizeof(given), "%.*sx%s", at, secret, secret + at);
        wrong_password(given);
        if (secret[at] != '\0') {
            snprintf(given, sizeof(given), "%.*s", at, secret);
            wrong_password(given);
            snprintf(given, sizeof(given), "%.*sx%s", at, secret, secret + at + 1);
            wrong_password(given);
        }
    }
}
END_TEST

START_TEST(hello_authenticates)
{
    struct client c = come();
    struct resp r;

    reported(&c, "HELLO 3 AUTH default wrong\n", "WRONGPASS ");
    ck_assert_int_eq(c.s->proto, 2);
    r = ask(&c, "HELLO 3 AUTH default sesame SETNAME me\n");
    ck_assert_int_eq(r.type, '%');
    ck_assert_str_eq(c.s->name, "me");
    ck_assert(c.s->authed && !c.s->admin);
    resp_fini(&r);
    reported(&c, "AUTH open\n", "OK");
    ck_assert(c.s->admin);
    reported(&c, "RESET\n", "RESET"); /* back to the beginning: without a user */
    ck_assert(!c.s->authed && !c.s->admin && c.s->proto == 2 && c.s->name == NULL);
    reported(&c, "LOCK a\n", "NOAUTH ");
    leave(&c);
}
END_TEST

START_TEST(auth_without_passwords)
{
    struct client c = come();

    expects(&c, "AUTH x\n",
         "-ERR AUTH <password> called without any password configured for the default user. "
         "Are you sure your configuration is correct?\r\n");
    expects(&c, "AUTH default x\n", "+OK\r\n");
    expects(&c, "AUTH admin x\n", "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    leave(&c);
}
END_TEST

START_TEST(full_grants)
{
    struct client c = come();
    struct resp r = ask(&c, "LOCK orders:42 FULL\n");
    char owner[100];

    ck_assert_int_eq(r.type, '*');
    ck_assert_uint_eq(r.n, 14);
    snprintf(owner, sizeof(owner), "%s:%u", engine->uuid, (unsigned)c.id);
    check_field(&r, "name", "orders:42");
    check_field(&r, "token", "101");
    check_field(&r, "owner", owner);
    check_field(&r, "kind", "reentrant");
    check_field(&r, "holds", "1");
    ck_assert_int_gt(atoi(resp_get(&r, "lease_ms")->text), 20000);
    ck_assert_int_lt(atoi(resp_get(&r, "waited_ms")->text), 5000);
    resp_fini(&r);
    leave(&c);
}
END_TEST

/* ---- locks ---- */

START_TEST(lock_unlock_renew)
{
    struct client c = come();
    struct resp r;

    expects(&c, "LOCK a\n", ":101\r\n");
    expects(&c, "LOCK a\n", ":101\r\n");
    r = ask(&c, "RENEW a 60s\n");
    ck_assert_int_gt(atoi(r.text), 50000); /* reported 1 % + 2 ms early */
    ck_assert_int_le(atoi(r.text), 59398);
    resp_fini(&r);
    expects(&c, "UNLOCK a TOKEN 100\n", "-STALE the token is not the current one\r\n");
    expects(&c, "UNLOCK a\n", ":1\r\n");
    expects(&c, "UNLOCK a\n", ":0\r\n");
    expects(&c, "UNLOCK a\n", "-NOTHELD this owner does not hold the lock\r\n");
    reported(&c, "LOCK a WAIT\n", "; usage: LOCK name");
    leave(&c);
}
END_TEST

START_TEST(kind_of_the_request_wins)
{
    struct client c = come();

    expects(&c, "LOCK a KIND counter\n", ":101\r\n");
    ck_assert_int_eq(redis->op[0].kind, KIND_COUNTER);
    leave(&c);
}
END_TEST

START_TEST(waits_by_the_rule_or_the_request)
{
    struct client holder = come(), c = come();

    expects(&holder, "LOCK a\n", ":101\r\n");
    expects(&c, "LOCK a NOWAIT\n", "$-1\r\n");
    conf->locks.wait_us = 0;
    expects(&c, "LOCK a\n", "$-1\r\n");
    expects(&c, "LOCK a WAIT forever\n", ""); /* waits */
    leave(&c);
    leave(&holder);
}
END_TEST

/* ---- admin ---- */

START_TEST(kill)
{
    struct client admin = come(), victim = come();
    char text[40];

    expects(&admin, "KILL 999\nKILL x\nKILL -1\n",
         "-ERR no such session\r\n-ERR no such session\r\n-ERR no such session\r\n");
    expects(&victim, "LOCK a\n", ":101\r\n");
    snprintf(text, sizeof(text), "KILL %u\n", (unsigned)victim.id);
    expects(&admin, text, "+OK\r\n");
    expect(&victim, "<end>");
    ck_assert_uint_eq(redis->releases, 1);
    ck_assert_ptr_null(session_find(engine, victim.id));
    close(victim.fd);
    snprintf(text, sizeof(text), "KILL %u\nPING\n", (unsigned)admin.id);
    expects(&admin, text, "+OK\r\n<end>"); /* its answer first */
    close(admin.fd);
}
END_TEST

START_TEST(client_kill)
{
    struct client admin = come(), one = come(), two = come();
    char text[40];

    snprintf(text, sizeof(text), "CLIENT KILL ID %u\n", (unsigned)one.id);
    expects(&admin, text, ":1\r\n");
    expect(&one, "<end>");
    expects(&admin, text, ":0\r\n");
    expects(&admin, "CLIENT KILL nobody\n", "-ERR No such client\r\n");
    expects(&admin, "CLIENT KILL ID x\n", "-ERR client-id should be greater than 0\r\n");
    expects(&admin, "CLIENT KILL FROB x\n", "-ERR syntax error\r\n");
    expects(&admin, "CLIENT KILL TYPE normal\n", ":1\r\n"); /* not itself */
    expect(&two, "<end>");
    expects(&admin, "CLIENT KILL TYPE normal SKIPME no\n", ":1\r\n<end>");
    close(admin.fd);
    close(one.fd);
    close(two.fd);
}
END_TEST

#ifdef RLOCKD_TEST_CLOCK
/* The asking session is the first one of many, and ends last: a KILL that takes several turns ends them all. */
START_TEST(client_kill_of_all)
{
    enum { OTHERS = 40 };
    struct client c = come(), other[OTHERS];
    char name[16];

    for (int i = 0; i < OTHERS; i++) {
        other[i] = come();
        snprintf(name, sizeof(name), "LOCK x%d\n", i);
        sends(&other[i], name);
    }
    settle();
    redis->release_us = 1 * US_PER_MS;
    expects(&c, "CLIENT KILL TYPE normal SKIPME no\n", ":41\r\n<end>");
    ck_assert_uint_eq(engine->sessions_n, 0);
    close(c.fd);
    for (int i = 0; i < OTHERS; i++) {
        close(other[i].fd);
    }
}
END_TEST
#endif

START_TEST(break_frees)
{
    struct client c = come(), admin = come();
    char text[600] = "BREAK ";

    expects(&c, "LOCK a\n", ":101\r\n");
    sends(&admin, "BREAK a\n");
    settle();
    expect(&admin, ":1\r\n");
    expects(&c, "UNLOCK a\n", "-LOST the lock was held and has been lost\r\n");
    expects(&admin, "BREAK \"\"\n", "-ERR a name has 1 to 512 bytes; usage: BREAK name\r\n");
    memset(text + 6, 'x', 513);
    text[6 + 513] = '\n';
    expects(&admin, text, "-ERR a name has 1 to 512 bytes; usage: BREAK name\r\n");
    leave(&c);
    leave(&admin);
}
END_TEST

START_TEST(drain)
{
    struct client holder = come(), waiter = come(), admin = come();

    expects(&holder, "LOCK a\n", ":101\r\n");
    expects(&waiter, "LOCK a\n", "");
    expects(&admin, "DRAIN\nDRAIN\n", "+OK\r\n+OK\r\n");
    expect(&waiter, "-DRAINING the daemon is shutting down\r\n");
    expects(&waiter, "LOCK b\n", "-DRAINING the daemon is shutting down\r\n");
    expects(&holder, "UNLOCK a\n", ":0\r\n");
    leave(&holder);
    leave(&waiter);
    leave(&admin);
}
END_TEST

/* ---- a connection's own affairs ---- */

START_TEST(exact_words)
{
    static const char *const rows[][2] = {
        {"ping\n", "+PONG\r\n"},
        {"PING \"a b\"\n", "$3\r\na b\r\n"},
        {"ECHO \"a\\r\\n\"\n", "$3\r\na\r\n\r\n"},
        {"SELECT 0\n", "+OK\r\n"},
        {"SELECT 1\n", "-ERR DB index is out of range\r\n"},
        {"SELECT x\n", "-ERR value is not an integer or out of range\r\n"},
        {"RESET\n", "+RESET\r\n"},
        {"QUIT\n", "+OK\r\n<end>"},
        {"CLIENT GETNAME\n", "$-1\r\n"},
        {"CLIENT SETNAME \"a b\"\n", "-ERR Client names cannot contain spaces, newlines or special characters.\r\n"},
        {"CLIENT SETNAME w7\nCLIENT GETNAME\nCLIENT SETNAME \"\"\nCLIENT GETNAME\n",
         "+OK\r\n$2\r\nw7\r\n+OK\r\n$-1\r\n"},
        {"client setinfo LIB-NAME \"a\\nb\"\n",
         "-ERR lib-name cannot contain spaces, newlines or special characters.\r\n"},
        {"CLIENT SETINFO LIB-NAME redis-py\nCLIENT SETINFO lib-ver 5.0\n", "+OK\r\n+OK\r\n"},
        {"CLIENT SETINFO frob x\n", "-ERR Unrecognized option 'frob'\r\n"},
        {"CLIENT SETINFO LIB-NAME\n", "-ERR wrong number of arguments for 'client|SETINFO' command\r\n"},
        {"CLIENT NO-EVICT on\nCLIENT NO-TOUCH off\n", "+OK\r\n+OK\r\n"},
        {"CLIENT MAINT_NOTIFICATIONS ON\n", "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.\r\n"},
        {"CONFIG GET save\n", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"},
        {"CONFIG GET appendonly\n", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"},
        {"CONFIG GET nosuch\n", "*0\r\n"},
        {"CONFIG GET locks.lease *.lease\n", "*2\r\n$11\r\nlocks.lease\r\n$3\r\n30s\r\n"},
        {"CONFIG GET\n", "-ERR wrong number of arguments for 'config|get' command\r\n"},
        {"CONFIG SET x y\n", "-ERR unknown subcommand 'SET'. Try CONFIG HELP.\r\n"},
        {"HELLO 4\n", "-NOPROTO unsupported protocol version\r\n"},
        {"HELLO x\n", "-ERR Protocol version is not an integer or out of range\r\n"},
        {"HELLO 3 FROB\nHELLO 3 AUTH x\nHELLO 3 SETNAME\nPING\n",
         "-ERR Syntax error in HELLO option 'FROB'\r\n-ERR Syntax error in HELLO option 'AUTH'\r\n"
         "-ERR Syntax error in HELLO option 'SETNAME'\r\n+PONG\r\n"},
    };
    struct client c = come();

    ck_assert_uint_eq(sizeof(rows) / sizeof(rows[0]), 26);
    expects(&c, rows[_i][0], rows[_i][1]);
    close(c.fd);
    settle();
}
END_TEST

START_TEST(hello)
{
    struct client c = come();
    char want[300];
    int i;

    for (i = 0; i < 3; i++) {
        static const char *const requests[] = {"HELLO\n", "HELLO 3\n", "HELLO 2\n"};

        snprintf(want, sizeof(want),
                 "%s\r\n$6\r\nserver\r\n$6\r\nrlockd\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\n"
                 "proto\r\n:%d\r\n$2\r\nid\r\n"
                 ":%u\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n",
                 i == 1 ? "%7" : "*14", i == 1 ? 3 : 2, (unsigned)c.id);
        expects(&c, requests[i], want);
    }
    leave(&c);
}
END_TEST

START_TEST(client_list)
{
    struct client c = come(), other = come();
    char text[200];

    expects(&c, "CLIENT SETNAME me\n", "+OK\r\n");
    reported(&other, "CLIENT LIST\n", "name=me ");
    reported(&c, "CLIENT INFO\n", " cmd=client user=admin redir=-1 resp=2 lib-name= lib-ver=\n");
    snprintf(text, sizeof(text), "CLIENT LIST ID %u\n", (unsigned)other.id);
    {
        struct resp r = ask(&c, text);

        snprintf(text, sizeof(text), "id=%u addr=unix:pid=%d,", (unsigned)other.id, (int)getpid());
        ck_assert_msg(strncmp(r.text, text, strlen(text)) == 0, "%s", r.text);
        ck_assert_ptr_eq(strchr(r.text, '\n'), r.text + r.text_n - 1); /* one line */
        resp_fini(&r);
    }
    expects(&c, "CLIENT LIST TYPE pubsub\n", "$0\r\n\r\n");
    expects(&c, "CLIENT LIST TYPE frob\n", "-ERR Unknown client type 'frob'\r\n");
    leave(&c);
    leave(&other);
}
END_TEST

/* ---- looking ---- */

START_TEST(locks_and_waiters)
{
    struct client a = come(), b = come();
    struct resp r;
    char number[24];

    expects(&a, "LIST\nLOCKS\nWAITERS\n", "-ERR unknown command 'LIST', with args beginning with: \r\n*0\r\n*0\r\n");
    expects(&a, "LOCK x OWNER me\n", ":101\r\n");
    expects(&b, "LOCK x WAIT 1h\n", "");
    r = ask(&a, "LOCKS\n");
    ck_assert_uint_eq(r.n, 1);
    ck_assert_uint_eq(r.child[0].n, 30);
    check_field(&r.child[0], "name", "x");
    check_field(&r.child[0], "kind", "reentrant");
    check_field(&r.child[0], "state", "held");
    check_field(&r.child[0], "mode", "exclusive");
    check_field(&r.child[0], "limit", NULL);
    check_field(&r.child[0], "owner", "me");
    snprintf(number, sizeof(number), "%u", (unsigned)a.id);
    check_field(&r.child[0], "session", number);
    check_field(&r.child[0], "token", "101");
    check_field(&r.child[0], "holds", "1");
    check_field(&r.child[0], "waiters", "1");
    check_field(&r.child[0], "key", "x");
    resp_fini(&r);
    r = ask(&a, "WAITERS x*\n");
    ck_assert_uint_eq(r.n, 1);
    ck_assert_uint_eq(r.child[0].n, 16);
    snprintf(number, sizeof(number), "%u", (unsigned)b.id);
    check_field(&r.child[0], "name", "x");
    check_field(&r.child[0], "session", number);
    check_field(&r.child[0], "position", "1");
    check_field(&r.child[0], "shared", "0");
    check_field(&r.child[0], "kept", "0");
    ck_assert_int_gt(atoi(resp_get(&r.child[0], "deadline_ms")->text), 3500000);
    resp_fini(&r);
    expects(&a, "LOCKS y*\nWAITERS y*\n", "*0\r\n*0\r\n");
    leave(&b);
    leave(&a);
}
END_TEST

START_TEST(sessions)
{
    struct client c = come(), other = come();
    struct resp r;
    char number[24];

    expects(&c, "CLIENT SETNAME me\nCLIENT SETINFO LIB-NAME lib\nCLIENT SETINFO LIB-VER 1\nHELLO 3 FROB\nLOCK a\n",
         "+OK\r\n+OK\r\n+OK\r\n-ERR Syntax error in HELLO option 'FROB'\r\n:101\r\n");
    r = ask(&c, "SESSIONS\n");
    ck_assert_uint_eq(r.n, 2);
    ck_assert_uint_eq(r.child[0].n, 34);
    snprintf(number, sizeof(number), "%u", (unsigned)c.id);
    check_field(&r.child[0], "id", number);
    snprintf(number, sizeof(number), "%d", (int)getpid());
    check_field(&r.child[0], "pid", number);
    check_field(&r.child[0], "addr", "unix:test");
    check_field(&r.child[0], "name", "me");
    check_field(&r.child[0], "lib", "lib/1");
    check_field(&r.child[0], "requests", "6");
    check_field(&r.child[0], "held", "1");
    check_field(&r.child[0], "waiting", "0");
    check_field(&r.child[0], "role", "admin");
    check_field(&r.child[0], "last_command", "SESSIONS");
    check_field(&r.child[1], "name", NULL);
    check_field(&r.child[1], "lib", NULL);
    check_field(&r.child[1], "last_command", NULL);
    resp_fini(&r);
    leave(&c);
    leave(&other);
}
END_TEST

START_TEST(lockinfo)
{
    struct client c = come();
    struct resp r;
    char owner[100];

    /* Redis does not answer: what is known here, and nulls. */
    r = ask(&c, "LOCKINFO x\n");
    ck_assert_uint_eq(r.n, 40);
    check_field(&r, "state", "idle");
    check_field(&r, "redis_owner", NULL);
    check_field(&r, "foreign", "0");
    resp_fini(&r);
    redis->seen.ok = true;
    expects(&c, "LOCKINFO x\n", "$-1\r\n");
    /* The key of another client. */
    redis->seen.exists = true;
    strcpy(redis->seen.type, "hash");
    strcpy(redis->seen.owner, "0b9c2c1e-3f57-4c6a-9b0e-5a3d7f5c9f10:84");
    redis->seen.holds = 2;
    redis->seen.pttl_ms = 20000;
    r = ask(&c, "LOCKINFO x\n");
    check_field(&r, "state", "taken");
    check_field(&r, "holds", "0");
    check_field(&r, "held_ms", NULL); /* another daemon, or another client, has it for an unknown time */
    check_field(&r, "owner", NULL);
    check_field(&r, "redis_type", "hash");
    check_field(&r, "redis_owner", "0b9c2c1e-3f57-4c6a-9b0e-5a3d7f5c9f10:84");
    check_field(&r, "redis_holds", "2");
    check_field(&r, "redis_pttl_ms", "20000");
    check_field(&r, "foreign", "1");
    resp_fini(&r);
    /* Ours. */
    expects(&c, "LOCK x\n", ":101\r\n");
    snprintf(owner, sizeof(owner), "%s:%u", engine->uuid, (unsigned)c.id);
    strcpy(redis->seen.owner, owner);
    r = ask(&c, "LOCKINFO x\n");
    check_field(&r, "state", "held");
    check_field(&r, "owner", owner);
    check_field(&r, "foreign", "0");
    resp_fini(&r);
    leave(&c);
}
END_TEST

/* A string in Redis names no owner: the state here shows whether it is that of this daemon. */
START_TEST(lockinfo_of_a_string)
{
    struct client c = come();
    struct resp r;

    stop_the_clock();
    redis->seen.ok = redis->seen.exists = true;
    strcpy(redis->seen.type, "string");
    conf->locks.linger_us = 10 * US_PER_S;
    expects(&c, "LOCK x KIND simple\n", ":101\r\n");
    r = ask(&c, "LOCKINFO x\n");
    check_field(&r, "state", "held");
    check_field(&r, "foreign", "0");
    resp_fini(&r);
    expects(&c, "UNLOCK x\n", ":0\r\n");
    r = ask(&c, "LOCKINFO x\n");
    check_field(&r, "state", "lingering");
    check_field(&r, "owner", NULL);
    check_field(&r, "foreign", "0");
    resp_fini(&r);
#ifdef RLOCKD_TEST_CLOCK
    /* A key that is in Redis behind a loss belongs to another holder. */
    expects(&c, "LOCK y KIND simple LEASE 1s\n", ":102\r\n");
    clock_advance_us(2 * US_PER_S);
    settle();
    r = ask(&c, "LOCKINFO y\n");
    check_field(&r, "state", "lost");
    check_field(&r, "foreign", "1");
    resp_fini(&r);
#endif
    leave(&c);
}
END_TEST

/* After the end of a hold it is not known any more whether the hold was shared. */
START_TEST(mode_of_a_lock_that_is_not_held)
{
    struct client c = come();
    struct resp r;

    expects(&c, "LOCK x KIND rw SHARED LEASE 1s\n", ":101\r\n");
    r = ask(&c, "LOCKS\n");
    check_field(&r.child[0], "mode", "shared");
    resp_fini(&r);
#ifdef RLOCKD_TEST_CLOCK
    clock_advance_us(2 * US_PER_S);
    settle();
    r = ask(&c, "LOCKS\n");
    check_field(&r.child[0], "state", "lost");
    check_field(&r.child[0], "mode", NULL);
    resp_fini(&r);
#endif
    leave(&c);
}
END_TEST

/* ---- INFO ---- */

START_TEST(info_for_libraries)
{
    static const char *const lines[] = {
        "redis_version:7.2.0\r\n", "rlockd_version:", "redis_mode:standalone\r\n", "loading:0\r\n",
        "role:master\r\n", "connected_clients:1\r\n", "blocked_clients:0\r\n", "used_memory:",
        "total_commands_processed:1\r\n", "total_connections_received:1\r\n", "db0:keys=0", "uptime_in_seconds:0\r\n",
        "process_id:", "tcp_port:5625\r\n", "# Stats\r\n", "grants:0\r\n", "locks.lease:30s\r\n", "redis_state:up\r\n",
    };
    struct client c = come();
    struct resp r = ask(&c, "INFO\n");
    size_t i;

    ck_assert_int_eq(r.type, '$');
    for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        ck_assert_msg(strstr(r.text, lines[i]) != NULL, "no %s", lines[i]);
    }
    resp_fini(&r);
    expects(&c, "INFO nosuch\n",
         "$159\r\n# there is no such section; there are: all server clients memory persistence stats replication "
         "cluster redis config keyspace lock locks waiters sessions tree\r\n\r\n");
    expects(&c, "INFO replication\n", "$48\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n");
    c.s->proto = 3;
    expects(&c, "INFO PERSISTENCE\n", "=30\r\ntxt:# Persistence\r\nloading:0\r\n\r\n");
    leave(&c);
}
END_TEST

/* Cells of a column begin where its head begins, in every line. */
static void
check_column(const char *table, const char *head, const char *const *cells, size_t n)
{
    const char *line = strstr(table, "\r\n") + 2, *at = strstr(line, head);
    size_t column = (size_t)(at - line), i;

    ck_assert_ptr_nonnull(at);
    for (i = 0; i < n; i++) {
        line = strstr(line, "\r\n") + 2;
        ck_assert_msg(strncmp(line + column, cells[i], strlen(cells[i])) == 0, "%s: %s", head, line);
        ck_assert(column == 0 || line[column - 1] == ' ');
    }
}

START_TEST(info_tables)
{
    struct client a = come(), b = come();
    struct resp r;
    char many[200];

    expects(&a, "INFO locks\n", "$19\r\n# Locks\r\nno locks\r\n\r\n");
    expects(&a, "LOCK x OWNER me\nLOCK \"y \\r\\nz\"\n", ":101\r\n:102\r\n");
    expects(&b, "LOCK x OWNER you WAIT 1h\n", "");
    r = ask(&a, "INFO locks\n");
    check_column(r.text, "NAME", (const char *const[]){"x ", "y \\x0d\\x0az "}, 2);
    check_column(r.text, "OWNER", (const char *const[]){"me ", "(session) "}, 2);
    check_column(r.text, "TOKEN", (const char *const[]){"101 ", "102 "}, 2);
    check_column(r.text, "WAITERS", (const char *const[]){"1 ", "0 "}, 2);
    resp_fini(&r);
    r = ask(&a, "INFO lock x\n");
    check_column(r.text, "NAME", (const char *const[]){"x "}, 1);
    ck_assert_ptr_nonnull(strstr(r.text, "\r\n\r\n# Holders\r\nOWNER  SESSION  MODE       TOKEN  HOLDS  LEASE"));
    ck_assert_ptr_nonnull(strstr(r.text, "\r\nme     1        exclusive  101    1"));
    ck_assert_ptr_nonnull(strstr(r.text, "\r\n\r\n# Waiters\r\nNAME  OWNER  SESSION  POSITION"));
    ck_assert_ptr_nonnull(strstr(r.text, "\r\nx     you "));
    resp_fini(&r);
    r = ask(&a, "INFO waiters x\n");
    check_column(r.text, "OWNER", (const char *const[]){"you "}, 1);
    resp_fini(&r);
    reported(&a, "INFO lock nosuch\n", "nothing is known");
    expects(&a, "INFO lock\n", "-ERR usage: INFO lock NAME\r\n");
    reported(&a, "INFO sessions\n", "LAST_COMMAND\r\n");
    /* A name is cut, not the columns. */
    memset(many, 'n', sizeof(many));
    memcpy(many, "LOCK ", 5);
    strcpy(many + 5 + 100, "\n");
    expects(&a, many, ":103\r\n");
    reported(&a, "INFO locks nn*\n", "nnnn...  reentrant  held ");
    leave(&b);
    leave(&a);
}
END_TEST

START_TEST(info_tables_are_capped)
{
    struct client c = come();
    struct resp r;
    int i;

    for (i = 0; i < 1005; i++) {
        char text[32];

        snprintf(text, sizeof(text), "LOCK %d\n", i);
        sends(&c, text);
        if (i % 100 == 0) {
            settle();
        }
    }
    settle();
    {
        struct buf b;

        buf_init(&b, 0);
        receives(&c, &b);
        buf_fini(&b);
    }
    r = ask(&c, "INFO locks\n");
    ck_assert_ptr_nonnull(strstr(r.text, "\r\n999 "));
    ck_assert_ptr_null(strstr(r.text, "\r\n1000 "));
    ck_assert_ptr_nonnull(strstr(r.text, "\r\n... and 5 more, not shown\r\n"));
    resp_fini(&r);
    r = ask(&c, "LOCKS\n"); /* programs get them all */
    ck_assert_uint_eq(r.n, 1005);
    resp_fini(&r);
    leave(&c);
}
END_TEST

START_TEST(info_tree)
{
    struct client root = come(), middle = come(), leaf = come();
    struct resp r;
    char want[200];

    expects(&root, "INFO tree\n", "$22\r\n# Tree\r\nnobody waits\r\n\r\n");
    expects(&root, "CLIENT SETNAME root\nLOCK a\n", "+OK\r\n:101\r\n");
    expects(&middle, "LOCK b OWNER m\n", ":102\r\n");
    expects(&middle, "LOCK a OWNER m WAIT 1h\n", "");
    expects(&leaf, "LOCK b\n", "");
    r = ask(&root, "INFO tree\n");
    snprintf(want, sizeof(want), "# Tree\r\nsession %u (root)\r\n  holds a for ", (unsigned)root.id);
    ck_assert_msg(strstr(r.text, want) != NULL, "%s", r.text);
    snprintf(want, sizeof(want), "\r\n    1. owner \"m\" by session %u (unix:pid=%d,", (unsigned)middle.id,
             (int)getpid());
    ck_assert_msg(strstr(r.text, want) != NULL, "%s", r.text);
    ck_assert_ptr_nonnull(strstr(r.text, ", 59m")); /* left of its hour, or a little more */
    ck_assert_ptr_nonnull(strstr(r.text, "\r\n      holds b for "));
    snprintf(want, sizeof(want), "\r\n        1. session %u (unix:pid=", (unsigned)leaf.id);
    ck_assert_msg(strstr(r.text, want) != NULL, "%s", r.text);
    resp_fini(&r);
    reported(&root, "INFO tree nosuch\n", "nobody waits");
    leave(&leaf);
    leave(&middle);
    leave(&root);
}
END_TEST

/* ---- MONITOR ---- */

START_TEST(monitor)
{
    struct client m = come(), c = come();
    struct buf b;
    char want[200];
    const char *at;

    expects(&m, "MONITOR\n", "+OK\r\n");
    sends(&c, "ECHO \"a\\\"\\r\\n\\x00\"\nAUTH admin secret\nHELLO AUTH u secret\nHELLO 2 AUTH u secret SETNAME me\n"
              "FOO secret\nLOCK\n");
    settle();
    buf_init(&b, 0);
    receives(&m, &b);
    ck_assert_ptr_null(strstr(b.p, "secret"));
    at = b.p;
    snprintf(want, sizeof(want), " [0 %s] \"ECHO\" \"a\\\"\\r\\n\\x00\"\r\n+", c.s->peer);
    ck_assert_int_eq(at[0], '+');
    at = strchr(at, ' ');
    ck_assert_msg(strncmp(at, want, strlen(want)) == 0, "%s", at);
    ck_assert_ptr_nonnull(strstr(at, "] \"AUTH\" \"(redacted)\" \"(redacted)\"\r\n+"));
    at = strstr(at, "] \"HELLO\" \"2\"");
    ck_assert_str_eq(at, "] \"HELLO\" \"2\" \"AUTH\" \"(redacted)\" \"(redacted)\" \"SETNAME\" \"me\"\r\n");
    buf_fini(&b);
    sends(&m, "RESET\n"); /* which it receives too, and then no more */
    settle();
    buf_init(&b, 0);
    receives(&m, &b);
    ck_assert_ptr_nonnull(strstr(b.p, "] \"RESET\"\r\n+RESET\r\n"));
    buf_fini(&b);
    buf_init(&b, 0);
    receives(&c, &b);
    buf_fini(&b);
    reported(&c, "PING\n", "PONG");
    expect(&m, "");
    leave(&m);
    leave(&c);
}
END_TEST

/* A client library that sends RESET when a connection goes back to its pool, and AUTH when it is taken out. */
START_TEST(resets_leave_room_for_auth)
{
    struct client c = come();
    size_t many = 2 * (size_t)conf->auth_bytes / strlen("RESET");

    expects(&c, "AUTH sesame\nLOCK x\n", "+OK\r\n:101\r\n");
    for (size_t i = 0; i < many; i++) {
        expects(&c, "RESET\nAUTH sesame\n", "+RESET\r\n+OK\r\n");
    }
    sends(&c, "RESET\n");
    sends_times(&c, "ECHO x\n", (int)conf->auth_bytes); /* and a client before AUTH has no more bytes than before */
    settle();
    ck_assert_ptr_null(session_find(engine, c.id));
    close(c.fd);
}
END_TEST

/* ---- */

static void
add_roles(Suite *s)
{
    TCase *tc = tcase_create("roles");

    tcase_add_checked_fixture(tc, build_guarded, take_down);
    tcase_add_test(tc, nothing_before_auth);
    tcase_add_loop_test(tc, each_password_gives_its_role, 0, 11);
    tcase_add_test(tc, three_failures_close);
    tcase_add_test(tc, almost_right_is_wrong);
    tcase_add_test(tc, hello_authenticates);
    tcase_add_test(tc, resets_leave_room_for_auth);
    suite_add_tcase(s, tc);
}

int
main(void)
{
    Suite *s = suite_create("commands");
    TCase *tc = tcase_create("commands");
    SRunner *run;
    int failed;

    tcase_add_checked_fixture(tc, build, take_down);
    tcase_add_test(tc, unknown_commands);
    tcase_add_test(tc, wrong_arity);
    tcase_add_loop_test(tc, cross_protocol, 0, 3);
    tcase_add_test(tc, auth_without_passwords);
    tcase_add_test(tc, full_grants);
    tcase_add_test(tc, lock_unlock_renew);
    tcase_add_test(tc, kind_of_the_request_wins);
    tcase_add_test(tc, waits_by_the_rule_or_the_request);
    tcase_add_test(tc, kill);
    tcase_add_test(tc, client_kill);
#ifdef RLOCKD_TEST_CLOCK
    tcase_add_test(tc, client_kill_of_all);
#endif
    tcase_add_test(tc, break_frees);
    tcase_add_test(tc, drain);
    tcase_add_loop_test(tc, exact_words, 0, 26);
    tcase_add_test(tc, hello);
    tcase_add_test(tc, client_list);
    tcase_add_test(tc, locks_and_waiters);
    tcase_add_test(tc, sessions);
    tcase_add_test(tc, lockinfo);
    tcase_add_test(tc, lockinfo_of_a_string);
    tcase_add_test(tc, mode_of_a_lock_that_is_not_held);
    tcase_add_test(tc, info_for_libraries);
    tcase_add_test(tc, info_tables);
    tcase_add_test(tc, info_tables_are_capped);
    tcase_add_test(tc, info_tree);
    tcase_add_test(tc, monitor);
    suite_add_tcase(s, tc);
    add_roles(s);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
