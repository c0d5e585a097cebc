/*
 * text.h -- what Redis says in words, for people.
 */
#ifndef RLOCKD_BACKEND_TEXT_H
#define RLOCKD_BACKEND_TEXT_H

#include "daemon/base/slice.h"

/* Foreign bytes as \xHH, cut to the room, NUL-terminated. */
void text_print(char *out, size_t room, struct slice s);

/* The text behind "key:" in INFO, up to the end of the line; out is left alone when there is no such line. */
void text_info_field(struct slice info, const char *key, char *out, size_t room);

#endif
