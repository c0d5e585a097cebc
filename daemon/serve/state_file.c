/*
 * state_file.c -- the records in the slots, and the first page, of the state file.
 *
 * A record is in the first slot file whose slots have room for it: a name of usual length takes 512 bytes, the longest
 * one fits as well. (A former version may have had fewer files: a record is found in any.) Each file begins with its
 * version, shape and boot id; the first one also with ids and tokens.
 * SF1 The texts of a slot never change while the slot is in use, though rules may change; they have a checksum.
 * SF2 The part that changes is there twice, each copy with a turn and a checksum. A change writes the older copy; of
 *     the whole copies the later one counts. So one copy is valid whenever the process ends.
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
#include "daemon/serve/owners_file.h"
#include "daemon/serve/slot_file.h"

/* Raised with every change of the format, and of the order of kinds.def, values.def and core_record_part. */
#define VERSION 1
#define MAGIC "rlockd.H"

/* more ids than are used between two times that the kernel writes a page to the disk */
enum { POWER_LOSS_IDS = 64 * STATE_FILE_BLOCK };

struct head {
    char magic[8];
    uint64_t serial; /* ids up to this one may be in use; here in every version */
    uint64_t token;
    uint32_t version, slot_bytes, part_bytes, kinds;
    char boot[STATE_FILE_BOOT];
    uint64_t epoch; /* of domain 0, in which all that is held there was last; of the others: epochs_file.h */
    uint64_t others; /* 1: there were other daemons on that Redis */
};

struct copy {
    uint64_t turn, sum; /* sum: of turn and part */
    struct core_record_part part;
};

struct fixed {
    uint32_t limit;
    uint16_t name_n, key_n, owner_n; /* key_n 0: the key is the name */
    uint8_t kind, value;
    int64_t owner_grace_us, queue_grace_us;
};

struct slot {
    uint64_t claim; /* of the table */
    struct copy copy[2];
    uint64_t fixed_sum; /* of fixed and text */
    struct fixed fixed;
    char text[]; /* name, key, owner */
};

enum { SHORT, TABLES = 4 };
static const struct {
    const char *file;
    size_t slot_bytes;
    uint32_t first_n;
} shapes[TABLES] = {{"held", 512, 128}, {"held-1k", 1024, 64}, {"held-2k", 2048, 32}, {"held-long", 16 * 1024, 8}};

struct state_file {
    struct slot_file table[TABLES];
    struct owners_file owners;
    struct epochs_file epochs;
    char boot[STATE_FILE_BOOT];
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
is_ours(const struct slot_file *t)
{
    const struct head *h = head_of(t);

    return memcmp(h->magic, MAGIC, sizeof(h->magic)) == 0 && h->version == VERSION &&
           h->slot_bytes == t->slot_bytes && h->part_bytes == sizeof(struct core_record_part) && h->kinds == KINDS;
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
    h->part_bytes = sizeof(struct core_record_part);
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
    return sum_of(&c->part, sizeof(c->part)) ^ (c->turn * UINT64_C(0x9e3779b97f4a7c15));
}

/* The copy that counts; NULL: none is whole. */
static struct copy *
newest(struct slot *s)
{
    struct copy *found = NULL;

    for (int i = 0; i < 2; i++) {
        struct copy *c = &s->copy[i];

        if (c->turn != 0 && c->sum == copy_sum(c) && (found == NULL || c->turn > found->turn)) {
            found = c;
        }
    }
    return found;
}

/* Both copies are whole here, or empty: read_slot() makes them so. */
static void
put_part(struct slot *s, const struct core_record_part *part)
{
    int older = s->copy[0].turn <= s->copy[1].turn ? 0 : 1;
    struct copy *c = &s->copy[older];
    struct copy made = {.turn = s->copy[!older].turn + 1, .part = *part};

    made.sum = copy_sum(&made);
    *c = made;
    slot_file_in_order();
}

/* The slot does not count yet. */
static void
fill(struct slot *s, const struct core_record *k)
{
    bool same = slice_eq(k->name, k->key);
    char *at = s->text;

    memset(s->copy, 0, sizeof(s->copy));
    memset(&s->fixed, 0, sizeof(s->fixed));
    s->fixed.limit = k->limit;
    s->fixed.kind = (uint8_t)k->kind;
    s->fixed.value = (uint8_t)k->value;
    s->fixed.owner_grace_us = k->owner_grace_us;
    s->fixed.queue_grace_us = k->queue_grace_us;
    s->fixed.name_n = (uint16_t)k->name.n;
    s->fixed.key_n = (uint16_t)(same ? 0 : k->key.n);
    s->fixed.owner_n = (uint16_t)k->owner.n;
    memcpy(at, k->name.p, k->name.n);
    at += k->name.n;
    if (!same) {
        memcpy(at, k->key.p, k->key.n);
        at += k->key.n;
    }
    if (k->owner.n > 0) {
        memcpy(at, k->owner.p, k->owner.n);
    }
    s->fixed_sum = fixed_sum(s);
    put_part(s, &k->part);
}

/* Reads a slot; k points into it. Drops a change that was not finished. False: the slot is broken. */
static bool
read_slot(const struct slot_file *t, struct slot *s, struct core_record *k)
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
    *k = (struct core_record){.part = c->part,
                            .name = {s->text, f->name_n},
                            .key = {s->text + f->name_n, f->key_n},
                            .owner = {s->text + f->name_n + f->key_n, f->owner_n},
                            .kind = (enum kind)f->kind,
                            .value = (enum value_format)f->value,
                            .limit = f->limit,
                            .owner_grace_us = f->owner_grace_us,
                            .queue_grace_us = f->queue_grace_us};
    k->key = f->key_n == 0 ? k->name : k->key;
    return true;
}

/* ---- the whole ---- */

static size_t
read_line(const char *path, char *out, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, room - 1);

    if (fd >= 0) {
        close(fd);
    }
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return strlen(out);
}

void
state_file_boot(char boot[STATE_FILE_BOOT])
{
    char offsets[256], *boottime;
    int fd = open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, offsets, sizeof(offsets) - 1);

    if (fd >= 0) {
        close(fd);
    }
    offsets[n > 0 ? n : 0] = '\0';
    boottime = strstr(offsets, "boottime"); /* of a container with a clock of its own */
    memset(boot, 0, STATE_FILE_BOOT);
    n = (ssize_t)read_line("/proc/sys/kernel/random/boot_id", boot, 48);
    snprintf(boot + n, STATE_FILE_BOOT - (size_t)n, " %016llx",
             (unsigned long long)(boottime != NULL ? sum_of(boottime, strcspn(boottime, "\n")) : 0));
}

struct state_file *
state_file_open(int dir, const char *boot, char error[160])
{
    struct state_file *h = mem_zalloc(sizeof(*h));
    bool anew = false;

    snprintf(h->boot, sizeof(h->boot), "%s", boot);
    for (int i = 0; i < TABLES; i++) {
        h->table[i].fd = -1;
    }
    h->owners.table.fd = h->epochs.table.fd = -1;
    for (int i = 0; i < TABLES; i++) {
        struct slot_file *t = &h->table[i];

        if (!slot_file_open(t, dir, shapes[i].file, shapes[i].slot_bytes, shapes[i].first_n)) {
            snprintf(error, 160, "%s: %s", shapes[i].file, strerror(errno));
            goto fail;
        }
        if (!is_ours(t)) {
            begin(t);
            anew = anew || i == SHORT;
        }
        slot_file_index(t);
    }
    if (!owners_file_open(&h->owners, dir)) {
        snprintf(error, 160, OWNERS_FILE ": %s", strerror(errno));
        goto fail;
    }
    if (!epochs_file_open(&h->epochs, dir, anew)) {
        snprintf(error, 160, EPOCHS_FILE ": %s", strerror(errno));
        goto fail;
    }
    h->same_boot = strncmp(head_of(&h->table[SHORT])->boot, h->boot, STATE_FILE_BOOT) == 0;
    return h;

fail:
    state_file_close(&h);
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

/* Texts behind the records, where they stay when the table moves. */
static char *
copy_text(char *at, struct slice *s)
{
    memcpy(at, s->p, s->n);
    s->p = at;
    return at + s->n;
}

static void
load_table(struct state_file *h, struct slot_file *t, struct core_restored *a, char **text)
{
    for (uint32_t i = 0; i < t->slots_n; i++) {
        struct slot *s = slot_file_slot(t, i);
        struct core_record *k = &a->kept[a->n];
        bool same;

        if (slot_file_id(s) == 0) {
            continue;
        }
        if (!read_slot(t, s, k)) {
            h->counts.torn++;
            slot_file_clear(s);
            continue;
        }
        same = k->key.p == k->name.p;
        *text = copy_text(*text, &k->name);
        if (same) {
            k->key = k->name;
        } else {
            *text = copy_text(*text, &k->key);
        }
        *text = copy_text(*text, &k->owner);
        if (!h->same_boot) {
            k->part.deadline_us = k->part.granted_us = 0;
        }
        a->n++;
    }
    slot_file_index(t); /* without the broken ones */
}

/* Sets the serial of both files, in which it must be the same. */
static void
set_serial(struct state_file *h, uint64_t serial)
{
    head_of(&h->table[SHORT])->serial = serial;
    owners_file_serial(&h->owners, serial);
}

bool
state_file_load(struct state_file *h, struct core_restored *a)
{
    struct head *head = head_of(&h->table[SHORT]);
    struct core_owner_record *owner;
    size_t used = 0, room = 0, records;
    char *text;

    *a = (struct core_restored){.serial = head->serial, .token = head->token};
    if (!h->same_boot && head->serial != 0) {
        a->serial += POWER_LOSS_IDS;
    }
    for (int i = 0; i < TABLES; i++) {
        used += h->table[i].used_n;
        room += h->table[i].used_n * shapes[i].slot_bytes;
    }
    records = used * sizeof(*a->kept);
    a->kept = mem_alloc(records + room + 1);
    owners_file_load(&h->owners, h->same_boot, head->serial, &owner, &a->owners_n, &h->counts.torn);
    a->owner = owner;
    text = (char *)a->kept + records;
    for (int i = 0; i < TABLES; i++) {
        load_table(h, &h->table[i], a, &text);
    }
    set_serial(h, a->serial + 2 * STATE_FILE_BLOCK);
    return msync(head, TABLE_HEAD, MS_SYNC) == 0 || errno != ENOMEM;
}

void
state_file_loaded_free(struct core_restored *a)
{
    free(a->kept);
    free((void *)(uintptr_t)a->owner);
    a->kept = NULL;
    a->owner = NULL;
    a->n = a->owners_n = 0;
}

void
state_file_restored(struct state_file *h)
{
    memcpy(head_of(&h->table[SHORT])->boot, h->boot, STATE_FILE_BOOT);
    h->same_boot = true;
}

static bool
add(struct state_file *h, const struct core_record *k)
{
    size_t n = k->name.n + (slice_eq(k->name, k->key) ? 0 : k->key.n) + k->owner.n;
    struct slot *s = NULL;
    int i = 0;

    while (i < TABLES && sizeof(*s) + n > shapes[i].slot_bytes) {
        i++;
    }
    s = i < TABLES ? slot_file_free_slot(&h->table[i]) : NULL;
    if (s == NULL) {
        return false;
    }
    fill(s, k);
    slot_file_commit(&h->table[i], k->part.claim);
    return true;
}

bool
state_file_keep(struct state_file *h, const struct core_record *k)
{
    struct head *head = head_of(&h->table[SHORT]);

    if (k->part.token > head->token) {
        head->token = k->part.token;
    }
    for (int i = 0; i < TABLES; i++) {
        struct slot *s = slot_file_find(&h->table[i], k->part.claim);

        if (s != NULL) {
            put_part(s, &k->part);
            return true;
        }
    }
    if (!add(h, k)) {
        h->counts.unkept++;
        return false;
    }
    return true;
}

void
state_file_forget(struct state_file *h, uint64_t claim)
{
    for (int i = 0; i < TABLES && !slot_file_remove(&h->table[i], claim); i++) {
    }
}

bool
state_file_keep_owner(struct state_file *h, const struct core_owner_record *k)
{
    bool kept = owners_file_keep(&h->owners, k);

    h->counts.unkept += !kept;
    return kept;
}

void
state_file_forget_owner(struct state_file *h, uint64_t id)
{
    owners_file_forget(&h->owners, id);
}

bool
state_file_tidy(struct state_file *h)
{
    bool more = slot_file_tidy(&h->owners.table);

    for (int i = 0; i < TABLES; i++) {
        more |= slot_file_tidy(&h->table[i]);
    }
    return more;
}

void
state_file_serial(struct state_file *h, uint64_t serial)
{
    struct head *head = head_of(&h->table[SHORT]);

    if (serial + STATE_FILE_BLOCK > head->serial) {
        set_serial(h, serial + 2 * STATE_FILE_BLOCK);
    }
}

uint64_t
state_file_epoch(const struct state_file *h, uint16_t domain)
{
    return domain == 0 ? head_of(&h->table[SHORT])->epoch : epochs_file_get(&h->epochs, domain);
}

void
state_file_set_epoch(struct state_file *h, uint16_t domain, uint64_t epoch)
{
    if (domain == 0) {
        head_of(&h->table[SHORT])->epoch = epoch;
    } else if (!epochs_file_set(&h->epochs, domain, epoch)) {
        h->counts.unkept++;
    }
}

bool
state_file_others(const struct state_file *h)
{
    return head_of(&h->table[SHORT])->others == 1;
}

void
state_file_set_others(struct state_file *h, bool others)
{
    head_of(&h->table[SHORT])->others = others;
}

struct state_file_counts
state_file_count(const struct state_file *h)
{
    struct state_file_counts c = h->counts;

    for (int i = 0; i < TABLES; i++) {
        c.kept += h->table[i].used_n;
        c.bytes += h->table[i].mapped;
    }
    c.owners = h->owners.table.used_n;
    c.bytes += h->owners.table.mapped + h->epochs.table.mapped;
    return c;
}
