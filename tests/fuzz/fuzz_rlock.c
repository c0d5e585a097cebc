/*
 * fuzz_rlock.c -- the replies that the command line reads: the same however they are cut, complete trees, and a field
 * of a map is found without a read outside the map.
 *
 * Input: a byte that chooses the cuts, the stream.
 */
#include "daemon/base/buf.h"
#include "daemon/rlock_client.h"
#include "tests/fuzz/fuzz.h"

static void
print_reply(const struct redisReply *v, struct buf *output)
{
    bool text = v->type == REDIS_REPLY_STRING || v->type == REDIS_REPLY_STATUS || v->type == REDIS_REPLY_ERROR;

    buf_printf(output, "%d %lld ", v->type, v->integer);
    CHECK((v->str != NULL) == text && (v->type == REDIS_REPLY_ARRAY || v->elements == 0));
    if (text) {
        CHECK(v->str[v->len] == '\0');
        buf_add_slice(output, reply_text(v));
    }
    for (size_t i = 0; i < v->elements; i++) {
        print_reply(v->element[i], output);
    }
}

static void
read_all(struct slice in, unsigned cuts, struct buf *output)
{
    struct client c;
    enum client_result r = CLIENT_MORE;
    const struct redisReply *v;
    size_t at = 0;

    client_init(&c);
    while (at < in.n && r != CLIENT_BAD) {
        size_t n = in.n - at;

        if (cuts != 0) {
            cuts = cuts * 1103515245 + 12345;
            n = 1 + (cuts >> 16) % 29;
            n = n < in.n - at ? n : in.n - at;
        }
        CHECK(redisReaderFeed(c.reader, in.p + at, n) == REDIS_OK); /* as client_fill() */
        c.unread += n;
        at += n;
        while ((r = client_next(&c, &v)) == CLIENT_READY) {
            print_reply(v, output);
            (void)reply_number(reply_field(v, "token"));
            (void)reply_number(v);
        }
    }
    buf_printf(output, r == CLIENT_BAD ? "bad" : "%zu more", c.unread);
    client_close(&c);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct choices c = {data, size};
    unsigned cuts = take_byte(&c);
    struct slice in = take_rest(&c);
    struct buf whole, pieces;

    if (in.n == 0) {
        return 0;
    }
    buf_init(&whole, 0);
    buf_init(&pieces, 0);
    read_all(in, 0, &whole);
    read_all(in, cuts + 1, &pieces);
    CHECK(slice_eq(buf_slice(&whole), buf_slice(&pieces)), "whole and in pieces");
    buf_fini(&whole);
    buf_fini(&pieces);
    return 0;
}
