/*
 * test_roles.c -- the role of a session: by Unix socket or TCP, by the passwords, protected or not, before AUTH and
 * after it.
 */
#include "tests/unit/house.h"

#include "daemon/serve/roles.h"

#define USER "sesame"
#define ADMIN "open"

enum role { NONE, CLIENT, IS_ADMIN };

static enum role
role_of(const struct client *c)
{
    ck_assert(c->s->authed || !c->s->admin);
    return c->s->admin ? IS_ADMIN : c->s->authed ? CLIENT : NONE;
}

static struct client
come_by(bool is_unix)
{
    struct client c;
    int fd[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    c.fd = fd[0];
    c.s = session_open(engine, fd[1], is_unix, "test");
    c.id = c.s->id;
    return c;
}

/* The first role, and the role after the user's password and after the admin's. */
START_TEST(roles_of_each_configuration)
{
    static const struct {
        const char *password, *admin_password;
        bool auth_unix, is_protected, is_unix;
        enum role first, by_user, by_admin;
    } rows[] = {
        /* no password */
        {NULL, NULL, false, true, true, IS_ADMIN, IS_ADMIN, IS_ADMIN},
        {NULL, NULL, false, true, false, CLIENT, CLIENT, CLIENT},
        {NULL, NULL, false, false, false, IS_ADMIN, IS_ADMIN, IS_ADMIN},
        /* only the user's */
        {USER, NULL, false, true, true, IS_ADMIN, IS_ADMIN, IS_ADMIN},
        {USER, NULL, false, true, false, NONE, CLIENT, NONE},
        {USER, NULL, false, false, false, NONE, CLIENT, NONE},
        {USER, NULL, true, true, true, NONE, IS_ADMIN, NONE},
        /* only the admin's */
        {NULL, ADMIN, false, true, true, IS_ADMIN, IS_ADMIN, IS_ADMIN},
        {NULL, ADMIN, false, true, false, CLIENT, CLIENT, IS_ADMIN},
        {NULL, ADMIN, false, false, false, CLIENT, CLIENT, IS_ADMIN},
        {NULL, ADMIN, true, true, true, CLIENT, CLIENT, IS_ADMIN},
        /* both passwords */
        {USER, ADMIN, false, true, true, IS_ADMIN, IS_ADMIN, IS_ADMIN},
        {USER, ADMIN, false, true, false, NONE, CLIENT, IS_ADMIN},
        {USER, ADMIN, false, false, false, NONE, CLIENT, IS_ADMIN},
        {USER, ADMIN, true, true, true, NONE, CLIENT, IS_ADMIN},
    };
    const char *const requests[] = {"AUTH default " USER "\n", "AUTH admin " ADMIN "\n"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const enum role want[] = {rows[i].by_user, rows[i].by_admin};

        conf->auth_password = rows[i].password != NULL ? strdup(rows[i].password) : NULL;
        conf->auth_admin_password = rows[i].admin_password != NULL ? strdup(rows[i].admin_password) : NULL;
        conf->auth_unix = rows[i].auth_unix;
        conf->protected_mode = rows[i].is_protected;
        for (size_t j = 0; j < 2; j++) {
            struct client c = come_by(rows[i].is_unix);

            ck_assert_msg(role_of(&c) == rows[i].first, "row %zu, first", i);
            sends(&c, requests[j]);
            settle();
            ck_assert_msg(role_of(&c) == want[j], "row %zu, %s", i, requests[j]);
            sends(&c, "RESET\n");
            settle();
            ck_assert_msg(role_of(&c) == rows[i].first, "row %zu, RESET", i);
            leave(&c);
        }
        free(conf->auth_password);
        free(conf->auth_admin_password);
        conf->auth_password = conf->auth_admin_password = NULL;
    }
}
END_TEST

/* An open session must be able to unlock: it stays, but loses the admin's commands with the password for them. */
START_TEST(a_reload_takes_the_admins_role_and_no_more)
{
    struct conf was, *now = conf;
    struct client t, u;

    conf->protected_mode = false;
    conf->auth_unix = true;
    t = come_by(false);
    u = come_by(true);
    ck_assert_int_eq(role_of(&t), IS_ADMIN);
    sends(&t, "MONITOR\n");
    settle();
    ck_assert(!list_empty(&engine->monitors));
    was = *now;
    now->auth_password = strdup(USER);
    roles_reload(engine, &was);
    ck_assert_int_eq(role_of(&t), CLIENT);
    ck_assert(list_empty(&engine->monitors));
    ck_assert_int_eq(role_of(&u), IS_ADMIN); /* with that password it could log in, and be an admin */
    was = *now;
    now->auth_admin_password = strdup(ADMIN);
    roles_reload(engine, &was);
    ck_assert_int_eq(role_of(&u), CLIENT);
    sends(&u, "AUTH admin " ADMIN "\n");
    settle();
    ck_assert_int_eq(role_of(&u), IS_ADMIN);
    was = *now;
    roles_reload(engine, &was); /* no change */
    ck_assert_int_eq(role_of(&u), IS_ADMIN);
    now->auth_admin_password = strdup("another");
    roles_reload(engine, &was);
    ck_assert_int_eq(role_of(&u), CLIENT);
    free(was.auth_admin_password);
    leave(&t);
    leave(&u);
}
END_TEST

/* R1: a session that needs no password any more is no longer unauthenticated, and its time for AUTH does not end. */
START_TEST(a_reload_lets_in_who_needs_no_password)
{
    struct conf was;
    struct client t, u;

    conf->auth_unix = true;
    conf->auth_password = strdup(USER);
    t = come_by(false);
    u = come_by(true);
    ck_assert_int_eq(role_of(&t), NONE);
    ck_assert_int_eq(role_of(&u), NONE);
    was = *conf;
    conf->auth_unix = false;
    roles_reload(engine, &was);
    ck_assert_int_eq(role_of(&t), NONE);
    ck_assert_int_eq(role_of(&u), IS_ADMIN);
    ck_assert(t.s->due.pos != 0 && u.s->due.pos == 0);
    was = *conf;
    free(conf->auth_password);
    conf->auth_password = NULL;
    was.auth_password = NULL; /* freed */
    roles_reload(engine, &was);
    ck_assert_int_eq(role_of(&t), CLIENT);
    ck_assert(t.s->due.pos == 0);
    leave(&t);
    leave(&u);
}
END_TEST

static bool
no_session_left(void)
{
    return engine->sessions_n == 0;
}

/* S4: its time for AUTH has no end any more, so the time for its output begins. */
START_TEST(a_reload_keeps_the_deadline_of_a_session_that_quits_without_reading)
{
    struct conf was;
    struct client c;

    conf->auth_unix = true;
    conf->auth_password = strdup(USER);
    conf->auth_bytes = 64 * 1024;
    conf->dead_peer_us = 20 * US_PER_MS;
    c = come_by(true);
    ck_assert_int_eq(setsockopt(c.s->fd, SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int)), 0);
    sends_times(&c, "LOCK a\n", 300);
    sends(&c, "QUIT\n");
    settle();
    ck_assert(c.s->quitting && c.s->out.bytes.n > 0 && !c.s->authed);
    was = *conf;
    conf->auth_unix = false;
    roles_reload(engine, &was);
    settle();
    ck_assert(no_session_left() || c.s->due.pos != 0);
    ck_assert(wait_for(no_session_left));
    close(c.fd);
}
END_TEST

int
main(void)
{
    TCase *tc = tcase_create("roles");

    tcase_add_checked_fixture(tc, build, take_down);
    tcase_add_test(tc, roles_of_each_configuration);
    tcase_add_test(tc, a_reload_takes_the_admins_role_and_no_more);
    tcase_add_test(tc, a_reload_lets_in_who_needs_no_password);
    tcase_add_test(tc, a_reload_keeps_the_deadline_of_a_session_that_quits_without_reading);
    return house_run("roles", tc);
}
