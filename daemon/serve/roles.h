/*
 * roles.h -- the role of a session: nothing before AUTH, client, or admin.
 */
#ifndef RLOCKD_SERVE_ROLES_H
#define RLOCKD_SERVE_ROLES_H

#include "daemon/serve/session.h"
#include "proto/writer.h"

/* The role before any password was sent; RESET goes back to it. */
void roles_begin(struct session *s);

/* The session has sent the user's password, or the admin's. */
void roles_prove(struct session *s, bool admin);

/*
 * The passwords may have changed. Authenticated sessions stay so, for they must be able to unlock; sessions that the
 * new configuration would not make admins lose the role.
 */
void roles_reload(struct engine *e, const struct conf *was);

/* -NOPERM, and what to configure where the connection cannot become an admin. */
void roles_refuse_admin(const struct session *s, const char *command, struct writer *out);

/*
 * Protected mode: other hosts may reach what listens there, and no password keeps them out. True: it must not be
 * served; why is in `error`.
 */
bool roles_refuse_listener(const struct conf *cf, const char *addr, bool beyond, char error[160]);

/*
 * Protected mode for the page for health checks, which has no password: what to warn of where other hosts reach it, or
 * NULL. It shows no names and changes nothing, so it is served all the same.
 */
const char *roles_warn_of_page(const struct conf *cf, bool beyond);

#endif
