/*
 * address.h -- a Redis URL as an address.
 */
#ifndef RLOCKD_BACKEND_ADDRESS_H
#define RLOCKD_BACKEND_ADDRESS_H

#include "daemon/backend/link.h"

/*
 * "unix:PATH[?db=N]" or "redis://[user:password@]host:port[/db]", %XX decoded; user and password of the URL win over
 * those given. NULL with a message in `error`; otherwise the caller owns it (address_free).
 */
struct link_address *address_parse(const char *url, const char *user, const char *password, char error[160]);

/* Its host has to be looked up. */
bool address_is_name(const struct link_address *a);

/* Wipes the password. */
void address_free(struct link_address *a);

#endif
