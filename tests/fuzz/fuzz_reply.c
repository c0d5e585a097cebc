/*
 * fuzz_reply.c -- bytes of Redis into replies: the same however the bytes are cut, within the limits of reply.h, and
 * with memory in proportion to the bytes.
 *
 * Input: a byte that chooses the cuts, the stream.
 */
#include <hiredis.h>

#include "daemon/backend/reply.h"
#include "daemon/base/buf.h"
#include "tests/fuzz/fuzz.h"

enum { DEPTH_MAX = 16 };

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak)); /* not there in `make coverage` */

static size_t
allocated(void)
{
    return __sanitizer_get_current_allocated_bytes != NULL ? __sanitizer_get_current_allocated_bytes() : 0;
}

/* Reads the whole reply, and writes it as text. */
static void
print_reply(const struct reply *r, int depth, struct buf *output)
{
    CHECK(r != NULL && depth < DEPTH_MAX);
    buf_printf(output, "%d ", r->type);
    switch (r->type) {
    case REPLY_NULL:
        break;
    case REPLY_INT:
        buf_printf(output, "%lld ", (long long)r->n);
        break;
    case REPLY_TEXT:
    case REPLY_STATUS:
    case REPLY_ERROR:
        CHECK(r->text.n <= REPLY_BULK_BYTES_MAX && r->text.p[r->text.n] == '\0');
        buf_printf(output, "%zu=", r->text.n);
        buf_add_slice(output, r->text);
        break;
    case REPLY_ARRAY:
        CHECK(r->count <= REPLY_ITEMS_MAX);
        buf_printf(output, "%zu[", r->count);
        for (size_t i = 0; i < r->count; i++) {
            print_reply(r->item[i], depth + 1, output);
        }
        break;
    default:
        CHECK(!"a type of reply.h");
    }
}

static void
read_all(struct slice in, unsigned cuts, struct buf *output)
{
    size_t before = allocated();
    struct redisReader *reader = reply_reader_new(NULL);
    int rc = REDIS_OK;
    size_t at = 0;

    CHECK(reader != NULL);
    while (at < in.n && rc == REDIS_OK) {
        size_t n = in.n - at;
        void *reply = NULL;
        char *piece;

        if (cuts != 0) {
            cuts = cuts * 1103515245 + 12345;
            n = 1 + (cuts >> 16) % 11;
            n = n < in.n - at ? n : in.n - at;
        }
        piece = exact_copy((struct slice){in.p + at, n}, false);
        rc = redisReaderFeed(reader, piece, n);
        free(piece);
        at += n;
        while (rc == REDIS_OK && (rc = redisReaderGetReply(reader, &reply)) == REDIS_OK && reply != NULL) {
            print_reply(reply, 0, output);
            reply_free(reply);
            reply = NULL;
        }
        /* hiredis keeps 16 KiB and room to grow; a reply takes 72 bytes and a share of a list for each item. */
        CHECK(allocated() - before < 96 * 1024 + 256 * in.n + 2 * output->room,
              "%zu bytes in, %zu held", at, allocated() - before);
    }
    buf_printf(output, rc == REDIS_OK ? "fine" : "broken");
    redisReaderFree(reader);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct choices c = {data, size};
    unsigned cuts = take_byte(&c);
    struct slice in = take_rest(&c);
    struct buf whole, pieces;

    buf_init(&whole, 0);
    buf_init(&pieces, 0);
    read_all(in, 0, &whole);
    read_all(in, cuts + 1, &pieces);
    CHECK(slice_eq(buf_slice(&whole), buf_slice(&pieces)), "whole and in pieces");
    buf_fini(&whole);
    buf_fini(&pieces);
    return 0;
}
