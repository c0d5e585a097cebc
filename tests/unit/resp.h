/*
 * resp.h -- a reply parsed into values, for tests of its shape rather than its bytes.
 */
#ifndef RLOCKD_TESTS_RESP_H
#define RLOCKD_TESTS_RESP_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/house.h"

struct resp {
    char type;          /* '+' '-' ':' '$' '=' '_' '*' '%' '~' '>' */
    char *text;         /* owned; of + - $ = and of : as it was written; NULL when null */
    size_t text_n;
    struct resp *child; /* owned; keys and values in turn */
    size_t n;           /* children */
};

static void
resp_fini(struct resp *r)
{
    while (r->n > 0) {
        resp_fini(&r->child[--r->n]);
    }
    free(r->child);
    free(r->text);
}

/* Reads one value at *at; fails the test if the value is incomplete. */
static struct resp
resp_read(const char **at, const char *end)
{
    struct resp r = {.type = **at};
    const char *line = *at + 1, *cr = memmem(line, (size_t)(end - line), "\r\n", 2);
    long count;
    size_t i;

    ck_assert_ptr_nonnull(cr);
    *at = cr + 2;
    count = strtol(line, NULL, 10);
    switch (r.type) {
    case '+':
    case '-':
    case ':':
        r.text = strndup(line, (size_t)(cr - line));
        r.text_n = (size_t)(cr - line);
        break;
    case '_':
        break;
    case '$':
    case '=':
        if (count >= 0) {
            ck_assert_int_le(count + 2, end - *at);
            r.text = strndup(*at, (size_t)count);
            r.text_n = (size_t)count;
            ck_assert(memcmp(*at + count, "\r\n", 2) == 0);
            *at += count + 2;
        }
        break;
    case '*':
    case '~':
    case '>':
    case '%':
        r.n = (size_t)count * (r.type == '%' ? 2 : 1);
        r.child = calloc(r.n + 1, sizeof(*r.child));
        for (i = 0; i < r.n; i++) {
            r.child[i] = resp_read(at, end);
        }
        break;
    default:
        ck_abort_msg("not a reply: %.20s", line - 1);
    }
    return r;
}

/* The value of a key in a map or a flat array; NULL when there is none. */
static const struct resp *
resp_get(const struct resp *map, const char *key)
{
    size_t i;

    ck_assert_uint_eq(map->n % 2, 0);
    for (i = 0; i < map->n; i += 2) {
        ck_assert_int_eq(map->child[i].type, '$');
        if (strcmp(map->child[i].text, key) == 0) {
            return &map->child[i + 1];
        }
    }
    return NULL;
}

/* Sends a request and reads its one reply. */
static struct resp
ask(const struct client *c, const char *request)
{
    struct buf b;
    struct resp r;
    const char *at;
    size_t before;

    buf_init(&b, 0);
    sends(c, request);
    do { /* as much as the socket takes at a time */
        before = b.n;
        settle();
        receives(c, &b);
        b.n--; /* the NUL */
    } while (b.n > before);
    ck_assert_uint_gt(b.n, 0);
    at = b.p;
    r = resp_read(&at, b.p + b.n);
    ck_assert_ptr_eq(at, b.p + b.n); /* one reply, and nothing behind it */
    buf_fini(&b);
    return r;
}

#endif
