/*
 * keymap.c -- warns when daemons on one Redis map names to different keys: a name that two of them use could have two
 * holders. A reload cannot cause this (conf_same_keys()), a rolling restart can.
 *
 * Owns two messages on the channel of daemon/core/broadcast.c: the query "K<uuid> <fingerprint>?", and the reply
 * "K<uuid> <fingerprint>" of daemons with another fingerprint. A reply gets no reply. Only warns, since some fleets use
 * separate rules for separate names.
 */
#include "daemon/serve/keymap.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/serve/engine_record.h"

enum { LETTER = 'K', UUID_N = 36, FINGERPRINT_N = 16, MESSAGE_N = 1 + UUID_N + 1 + FINGERPRINT_N };

static void
broadcast(const struct engine *e, const char *asks)
{
    char text[MESSAGE_N + 2];

    snprintf(text, sizeof(text), "%c%s %016" PRIx64 "%s", LETTER, e->uuid, conf_keys_fingerprint(e->conf), asks);
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
    struct slice uuid = {what.p + 1, UUID_N}, fingerprint = {what.p + 1 + UUID_N + 1, FINGERPRINT_N};
    char own[FINGERPRINT_N + 1];

    if (what.n == 0 || what.p[0] != LETTER) {
        return false;
    }
    if (what.n != MESSAGE_N && !(what.n == MESSAGE_N + 1 && what.p[MESSAGE_N] == '?')) {
        return true; /* a message of a later version of rlockd */
    }
    snprintf(own, sizeof(own), "%016" PRIx64, conf_keys_fingerprint(e->conf));
    if (slice_eq(uuid, slice_of(e->uuid)) || slice_eq(fingerprint, slice_of(own))) {
        return true;
    }
    log_event(e->log, LOG_WARN, "rules",
              "another daemon on this Redis gives names other keys: if both use one name, it has two holders", "daemon",
              LOG_B(uuid), "remedy",
              LOG_S("the same key, prefix and order of rules everywhere: stop all, then start them"), NULL);
    if (what.n > MESSAGE_N) {
        broadcast(e, "");
    }
    return true;
}
