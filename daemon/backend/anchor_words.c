/*
 * anchor_words.c -- words and answers of node.lua, anchor.lua and record.lua.
 */
#include "daemon/backend/anchor_words.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/call.h"
#include "daemon/backend/redirect.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

enum { HEAD = 11, SLOT_MAX = 16383 }; /* HEAD: items of an anchor's answer before the generations */

/* Tags of the slots 2730, 8191 and 13652. */
static const struct {
    uint16_t slot;
    const char *key[ANCHOR_KEYS];
} anchor[ANCHORS] = {
#define KEYS_OF(tag)                                                                                                   \
    {"rlock:{" tag "}:seen", "rlock:{" tag "}:who", "rlock:{" tag "}:gen", "rlock:{" tag "}:back",                     \
     "rlock:{" tag "}:used"}
    {2730, KEYS_OF("54h")},
    {8191, KEYS_OF("7ho")},
    {13652, KEYS_OF("80c")},
};

uint16_t
anchor_slot(unsigned i)
{
    return anchor[i].slot;
}

void
record_key(const char *tag, char out[RECORD_KEY_ROOM])
{
    snprintf(out, RECORD_KEY_ROOM, "rlock:{%s}:epoch", tag);
}

void
record_value(uint64_t number, bool grants, char out[32])
{
    snprintf(out, 32, "%" PRIu64 "%s", number, grants ? " 0" : " 0 0");
}

/* ---- words ---- */

int
node_words(struct slice *words)
{
    words[0] = SLICE_LIT("EVAL");
    words[1] = slice_of(call_other_text(OTHER_NODE));
    words[2] = SLICE_LIT("0");
    return 3;
}

/* Derived words, one behind the other in a text that may move while it grows: derived_words() slices it at the end. */
struct derived {
    struct buf *text;
    size_t end[ANCHOR_WORDS_MAX];
    int n;
};

static void
end_word(struct derived *m)
{
    m->end[m->n++] = m->text->n;
}

static void
derive_number(struct derived *m, int64_t n)
{
    buf_add_i64(m->text, n);
    end_word(m);
}

/* Makes the derived words from..to-1; returns their number. */
static int
derived_words(const struct derived *m, int from, int to, struct slice *words)
{
    size_t at = from > 0 ? m->end[from - 1] : 0;

    for (int i = from; i < to; i++) {
        words[i - from] = (struct slice){m->text->p + at, m->end[i] - at};
        at = m->end[i];
    }
    return to - from;
}

static void
add_ranges(struct buf *text, const struct generation_entry *e)
{
    for (size_t i = 0; i < e->ranges_n; i++) {
        const struct slot_range *r = &e->range[i];

        if (r->first == r->last) {
            buf_printf(text, "%s%u", i > 0 ? " " : "", r->first);
        } else {
            buf_printf(text, "%s%u-%u", i > 0 ? " " : "", r->first, r->last);
        }
    }
}

static void
derive_lists(struct derived *m, const struct anchor_message *msg)
{
    for (size_t i = 0; i < msg->generations_n; i++) {
        const struct generation_entry *e = &msg->generation[i];

        buf_printf(m->text, "%" PRIu64 " %016" PRIx64 " %" PRIu64 " %" PRIu64 " ", e->number, e->origin, e->since_us,
                   msg->expected[i]);
        add_ranges(m->text, e);
        buf_adds(m->text, "\n");
    }
    end_word(m);
    for (size_t i = 0; i < msg->slots_n; i++) {
        buf_printf(m->text, "%s%u %" PRIu64, i > 0 ? " " : "", msg->slot[i], msg->slot_number[i]);
    }
    end_word(m);
}

int
anchor_words(unsigned i, const struct anchor_identity *identity, const struct anchor_message *msg, struct buf *text,
             struct slice words[ANCHOR_WORDS_MAX])
{
    struct derived m = {.text = text};
    int n = 0, before_lists;

    buf_clear(text, SIZE_MAX);
    words[n++] = SLICE_LIT("EVAL");
    words[n++] = slice_of(call_other_text(OTHER_ANCHOR));
    words[n++] = SLICE_LIT("5");
    for (int k = 0; k < ANCHOR_KEYS; k++) {
        words[n++] = slice_of(anchor[i].key[k]);
    }
    words[n++] = slice_of(identity->uuid);
    buf_printf(text, "%016" PRIx64, identity->nonce);
    end_word(&m);
    for (size_t k = 0; k < ANCHOR_FORMER_NONCES; k++) {
        buf_printf(text, "%s%016" PRIx64, k > 0 ? " " : "", identity->former_nonce[k]);
    }
    end_word(&m);
    derive_number(&m, identity->lease_us / US_PER_MS);
    derive_number(&m, identity->strict);
    derive_number(&m, msg->leaving);
    derive_number(&m, msg->holds);
    derive_number(&m, msg->asks_list);
    derive_number(&m, (int64_t)msg->birth);
    derive_number(&m, (int64_t)msg->version);
    derive_number(&m, (int64_t)msg->reclaimed);
    derive_number(&m, (int64_t)msg->suspect_us);
    derive_number(&m, msg->longest_us / US_PER_MS);
    derive_lists(&m, msg);
    derive_number(&m, (int64_t)msg->lists_birth);
    derive_number(&m, msg->all_new);
    before_lists = m.n;
    derive_number(&m, (int64_t)msg->floor);
    for (unsigned k = 0; k < ANCHORS; k++) {
        buf_printf(text, "%s%" PRIu64, k > 0 ? " " : "", msg->owner_epoch[k]);
    }
    end_word(&m);
    n += derived_words(&m, 0, before_lists, words + n);
    words[n++] = msg->lists[0];
    words[n++] = msg->lists[1];
    n += derived_words(&m, before_lists, m.n, words + n);
    assert(n <= ANCHOR_WORDS_MAX);
    return n;
}

int
record_words(struct slice key, uint64_t number, enum record_mode mode, struct buf *text, struct slice *words)
{
    static const char *const mode_word[] = {"read", "reclaim", "grant", "open", "spoil"};

    buf_clear(text, SIZE_MAX);
    buf_add_u64(text, number);
    words[0] = SLICE_LIT("EVAL");
    words[1] = slice_of(call_other_text(OTHER_RECORD));
    words[2] = SLICE_LIT("1");
    words[3] = key;
    words[4] = buf_slice(text);
    words[5] = slice_of(mode_word[mode]);
    return 6;
}

/* ---- answers ---- */

/* Parses a number and skips a blank behind it. A reply's text ends in a NUL. */
static bool
parse_number(const char **at, int base, uint64_t *out)
{
    char *end;

    if (!(**at >= '0' && **at <= '9') && !(base == 16 && **at >= 'a' && **at <= 'f')) {
        return false;
    }
    *out = strtoull(*at, &end, base);
    *at = *end == ' ' ? end + 1 : end;
    return true;
}

/* Parses "0-5460 5462 ...", in rising order, to the end of the text. The caller owns the ranges. */
static bool
parse_ranges(const char *at, struct slot_range **out, size_t *n)
{
    size_t room = 0;
    int last_before = -1;

    *out = NULL;
    *n = 0;
    while (*at != '\0') {
        uint64_t first, last;

        if (!parse_number(&at, 10, &first)) {
            return false;
        }
        last = first;
        if (*at == '-' && (at++, !parse_number(&at, 10, &last))) {
            return false;
        }
        if (last > SLOT_MAX || first > last || (int)first <= last_before) {
            return false;
        }
        if (*n == room) {
            room = room == 0 ? 4 : 2 * room;
            *out = mem_array(*out, room, sizeof(**out));
        }
        (*out)[(*n)++] = (struct slot_range){(uint16_t)first, (uint16_t)last};
        last_before = (int)last;
    }
    return true;
}

/* Whether the first items are of these types: i = an INT that is not negative, t = TEXT. */
static bool
has_types(const struct reply *r, const char *types)
{
    if (r->type != REPLY_ARRAY || r->count < strlen(types)) {
        return false;
    }
    for (size_t i = 0; types[i] != '\0'; i++) {
        if (r->item[i]->type != (types[i] == 'i' ? REPLY_INT : REPLY_TEXT) ||
            (types[i] == 'i' && r->item[i]->n < 0)) {
            return false;
        }
    }
    return true;
}

static bool
parse_open_slots(const char *at, struct node_answer *out)
{
    uint64_t slot;

    out->open = mem_array(NULL, strlen(at) / 2 + 1, sizeof(*out->open));
    while (*at != '\0') {
        if (!parse_number(&at, 10, &slot) || slot > SLOT_MAX) {
            return false;
        }
        out->open[out->open_n++] = (uint16_t)slot;
    }
    return true;
}

bool
node_answer_take(const struct reply *r, struct node_answer *out)
{
    const char *at;

    *out = (struct node_answer){.time_us = 0};
    if (!has_types(r, "itttitt") || r->item[3]->text.n >= NODE_ID_ROOM ||
        (uint64_t)r->item[0]->n >= GENERATION_NUMBER_END) {
        return false;
    }
    at = r->item[2]->text.p;
    out->time_us = r->item[0]->n;
    out->master = slice_eq(r->item[1]->text, SLICE_LIT("master"));
    out->config_epoch = (uint64_t)r->item[4]->n;
    memcpy(out->id, r->item[3]->text.p, r->item[3]->text.n);
    if (!parse_number(&at, 16, &out->origin) || !parse_ranges(r->item[5]->text.p, &out->range, &out->ranges_n) ||
        !parse_open_slots(r->item[6]->text.p, out)) {
        node_answer_free(out);
        return false;
    }
    return true;
}

void
node_answer_free(struct node_answer *a)
{
    free(a->range);
    free(a->open);
    *a = (struct node_answer){.time_us = 0};
}

static bool
parse_entry(const struct reply *r, struct generation_entry *e)
{
    const char *at = r->text.p;
    struct slot_range *range;
    bool ok = r->type == REPLY_TEXT && parse_number(&at, 10, &e->number) && parse_number(&at, 16, &e->origin) &&
              parse_number(&at, 10, &e->since_us) && parse_number(&at, 10, &e->version);

    if (!ok) {
        return false;
    }
    ok = parse_ranges(at, &range, &e->ranges_n);
    e->range = range;
    return ok && e->number > 0 && e->number < GENERATION_NUMBER_END && e->version > 0;
}

static bool
parse_bits(struct slice text, struct anchor_answer *out)
{
    out->bit = mem_array(NULL, text.n + 1, sizeof(*out->bit));
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '2') {
            return false;
        }
        out->bit[i] = (enum slot_bit)(text.p[i] - '0');
    }
    out->bits_n = text.n;
    return true;
}

bool
anchor_answer_take(const struct reply *r, struct anchor_answer *out)
{
    const char *owner;
    bool ok;

    *out = (struct anchor_answer){.time_us = 0};
    if (!has_types(r, "iiiiiiiittt") || r->item[1]->n < ANCHOR_VOTES || r->item[1]->n > ANCHOR_DUPLICATE_UUID ||
        r->item[6]->n > INT64_MAX / US_PER_MS) {
        return false;
    }
    out->time_us = r->item[0]->n;
    out->status = (enum anchor_status)r->item[1]->n;
    out->is_new = r->item[2]->n != 0;
    out->birth = (uint64_t)r->item[3]->n;
    out->version = (uint64_t)r->item[4]->n;
    out->done = (uint64_t)r->item[5]->n;
    out->longest_us = r->item[6]->n * US_PER_MS;
    out->floor = (uint64_t)r->item[7]->n;
    out->list = r->item[8]->text;
    owner = r->item[10]->text.p;
    ok = parse_bits(r->item[9]->text, out);
    for (unsigned i = 0; i < ANCHORS && ok; i++) {
        ok = parse_number(&owner, 10, &out->owner_epoch[i]);
    }
    out->entry = mem_zalloc((r->count - HEAD + 1) * sizeof(*out->entry));
    for (size_t i = HEAD; ok && i < r->count; i++) {
        out->entries_n++;
        ok = parse_entry(r->item[i], &out->entry[i - HEAD]);
    }
    if (!ok) {
        anchor_answer_free(out);
    }
    return ok;
}

void
anchor_answer_free(struct anchor_answer *a)
{
    for (size_t i = 0; i < a->entries_n; i++) {
        free((struct slot_range *)(uintptr_t)a->entry[i].range);
    }
    free(a->entry);
    free(a->bit);
    *a = (struct anchor_answer){.time_us = 0};
}

bool
record_answer_take(const struct reply *r, struct record_answer *out)
{
    struct redirect redirect;

    if (r->type == REPLY_ERROR) {
        *out = (struct record_answer){.refused = true, .redirected = redirect_parse(r->text, "?", &redirect)};
        return true;
    }
    if (!has_types(r, "iii") || (uint64_t)r->item[1]->n >= GENERATION_NUMBER_END) {
        return false;
    }
    *out = (struct record_answer){.time_us = r->item[0]->n,
                                  .number = (uint64_t)r->item[1]->n,
                                  .grants = r->item[2]->n == 1,
                                  .spoiled = r->item[2]->n == 2};
    return true;
}
