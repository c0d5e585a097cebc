/*
 * test_backend_memory.c -- the memory of the backend's replies and items: no leak, no allocation where records are used
 * again, and no reply is kept that is larger than any we ask for.
 *
 * reply.c, call.c, call_words.c and freelist.c are compiled into this file, with allocators that count the blocks in
 * use.
 */
#include <check.h>
#include <hiredis.h>
#include <stdlib.h>

#include "daemon/backend/call.h"
#include "daemon/backend/reply.h"
#include "daemon/base/freelist.h"
#include "tests/unit/suite.h"

#include "tests/unit/counted_alloc.h"
static bool none_spared = true; /* each record is an allocation of its own */
#define FREELIST_NONE none_spared
#include "daemon/backend/call.c"
#include "daemon/backend/call_words.c"
#include "daemon/backend/reply.c"
#include "daemon/base/freelist.c"
#include "tests/unit/counted_alloc_end.h"

static struct freelist freelist;

/* Reads these bytes as one reply; NULL: the reader has given up, for the reason in `error`. */
static struct reply *
read_bytes(const char *bytes, size_t n, int *error)
{
    redisReader *reader = reply_reader_new(&freelist);
    void *r = NULL;

    ck_assert_ptr_nonnull(reader);
    ck_assert_int_eq(redisReaderFeed(reader, bytes, n), REDIS_OK);
    *error = redisReaderGetReply(reader, &r) == REDIS_OK ? 0 : reader->err;
    ck_assert(*error == 0 || r == NULL);
    redisReaderFree(reader);
    return r;
}

/* An array of so many integers, from 0 on. */
static struct buf
array_of(size_t n)
{
    struct buf b;

    buf_init(&b, 0);
    buf_printf(&b, "*%zu\r\n", n);
    for (size_t i = 0; i < n; i++) {
        buf_printf(&b, ":%zu\r\n", i);
    }
    ck_assert(!b.failed);
    return b;
}

START_TEST(more_items_than_may_be)
{
    const size_t most = REPLY_ITEMS_MAX;
    struct reply *r;
    struct buf b = array_of(most);
    int error;

    r = read_bytes(b.p, b.n, &error);
    ck_assert_ptr_nonnull(r);
    ck_assert_int_eq(r->type, REPLY_ARRAY);
    ck_assert_uint_eq(r->count, most);
    for (size_t i = 0; i < most; i++) {
        ck_assert_int_eq(r->item[i]->n, (int64_t)i);
    }
    reply_free(r);
    buf_fini(&b);
    b = array_of(most + 1);
    r = read_bytes(b.p, b.n, &error);
    ck_assert_ptr_null(r);
    ck_assert_int_ne(error, 0);
    ck_assert_int_eq(alive, 0);
    buf_fini(&b);
}
END_TEST

/* Of a text that is too long the reader takes the beginning. */
START_TEST(longer_texts_than_may_be)
{
    const size_t most = REPLY_BULK_BYTES_MAX, sizes[] = {most - 1, most, most + 1, most + 1000};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *text = malloc(sizes[i]);
        struct reply *r;
        struct buf b;
        int error;

        ck_assert_ptr_nonnull(text);
        memset(text, 'x', sizes[i]);
        text[most - 2] = 'y';
        buf_init(&b, 0);
        buf_printf(&b, "$%zu\r\n", sizes[i]);
        buf_add(&b, text, sizes[i]);
        buf_adds(&b, "\r\n");
        ck_assert(!b.failed);
        r = read_bytes(b.p, b.n, &error);
        ck_assert_ptr_nonnull(r);
        ck_assert_int_eq(r->type, REPLY_TEXT);
        ck_assert_uint_eq(r->text.n, sizes[i] < most ? sizes[i] : most);
        ck_assert_int_eq(memcmp(r->text.p, text, r->text.n), 0);
        ck_assert_int_eq(r->text.p[r->text.n], '\0');
        reply_free(r);
        buf_fini(&b);
        free(text);
    }
    ck_assert_int_eq(alive, 0);
}
END_TEST

/* An item has a whole operation, with its own copy of the key. */
START_TEST(items)
{
    char key[] = "key";
    const struct core_op op = {.op = 5, .claim = 7, .key = {key, 3}};
    struct item *it;

    it = item_new(&freelist, &op);
    ck_assert_ptr_nonnull(it);
    key[0] = '#';
    ck_assert(it->op.op == 5 && it->op.claim == 7 && slice_is(it->op.key, "key"));
    item_free(&freelist, it);
    ck_assert_int_eq(alive, 0);
}
END_TEST

/* The records of a call of many names are used again and again: nothing is allocated for them. */
START_TEST(they_go_round)
{
    const struct core_op op = {.op = 5, .claim = 7, .key = SLICE_LIT("key")};
    struct buf b = array_of(100);
    struct item *it;

    none_spared = false;
    for (int i = 0; i < 3; i++) {
        redisReader *reader = reply_reader_new(&freelist); /* hiredis allocates for itself */
        void *r = NULL;

        ck_assert_int_eq(redisReaderFeed(reader, b.p, b.n), REDIS_OK);
        barred = i > 0;
        ck_assert_int_eq(redisReaderGetReply(reader, &r), REDIS_OK);
        ck_assert_ptr_nonnull(r);
        ck_assert_int_eq(((struct reply *)r)->item[99]->n, 99);
        reply_free(r);
        it = item_new(&freelist, &op);
        ck_assert_ptr_nonnull(it);
        item_free(&freelist, it);
        barred = false;
        redisReaderFree(reader);
    }
    buf_fini(&b);
    freelist_clear(&freelist);
    ck_assert_int_eq(alive, 0);
    none_spared = true;
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {more_items_than_may_be, longer_texts_than_may_be, items, they_go_round};

    return suite_main("backend, memory", tests, sizeof(tests) / sizeof(tests[0]));
}
