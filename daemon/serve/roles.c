/*
 * roles.c -- the role of a session, from the configuration and the passwords it has proved to know.
 *
 * R1  An admin is authenticated.
 * R2  A session by TCP is no admin without the admin's password, unless protected mode is off and there is no password
 *     at all.
 */
#include "daemon/serve/roles.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/serve/sessions.h"

/* A Unix socket has permissions; a port is open to every process of the host. */
static bool
is_trusted(const struct session *s)
{
    return s->is_unix && !s->engine->conf->auth_unix;
}

/* By Unix socket with auth.unix: where there is no admin password, every authenticated session is an admin. */
static bool
is_admin(const struct session *s)
{
    const struct conf *cf = s->engine->conf;

    if (s->authed_as_admin || is_trusted(s)) {
        return true;
    }
    if (cf->auth_admin_password != NULL || !s->authed) {
        return false;
    }
    return s->is_unix || (!cf->protected_mode && cf->auth_password == NULL);
}

static bool
needs_no_password(const struct session *s)
{
    return s->engine->conf->auth_password == NULL || is_trusted(s);
}

void
roles_reset(struct session *s)
{
    s->authed_as_admin = false;
    s->authed = needs_no_password(s);
    s->admin = is_admin(s);
}

void
roles_authenticated(struct session *s, bool admin)
{
    s->authed = true;
    s->authed_as_admin = s->authed_as_admin || admin;
    s->admin = is_admin(s);
}

void
roles_apply(struct session *s)
{
    struct engine *e = s->engine;
    const struct reader_limits *limits = s->authed ? &e->limits : &e->limits_unauthed;

    if (s->reader.limits == limits) {
        return;
    }
    s->reader.limits = limits;
    if (s->authed) {
        s->unauthed_bytes = 0;
        heap_remove(&e->due, &s->due);
    } else {
        heap_set(&e->due, &s->due, clock_now_us() + e->conf->auth_timeout_us);
    }
}

static bool
same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

void
roles_reload(struct engine *e, const struct conf *was)
{
    bool same = same_text(was->auth_admin_password, e->conf->auth_admin_password);
    struct list *node, *next;

    list_for_each_safe(node, next, &e->sessions) {
        struct session *s = container_of(node, struct session, node);
        bool owed_auth = !s->authed;

        s->authed_as_admin = s->authed_as_admin && same;
        s->authed = s->authed || needs_no_password(s); /* R1 */
        s->admin = is_admin(s);
        roles_apply(s);
        if (owed_auth && s->authed) {
            session_wake(s); /* S4: its turn sets the deadline for output that the client does not read */
        }
        if (!s->admin) {
            list_remove(&s->monitor_node);
        }
    }
}

void
roles_refuse_admin(const struct session *s, const char *command, struct writer *out)
{
    const struct conf *cf = s->engine->conf;

    if (cf->auth_admin_password != NULL) {
        writer_error(out, ERR_NO_PERM, "%s needs the admin role", command);
    } else if (cf->auth_password != NULL) {
        writer_error(out, ERR_NO_PERM,
                     "%s needs the admin role: connect by Unix socket, or set auth.admin_password for TCP", command);
    } else {
        writer_error(out, ERR_NO_PERM,
                     "%s needs the admin role: connect by Unix socket, or set auth.admin_password for TCP (or "
                     "protected_mode: false, which makes everybody on TCP an admin)",
                     command);
    }
}

bool
roles_refuse_listener(const struct conf *cf, const char *addr, bool other_hosts, char error[160])
{
    if (!other_hosts || !cf->protected_mode || cf->auth_password != NULL) {
        return false;
    }
    snprintf(error, 160,
             "%.60s: other hosts may reach it without a password: set auth.password, or protected_mode: false", addr);
    return true;
}

const struct conf_warning *
roles_warn_of_page(const struct conf *cf, bool other_hosts)
{
    static const struct conf_warning warning = {"other hosts may reach it without a password",
                                                "set http.listen to an address of this host, or protected_mode: false"};

    return other_hosts && cf->protected_mode ? &warning : NULL;
}
