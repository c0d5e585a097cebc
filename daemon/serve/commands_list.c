/*
 * commands_list.c -- LOCKS, WAITERS, SESSIONS: arrays of maps, made in slices.
 *
 * Owns the rows of such a reply, in chunks, until all are made, because their number is sent before them. show.c
 * describes the records themselves.
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

enum what { LOCKS_LISTED, WAITERS_LISTED, SESSIONS_LISTED };

enum { SLICE_BYTES = 512, SLICE_SESSIONS = 8 };

struct list_work {
    struct listing_work work;
    enum what what;
    const struct engine *engine; /* borrowed */
    int64_t now_us;              /* of this call of advance() */
    struct core_cursor cursor;
    uint64_t session, newest;    /* the session that was looked at last; the newest one when the work began */
    int proto;
    struct chunks rows;          /* owned */
    size_t rows_n;
    size_t glob_n;
    char glob[];
};

/* Adds a row to a box of chunks_end(). */
static void
add_row(struct list_work *l, const struct fields *f, struct outbox *box)
{
    struct writer w = {.out = &box->bytes, .proto = l->proto};

    fields_write_map(f, &w);
    l->rows_n++;
}

static void
send_lock(void *ctx, const struct core_lock_view *v)
{
    struct list_work *l = ctx;
    struct outbox *box = chunks_end(&l->rows);
    struct show_text text;
    struct fields_range state = {0, 0};
    struct fields f = {.n = 0};

    if (box != NULL) {
        show_lock(l->engine, v, l->now_us, &text, &f, &state);
        add_row(l, &f, box);
        show_mark_held(l->engine, box, v, state);
    }
}

static void
send_waiter(void *ctx, const struct core_waiter_view *v)
{
    struct list_work *l = ctx;
    struct outbox *box = chunks_end(&l->rows);
    struct show_text text;
    struct fields f = {.n = 0};

    if (box != NULL) {
        show_waiter(l->engine, v, l->now_us, &text, &f);
        add_row(l, &f, box);
    }
}

static bool
advance_sessions(struct list_work *l, struct engine *e)
{
    struct session *s = session_after(e, l->session);
    struct show_text text;

    for (int i = 0; i < SLICE_SESSIONS; i++) {
        struct outbox *box = chunks_end(&l->rows);
        struct fields f = {.n = 0};

        if (s == NULL || s->id > l->newest || box == NULL) {
            return false;
        }
        show_session(s, l->now_us, &text, &f);
        add_row(l, &f, box);
        l->session = s->id;
        s = session_after(e, s->id);
    }
    return true;
}

/* The number of records that take some tens of microseconds, if each is compared with the glob. */
unsigned
command_records_at_once(struct slice glob)
{
    return 1 + SLICE_BYTES / (16 + (unsigned)(glob.n < SLICE_BYTES ? glob.n : SLICE_BYTES));
}

static bool
advance(struct listing_work *w, struct engine *e)
{
    struct list_work *l = container_of(w, struct list_work, work);
    struct slice glob = {l->glob, l->glob_n};
    unsigned n = command_records_at_once(glob);

    l->now_us = clock_now_us();
    if (!chunks_whole(&l->rows)) { /* too long */
        return false;
    }
    switch (l->what) {
    case LOCKS_LISTED:
        return core_cursor_locks(e->core, &l->cursor, l->now_us, glob, n, send_lock, l);
    case WAITERS_LISTED:
        return core_cursor_waiters(e->core, &l->cursor, l->now_us, glob, n, send_waiter, l);
    case SESSIONS_LISTED:
        break;
    }
    return advance_sessions(l, e);
}

static void
finish(struct listing_work *w, struct engine *e, struct outbox *box, struct writer *out)
{
    struct list_work *l = container_of(w, struct list_work, work);
    struct outbox first;

    (void)e;
    if (!chunks_whole(&l->rows)) {
        chunks_fini(&l->rows);
        fields_refuse_length(out);
        return;
    }
    writer_array(out, l->rows_n);
    if (chunks_shift(&l->rows, &first)) { /* most replies are one chunk, and leave at once */
        outbox_move(box, &first);
    }
}

static void
drop(struct listing_work *w, struct engine *e)
{
    struct list_work *l = container_of(w, struct list_work, work);

    core_cursor_end(e->core, &l->cursor);
    chunks_fini(&l->rows);
    free(l);
}

static enum cmd_result
list_all(struct cmd *c, enum what what)
{
    struct slice glob = c->words->n > 1 ? c->words->word[1] : SLICE_LIT("");
    struct list_work *l = mem_alloc(sizeof(*l) + glob.n);

    *l = (struct list_work){.work = {advance, finish, drop, NULL}, .what = what, .engine = c->session->engine,
                            .newest = session_newest(c->session->engine), .proto = c->out->proto, .glob_n = glob.n};
    memcpy(l->glob, glob.p, glob.n);
    chunks_init(&l->rows, command_reply_bytes_max(c));
    l->work.more = &l->rows;
    core_cursor_begin(c->session->engine->core, &l->cursor);
    return listing_run(c, &l->work);
}

enum cmd_result
cmd_locks(struct cmd *c)
{
    return list_all(c, LOCKS_LISTED);
}

enum cmd_result
cmd_waiters(struct cmd *c)
{
    return list_all(c, WAITERS_LISTED);
}

enum cmd_result
cmd_sessions(struct cmd *c)
{
    return list_all(c, SESSIONS_LISTED);
}
