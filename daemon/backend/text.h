/*
 * text.h -- texts from Redis: printing them for people, and reading them.
 */
#ifndef RLOCKD_BACKEND_TEXT_H
#define RLOCKD_BACKEND_TEXT_H

#include <stdbool.h>

#include "daemon/base/slice.h"

struct link_address;

/* Prints s escaped (buf_add_escaped()), cut to the room, with a NUL at the end. */
void text_print(char *out, size_t room, struct slice s);

enum { TEXT_ERROR_ROOM = 320 };

/*
 * Copies the error for people, without the words of a command that it quotes. If it reports a missing right, adds the
 * ACL command that gives the right to the user of the login (no login, or none in it: the default user); if the server
 * may be a sentinel or a node of a cluster, adds how its URL begins. Of an error with the password of the login at most
 * the first word is copied: other people see the log, INFO and answers. Cuts to the room, ends with a NUL, returns out.
 */
const char *text_error(char out[TEXT_ERROR_ROOM], struct slice error, const struct link_address *login);

/*
 * The error that AUTH was answered, for people. No byte of it is copied, since a server that does not know AUTH, or is
 * no Redis, may quote the password, even a former one.
 */
const char *text_login_error(struct slice error);

/* Whether the command has not run, for a reason that mostly passes (BUSY, LOADING, ...). NOPERM would come again. */
bool text_error_is_transient(struct slice error);

/* Prints the text behind "key:" in a line of INFO; leaves `out` unchanged if there is no such line. */
void text_info_field(struct slice info, const char *key, char *out, size_t room);

#endif
