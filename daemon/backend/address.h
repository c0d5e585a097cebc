/*
 * address.h -- a Redis URL as an address. By hand, because evhttp_uri_parse() does not say what is wrong.
 */
#ifndef RLOCKD_BACKEND_ADDRESS_H
#define RLOCKD_BACKEND_ADDRESS_H

#include "daemon/backend/link.h"
#include "daemon/backend/tls.h"

/*
 * Parses "unix:PATH[?db=N]" or "redis[s]://[user:password@]host:port[/db]", and decodes %XX. A user in the URL replaces
 * `user`; a password in the URL replaces both arguments. Returns an address that the caller owns (address_free); NULL:
 * a message is in `error`.
 */
struct link_address *address_parse(const char *url, const char *user, const char *password, char error[160]);

/* Sets user and password for new connections: no user if the URL has one, and neither if the URL has a password. */
void address_login(struct link_address *a, const char *user, const char *password);

/*
 * Reads the files of TLS for new connections, if the URL asks for TLS. False with a message in `error`: the address is
 * unchanged. `warning` gets a message or "".
 */
bool address_secure(struct link_address *a, const struct tls_files *files, char error[TLS_ERROR_ROOM],
                    char warning[TLS_ERROR_ROOM]);

/*
 * Returns an address without a server: address_move() names one. Until then logs and INFO have `shown`. User and
 * password are those of address_parse(). The caller owns the address.
 */
struct link_address *address_unknown(const char *shown, const char *user, const char *password, int db, bool secure);

/* Names another server for new connections (link_retarget()). Login, database and TLS stay the same. */
void address_move(struct link_address *a, const char *host, int port);

/* Prints a TCP address for people. */
void address_show(char out[160], bool secure, const char *host, int port);

/* Whether the address names that server. Host names are compared as text. */
bool address_names(const struct link_address *a, const char *host, int port);

/* Wipes the password, and closes the tls. */
void address_free(struct link_address *a);

#endif
