/*
 * address.h -- a Redis URL as an address.
 */
#ifndef RLOCKD_BACKEND_ADDRESS_H
#define RLOCKD_BACKEND_ADDRESS_H

#include "daemon/backend/link.h"
#include "daemon/backend/tls.h"

/*
 * "unix:PATH[?db=N]" or "redis[s]://[user:password@]host:port[/db]", %XX decoded; user and password of the URL win over
 * those given. NULL with a message in `error`; otherwise the caller owns it (address_free).
 */
struct link_address *address_parse(const char *url, const char *user, const char *password, char error[160]);

/* Whether both URLs name the same Redis, and the same user and password where they name any. */
bool address_is_same(const struct link_address *a, const struct link_address *b);

/* Another user and password, where the URL brought none: for connections from now on. */
void address_login(struct link_address *a, const char *user, const char *password);

/*
 * With TLS: reads the files, for connections from now on; without it there is nothing to do. False with a message in
 * `error`, and all is as it was; `warning` has one or "".
 */
bool address_secure(struct link_address *a, const struct tls_files *files, char error[TLS_ERROR_ROOM],
                    char warning[TLS_ERROR_ROOM]);

/* Wipes the password; ends the tls. */
void address_free(struct link_address *a);

#endif
