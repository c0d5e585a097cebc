/*
 * out.c -- replies in chunks of memory that grow and are reused.
 */
#include "tests/sim/out.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/data.h"

enum { ALIGN = 16, CHUNK_BYTES = 16384 };

struct out_chunk {
    struct out_chunk *older;
    size_t room;
    char p[] __attribute__((aligned(ALIGN)));
};

void
out_fini(struct out *o)
{
    while (o->chunk != NULL) {
        struct out_chunk *older = o->chunk->older;

        free(o->chunk);
        o->chunk = older;
    }
}

/* Keeps the newest chunk, which is the largest. */
void
out_reset(struct out *o)
{
    o->n = 0;
    if (o->chunk != NULL && o->chunk->older != NULL) {
        struct out older = {.chunk = o->chunk->older};

        o->chunk->older = NULL;
        out_fini(&older);
    }
}

void *
out_alloc(struct out *o, size_t n)
{
    void *p;

    n = (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (o->chunk == NULL || n > o->chunk->room - o->n) {
        size_t room = o->chunk == NULL ? CHUNK_BYTES : 2 * o->chunk->room;
        struct out_chunk *c;

        room = room < n ? n : room;
        c = data_alloc(NULL, sizeof(*c) + room);
        c->older = o->chunk;
        c->room = room;
        o->chunk = c;
        o->n = 0;
    }
    p = o->chunk->p + o->n;
    o->n += n;
    return p;
}

static struct reply *
plain(struct out *o, enum reply_type type)
{
    struct reply *r = out_alloc(o, sizeof(*r));

    *r = (struct reply){.type = type};
    return r;
}

struct reply *
out_null(struct out *o)
{
    return plain(o, REPLY_NULL);
}

struct reply *
out_int(struct out *o, int64_t n)
{
    struct reply *r = plain(o, REPLY_INT);

    r->n = n;
    return r;
}

struct reply *
out_text(struct out *o, struct slice text)
{
    struct reply *r = out_alloc(o, sizeof(*r) + text.n + 1);
    char *p = (char *)(r + 1);

    if (text.n > 0) {
        memcpy(p, text.p, text.n);
    }
    p[text.n] = '\0';
    *r = (struct reply){.type = REPLY_TEXT, .text = {p, text.n}};
    return r;
}

struct slice
print_int(int64_t n, char room[DIGITS_ROOM])
{
    char *p = room + DIGITS_ROOM;
    uint64_t v = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;

    do {
        *--p = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    if (n < 0) {
        *--p = '-';
    }
    return (struct slice){p, (size_t)(room + DIGITS_ROOM - p)};
}

struct slice
print_double(double d, char room[DIGITS_ROOM])
{
    if (d > -1e16 && d < 1e16 && d == (double)(int64_t)d && !(d == 0 && signbit(d))) {
        return print_int((int64_t)d, room);
    }
    return (struct slice){room, (size_t)snprintf(room, DIGITS_ROOM, "%.17g", d)};
}

struct reply *
out_double(struct out *o, double d)
{
    char room[DIGITS_ROOM];

    return out_text(o, print_double(d, room)); /* "inf" and "-inf" too */
}

struct reply *
out_status(struct out *o, struct slice text)
{
    struct reply *r = out_text(o, text);

    r->type = REPLY_STATUS;
    return r;
}

struct reply *
out_error(struct out *o, const char *fmt, ...)
{
    struct reply *r;
    va_list args;
    char *p;
    int n;

    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    p = out_alloc(o, (size_t)n + 1);
    va_start(args, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, args);
    va_end(args);
    while (n > 0 && (p[n - 1] == '\r' || p[n - 1] == '\n')) {
        p[--n] = '\0';
    }
    for (int i = 0; i < n; i++) {
        p[i] = p[i] == '\r' || p[i] == '\n' ? ' ' : p[i];
    }
    r = plain(o, REPLY_ERROR);
    r->text = (struct slice){p, (size_t)n};
    return r;
}

struct reply *
out_array(struct out *o, size_t count)
{
    struct reply *r = plain(o, REPLY_ARRAY);

    r->item = out_alloc(o, (count + 1) * sizeof(struct reply *));
    r->count = count;
    return r;
}
