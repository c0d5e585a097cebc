/*
 * fuzz_anchor.c -- answers of node.lua, anchor.lua and record.lua: accepted slots and generations are in bounds and in
 * order, and fit into the message to another anchor; a refused answer leaves nothing behind.
 *
 * Input: replies as RESP. Each of them is used as an answer of each of the three scripts.
 */
#include <hiredis.h>

#include "daemon/backend/anchor_words.h"
#include "daemon/backend/slot.h"
#include "tests/fuzz/fuzz.h"

static void
check_ranges(const struct slot_range *range, size_t n)
{
    int before = -1;

    for (size_t i = 0; i < n; i++) {
        CHECK(range[i].first > before && range[i].first <= range[i].last && range[i].last < SLOTS);
        before = range[i].last;
    }
}

static void
check_node(const struct reply *r)
{
    struct node_answer a;

    if (!node_answer_take(r, &a)) {
        return;
    }
    CHECK(a.time_us >= 0 && a.config_epoch <= INT64_MAX && memchr(a.id, '\0', sizeof(a.id)) != NULL);
    check_ranges(a.range, a.ranges_n);
    for (size_t i = 0; i < a.open_n; i++) {
        CHECK(a.open[i] < SLOTS);
    }
    node_answer_free(&a);
    CHECK(a.range == NULL && a.open == NULL);
}

/* Writes its generations as a message to another anchor. */
static void
print_answer(const struct anchor_answer *a)
{
    static const struct anchor_identity actor = {.uuid = "0b9c2c1e-3f57-4c6a-9b0e-5a3d7f5c9f10", .lease_us = 30000000};
    uint64_t *number = malloc((a->entries_n + 1) * sizeof(*number));
    struct anchor_message m = {.longest_us = a->longest_us, .floor = a->floor, .owner_epoch = a->owner_epoch,
                               .generation = a->entry, .expected = number, .generations_n = a->entries_n,
                               .birth = a->birth, .version = a->version,
                               .lists = {a->list, a->list}};
    struct slice word[ANCHOR_WORDS_MAX];
    size_t lines = 0;
    struct buf text;
    int n;

    CHECK(number != NULL);
    for (size_t i = 0; i < a->entries_n; i++) {
        number[i] = a->entry[i].number;
    }
    buf_init(&text, 0);
    n = anchor_words(1, &actor, &m, &text, word);
    CHECK(!text.failed && n > 20 && n <= ANCHOR_WORDS_MAX);
    for (int i = 0; i < n; i++) {
        CHECK(word[i].n == 0 || word[i].p != NULL);
    }
    for (size_t i = 0; i < text.n; i++) {
        lines += text.p[i] == '\n';
    }
    CHECK(lines == a->entries_n, "each generation has a line");
    buf_fini(&text);
    free(number);
}

static void
check_anchor(const struct reply *r)
{
    struct anchor_answer a;

    if (!anchor_answer_take(r, &a)) {
        CHECK(a.entry == NULL && a.bit == NULL, "something is left");
        return;
    }
    CHECK(a.status >= ANCHOR_VOTES && a.status <= ANCHOR_DUPLICATE_UUID && a.time_us >= 0 && a.longest_us >= 0);
    CHECK(a.birth <= INT64_MAX && a.version <= INT64_MAX && a.done <= INT64_MAX && a.floor <= INT64_MAX);
    for (size_t i = 0; i < a.bits_n; i++) {
        CHECK(a.bit[i] <= SLOT_BIT_OTHER);
    }
    for (size_t i = 0; i < a.entries_n; i++) {
        CHECK(a.entry[i].number > 0 && a.entry[i].version > 0);
        check_ranges(a.entry[i].range, a.entry[i].ranges_n);
    }
    print_answer(&a);
    anchor_answer_free(&a);
}

static void
check_record(const struct reply *r)
{
    struct record_answer a;
    char word[32];

    if (record_answer_take(r, &a)) {
        CHECK(a.time_us >= 0 && a.number <= INT64_MAX && !(a.grants && a.spoiled) && (!a.refused || a.number == 0));
        record_value(a.number, a.grants, word);
        CHECK(strlen(word) < sizeof(word) - 1);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct redisReader *reader = reply_reader_new(NULL);
    void *reply = NULL;

    CHECK(reader != NULL);
    if (redisReaderFeed(reader, (const char *)data, size) == REDIS_OK) {
        while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
            check_node(reply);
            check_anchor(reply);
            check_record(reply);
            reply_free(reply);
            reply = NULL;
        }
    }
    redisReaderFree(reader);
    return 0;
}
