/*
 * info_tables.c -- INFO's tables and its tree, made in slices: there may be a million records behind them.
 *
 * Owns what such a reply needs while it is made. A table shows rows_max rows and counts the rest.
 */
#include "daemon/serve/commands.h"

#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "daemon/serve/cmd.h"
#include "daemon/serve/commands_check.h"
#include "daemon/serve/fields.h"
#include "daemon/serve/listing.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"
#include "daemon/serve/show.h"
#include "daemon/serve/tree.h"

enum { SLICE_SESSIONS = 8 };

struct table_work;

static bool advance_locks(struct table_work *w);
static bool advance_waiters(struct table_work *w);
static bool advance_sessions(struct table_work *w);
static bool advance_tree(struct table_work *w);

static const struct table_kind {
    const char *section, *title;
    bool (*advance)(struct table_work *w); /* false: all is seen */
    const char *empty;                  /* instead of a table without rows; NULL: it is the tree */
} kinds[] = {
    {"locks", "Locks", advance_locks, "no locks"},
    {"waiters", "Waiters", advance_waiters, "nobody waits"},
    {"sessions", "Sessions", advance_sessions, "no sessions"},
    {"tree", "Tree", advance_tree, NULL},
};

struct table_work {
    struct listing_work work;
    const struct table_kind *kind;
    struct engine *engine;    /* borrowed */
    int64_t now_us;           /* of this call of advance() */
    size_t bytes_max;         /* of the reply */
    struct core_cursor cursor;
    uint64_t session, newest; /* the session that was looked at last; the newest one when the work began */
    struct table table;
    struct outbox aside;      /* owned; the grants that its rows rely on */
    struct tree *tree;        /* owned; NULL: a table */
    size_t glob_n;
    char glob[];
};

static struct slice
glob_of(const struct table_work *w)
{
    return (struct slice){w->glob, w->glob_n};
}

/* Past the cap rows are only counted, so nothing is asked about them. */
static bool
is_full(const struct table_work *w)
{
    return w->table.rows >= w->table.rows_max;
}

static void
lock_row(void *ctx, const struct core_lock_view *v)
{
    struct table_work *w = ctx;
    struct core_grant g = {.claim = v->claim, .token = v->token, .deadline_us = v->deadline_us};
    struct show_text text;
    struct fields f = {.n = 0};

    if (!is_full(w)) {
        show_lock(w->engine, v, w->now_us, &text, &f, NULL);
        outbox_rely(&w->aside, &g, w->engine->metrics.lost);
    }
    fields_add_row(&w->table, &f);
}

static void
waiter_row(void *ctx, const struct core_waiter_view *v)
{
    struct table_work *w = ctx;
    struct show_text text;
    struct fields f = {.n = 0};

    if (!is_full(w)) {
        show_waiter(w->engine, v, w->now_us, &text, &f);
    }
    fields_add_row(&w->table, &f);
}

static bool
advance_locks(struct table_work *w)
{
    unsigned n = command_records_at_once(glob_of(w));

    return core_cursor_locks(w->engine->core, &w->cursor, w->now_us, glob_of(w), n, lock_row, w);
}

static bool
advance_waiters(struct table_work *w)
{
    unsigned n = command_records_at_once(glob_of(w));

    return core_cursor_waiters(w->engine->core, &w->cursor, w->now_us, glob_of(w), n, waiter_row, w);
}

static bool
advance_sessions(struct table_work *w)
{
    struct session *s = session_after(w->engine, w->session);
    struct show_text text;

    for (int i = 0; i < SLICE_SESSIONS; i++) {
        struct fields f = {.n = 0};

        if (s == NULL || s->id > w->newest) {
            return false;
        }
        if (!is_full(w)) {
            show_session(s, w->now_us, &text, &f);
        }
        fields_add_row(&w->table, &f);
        w->session = s->id;
        s = session_after(w->engine, s->id);
    }
    return true;
}

static bool
advance_tree(struct table_work *w)
{
    return tree_advance(w->tree, w->now_us);
}

static bool
advance(struct listing_work *lw, struct engine *e)
{
    struct table_work *w = container_of(lw, struct table_work, work);

    (void)e;
    w->now_us = clock_now_us();
    return w->kind->advance(w);
}

static void
finish(struct listing_work *lw, struct engine *e, struct outbox *box, struct writer *out)
{
    struct table_work *w = container_of(lw, struct table_work, work);
    struct outbox_group group = outbox_begin(box);
    struct buf text;

    (void)e;
    buf_init(&text, w->bytes_max);
    buf_printf(&text, "# %s\r\n", w->kind->title);
    if (w->tree != NULL) {
        tree_print(w->tree, &text, box);
    } else {
        fields_print_table(&w->table, w->kind->empty, &text);
    }
    fields_send_text(&text, out);
    outbox_take_marks(box, &w->aside, 0);
    outbox_end(box, group, OUTBOX_STALE, FORM_NATIVE, out->proto);
}

static void
drop(struct listing_work *lw, struct engine *e)
{
    struct table_work *w = container_of(lw, struct table_work, work);

    core_cursor_end(e->core, &w->cursor);
    fields_table_fini(&w->table);
    outbox_fini(&w->aside);
    if (w->tree != NULL) {
        tree_free(w->tree);
    }
    free(w);
}

static const struct table_kind *
find_kind(struct slice section)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (slice_is(section, kinds[i].section)) {
            return &kinds[i];
        }
    }
    return NULL;
}

bool
info_is_table(struct slice section)
{
    return find_kind(section) != NULL;
}

enum cmd_result
info_table(struct cmd *c, struct slice section, struct slice glob, size_t rows_max)
{
    struct engine *e = c->session->engine;
    struct table_work *w = mem_zalloc(sizeof(*w) + glob.n);

    w->work = (struct listing_work){advance, finish, drop, NULL};
    w->kind = find_kind(section);
    w->engine = e;
    w->bytes_max = command_reply_bytes_max(c);
    w->newest = session_newest(e);
    w->glob_n = glob.n;
    memcpy(w->glob, glob.n > 0 ? glob.p : "", glob.n);
    outbox_init(&w->aside);
    fields_table_init(&w->table, rows_max);
    if (w->kind->empty != NULL) {
        core_cursor_begin(e->core, &w->cursor);
        return listing_run(c, &w->work);
    }
    w->tree = tree_new(e, glob, rows_max);
    return listing_run(c, &w->work);
}
