/*
 * state_file.c -- the checkpoints in the slots, and the first page, of the state file.
 *
 * A checkpoint is in the first slot file whose slots have room for it: with a name of usual length it takes 512 bytes,
 * and the last file has room for the longest name. (A former version may have had fewer files: a checkpoint is looked
 * for in all.) Each file begins with its version and slot size; the first one also with the boot, ids, the highest
 * token, and what is known of Redis.
 * SF1 The texts of a slot never change while the slot is in use, though rules may change; they have a checksum. When a
 *     grace of the claim becomes longer, another slot takes the place of this one.
 * SF2 The part that changes is there twice, each copy with the number of its change and a checksum. A change writes the
 *     older copy; of the copies that are whole the later one counts. So one is valid whenever the process ends.
 */
#include "daemon/serve/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/hash.h"
#include "daemon/base/memory.h"
#include "daemon/serve/epochs_file.h"
#include "daemon/serve/identity.h"
#include "daemon/serve/owners_file.h"
#include "daemon/serve/slot_file.h"

/* Raised with every change of the format, and of the order of kinds.def, values.def and core_checkpoint_part. */
#define VERSION 1
#define MAGIC "rlockd.H"

/* more ids than the daemon can use before the kernel writes the page with the last id to the disk */
enum { POWER_LOSS_IDS = 64 * STATE_FILE_IDS };

struct head {
    char magic[8];
    uint64_t serial; /* ids up to this one may be in use; at this place in every version */
    uint64_t token;
    uint32_t version, slot_bytes, part_bytes, kinds;
    char boot[STATE_FILE_BOOT_BYTES];
    uint64_t epoch; /* in which all holds of domain 0 were last; of the other domains: epochs_file.h */
    uint64_t others; /* 1: there were other daemons on that Redis */
    int64_t timeout_us; /* see state_file_set_timeout(); 0: written by a version that does not know it */
};

struct copy {
    uint64_t change_n, sum; /* sum: of change_n and part */
    struct core_checkpoint_part part;
};

struct fixed {
    uint32_t limit;
    uint16_t name_n, key_n, owner_n; /* key_n 0: the key is the name */
    uint8_t kind, value;
    int64_t owner_grace_us, queue_grace_us;
};

struct slot {
    uint64_t claim; /* the slot's id, see slot_file.h */
    struct copy copy[2];
    uint64_t fixed_sum; /* of fixed and text */
    struct fixed fixed;
    char text[]; /* name, key, owner */
};

enum { FIRST, TABLES = 4 };
static const struct {
    const char *file;
    size_t slot_bytes;
    uint32_t first_n;
} files[TABLES] = {{"held", 512, 128}, {"held-1k", 1024, 64}, {"held-2k", 2048, 32}, {"held-long", 16 * 1024, 8}};

struct state_file {
    struct slot_file table[TABLES];
    struct owners_file owners;
    struct epochs_file epochs;
    char boot[STATE_FILE_BOOT_BYTES];
    bool same_boot;
    struct state_file_counts counts;
};

/* A checksum, not a secret. */
static uint64_t
sum_of(const void *p, size_t n)
{
    static const struct hash_key key = {0x726c6f636b64, VERSION};

    return hash_bytes(&key, p, n);
}

static struct head *
head_of(const struct slot_file *t)
{
    return slot_file_head(t);
}

static bool
is_valid(const struct slot_file *t)
{
    const struct head *h = head_of(t);

    return memcmp(h->magic, MAGIC, sizeof(h->magic)) == 0 && h->version == VERSION &&
           h->slot_bytes == t->slot_bytes && h->part_bytes == sizeof(struct core_checkpoint_part) && h->kinds == KINDS;
}

/* Empties the file; only the range of used ids is kept. */
static void
begin(struct slot_file *t)
{
    struct head *h = head_of(t);
    uint64_t serial = memcmp(h->magic, MAGIC, sizeof(h->magic)) == 0 ? h->serial : 0;

    memset(h, 0, sizeof(*h));
    for (uint32_t i = 0; i < t->slots_n; i++) {
        slot_file_clear(slot_file_slot(t, i));
    }
    h->serial = serial;
    h->version = VERSION;
    h->slot_bytes = (uint32_t)t->slot_bytes;
    h->part_bytes = sizeof(struct core_checkpoint_part);
    h->kinds = KINDS;
    slot_file_in_order();
    memcpy(h->magic, MAGIC, sizeof(h->magic));
}

/* ---- one slot ---- */

static size_t
text_n(const struct fixed *f)
{
    return (size_t)f->name_n + f->key_n + f->owner_n;
}

static uint64_t
fixed_sum(const struct slot *s)
{
    return sum_of(&s->fixed, sizeof(s->fixed)) ^ sum_of(s->text, text_n(&s->fixed));
}

static uint64_t
copy_sum(const struct copy *c)
{
    return sum_of(&c->part, sizeof(c->part)) ^ (c->change_n * UINT64_C(0x9e3779b97f4a7c15));
}

/* The copy that counts; NULL: none is whole. */
static struct copy *
newest(struct slot *s)
{
    struct copy *found = NULL;

    for (int i = 0; i < 2; i++) {
        struct copy *c = &s->copy[i];

        if (c->change_n != 0 && c->sum == copy_sum(c) && (found == NULL || c->change_n > found->change_n)) {
            found = c;
        }
    }
    return found;
}

/* Both copies are whole here, or empty: read_slot() makes them so. */
static void
put_part(struct slot *s, const struct core_checkpoint_part *part)
{
    int older = s->copy[0].change_n <= s->copy[1].change_n ? 0 : 1;
    struct copy *c = &s->copy[older];
    struct copy made = {.change_n = s->copy[!older].change_n + 1, .part = *part};

    made.sum = copy_sum(&made);
    *c = made;
    slot_file_in_order();
}

/* The slot does not count yet. */
static void
fill(struct slot *s, const struct core_checkpoint *cp)
{
    bool same = slice_eq(cp->name, cp->key);
    char *at = s->text;

    memset(s->copy, 0, sizeof(s->copy));
    memset(&s->fixed, 0, sizeof(s->fixed));
    s->fixed.limit = cp->limit;
    s->fixed.kind = (uint8_t)cp->kind;
    s->fixed.value = (uint8_t)cp->value;
    s->fixed.owner_grace_us = cp->owner_grace_us;
    s->fixed.queue_grace_us = cp->queue_grace_us;
    s->fixed.name_n = (uint16_t)cp->name.n;
    s->fixed.key_n = (uint16_t)(same ? 0 : cp->key.n);
    s->fixed.owner_n = (uint16_t)cp->owner.n;
    memcpy(at, cp->name.p, cp->name.n);
    at += cp->name.n;
    if (!same) {
        memcpy(at, cp->key.p, cp->key.n);
        at += cp->key.n;
    }
    if (cp->owner.n > 0) {
        memcpy(at, cp->owner.p, cp->owner.n);
    }
    s->fixed_sum = fixed_sum(s);
    put_part(s, &cp->part);
}

/* Reads a slot; cp points into it. Drops a change that was not finished. False: the slot is broken. */
static bool
read_slot(const struct slot_file *t, struct slot *s, struct core_checkpoint *cp)
{
    const struct fixed *f = &s->fixed;
    const struct copy *c = newest(s);

    for (int i = 0; c != NULL && i < 2; i++) {
        if (s->copy[i].sum != copy_sum(&s->copy[i])) {
            memset(&s->copy[i], 0, sizeof(s->copy[i]));
        }
    }
    if (c == NULL || c->part.claim != s->claim || text_n(f) > t->slot_bytes - sizeof(*s) ||
        s->fixed_sum != fixed_sum(s) || f->kind >= KINDS || f->value >= VALUES || f->name_n == 0) {
        return false;
    }
    *cp = (struct core_checkpoint){.part = c->part,
                                .name = {s->text, f->name_n},
                                .key = {s->text + f->name_n, f->key_n},
                                .owner = {s->text + f->name_n + f->key_n, f->owner_n},
                                .kind = (enum kind)f->kind,
                                .value = (enum value_format)f->value,
                                .limit = f->limit,
                                .owner_grace_us = f->owner_grace_us,
                                .queue_grace_us = f->queue_grace_us};
    cp->key = f->key_n == 0 ? cp->name : cp->key;
    return true;
}

/* ---- the whole ---- */

bool
state_file_boot(char boot[STATE_FILE_BOOT_BYTES])
{
    char offsets[256], *boottime;
    int fd = open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, offsets, sizeof(offsets) - 1);

    if (fd >= 0) {
        close(fd);
    }
    offsets[n > 0 ? n : 0] = '\0';
    boottime = strstr(offsets, "boottime"); /* of a container with a clock of its own */
    memset(boot, 0, STATE_FILE_BOOT_BYTES);
    if (!identity_boot(boot)) {
        return false;
    }
    n = (ssize_t)strlen(boot);
    snprintf(boot + n, STATE_FILE_BOOT_BYTES - (size_t)n, " %016llx",
             (unsigned long long)(boottime != NULL ? sum_of(boottime, strcspn(boottime, "\n")) : 0));
    return true;
}

/* Boots that are not known may be different. */
static bool
is_same_boot(const struct state_file *sf)
{
    return sf->boot[0] != '\0' && strncmp(head_of(&sf->table[FIRST])->boot, sf->boot, STATE_FILE_BOOT_BYTES) == 0;
}

struct state_file *
state_file_open(int dir, const char *boot, char error[160])
{
    struct state_file *sf = mem_zalloc(sizeof(*sf));
    bool anew = false;

    snprintf(sf->boot, sizeof(sf->boot), "%s", boot);
    for (int i = 0; i < TABLES; i++) {
        sf->table[i].fd = -1;
    }
    sf->owners.table.fd = sf->epochs.table.fd = -1;
    for (int i = 0; i < TABLES; i++) {
        struct slot_file *t = &sf->table[i];

        if (!slot_file_open(t, dir, files[i].file, files[i].slot_bytes, files[i].first_n)) {
            snprintf(error, 160, "%s: %s", files[i].file, strerror(errno));
            goto fail;
        }
        if (!is_valid(t)) {
            begin(t);
            anew = anew || i == FIRST;
        }
        slot_file_index(t);
    }
    if (!owners_file_open(&sf->owners, dir)) {
        snprintf(error, 160, OWNERS_FILE ": %s", strerror(errno));
        goto fail;
    }
    if (!epochs_file_open(&sf->epochs, dir, anew)) {
        snprintf(error, 160, EPOCHS_FILE ": %s", strerror(errno));
        goto fail;
    }
    sf->same_boot = is_same_boot(sf);
    return sf;

fail:
    state_file_close(&sf);
    return NULL;
}

void
state_file_close(struct state_file **h)
{
    if (*h != NULL) {
        for (int i = 0; i < TABLES; i++) {
            slot_file_close(&(*h)->table[i]);
        }
        owners_file_close(&(*h)->owners);
        epochs_file_close(&(*h)->epochs);
        free(*h);
        *h = NULL;
    }
}

/* Texts behind the checkpoints, where they stay when the slots move. */
static char *
copy_text(char *at, struct slice *s)
{
    memcpy(at, s->p, s->n);
    s->p = at;
    return at + s->n;
}

static void
load_table(struct state_file *sf, struct slot_file *t, struct core_restored *rs, char **text)
{
    for (uint32_t i = 0; i < t->slots_n; i++) {
        struct slot *s = slot_file_slot(t, i);
        struct core_checkpoint *cp = &rs->checkpoint[rs->n];
        bool same;

        if (slot_file_id(s) == 0) {
            continue;
        }
        if (!read_slot(t, s, cp)) {
            sf->counts.torn++;
            slot_file_clear(s);
            continue;
        }
        same = cp->key.p == cp->name.p;
        *text = copy_text(*text, &cp->name);
        if (same) {
            cp->key = cp->name;
        } else {
            *text = copy_text(*text, &cp->key);
        }
        *text = copy_text(*text, &cp->owner);
        if (!sf->same_boot) {
            cp->part.deadline_us = cp->part.granted_us = 0;
        }
        rs->n++;
    }
    slot_file_index(t); /* without the broken ones */
}

/* Sets the serial of both files, in which it must be the same. */
static void
set_serial(struct state_file *sf, uint64_t serial)
{
    head_of(&sf->table[FIRST])->serial = serial;
    owners_file_serial(&sf->owners, serial);
}

bool
state_file_load(struct state_file *sf, struct core_restored *rs)
{
    struct head *head = head_of(&sf->table[FIRST]);
    struct core_owner_checkpoint *owner;
    size_t used = 0, room = 0, checkpoints;
    char *text;

    *rs = (struct core_restored){.serial = head->serial, .token = head->token, .op_timeout_us = head->timeout_us};
    if (!sf->same_boot && head->serial != 0) {
        rs->serial += POWER_LOSS_IDS;
    }
    for (int i = 0; i < TABLES; i++) {
        used += sf->table[i].used_n;
        room += sf->table[i].used_n * files[i].slot_bytes;
    }
    checkpoints = used * sizeof(*rs->checkpoint);
    rs->checkpoint = mem_alloc(checkpoints + room + 1);
    owners_file_load(&sf->owners, sf->same_boot, head->serial, &owner, &rs->owners_n, &sf->counts.torn);
    rs->owner = owner;
    text = (char *)rs->checkpoint + checkpoints;
    for (int i = 0; i < TABLES; i++) {
        load_table(sf, &sf->table[i], rs, &text);
    }
    set_serial(sf, rs->serial + 2 * STATE_FILE_IDS);
    /* for a loss of power only: a disk that refuses does not end the start, but a page that is not mapped does */
    return msync(head, SLOT_FILE_HEAD, MS_SYNC) == 0 || errno != ENOMEM;
}

void
state_file_loaded_free(struct core_restored *rs)
{
    free(rs->checkpoint);
    free((void *)(uintptr_t)rs->owner);
    rs->checkpoint = NULL;
    rs->owner = NULL;
    rs->n = rs->owners_n = 0;
}

void
state_file_restored(struct state_file *sf)
{
    memcpy(head_of(&sf->table[FIRST])->boot, sf->boot, STATE_FILE_BOOT_BYTES);
    sf->same_boot = true;
}

static bool
add(struct state_file *sf, const struct core_checkpoint *cp)
{
    size_t n = cp->name.n + (slice_eq(cp->name, cp->key) ? 0 : cp->key.n) + cp->owner.n;
    struct slot *s = NULL;
    int i = 0;

    while (i < TABLES && sizeof(*s) + n > files[i].slot_bytes) {
        i++;
    }
    s = i < TABLES ? slot_file_free_slot(&sf->table[i]) : NULL;
    if (s == NULL) {
        return false;
    }
    fill(s, cp);
    slot_file_commit(&sf->table[i], cp->part.claim);
    return true;
}

/* Changes the checkpoint in slot s. Where there is no room for another slot, the graces stay as they were. */
static void
change(struct slot_file *t, struct slot *s, const struct core_checkpoint *cp)
{
    bool rises = cp->owner_grace_us > s->fixed.owner_grace_us || cp->queue_grace_us > s->fixed.queue_grace_us;
    struct slot *anew = rises ? slot_file_free_slot(t) : NULL;

    if (anew != NULL) { /* s may have moved */
        fill(anew, cp);
        slot_file_replace(t, cp->part.claim);
    } else {
        put_part(slot_file_find(t, cp->part.claim), &cp->part);
    }
}

bool
state_file_keep(struct state_file *sf, const struct core_checkpoint *cp)
{
    struct head *head = head_of(&sf->table[FIRST]);

    if (cp->part.token > head->token) {
        head->token = cp->part.token;
    }
    for (int i = 0; i < TABLES; i++) {
        struct slot *s = slot_file_find(&sf->table[i], cp->part.claim);

        if (s != NULL) {
            change(&sf->table[i], s, cp);
            return true;
        }
    }
    if (!add(sf, cp)) {
        sf->counts.not_written++;
        return false;
    }
    return true;
}

void
state_file_drop(struct state_file *sf, uint64_t claim)
{
    for (int i = 0; i < TABLES && !slot_file_remove(&sf->table[i], claim); i++) {
    }
}

bool
state_file_keep_owner(struct state_file *sf, const struct core_owner_checkpoint *cp)
{
    bool kept = owners_file_keep(&sf->owners, cp);

    sf->counts.not_written += !kept;
    return kept;
}

void
state_file_drop_owner(struct state_file *sf, uint64_t id)
{
    owners_file_drop(&sf->owners, id);
}

bool
state_file_tidy(struct state_file *sf)
{
    bool more = slot_file_tidy(&sf->owners.table);

    for (int i = 0; i < TABLES; i++) {
        more |= slot_file_tidy(&sf->table[i]);
    }
    return more;
}

void
state_file_serial(struct state_file *sf, uint64_t serial)
{
    struct head *head = head_of(&sf->table[FIRST]);

    if (serial + STATE_FILE_IDS > head->serial) {
        set_serial(sf, serial + 2 * STATE_FILE_IDS);
    }
}

uint64_t
state_file_epoch(const struct state_file *sf, uint16_t domain)
{
    return domain == 0 ? head_of(&sf->table[FIRST])->epoch : epochs_file_get(&sf->epochs, domain);
}

void
state_file_set_epoch(struct state_file *sf, uint16_t domain, uint64_t epoch)
{
    if (domain == 0) {
        head_of(&sf->table[FIRST])->epoch = epoch;
    } else if (!epochs_file_set(&sf->epochs, domain, epoch)) {
        sf->counts.not_written++;
    }
}

bool
state_file_others(const struct state_file *sf)
{
    return head_of(&sf->table[FIRST])->others == 1;
}

void
state_file_set_others(struct state_file *sf, bool others)
{
    head_of(&sf->table[FIRST])->others = others;
}

void
state_file_set_timeout(struct state_file *sf, int64_t timeout_us)
{
    head_of(&sf->table[FIRST])->timeout_us = timeout_us;
}

struct state_file_counts
state_file_count(const struct state_file *sf)
{
    struct state_file_counts c = sf->counts;

    for (int i = 0; i < TABLES; i++) {
        c.checkpoints += sf->table[i].used_n;
        c.bytes += sf->table[i].mapped;
    }
    c.owners = sf->owners.table.used_n;
    c.bytes += sf->owners.table.mapped + sf->epochs.table.mapped;
    return c;
}
