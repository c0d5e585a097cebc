/*
 * owners_file.c -- the slots and the first page of the file `owners`. A checkpoint never changes while it counts.
 */
#include "daemon/serve/owners_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/hash.h"
#include "daemon/base/memory.h"
#include "proto/options.h"

/* Raised with every change of the format: a file of another version is begun anew. */
#define VERSION 1
#define MAGIC "rlockd.O"

enum { SLOT_BYTES = 256, FIRST_N = 64 };

struct head {
    char magic[8];
    uint64_t serial;
    uint32_t version, slot_bytes;
};

struct slot {
    uint64_t id;  /* the slot's id, see slot_file.h */
    uint64_t sum; /* of all behind it */
    int64_t owner_grace_until_us;
    uint16_t name_n;
    char name[OPTIONS_OWNER_BYTES_MAX];
};

_Static_assert(sizeof(struct slot) <= SLOT_BYTES, "a slot has room for the longest name");

static struct head *
head_of(const struct owners_file *f)
{
    return slot_file_head(&f->table);
}

/* A checksum, not a secret. */
static uint64_t
sum_of(const struct slot *s)
{
    static const struct hash_key key = {0x726c6f636b64, VERSION};

    return hash_bytes(&key, &s->owner_grace_until_us, sizeof(*s) - offsetof(struct slot, owner_grace_until_us));
}

static void
clear(struct owners_file *f)
{
    for (uint32_t i = 0; i < f->table.slots_n; i++) {
        slot_file_clear(slot_file_slot(&f->table, i));
    }
}

bool
owners_file_open(struct owners_file *f, int dir)
{
    struct head *h;

    if (!slot_file_open(&f->table, dir, OWNERS_FILE, SLOT_BYTES, FIRST_N)) {
        return false;
    }
    h = head_of(f);
    if (memcmp(h->magic, MAGIC, sizeof(h->magic)) != 0 || h->version != VERSION || h->slot_bytes != SLOT_BYTES) {
        memset(h, 0, sizeof(*h));
        clear(f);
        h->version = VERSION;
        h->slot_bytes = SLOT_BYTES;
        slot_file_in_order();
        memcpy(h->magic, MAGIC, sizeof(h->magic));
    }
    slot_file_index(&f->table);
    return true;
}

void
owners_file_close(struct owners_file *f)
{
    slot_file_close(&f->table);
}

static bool
is_whole(const struct slot *s)
{
    return s->name_n >= 1 && s->name_n <= sizeof(s->name) && s->owner_grace_until_us > 0 && s->sum == sum_of(s);
}

void
owners_file_load(struct owners_file *f, bool same_boot, uint64_t serial, struct core_owner_checkpoint **out, size_t *n,
                 uint64_t *torn)
{
    size_t used = f->table.used_n;
    char *text;

    *n = 0;
    *out = mem_alloc(used * (sizeof(**out) + OPTIONS_OWNER_BYTES_MAX) + 1);
    text = (char *)(*out + used);
    if (!same_boot || head_of(f)->serial != serial) {
        clear(f);
    }
    for (uint32_t i = 0; i < f->table.slots_n; i++) {
        struct slot *s = slot_file_slot(&f->table, i);

        if (slot_file_id(s) == 0) {
            continue;
        }
        if (!is_whole(s)) {
            ++*torn;
            slot_file_clear(s);
            continue;
        }
        memcpy(text, s->name, s->name_n);
        (*out)[(*n)++] = (struct core_owner_checkpoint){slot_file_id(s), {text, s->name_n}, s->owner_grace_until_us};
        text += s->name_n;
    }
    slot_file_index(&f->table); /* without those that are gone */
}

void
owners_file_serial(struct owners_file *f, uint64_t serial)
{
    head_of(f)->serial = serial;
}

bool
owners_file_keep(struct owners_file *f, const struct core_owner_checkpoint *cp)
{
    struct slot *s;

    (void)slot_file_remove(&f->table, cp->id);
    s = cp->name.n <= sizeof(s->name) ? slot_file_free_slot(&f->table) : NULL;
    if (s == NULL) {
        return false;
    }
    memset((char *)s + sizeof(s->id), 0, sizeof(*s) - sizeof(s->id));
    s->owner_grace_until_us = cp->owner_grace_until_us;
    s->name_n = (uint16_t)cp->name.n;
    memcpy(s->name, cp->name.p, cp->name.n);
    s->sum = sum_of(s);
    slot_file_commit(&f->table, cp->id);
    return true;
}

void
owners_file_drop(struct owners_file *f, uint64_t id)
{
    (void)slot_file_remove(&f->table, id);
}
