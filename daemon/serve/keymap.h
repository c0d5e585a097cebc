/*
 * keymap.h -- daemons on one Redis compare fingerprints of the rules that map names to keys.
 */
#ifndef RLOCKD_SERVE_KEYMAP_H
#define RLOCKD_SERVE_KEYMAP_H

#include <stdbool.h>

#include "daemon/base/slice.h"

struct engine;

/*
 * Redis was reached, replies can arrive from now on, or another daemon has joined: broadcasts this daemon's fingerprint
 * as a query. So of two daemons, the last one to be connected and subscribed asks when both are.
 */
void keymap_broadcast(struct engine *e);

/* A broadcast of any daemon, also of this one. False: it is no message of keymap.c. */
bool keymap_received(struct engine *e, struct slice what);

#endif
