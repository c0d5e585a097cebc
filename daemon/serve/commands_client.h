/*
 * commands_client.h -- the words by which a client describes itself: its name, its library.
 */
#ifndef RLOCKD_SERVE_COMMANDS_CLIENT_H
#define RLOCKD_SERVE_COMMANDS_CLIENT_H

#include <stdbool.h>

#include "daemon/base/slice.h"

struct session;
struct writer;

#define CLIENT_WORD_BYTES_MAX 255
#define CLIENT_LIB_BYTES (2 * CLIENT_WORD_BYTES_MAX + 2) /* "<name>/<version>" */

/* False: the error is written. what: the subject of its text, such as "Client names". */
bool client_check_word(const char *what, struct slice word, struct writer *out);

/* An empty word unsets. */
void client_set_word(char **owned, struct slice word);

/* Unsets the name. The library stays, as in Redis. */
void client_clear_name(struct session *s);

#endif
