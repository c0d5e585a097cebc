/*
 * fuzz_reader.c -- bytes into requests: however the bytes are cut, the requests are the same; words that are written as
 * a RESP array are read back; the text of an error is one printable line.
 *
 * Input: a byte that chooses limits, a byte that chooses the cuts, the stream.
 */
#include "daemon/base/buf.h"
#include "proto/reader.h"
#include "proto/writer.h"
#include "tests/fuzz/fuzz.h"

static const struct reader_limits limits[] = {
    {16384, 16384, READER_WORDS_MAX}, {256, 256, 64}, {16, 16, 4}, {1, 1, 1}, {40, 8, 3}, {8, 40, 64},
};

/* The requests and errors of a stream, as text that can be compared. */
static void
print_words(struct buf *output, const struct words *w)
{
    buf_printf(output, "%u %d %zu:", w->n, w->inline_form, w->bytes);
    for (unsigned i = 0; i < w->n; i++) {
        buf_printf(output, "%zu=", w->word[i].n);
        buf_add_slice(output, w->word[i]);
    }
}

static void
check_words(const struct words *w, const struct reader_limits *l, size_t size)
{
    size_t sum = 0;

    CHECK(w->n >= 1 && w->n <= l->words);
    CHECK(w->bytes >= 1 && w->bytes <= size);
    for (unsigned i = 0; i < w->n; i++) {
        CHECK(w->word[i].n <= (w->inline_form ? l->line_bytes : l->word_bytes));
        sum += w->word[i].n;
    }
    CHECK(sum <= l->line_bytes && sum < w->bytes);
}

/* Reads all requests that are there; true: framing is lost. */
static bool
drain(struct reader *r, struct buf *output, size_t size, size_t *consumed)
{
    struct words w;

    for (size_t steps = 0;; steps++) {
        CHECK(steps <= size + 1, "it does not end");
        switch (reader_next(r, &w)) {
        case READER_READY:
            check_words(&w, r->limits, size);
            *consumed += w.bytes;
            print_words(output, &w);
            break;
        case READER_MORE:
            CHECK(reader_pending(r) > 0 || r->in.room == 0, "R4");
            return false;
        case READER_BAD:
            CHECK(r->error != NULL && is_printable_line(slice_of(r->error)));
            CHECK(reader_next(r, &w) == READER_BAD && reader_pending(r) == 0);
            buf_printf(output, "bad %s", r->error);
            return true;
        }
    }
}

/* Feeds the stream in pieces: of `step` bytes, or (0) of lengths that `cuts` chooses. */
static void
read_all(struct slice in, const struct reader_limits *l, size_t step, unsigned cuts, struct buf *output)
{
    struct reader r;
    size_t at = 0, consumed = 0;
    bool bad = false;

    reader_init(&r, l);
    while (at < in.n) {
        size_t n = step;
        char *piece;

        if (step == 0) {
            cuts = cuts * 1103515245 + 12345;
            n = 1 + (cuts >> 16) % 13;
        }
        n = n < in.n - at ? n : in.n - at;
        piece = exact_copy((struct slice){in.p + at, n}, false);
        if (cuts % 2 == 0 && reader_pending(&r) == 0) {
            reader_lend(&r, piece, n);
        } else {
            reader_feed(&r, piece, n);
        }
        at += n;
        bad = bad || drain(&r, output, in.n, &consumed);
        reader_keep(&r);
        free(piece);
    }
    if (!bad) {
        CHECK(consumed + reader_pending(&r) <= in.n);
        buf_printf(output, "left %zu", reader_pending(&r));
    }
    reader_fini(&r);
}

/* Each request of the stream, written as an array, is read as the same words. */
static void
write_back(struct slice in, const struct reader_limits *l)
{
    static const struct reader_limits wide = {1 << 20, 1 << 20, READER_WORDS_MAX};
    struct reader r, again;
    struct words w, w2;
    struct buf b;
    struct writer writer = {.out = &b, .proto = 2};

    reader_init(&r, l);
    buf_init(&b, 0);
    reader_feed(&r, in.p, in.n);
    while (reader_next(&r, &w) == READER_READY) {
        buf_clear(&b, SIZE_MAX);
        writer_array(&writer, w.n);
        for (unsigned i = 0; i < w.n; i++) {
            writer_bulk(&writer, w.word[i]);
        }
        reader_init(&again, &wide);
        CHECK(!b.failed);
        reader_feed(&again, b.p, b.n);
        CHECK(reader_next(&again, &w2) == READER_READY);
        CHECK(w2.n == w.n && !w2.inline_form && w2.bytes == b.n);
        for (unsigned i = 0; i < w.n; i++) {
            CHECK(slice_eq(w.word[i], w2.word[i]));
        }
        CHECK(reader_next(&again, &w2) == READER_MORE && reader_pending(&again) == 0);
        reader_fini(&again);
    }
    buf_fini(&b);
    reader_fini(&r);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct choices c = {data, size};
    const struct reader_limits *l = &limits[take_below(&c, sizeof(limits) / sizeof(limits[0]))];
    unsigned cuts = take_byte(&c);
    struct slice in = take_rest(&c);
    struct buf whole, bytes, pieces;

    if (in.n == 0) {
        return 0;
    }
    buf_init(&whole, 0);
    buf_init(&bytes, 0);
    buf_init(&pieces, 0);
    read_all(in, l, in.n, 0, &whole);
    read_all(in, l, 1, 0, &bytes);
    read_all(in, l, 0, cuts, &pieces);
    CHECK(slice_eq(buf_slice(&whole), buf_slice(&bytes)), "whole and byte by byte");
    CHECK(slice_eq(buf_slice(&whole), buf_slice(&pieces)), "whole and in pieces");
    write_back(in, l);
    buf_fini(&whole);
    buf_fini(&bytes);
    buf_fini(&pieces);
    return 0;
}
