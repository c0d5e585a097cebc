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

/*
 * An address that names no server yet, for address_move(). `shown` is for people until it does; user and password as
 * for address_parse(). The caller owns it.
 */
struct link_address *address_unknown(const char *shown, const char *user, const char *password, int db, bool secure);

/* Another server, with the same login, database and TLS: for connections from now on (link_retarget()). */
void address_move(struct link_address *a, const char *host, int port);

/* How people are shown an address by TCP. */
void address_show(char out[160], bool secure, const char *host, int port);

/* Whether it names that server; of host names the text counts. */
bool address_names(const struct link_address *a, const char *host, int port);

/* Wipes the password; ends the tls. */
void address_free(struct link_address *a);

#endif
