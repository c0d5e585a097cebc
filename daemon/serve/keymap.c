/*
 * keymap.c -- warns when daemons on one Redis map names to different keys: a name that two of them use could have two
 * holders. A reload cannot cause this (conf_same_keys()), a rolling restart can.
 *
 * Owns two messages on the channel of core/broadcast.c: the query "K<uuid> <fingerprint>?", and the reply "K<uuid>
 * <fingerprint>" of daemons with another fingerprint. Replies are never replied to. A warning is all, since some fleets
 * use separate rules for separate names.
 */
#include "daemon/serve/keymap.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/serve/engine.h"

enum { LETTER = 'K', UUID_N = 36, PRINT_N = 16, SAID_N = 1 + UUID_N + 1 + PRINT_N };

static void
broadcast(const struct engine *e, const char *asks)
{
    char text[SAID_N + 2];

    snprintf(text, sizeof(text), "%c%s %016" PRIx64 "%s", LETTER, e->uuid, conf_keys_print(e->conf), asks);
    backend_broadcast(e->backend, slice_of(text));
}

void
keymap_broadcast(struct engine *e)
{
    broadcast(e, "?");
}

bool
keymap_received(struct engine *e, struct slice what)
{
    struct slice uuid = {what.p + 1, UUID_N}, print = {what.p + 1 + UUID_N + 1, PRINT_N};
    char ours[PRINT_N + 1];

    if (what.n == 0 || what.p[0] != LETTER) {
        return false;
    }
    if (what.n != SAID_N && !(what.n == SAID_N + 1 && what.p[SAID_N] == '?')) {
        return true; /* a message of a later version of rlockd */
    }
    snprintf(ours, sizeof(ours), "%016" PRIx64, conf_keys_print(e->conf));
    if (slice_eq(uuid, slice_of(e->uuid)) || slice_eq(print, slice_of(ours))) {
        return true;
    }
    log_event(e->log, LOG_WARN, "rules",
              "another daemon on this Redis gives names other keys: if both use one name, it has two holders", "daemon",
              LOG_B(uuid), "remedy",
              LOG_S("the same key, prefix and order of rules everywhere: stop all, then start them"), NULL);
    if (what.n > SAID_N) {
        broadcast(e, "");
    }
    return true;
}
