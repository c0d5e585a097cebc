/*
 * epochs_file.c -- a slot of two words for each domain: its number, and the epoch.
 *
 * An epoch is exchanged by one write to memory: whenever the process ends, the file has the old one or the new one.
 * After a loss of power an epoch may be unknown or an earlier one: then the held locks are reclaimed.
 */
#include "daemon/serve/epochs_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC "rlockd.E"

enum { VERSION = 1, FIRST_N = 256 };

struct head {
    char magic[8];
    uint32_t version, slot_bytes;
};

struct slot {
    uint64_t domain; /* the slot's id, see slot_file.h */
    uint64_t epoch;
};

static bool
begin(struct epochs_file *f, bool anew)
{
    struct head *h;

    if (!slot_file_open(&f->table, f->dir, EPOCHS_FILE, sizeof(struct slot), FIRST_N)) {
        slot_file_close(&f->table);
        return false;
    }
    h = slot_file_head(&f->table);
    if (anew || memcmp(h->magic, MAGIC, sizeof(h->magic)) != 0 || h->version != VERSION ||
        h->slot_bytes != sizeof(struct slot)) {
        memset(h, 0, sizeof(*h));
        for (uint32_t i = 0; i < f->table.slots_n; i++) {
            slot_file_clear(slot_file_slot(&f->table, i));
        }
        h->version = VERSION;
        h->slot_bytes = sizeof(struct slot);
        slot_file_in_order();
        memcpy(h->magic, MAGIC, sizeof(h->magic));
    }
    slot_file_index(&f->table);
    return true;
}

bool
epochs_file_open(struct epochs_file *f, int dir, bool anew)
{
    struct stat st;

    f->dir = dir;
    f->table.fd = -1;
    if (fstatat(dir, EPOCHS_FILE, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT;
    }
    return begin(f, anew);
}

void
epochs_file_close(struct epochs_file *f)
{
    slot_file_close(&f->table);
}

uint64_t
epochs_file_get(const struct epochs_file *f, uint16_t domain)
{
    const struct slot *s = f->table.fd >= 0 ? slot_file_find(&f->table, domain) : NULL;

    return s != NULL ? s->epoch : 0;
}

bool
epochs_file_set(struct epochs_file *f, uint16_t domain, uint64_t epoch)
{
    struct slot *s;

    assert(domain > 0);
    if (f->table.fd < 0 && !begin(f, false)) {
        return false;
    }
    s = slot_file_find(&f->table, domain);
    if (s != NULL) {
        s->epoch = epoch;
        return true;
    }
    s = slot_file_free_slot(&f->table);
    if (s == NULL) {
        return false;
    }
    s->epoch = epoch;
    slot_file_commit(&f->table, domain);
    return true;
}
