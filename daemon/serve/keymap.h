/*
 * keymap.h -- daemons on one Redis tell each other by a fingerprint which keys their rules give to names.
 */
#ifndef RLOCKD_SERVE_KEYMAP_H
#define RLOCKD_SERVE_KEYMAP_H

#include <stdbool.h>

#include "daemon/base/slice.h"

struct engine;

/* Redis is reached, or another daemon has come: ours is said, and those of others are asked for. */
void keymap_say(struct engine *e);

/* What another daemon, or this one, has said. False: it is about something else. */
bool keymap_heard(struct engine *e, struct slice what);

#endif
