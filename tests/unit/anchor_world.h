/*
 * anchor_world.h -- scripts/anchor.lua and scripts/record.lua in C, for tests of generations.h without a Redis; the
 * scripts explain each line.
 */
#ifndef RLOCKD_TESTS_ANCHOR_WORLD_H
#define RLOCKD_TESTS_ANCHOR_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/anchor_words.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

#ifndef AW_MEMBERS
#define AW_MEMBERS 8 /* a test may define more */
#endif

enum { AW_ENTRIES = 64, AW_SLOTS = 16384 };

struct aw_member {
    bool is, awaited;
    int64_t until_us;
    uint64_t back;
};

struct aw_entry {
    uint64_t number, origin, since_us, version;
};

/* Each slot is in one entry (`in`), and an entry exists as long as a slot is in it. */
struct aw_anchor {
    bool exists;
    uint64_t birth, origin, version;
    char state; /* a, w, v */
    bool is_new;
    int64_t began_us, asked_us, longest_us;
    uint64_t owner_epoch[ANCHORS];
    struct aw_member member[AW_MEMBERS], other[AW_MEMBERS]; /* other: members that only lists name */
    struct aw_entry entry[AW_ENTRIES];
    unsigned entries_n;
    uint8_t in[AW_SLOTS]; /* index + 1 */
    uint8_t used[AW_SLOTS];
};

struct aw_answer {
    struct anchor_answer a;
    struct generation_entry entry[AW_ENTRIES];
    struct slot_range range[AW_ENTRIES][64];
    enum slot_bit bit[512];
    char list[AW_MEMBERS * 64 + AW_SLOTS + 16];
};

static inline void
aw_forget_empty(struct aw_anchor *an)
{
    bool has[AW_ENTRIES + 1] = {false};

    for (unsigned s = 0; s < AW_SLOTS; s++) {
        has[an->in[s]] = true;
    }
    for (unsigned e = 0; e < an->entries_n; e++) {
        if (!has[e + 1]) {
            an->entry[e].number = 0;
        }
    }
}

static inline void
aw_begin(struct aw_anchor *an, const struct generation_entry *g, uint64_t expected)
{
    static uint8_t takes[AW_SLOTS];
    bool any = false;
    unsigned e = 0;

    memset(takes, 0, sizeof(takes));
    for (size_t i = 0; i < g->ranges_n; i++) {
        for (unsigned s = g->range[i].first; s <= g->range[i].last; s++) {
            uint64_t is = an->in[s] != 0 ? an->entry[an->in[s] - 1].number : 0;

            if (is >= g->number || (expected > 0 && is > expected)) {
                if (expected > 0) {
                    return;
                }
                continue;
            }
            takes[s] = 1;
            any = true;
        }
    }
    if (!any) {
        return;
    }
    while (e < an->entries_n && an->entry[e].number != 0) {
        e++;
    }
    if (e == AW_ENTRIES) {
        abort();
    }
    an->entries_n = e == an->entries_n ? e + 1 : an->entries_n;
    an->entry[e] = (struct aw_entry){g->number, g->origin, g->since_us, ++an->version};
    for (unsigned s = 0; s < AW_SLOTS; s++) {
        if (takes[s]) {
            an->in[s] = (uint8_t)(e + 1);
            an->used[s] = an->used[s] && expected == 0 && an->state != 'a';
        }
    }
    aw_forget_empty(an);
}

static inline void
aw_take_list(struct aw_anchor *an, struct slice list, int64_t now_us)
{
    const char *at = list.p, *end = memchr(list.p, '|', list.n);

    while (at < end) {
        char *behind;
        unsigned who = (unsigned)strtoul(at, &behind, 10);
        int64_t left_us = strtoll(behind, &behind, 10);

        at = behind;
        if (!an->member[who].is) { /* the later end of two lists counts */
            if (!an->other[who].awaited || an->other[who].until_us < now_us + left_us) {
                an->other[who].until_us = now_us + left_us;
            }
            an->other[who].awaited = true;
        }
        at += *at == ' ';
    }
    for (unsigned s = 0; s < AW_SLOTS; s++) {
        an->used[s] |= end[1 + s] == '1';
    }
}

/* Member `who` asks the anchor, at the node of that origin. */
static inline void
aw_register(struct aw_anchor *an, uint64_t origin, unsigned who, const struct anchor_identity *id,
            const struct anchor_message *m, int64_t now_us, struct aw_answer *out)
{
    bool same, awaited = false, was;
    uint64_t least;

    if (!an->exists || an->origin != origin || (int64_t)m->suspect_us >= an->began_us) {
        bool head = an->exists;
        uint64_t birth = (uint64_t)now_us > an->birth ? (uint64_t)now_us : an->birth + 1;

        memset(an->member, 0, sizeof(an->member));
        memset(an->other, 0, sizeof(an->other));
        memset(an->owner_epoch, 0, sizeof(an->owner_epoch));
        if (!head) {
            *an = (struct aw_anchor){.longest_us = 0};
        }
        an->exists = true;
        an->is_new = !head && !m->holds && m->birth == 0;
        an->birth = birth;
        an->origin = origin;
        an->state = 'a';
        an->began_us = now_us;
        an->asked_us = 0;
    }
    an->is_new = an->is_new && (m->birth == 0 || m->birth == an->birth);
    an->longest_us = an->longest_us > id->lease_us ? an->longest_us : id->lease_us;
    if (an->state != 'v') {
        an->longest_us = an->longest_us > m->longest_us ? an->longest_us : m->longest_us;
    }
    same = m->birth == an->birth;
    for (unsigned i = 0; i < AW_MEMBERS; i++) {
        an->member[i].is = an->member[i].is && an->member[i].until_us > now_us;
        an->other[i].awaited = an->other[i].awaited && an->other[i].until_us > now_us;
    }
    for (size_t i = 0; i < m->generations_n; i++) {
        aw_begin(an, &m->generation[i], m->expected[i]);
    }
    if (an->state != 'v' && m->lists_birth == an->birth) {
        if (m->all_new) {
            an->state = an->is_new ? 'v' : an->state;
        } else if (an->state == 'a' && m->lists[0].n > 0 && m->lists[1].n > 0) {
            aw_take_list(an, m->lists[0], now_us);
            aw_take_list(an, m->lists[1], now_us);
            an->state = 'w';
        }
    }
    was = an->member[who].is;
    if (m->leaving) {
        an->member[who].is = false;
    } else {
        uint64_t back = was ? an->member[who].back : 0;
        uint64_t reported = m->reclaimed < an->version ? m->reclaimed : an->version;
        uint64_t reached = same ? reported : m->holds ? 0 : !was ? an->version : 0;

        an->member[who] = (struct aw_member){true, false, now_us + id->lease_us, reached > back ? reached : back};
        an->other[who].awaited = false;
    }
    least = an->version;
    for (unsigned i = 0; i < AW_MEMBERS; i++) {
        awaited = awaited || an->other[i].awaited;
        least = an->member[i].is && an->member[i].back < least ? an->member[i].back : least;
    }
    for (unsigned i = 0; i < ANCHORS; i++) {
        an->owner_epoch[i] = an->owner_epoch[i] > m->owner_epoch[i] ? an->owner_epoch[i] : m->owner_epoch[i];
    }
    if (an->state == 'a' && now_us - an->began_us >= an->longest_us * 3 / 2) {
        memset(an->used, 1, sizeof(an->used));
        an->state = 'v';
    } else if (an->state == 'w' && !awaited) {
        an->state = 'v';
    }
    out->a = (struct anchor_answer){.time_us = now_us,
                                    .status = an->state == 'v' ? ANCHOR_VOTES : ANCHOR_ABSTAINS,
                                    .birth = an->birth,
                                    .version = an->version,
                                    .done = least,
                                    .longest_us = an->longest_us,
                                    .entry = out->entry,
                                    .bit = out->bit};
    memcpy(out->a.owner_epoch, an->owner_epoch, sizeof(out->a.owner_epoch));
    if (an->state == 'a' && now_us - an->asked_us >= 500 * US_PER_MS &&
        (an->is_new || now_us - an->began_us >= 6100 * US_PER_MS)) {
        out->a.status = ANCHOR_WANTS_LISTS;
        an->asked_us = now_us;
    }
    an->is_new = an->is_new && an->state != 'v';
    out->a.is_new = an->is_new;
    for (size_t i = 0; i < m->slots_n; i++) {
        unsigned s = m->slot[i], in = an->in[s];

        out->bit[i] = in == 0 || an->entry[in - 1].number != m->slot_number[i] ? SLOT_BIT_OTHER
                      : an->used[s] ? SLOT_BIT_WAS_SET : SLOT_BIT_WAS_CLEAR;
        an->used[s] |= out->bit[i] != SLOT_BIT_OTHER;
    }
    out->a.bits_n = m->slots_n;
    if (m->asks_list && an->state == 'v') {
        size_t n = 0;

        for (unsigned i = 0; i < AW_MEMBERS; i++) {
            if (an->member[i].is) {
                n += (size_t)sprintf(out->list + n, "%s%u %lld", n > 0 ? " " : "", i,
                                     (long long)(an->member[i].until_us - now_us));
            }
        }
        out->list[n++] = '|';
        for (unsigned s = 0; s < AW_SLOTS; s++) {
            out->list[n++] = an->used[s] ? '1' : '0';
        }
        out->a.list = (struct slice){out->list, n};
    }
    for (unsigned e = 0; e < an->entries_n; e++) {
        struct generation_entry *o = &out->entry[out->a.entries_n];
        struct slot_range *r = out->range[out->a.entries_n];

        if (an->entry[e].number == 0 || an->entry[e].version <= (same ? m->version : 0)) {
            continue;
        }
        *o = (struct generation_entry){an->entry[e].number, an->entry[e].origin, an->entry[e].since_us,
                                       an->entry[e].version, r, 0};
        for (unsigned s = 0; s < AW_SLOTS; s++) {
            if (an->in[s] != e + 1) {
                continue;
            }
            if (o->ranges_n > 0 && r[o->ranges_n - 1].last + 1u == s) {
                r[o->ranges_n - 1].last = (uint16_t)s;
            } else {
                r[o->ranges_n++] = (struct slot_range){(uint16_t)s, (uint16_t)s};
            }
        }
        out->a.entries_n++;
    }
}

struct aw_record {
    uint64_t number;
    bool grants, spoiled;
};

static inline struct record_answer
aw_record_run(struct aw_record *r, uint64_t number, enum record_mode mode, int64_t now_us)
{
    if ((mode == RECORD_MODE_CREATE_RECLAIM || mode == RECORD_MODE_CREATE_GRANT) && r->number < number) {
        *r = (struct aw_record){number, mode == RECORD_MODE_CREATE_GRANT, false};
    } else if (mode == RECORD_MODE_SPOIL) {
        r->spoiled = r->number != 0;
    } else if (mode == RECORD_MODE_LET_GRANT && r->number == number) {
        r->grants = true;
    }
    return (struct record_answer){
        .time_us = now_us, .number = r->number, .grants = r->grants && !r->spoiled, .spoiled = r->spoiled};
}

/* ---- messages in flight ---- */

static inline void *
aw_copy(const void *p, size_t n)
{
    void *c = mem_alloc(n + 1);

    if (n > 0) {
        memcpy(c, p, n);
    }
    return c;
}

/* The copy has arrays of its own, which aw_message_free() frees. */
static inline void
aw_message_copy(struct anchor_message *to, const struct anchor_message *m)
{
    struct generation_entry *e = aw_copy(m->generation, m->generations_n * sizeof(*m->generation));

    *to = *m;
    for (size_t i = 0; i < m->generations_n; i++) {
        e[i].range = aw_copy(m->generation[i].range, m->generation[i].ranges_n * sizeof(struct slot_range));
    }
    to->generation = e;
    to->owner_epoch = aw_copy(m->owner_epoch, ANCHORS * sizeof(uint64_t));
    to->expected = aw_copy(m->expected, m->generations_n * sizeof(uint64_t));
    to->slot = aw_copy(m->slot, m->slots_n * sizeof(uint16_t));
    to->slot_number = aw_copy(m->slot_number, m->slots_n * sizeof(uint64_t));
    for (int i = 0; i < 2; i++) {
        to->lists[i].p = aw_copy(m->lists[i].p, m->lists[i].n);
    }
}

static inline void
aw_message_free(struct anchor_message *m)
{
    for (size_t i = 0; i < m->generations_n; i++) {
        free((void *)(uintptr_t)m->generation[i].range);
    }
    free((void *)(uintptr_t)m->generation);
    free((void *)(uintptr_t)m->owner_epoch);
    free((void *)(uintptr_t)m->expected);
    free((void *)(uintptr_t)m->slot);
    free((void *)(uintptr_t)m->slot_number);
    free((void *)(uintptr_t)m->lists[0].p);
    free((void *)(uintptr_t)m->lists[1].p);
}

#endif
