/*
 * reply.c -- callbacks for hiredis' reader, which build struct reply within limits.
 *
 * A broken or hostile Redis can announce anything. Too many items are an error of the reader, which ends the link.
 * Memory is allocated for received items, not for announced ones: an array that announces thousands costs a few bytes.
 *
 * Scripts answer with arrays of numbers, so the numbers of an array share records of several cells.
 */
#include "daemon/backend/reply.h"

#include <hiredis.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/freelist.h"
#include "daemon/base/memory.h"
#include "daemon/base/units.h"

#define ITEMS_FIRST 8

/* Memory for some items of an array, in a list with the newest record first. */
struct cells {
    struct cells *next;
    size_t n, used;
    struct reply cell[];
};

_Static_assert(sizeof(struct cells) + ITEMS_FIRST * sizeof(struct reply) <= FREELIST_RECORD_MAX,
               "the freelist keeps cells");

/* The size of a reply with a text of text_n bytes behind it, NUL included. */
static size_t
reply_bytes(size_t text_n)
{
    return sizeof(struct reply) + text_n;
}

static size_t
cells_bytes(size_t n)
{
    return sizeof(struct cells) + n * sizeof(struct reply);
}

void
reply_free(void *p)
{
    struct reply *r = p;

    if (r == NULL || r->in_cell) {
        return;
    }
    for (size_t i = 0; i < r->count && i < r->room; i++) {
        reply_free(r->item[i]);
    }
    while (r->cells != NULL) {
        struct cells *c = r->cells;

        r->cells = c->next;
        freelist_give(r->freelist, c, cells_bytes(c->n));
    }
    freelist_give(r->freelist, r->item, r->room * sizeof(struct reply *));
    freelist_give(r->freelist, r, reply_bytes(r->text.p != NULL ? r->text.n + 1 : 0));
}

/* A zeroed reply with room for text_n bytes behind it. */
static struct reply *
reply_new(const redisReadTask *task, size_t text_n)
{
    struct reply *r = freelist_take_zeroed(task->privdata, reply_bytes(text_n));

    r->freelist = task->privdata;
    return r;
}

/* A new cell of the array. */
static struct reply *
new_cell(struct reply *array)
{
    struct cells *c = array->cells;
    struct reply *r;

    if (c == NULL || c->used == c->n) {
        size_t n = array->count < ITEMS_FIRST ? array->count : ITEMS_FIRST; /* so few that the freelist keeps them */

        c = freelist_take_zeroed(array->freelist, cells_bytes(n));
        c->next = array->cells;
        c->n = n;
        array->cells = c;
    }
    r = &c->cell[c->used++];
    r->in_cell = true;
    return r;
}

/* Makes room for item i; missing items are NULL. */
static void
reserve(struct reply *r, size_t i)
{
    size_t room = r->room > 0 ? 2 * r->room : ITEMS_FIRST;
    struct reply **more;

    if (i < r->room) {
        return;
    }
    room = room < r->count ? room : r->count;
    more = freelist_take_zeroed(r->freelist, room * sizeof(*more));
    if (r->room > 0) {
        memcpy(more, r->item, r->room * sizeof(*more));
        freelist_give(r->freelist, r->item, r->room * sizeof(*more));
    }
    r->item = more;
    r->room = room;
}

/* Puts a new reply into its parent, if it has one. Items arrive in order. */
static void *
attach(const redisReadTask *task, struct reply *r)
{
    if (task->parent != NULL) {
        struct reply *parent = task->parent->obj;

        reserve(parent, (size_t)task->idx);
        parent->item[task->idx] = r;
    }
    return r;
}

static void *
create_string(const redisReadTask *task, char *text, size_t n)
{
    struct reply *r;

    if (n > REPLY_BULK_BYTES_MAX) { /* no reply that the backend needs is that long: keep the beginning */
        n = REPLY_BULK_BYTES_MAX;
    }
    r = reply_new(task, n + 1);
    memcpy(r + 1, text, n);
    r->text = (struct slice){(char *)(r + 1), n};
    r->type = task->type == REDIS_REPLY_ERROR    ? REPLY_ERROR
              : task->type == REDIS_REPLY_STATUS ? REPLY_STATUS
                                                 : REPLY_TEXT;
    return attach(task, r);
}

static void *
#if HIREDIS_MAJOR >= 1
create_array(const redisReadTask *task, size_t n)
#else
create_array(const redisReadTask *task, int n)
#endif
{
    struct reply *r;

    if ((size_t)n > REPLY_ITEMS_MAX) {
        return NULL;
    }
    r = reply_new(task, 0);
    r->type = REPLY_ARRAY;
    r->count = (size_t)n;
    return attach(task, r);
}

static void *
create_plain(const redisReadTask *task, enum reply_type type, int64_t n)
{
    struct reply *r = task->parent != NULL ? new_cell(task->parent->obj) : reply_new(task, 0);

    r->type = type;
    r->n = n;
    return attach(task, r);
}

static void *
create_integer(const redisReadTask *task, long long n)
{
    return create_plain(task, REPLY_INT, n);
}

static void *
create_nil(const redisReadTask *task)
{
    return create_plain(task, REPLY_NULL, 0);
}

#if HIREDIS_MAJOR >= 1
static void *
create_double(const redisReadTask *task, double d, char *text, size_t n)
{
    (void)d;
    return create_string(task, text, n);
}

static void *
create_bool(const redisReadTask *task, int b)
{
    return create_plain(task, REPLY_INT, b);
}
#endif

static redisReplyObjectFunctions reply_functions = {
    .createString = create_string,
    .createArray = create_array,
    .createInteger = create_integer,
    .createNil = create_nil,
#if HIREDIS_MAJOR >= 1
    .createDouble = create_double,
    .createBool = create_bool,
#endif
    .freeObject = reply_free,
};

struct redisReader *
reply_reader_new(struct freelist *s)
{
    struct redisReader *reader = redisReaderCreateWithFunctions(&reply_functions);

    if (reader == NULL) {
        mem_exhausted(sizeof(*reader));
    }
    reader->privdata = s;
    return reader;
}

void
reply_reader_feed(struct redisReader *reader, const char *p, size_t n)
{
    if (redisReaderFeed(reader, p, n) != REDIS_OK) {
        mem_exhausted(n); /* after an error the reader gets no more bytes */
    }
}

bool
reply_time(const struct reply *r, int64_t *time_us)
{
    int64_t s, us;

    if (r->type != REPLY_ARRAY || r->count != 2 || r->item[0]->type != REPLY_TEXT || r->item[1]->type != REPLY_TEXT ||
        !number_parse(r->item[0]->text, &s) || !number_parse(r->item[1]->text, &us) || s < 0 ||
        s >= (INT64_C(1) << 53) / US_PER_S || us < 0 || us >= US_PER_S) {
        return false;
    }
    *time_us = s * US_PER_S + us;
    return true;
}
