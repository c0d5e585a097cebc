/*
 * text.h -- texts of Redis, for people and for comparison.
 */
#ifndef RLOCKD_BACKEND_TEXT_H
#define RLOCKD_BACKEND_TEXT_H

#include <stdbool.h>

#include "daemon/base/slice.h"

/* Foreign bytes as \xHH, cut to the room, NUL-terminated. */
void text_print(char *out, size_t room, struct slice s);

enum { TEXT_ERROR_ROOM = 320 };

/*
 * The error as it is; behind one that says that a right is missing stand the words that give it to `user` (NULL: to
 * the default one). Cut to the room, NUL-terminated; returns out.
 */
const char *text_error(char out[TEXT_ERROR_ROOM], struct slice error, const char *user);

/* Whether the error is of the moment (BUSY, LOADING, ...); another one (NOPERM, unknown command) comes again. */
bool text_error_is_transient(struct slice error);

/* The text behind "key:" in INFO, up to the end of the line; out is left alone when there is no such line. */
void text_info_field(struct slice info, const char *key, char *out, size_t room);

#endif
