/*
 * unreachable.c -- which requests of a client still run when it receives no replies any more. Owns nothing.
 */
#include "daemon/serve/unreachable.h"

#include "daemon/base/slice.h"
#include "proto/commands.h"

/* True also if such a word is the name of a lock: then the request runs without effect. */
static bool
acts_for_others(const struct words *w)
{
    for (unsigned i = 2; i < w->n; i++) {
        if (slice_is(w->word[i], "OWNER") || slice_is(w->word[i], "TOKEN")) {
            return true;
        }
    }
    return false;
}

bool
unreachable_changes_nothing(const struct words *w)
{
    int id = command_find(w->word[0]);

    switch (id) {
    case CMD_LOCK:
    case CMD_UNLOCK:
    case CMD_RENEW:
    case CMD_CANCEL:
    case CMD_MLOCK:
    case CMD_MUNLOCK:
        return !acts_for_others(w);
    case CMD_HELLO: /* these change what the requests behind them may do */
    case CMD_AUTH:
    case CMD_RESET:
    case CMD_QUIT:
    case CMD_CLIENT: /* KILL */
        return false;
    default:
        return id >= 0 && command_rows[id].when == WHEN_TURN;
    }
}
