/*
 * broadcast.c -- messages between the daemons on one Redis: how they are written and read.
 *
 * A message is a letter, broadcast_type, and netstrings. A message may get lost, and its sender receives it, too. Its
 * text comes from other daemons: a message that does not parse is ignored, and so is a letter that only newer daemons
 * know.
 */
#include "daemon/core/broadcast.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "daemon/core/act.h"
#include "daemon/core/bounds.h"
#include "daemon/core/core.h"
#include "daemon/core/lock.h"
#include "daemon/core/state.h"

struct slice
broadcast_self(const struct core *c)
{
    return (struct slice){c->conf.daemon, strlen(c->conf.daemon)};
}

/* ---- sending ---- */

void
broadcast_begin(struct core *c, enum broadcast_type what)
{
    c->broadcast.text[0] = (char)what;
    c->broadcast.n = 1;
    c->broadcast.fits = true;
}

void
broadcast_word(struct core *c, struct slice word)
{
    struct broadcast *b = &c->broadcast;
    int head;

    if (!b->fits) {
        return;
    }
    head = snprintf(b->text + b->n, BROADCAST_BYTES - b->n, "%zu:", word.n);
    assert(head > 0);
    if (b->n + (size_t)head + word.n + 1 > BROADCAST_BYTES) {
        b->fits = false;
        return;
    }
    memcpy(b->text + b->n + head, word.p, word.n);
    b->n += (size_t)head + word.n;
    b->text[b->n++] = ',';
}

void
broadcast_number(struct core *c, uint64_t number)
{
    char text[24];

    broadcast_word(c, (struct slice){text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, number)});
}

void
broadcast_send(struct core *c)
{
    struct core_action a = {.type = CORE_BROADCAST};

    if (c->broadcast.fits) {
        a.broadcast = (struct slice){c->broadcast.text, c->broadcast.n};
        core_act(c, &a);
    }
}

void
broadcast_lock(struct core *c, enum broadcast_type what, const struct lock *l, uint64_t token)
{
    broadcast_begin(c, what);
    broadcast_word(c, broadcast_self(c));
    broadcast_word(c, lock_name(l));
    broadcast_word(c, lock_key(l));
    if (token != 0) {
        broadcast_number(c, token);
    }
    broadcast_send(c);
}

/* ---- receiving ---- */

bool
broadcast_take_word(struct slice *text, struct slice *word)
{
    size_t n = 0, i = 0;

    for (; i < text->n && i < 6 && text->p[i] >= '0' && text->p[i] <= '9'; i++) {
        n = n * 10 + (size_t)(text->p[i] - '0');
    }
    if (i == 0 || i >= text->n || text->p[i] != ':' || text->n - i - 1 <= n || text->p[i + 1 + n] != ',') {
        return false;
    }
    *word = (struct slice){text->p + i + 1, n};
    text->p += i + n + 2;
    text->n -= i + n + 2;
    return true;
}

bool
broadcast_take_number(struct slice *text, uint64_t *number)
{
    struct slice word;

    if (!broadcast_take_word(text, &word) || word.n == 0 || word.n > 19) {
        return false;
    }
    *number = 0;
    for (size_t i = 0; i < word.n; i++) {
        if (word.p[i] < '0' || word.p[i] > '9') {
            return false;
        }
        *number = *number * 10 + (uint64_t)(word.p[i] - '0');
    }
    return true;
}
