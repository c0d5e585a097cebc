/*
 * roles.h -- the role of a session: nothing before AUTH, client, or admin.
 */
#ifndef RLOCKD_SERVE_ROLES_H
#define RLOCKD_SERVE_ROLES_H

#include "daemon/serve/session_record.h"
#include "proto/writer.h"

/* The role before any password was sent; RESET goes back to it. */
void roles_reset(struct session *s);

/* The session has sent the user's password, or the admin's. */
void roles_authenticated(struct session *s, bool admin);

/* The role may have changed: other limits and another deadline apply. */
void roles_apply(struct session *s);

/*
 * The passwords may have changed. Authenticated sessions stay so, for they must be able to unlock; sessions that the
 * new configuration would not make admins lose the role. Sessions that need no password any more are authenticated.
 */
void roles_reload(struct engine *e, const struct conf *was);

/* Writes -NOPERM; if the connection cannot become an admin, with the settings that would allow it. */
void roles_refuse_admin(const struct session *s, const char *command, struct writer *out);

/*
 * Whether protected mode forbids to serve at that address, because other hosts may reach it without a password. True:
 * the reason is in `error`.
 */
bool roles_refuse_listener(const struct conf *cf, const char *addr, bool other_hosts, char error[160]);

/*
 * Protected mode for the page for health checks, which has no password: the warning if other hosts may reach it; NULL:
 * none is needed. The page shows no names and changes nothing, so it is served all the same.
 */
const struct conf_warning *roles_warn_of_page(const struct conf *cf, bool other_hosts);

#endif
