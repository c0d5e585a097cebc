/*
 * fuzz_epoch.c -- Redis's answers about its epoch, one after the other: an accepted answer is in bounds, a refused one
 * changes nothing, epochs rise, and the next message to Redis always fits into its buffer.
 *
 * Input: bits (strict, leaving, a former process), then answers of Redis as RESP.
 */
#include <hiredis.h>

#include "daemon/backend/epoch.h"
#include "tests/fuzz/fuzz.h"

static struct members members;

static void
check_words(const struct epoch *e, struct buf *text)
{
    struct slice word[EPOCH_WORDS_MAX];
    struct buf uuids;
    struct epoch_ask ask = {.token_floor = 1000, .changes = e->until_ms == 0};
    int n;

    buf_init(&uuids, 0);
    members_print(&members, &uuids);
    if (e->bring == EPOCH_BRING_NOW && uuids.n > 0) {
        size_t most = (size_t)EPOCH_PART * MEMBERS_UUID_BYTES;

        ask.part = (struct slice){uuids.p, uuids.n < most ? uuids.n : most};
    }
    n = epoch_words(e, &members, &ask, text, word);

    CHECK(!text->failed && n > 10 && n <= EPOCH_WORDS_MAX);
    for (int i = 0; i < n; i++) {
        CHECK(word[i].p != NULL);
    }
    buf_fini(&uuids);
}

static void
check_state(const struct epoch *e)
{
    CHECK(e->number <= INT64_MAX && e->until_ms >= 0 && members_count(&members) <= MEMBERS_MAX);
    CHECK(e->until_ms == 0 || !epoch_is_current(e));
    CHECK(memchr(e->granting_value, '\0', sizeof(e->granting_value)) != NULL);
    CHECK(memchr(e->last_value, '\0', sizeof(e->last_value)) != NULL);
    CHECK(strncmp(e->last_value, e->granting_value, strlen(e->granting_value)) == 0);
}

static void
take(struct epoch *e, const struct reply *r)
{
    static struct epoch was;
    size_t others = members_count(&members);
    enum epoch_news news;

    was = *e;
    news = epoch_answer(e, &members, r);
    switch (news) {
    case EPOCH_OLD:
    case EPOCH_DUPLICATE_UUID:
    case EPOCH_MALFORMED:
        CHECK(memcmp(&was, e, sizeof(was)) == 0 && members_count(&members) == others, "refused, and yet changed");
        break;
    case EPOCH_NEW:
        CHECK(e->number > was.number);
        break;
    case EPOCH_OVER:
        CHECK(e->number == was.number && was.until_ms != 0 && e->until_ms == 0);
        break;
    case EPOCH_SAME:
        CHECK(e->number == was.number);
        break;
    default:
        CHECK(!"news of epoch.h");
    }
    if (news == EPOCH_OLD) {
        e->rolled_back = true;
    }
    check_state(e);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct choices c = {data, size};
    unsigned how = take_byte(&c);
    struct slice in = take_rest(&c);
    static struct epoch e;
    struct redisReader *reader = reply_reader_new(NULL);
    void *reply = NULL;
    struct buf text;

    memset(&e, 0, sizeof(e));
    snprintf(e.uuid, sizeof(e.uuid), "0b9c2c1e-3f57-4c6a-9b0e-5a3d7f5c9f10");
    e.nonce = 7;
    e.former_nonce[0] = how & 1 ? 6 : 0;
    e.former_nonce[1] = how & 8 ? 5 : 0;
    e.strict = (how & 2) != 0;
    e.leaving = (how & 4) != 0;
    e.longest_lease_us = 30 * INT64_C(1000000);
    buf_init(&text, 0);
    members_init(&members, &(struct hash_key){1, 2});
    check_words(&e, &text);
    if (redisReaderFeed(reader, in.p, in.n) == REDIS_OK) {
        while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
            take(&e, reply);
            check_words(&e, &text);
            reply_free(reply);
            reply = NULL;
        }
    }
    redisReaderFree(reader);
    members_fini(&members);
    buf_fini(&text);
    return 0;
}
