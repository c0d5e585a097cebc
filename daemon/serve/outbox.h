/*
 * outbox.h -- bytes on their way to a client, and until when they are valid.
 *
 * Bytes that report a lock as held carry a mark for each grant they rely on: where they are, the grant, its deadline.
 * Right before bytes leave, outbox_is_valid() compares the time with the earliest deadline; if that has passed, or some
 * lock was lost since, outbox_validate() asks the core about each grant. If the grant is still valid, the bytes stay,
 * and "ms left" is written anew where it is less by now. If the grant is lost, the reply to its owner becomes -LOST, an
 * event is dropped, LOCKS and LOCKINFO show "lost", and any other reply becomes -UNAVAILABLE.
 *
 * If such bytes have left in part, the connection has to be closed: OUTBOX_TORN. Bytes in the kernel are out of reach.
 * No socket and no clock: the time is an argument.
 */
#ifndef RLOCKD_SERVE_OUTBOX_H
#define RLOCKD_SERVE_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/buf.h"
#include "daemon/core/core.h"
#include "daemon/base/pool.h"

/* What becomes of late bytes: they report a lock as held, and are not valid any more. */
enum outbox_late {
    OUTBOX_LOST,  /* the reply to an owner: env.rewrite(), and the core learns that the loss was reported */
    OUTBOX_DROP,  /* an event: nothing */
    OUTBOX_STALE, /* the reply to a command that only reads: env.rewrite() */
    OUTBOX_WORD,  /* the state of a lock in a long reply: "lost" replaces "held" */
};

enum { OUTBOX_LATE_BITS = 4, OUTBOX_FORM_BITS = 4, OUTBOX_PROTO_BITS = 2 };

_Static_assert(OUTBOX_WORD < 1 << OUTBOX_LATE_BITS, "a mark has room for what late bytes become");

/* One grant that some bytes rely on. The marks of one reply are a group: they are adjacent, and share its bytes. */
struct outbox_mark {
    struct core_grant grant;
    int64_t left_ms;          /* "ms left" */
    uint64_t at;              /* first byte, counted from the first byte that the outbox had when `marks` began */
    uint32_t n;               /* bytes */
    uint32_t ms_at, ms_n;     /* "ms left" in decimal, from `at` on; ms_n 0 = there is none */
    unsigned late : OUTBOX_LATE_BITS, form : OUTBOX_FORM_BITS, proto : OUTBOX_PROTO_BITS;
    bool more : 1;            /* the next mark is of the same bytes */
    bool lost : 1;            /* set within outbox_validate(): the grant is lost, or its deadline has passed */
    bool to_replace : 1;          /* likewise: a mark of its group is `lost`, so the group's bytes are to be replaced */
    bool patch : 1;           /* likewise: "ms left" is too high by now */
};

struct outbox {
    struct buf bytes;
    struct outbox_marks *marks; /* owned; NULL = none */
    struct pool *pool;          /* borrowed: the memory of few marks; NULL = malloc */
    int64_t all_valid_until_us; /* before this time all bytes are valid; CORE_FOREVER without marks */
    size_t valid_n;             /* bytes that outbox_validate() has made valid, when it was called last ... */
    int64_t valid_until_us;     /* ... and the first deadline that they rely on */
};

/* What outbox_validate() needs from outside. */
struct outbox_env {
    const struct core *core;
    const uint64_t *losses;   /* metrics.lost: rises with every lock that is lost */
    uint64_t *late;           /* counts replies and events that were taken back */
    void (*step)(void *ctx, const struct core_event *ev); /* may append bytes and marks */
    void (*rewrite)(void *ctx, const struct outbox_mark *m, struct buf *out);
    void *ctx;
};

enum outbox_fate { OUTBOX_VALID, OUTBOX_TORN };

static inline void
outbox_init(struct outbox *box)
{
    buf_init(&box->bytes, 0);
    box->marks = NULL;
    box->pool = NULL;
    box->all_valid_until_us = CORE_FOREVER;
}

void outbox_fini(struct outbox *box);
size_t outbox_memory(const struct outbox *box);

/*
 * A group of marks: outbox_begin() before its bytes are written, outbox_rely() for each grant, outbox_end() when the
 * last byte is there. A grant with claim 0 is none. losses: env.losses now.
 */
struct outbox_group {
    uint32_t first; /* mark */
    size_t from;    /* byte */
};
struct outbox_group outbox_here(const struct outbox *box);
void outbox_rely(struct outbox *box, const struct core_grant *g, uint64_t losses);
void outbox_close(struct outbox *box, struct outbox_group group, enum outbox_late late, unsigned form, int proto);

static inline struct outbox_group
outbox_begin(const struct outbox *box)
{
    return box->marks != NULL ? outbox_here(box) : (struct outbox_group){0, box->bytes.n};
}

static inline void
outbox_end(struct outbox *box, struct outbox_group group, enum outbox_late late, unsigned form, int proto)
{
    if (box->marks != NULL) {
        outbox_close(box, group, late, form, proto);
    }
}

/* The bytes from `from` up to `to` are "ms left" of the grant that was relied on last. */
void outbox_mark_ms(struct outbox *box, struct outbox_group group, size_t from, size_t to, int64_t ms);

/* Marks a word "held", from `at` on, in a reply with many. */
void outbox_mark_held(struct outbox *box, const struct core_grant *g, size_t at, uint64_t losses);

/* Takes the marks of `from`, whose bytes begin in `to` at `at`. */
void outbox_take_marks(struct outbox *to, struct outbox *from, size_t at);

/* Appends all of `from`, which is empty then. */
void outbox_move(struct outbox *to, struct outbox *from);

/* The first n bytes have left. */
void outbox_sent(struct outbox *box, size_t n);

/*
 * Makes the first valid_n bytes valid; only these may leave now. With very many marks these are not all bytes, because
 * one call looks at a bounded number of marks. VALID with valid_n 0 and bytes left: call again.
 */
enum outbox_fate outbox_validate(struct outbox *box, int64_t now_us, const struct outbox_env *env);

/* env.losses when the oldest mark was made, or all were checked. */
uint64_t outbox_losses(const struct outbox *box);

/* Are all bytes valid? */
static inline bool
outbox_is_valid(const struct outbox *box, int64_t now_us, uint64_t losses)
{
    return box->marks == NULL || (now_us < box->all_valid_until_us && outbox_losses(box) == losses);
}

#endif
