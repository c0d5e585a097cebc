/*
 * tree_private.h -- what INFO tree notes (tree.c), and draws (tree_lines.c).
 */
#ifndef RLOCKD_SERVE_TREE_PRIVATE_H
#define RLOCKD_SERVE_TREE_PRIVATE_H

#include "daemon/serve/session_record.h"

struct tree_owner {
    uint64_t id, session;
    size_t at, n; /* its name, in tree.bytes */
};

/* A name with waiters. */
struct contended {
    size_t at, n;          /* in tree.bytes */
    size_t wait, waits_n;  /* its queue: from this one of tree.waits on */
    size_t hold, holds_n;  /* its holders: from this one of tree.holds on */
    const char *state;
    int64_t deadline_us;
    uint32_t limit;        /* 0 = a kind without permits */
    bool wanted;           /* it is to be printed */
    bool printed;
    bool open;             /* its queue is being printed */
    bool deep;             /* its queue would be too far to the right: it is printed behind the trees */
};

struct wait {
    struct tree_owner owner;
    size_t name; /* in tree.names */
    uint32_t position;
    int64_t waited_us, due_us;
    bool shared, kept;
};

struct hold {
    struct tree_owner owner;
    size_t name;
    struct core_grant grant;
    int64_t held_us;
    bool shared, printed;
};

/* A wait or a hold of an owner, in an index that is sorted by owners. */
struct owner_entry {
    uint64_t owner;
    size_t name, i; /* in tree.names; in tree.waits or tree.holds */
};

struct records {
    void *p; /* owned */
    size_t n;
};

struct tree {
    struct engine *engine;
    int64_t now_us;           /* of the last tree_advance(); the tree is printed as of that time */
    struct core_cursor cursor;    /* over waiters */
    size_t noted, compared;   /* names whose holders are noted; that were compared with the glob */
    bool begun;
    struct buf *out;          /* while it is printed */
    struct outbox *box;       /* borrowed while printing; notes the grants that the text relies on */
    uint64_t losses;          /* metrics.lost when it began */
    struct buf bytes; /* owned: names of locks and owners */
    struct records names, waits, holds;           /* of contended, wait, hold */
    struct records waits_by_owner, holds_by_owner; /* indexes: of owner_entry */
    size_t rows, rows_max, left_out;
    size_t glob_n;
    char glob[];
};

static inline struct contended *
name_of(const struct tree *t, size_t i)
{
    return (struct contended *)t->names.p + i;
}

static inline struct wait *
wait_of(const struct tree *t, size_t i)
{
    return (struct wait *)t->waits.p + i;
}

static inline struct hold *
hold_of(const struct tree *t, size_t i)
{
    return (struct hold *)t->holds.p + i;
}

static inline struct slice
bytes_of(const struct tree *t, size_t at, size_t n)
{
    return (struct slice){n > 0 ? t->bytes.p + at : NULL, n};
}

/* tree_lines.c: the first entry of the owner in an index that is sorted; `end` is behind its last one. */
const struct owner_entry *tree_first_entry(const struct records *index, uint64_t owner, const struct owner_entry **end);

/* Draws into tree.out, tree.rows_max lines at most. */
void tree_draw(struct tree *t);

#endif
