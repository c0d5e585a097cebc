/*
 * fuzz_rlock.c -- the replies that the command line reads: the same however they come, well-formed trees whose texts
 * are in the buffer, and a field of a map is found without leaving it.
 *
 * Input: a byte that chooses where it is cut, the stream.
 */
#include "daemon/rlock_client.h"
#include "tests/fuzz/fuzz.h"

/* Walks the tree; returns how many nodes it has. */
static size_t
tell(const struct client *c, const struct value *v, struct buf *told)
{
    const struct value *item = v + 1;
    size_t nodes = 1;

    CHECK(v >= c->node && v < c->node + c->nodes);
    buf_printf(told, "%d %lld ", v->type, (long long)v->n);
    if (v->type == VALUE_SIMPLE || v->type == VALUE_ERROR || v->type == VALUE_BULK) {
        CHECK(v->text.p >= c->in.p && v->text.p + v->text.n <= c->in.p + c->in.n);
        buf_add_slice(told, v->text);
    }
    for (int64_t i = 0; v->type == VALUE_ARRAY && i < v->n; i++) {
        nodes += tell(c, item, told);
        item = value_after(item);
    }
    CHECK(nodes == v->nodes && value_after(v) == v + nodes);
    return nodes;
}

static void
check(const struct client *c, const struct value *v, struct buf *told)
{
    const struct value *field;

    CHECK(v == c->node && tell(c, v, told) == c->nodes);
    field = value_field(v, "token");
    CHECK(field == NULL || (field > c->node && field < c->node + c->nodes));
    (void)value_number(field, -1);
    (void)value_number(v, -1);
}

static void
read_all(struct slice in, unsigned cuts, struct buf *told)
{
    struct client c = {.fd = -1};
    enum client_result r = CLIENT_MORE;
    const struct value *v;
    size_t at = 0;

    buf_init(&c.in, 0);
    while (at < in.n && r != CLIENT_BAD) {
        size_t n = in.n - at;

        if (cuts != 0) {
            cuts = cuts * 1103515245 + 12345;
            n = 1 + (cuts >> 16) % 29;
            n = n < in.n - at ? n : in.n - at;
        }
        /* As client_fill(): what was used goes, what came is added. */
        buf_drop(&c.in, c.used);
        c.used = 0;
        buf_add(&c.in, in.p + at, n);
        at += n;
        while ((r = client_next(&c, &v)) == CLIENT_READY) {
            check(&c, v, told);
        }
    }
    buf_printf(told, r == CLIENT_BAD ? "bad" : "%zu more", c.in.n - c.used);
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
