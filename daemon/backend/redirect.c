/*
 * redirect.c -- MOVED and ASK as a slot and an address.
 */
#include "daemon/backend/redirect.h"

#include <string.h>

#include "daemon/backend/slot.h"
#include "daemon/base/units.h"

static bool
take_word(struct slice *text, const char *word)
{
    size_t n = strlen(word);

    if (!slice_begins(*text, word)) {
        return false;
    }
    *text = (struct slice){text->p + n, text->n - n};
    return true;
}

bool
redirect_parse(struct slice error, const char *asked_host, struct redirect *out)
{
    const char *blank, *colon;
    struct slice slot, host, port;
    int64_t n;

    out->ask = take_word(&error, "ASK ");
    if (!out->ask && !take_word(&error, "MOVED ")) {
        return false;
    }
    blank = memchr(error.p, ' ', error.n);
    colon = memrchr(error.p, ':', error.n);
    if (blank == NULL || colon == NULL || colon < blank) {
        return false;
    }
    slot = (struct slice){error.p, (size_t)(blank - error.p)};
    host = (struct slice){blank + 1, (size_t)(colon - blank - 1)};
    port = (struct slice){colon + 1, error.n - (size_t)(colon + 1 - error.p)};
    if (!number_parse(slot, &n) || n < 0 || n >= SLOTS) {
        return false;
    }
    out->slot = (uint16_t)n;
    if (host.n == 0 || slice_eq(host, SLICE_LIT("?"))) {
        host = slice_of(asked_host);
    }
    if (!number_parse(port, &n) || n < 1 || n > 65535 || !host_copy(host, out->host)) {
        return false;
    }
    out->port = (int)n;
    return true;
}
