/*
 * denied.c -- tables of fingerprints of keys: accepted ones, refused ones, and those of calls that ended in the middle.
 */
#include "daemon/backend/denied.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/memory.h"

/* Half of the keyed hash of a key. 0, which is no fingerprint, stands for no key. */
static uint32_t
fingerprint(uint64_t hash)
{
    return (uint32_t)(hash >> 32) | 1;
}

void
denied_begin(struct denied *d, int64_t now_us)
{
    if (d->tables == NULL) {
        d->tables = mem_zalloc(sizeof(*d->tables));
    }
    d->until_us = now_us + DENIED_US;
}

void
denied_refuse(struct denied *d, uint64_t hash)
{
    if (d->tables != NULL) {
        d->tables->accepted[hash % DENIED_ACCEPTED] = 0;
        d->tables->refused[hash % DENIED_REFUSED] = fingerprint(hash);
    }
}

void
denied_inside(struct denied *d, uint64_t hash)
{
    if (d->tables != NULL) {
        d->tables->ended_inside[hash % DENIED_REFUSED] = fingerprint(hash);
    }
}

void
denied_accept(struct denied *d, uint64_t hash)
{
    if (d->tables != NULL) {
        d->tables->accepted[hash % DENIED_ACCEPTED] = fingerprint(hash);
        if (d->tables->refused[hash % DENIED_REFUSED] == fingerprint(hash)) {
            d->tables->refused[hash % DENIED_REFUSED] = 0;
        }
    }
}

/* Forgets all keys: the ACL may have been changed since. */
static void
end(struct denied *d)
{
    d->until_us = 0;
    if (d->tables != NULL) {
        memset(d->tables, 0, sizeof(*d->tables));
    }
}

bool
denied_alone(struct denied *d, uint64_t hash, bool held, int64_t now_us)
{
    if (d->until_us == 0) {
        return false;
    }
    if (now_us >= d->until_us) {
        end(d);
        return false;
    }
    if (d->tables->ended_inside[hash % DENIED_REFUSED] == fingerprint(hash)) {
        return true;
    }
    return held ? d->tables->refused[hash % DENIED_REFUSED] == fingerprint(hash)
                : d->tables->accepted[hash % DENIED_ACCEPTED] != fingerprint(hash);
}

void
denied_fini(struct denied *d)
{
    free(d->tables);
    *d = (struct denied){0};
}
