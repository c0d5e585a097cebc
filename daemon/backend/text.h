/*
 * text.h -- texts from Redis: printing them for people, and reading them.
 */
#ifndef RLOCKD_BACKEND_TEXT_H
#define RLOCKD_BACKEND_TEXT_H

#include <stdbool.h>

#include "daemon/base/slice.h"

/* Prints s with foreign bytes as \xHH, cut to the room, with a NUL at the end. */
void text_print(char *out, size_t room, struct slice s);

enum { TEXT_ERROR_ROOM = 320 };

/*
 * Copies the error. If it reports a missing right, adds the ACL command that gives the right to `user` (NULL: the
 * default user). Cuts to the room, ends with a NUL, returns out.
 */
const char *text_error(char out[TEXT_ERROR_ROOM], struct slice error, const char *user);

/* Whether the error passes by itself (BUSY, LOADING, ...). Others (NOPERM, unknown command) would come again. */
bool text_error_is_transient(struct slice error);

/* Prints the text behind "key:" in a line of INFO; leaves `out` unchanged if there is no such line. */
void text_info_field(struct slice info, const char *key, char *out, size_t room);

#endif
