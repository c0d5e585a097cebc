/*
 * outbox.c -- bytes on their way to a client, and until when they are valid.
 *
 * Owns the bytes and the marks. Touches a socket, a clock or the core's state through the environment alone.
 * O1  Marks are in the order of their bytes; those of one reply have the same bytes, and all but the last have `more`.
 * O2  outbox.all_valid_until_us is at most that of any mark.
 * O3  Of a reply that has left in part (at < gone) nothing is changed but an "ms left" of which no byte has left.
 * O4  The core is not stepped while the bytes are made anew (copy()): a step may append.
 */
#include "daemon/serve/outbox.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

enum {
    MARKS_FIRST = 4,  /* more than most replies have */
    MARKS_MAX = 1024, /* that one outbox_validate() looks at: an unread LOCKS has one for each row */
};

struct outbox_marks {
    uint64_t gone;   /* bytes that have left since `marks` began */
    uint64_t losses; /* env.losses when the oldest was made, or all were checked */
    uint32_t n, room;
    struct outbox_mark mark[];
};

static const char lost_word[] = "lost"; /* as long as "held" */

static void
free_marks(struct outbox *box)
{
    if (box->pool != NULL && box->marks != NULL && box->marks->room == MARKS_FIRST) {
        pool_take_back_marks(box->pool, box->marks);
    } else {
        free(box->marks);
    }
}

static void
drop_marks(struct outbox *box)
{
    free_marks(box);
    box->marks = NULL;
    box->all_valid_until_us = CORE_FOREVER;
}

void
outbox_fini(struct outbox *box)
{
    buf_fini(&box->bytes);
    drop_marks(box);
}

size_t
outbox_memory(const struct outbox *box)
{
    const struct outbox_marks *m = box->marks;

    return box->bytes.head + box->bytes.room + (m != NULL ? sizeof(*m) + m->room * sizeof(m->mark[0]) : 0);
}

uint64_t
outbox_losses(const struct outbox *box)
{
    return box->marks->losses;
}

/* Makes room for n marks in all. */
static struct outbox_marks *
widen(struct outbox *box, uint32_t n, uint64_t losses)
{
    const struct outbox_marks *old = box->marks;
    uint32_t room = MARKS_FIRST;
    struct outbox_marks *m;

    while (room < n) {
        room *= 2;
    }
    m = room == MARKS_FIRST && box->pool != NULL ? pool_lend_marks(box->pool) : NULL;
    m = m != NULL ? m : mem_alloc(sizeof(*m) + room * sizeof(m->mark[0]));
    m->gone = old != NULL ? old->gone : 0;
    m->losses = losses;
    m->n = old != NULL ? old->n : 0;
    m->room = room;
    if (old != NULL) {
        memcpy(m->mark, old->mark, old->n * sizeof(old->mark[0]));
        free_marks(box);
    }
    box->marks = m;
    return m;
}

/* Makes room for n more marks. */
static struct outbox_marks *
reserve(struct outbox *box, uint32_t n, uint64_t losses)
{
    struct outbox_marks *m = box->marks;

    if (m == NULL) {
        return widen(box, n, losses);
    }
    m->losses = losses < m->losses ? losses : m->losses;
    return m->n + n <= m->room ? m : widen(box, m->n + n, m->losses);
}

/* The bytes contain "ms left", of which no byte has been sent: it can be written anew. */
static bool
may_rewrite_ms(const struct outbox_mark *k, uint64_t gone)
{
    return k->ms_n > 0 && k->at + k->ms_at >= gone;
}

/* The deadline of the mark, or the time at which fewer ms are left than in its bytes. */
static int64_t
mark_valid_until_us(const struct outbox_mark *k)
{
    return k->grant.deadline_us - (k->ms_n > 0 ? k->left_ms * US_PER_MS : 0);
}

static void
lower_valid_until(struct outbox *box, int64_t us)
{
    box->all_valid_until_us = us < box->all_valid_until_us ? us : box->all_valid_until_us;
}

/* ---- marks ---- */

struct outbox_group
outbox_here(const struct outbox *box)
{
    return (struct outbox_group){box->marks->n, box->bytes.n};
}

void
outbox_rely(struct outbox *box, const struct core_grant *g, uint64_t losses)
{
    struct outbox_marks *m = g->claim != 0 ? reserve(box, 1, losses) : NULL;

    if (m != NULL) {
        m->mark[m->n++] = (struct outbox_mark){.grant = *g, .more = true};
    }
}

void
outbox_mark_ms(struct outbox *box, struct outbox_group group, size_t from, size_t to, int64_t ms)
{
    struct outbox_marks *m = box->marks;

    if (m != NULL && m->n > group.first) {
        struct outbox_mark *k = &m->mark[m->n - 1];

        k->ms_at = (uint32_t)(from - group.from);
        k->ms_n = (uint32_t)(to - from);
        k->left_ms = ms;
    }
}

void
outbox_close(struct outbox *box, struct outbox_group group, enum outbox_late late, unsigned form, int proto)
{
    struct outbox_marks *m = box->marks;
    uint32_t i;

    if (m->n == group.first) {
        return;
    }
    for (i = group.first; i < m->n; i++) {
        struct outbox_mark *k = &m->mark[i];

        k->at = m->gone + group.from;
        k->n = (uint32_t)(box->bytes.n - group.from);
        k->late = late;
        k->form = form & ((1u << OUTBOX_FORM_BITS) - 1);
        k->proto = (unsigned)proto & ((1u << OUTBOX_PROTO_BITS) - 1);
        lower_valid_until(box, mark_valid_until_us(k));
    }
    m->mark[m->n - 1].more = false;
}

void
outbox_mark_held(struct outbox *box, const struct core_grant *g, size_t at, uint64_t losses)
{
    struct outbox_marks *m = g->claim != 0 ? reserve(box, 1, losses) : NULL;

    if (m != NULL) {
        m->mark[m->n++] = (struct outbox_mark){
            .grant = *g, .at = m->gone + at, .n = sizeof(lost_word) - 1, .late = OUTBOX_WORD};
        lower_valid_until(box, g->deadline_us);
    }
}

void
outbox_take_marks(struct outbox *to, struct outbox *from, size_t at)
{
    const struct outbox_marks *f = from->marks;
    struct outbox_marks *m = f != NULL ? reserve(to, f->n, f->losses) : NULL;
    uint32_t i;

    for (i = 0; m != NULL && i < f->n; i++) {
        struct outbox_mark *k = &m->mark[m->n++];

        *k = f->mark[i];
        k->at = k->at - f->gone + m->gone + at;
    }
    if (m != NULL) {
        lower_valid_until(to, from->all_valid_until_us);
    }
    drop_marks(from);
}

void
outbox_move(struct outbox *to, struct outbox *from)
{
    outbox_take_marks(to, from, to->bytes.n);
    buf_add_slice(&to->bytes, buf_slice(&from->bytes));
    outbox_fini(from);
}

void
outbox_sent(struct outbox *box, size_t n)
{
    struct outbox_marks *m = box->marks;
    uint32_t i = 0;

    buf_drop(&box->bytes, n);
    if (m == NULL) {
        return;
    }
    if (box->bytes.n == 0) {
        drop_marks(box);
        return;
    }
    m->gone += n;
    while (i < m->n && m->mark[i].at + m->mark[i].n <= m->gone) {
        i++;
    }
    if (i == m->n) {
        drop_marks(box);
    } else if (i > 0) {
        m->n -= i;
        memmove(m->mark, m->mark + i, m->n * sizeof(m->mark[0]));
    }
}

/* ---- the fate of the grants ---- */

static uint32_t
group_end(const struct outbox_marks *m, uint32_t i)
{
    while (m->mark[i].more) {
        i++;
    }
    return i + 1;
}

/*
 * True: the grant is over, though the bytes report it as held. If the grant is valid, the mark gets its present
 * deadline.
 */
static bool
is_late(struct outbox_mark *k, int64_t now_us, const struct outbox_env *env)
{
    int64_t deadline_us;

    switch (core_grant_state(env->core, &k->grant, now_us, &deadline_us)) {
    case CORE_GRANT_HELD:
        k->grant.deadline_us = deadline_us;
        return false;
    case CORE_GRANT_LOST:
        return true;
    case CORE_GRANT_ENDED: /* the owner gave it back, or has received LOST: the bytes stay valid until the deadline */
        break;
    }
    return now_us >= k->grant.deadline_us;
}

/* The core takes back the other grants of a reply that is not sent; their owner learns of that by LOST. */
static void
give_back(struct outbox *box, uint32_t from, uint32_t to, int64_t now_us, const struct outbox_env *env)
{
    int64_t deadline_us;

    for (uint32_t i = from; i < to && box->marks->mark[i].late == OUTBOX_LOST; i++) {
        struct core_event ev = {.type = CORE_UNDELIVERED, .grant = box->marks->mark[i].grant};

        if (core_grant_state(env->core, &ev.grant, now_us, &deadline_us) == CORE_GRANT_HELD) {
            env->step(env->ctx, &ev);
        }
    }
}

/* "lost" is as long as "held", so it is written in place. */
static void
write_word(struct outbox *box, const struct outbox_mark *k, const struct outbox_env *env)
{
    memcpy(box->bytes.p + (k->at - box->marks->gone), lost_word, sizeof(lost_word) - 1);
    *env->late += 1;
}

/*
 * Notes that the bytes of this group of marks are to be replaced; a word is replaced at once. False: some of the bytes
 * have left.
 */
static bool
note_replacement(struct outbox *box, uint32_t from, uint32_t to, const struct outbox_env *env)
{
    struct outbox_mark *mark = box->marks->mark;

    if (mark[from].at < box->marks->gone) {
        return false;
    }
    for (uint32_t i = from; i < to; i++) {
        mark[i].to_replace = true;
    }
    if (mark[from].late == OUTBOX_WORD) {
        write_word(box, &mark[from], env);
    }
    return true;
}

/*
 * Notes which bytes are late, and are to be replaced. TORN: some late bytes have left, or part of an "ms left" that is
 * too high by now. *checked: how many marks, from the first, were checked. A group that is to be replaced already is
 * left as it is: its losses are those that its reply reports.
 */
static enum outbox_fate
note_late(struct outbox *box, int64_t now_us, const struct outbox_env *env, uint32_t *checked)
{
    uint32_t i, k, end;

    for (i = 0; i < box->marks->n && i < MARKS_MAX; i = end) { /* a step may add marks */
        struct outbox_marks *m = box->marks;
        bool late = false, torn = false;

        end = group_end(m, i);
        for (k = i; k < end && !m->mark[i].to_replace; k++) {
            struct outbox_mark *mark = &m->mark[k];

            mark->lost = is_late(mark, now_us, env);
            mark->patch = mark->ms_n > 0 && now_us >= mark_valid_until_us(mark);
            torn = torn || (mark->patch && !may_rewrite_ms(mark, m->gone));
            late = late || mark->lost;
        }
        if (torn || (late && !note_replacement(box, i, end, env))) {
            return OUTBOX_TORN;
        }
        if (late) {
            give_back(box, i, end, now_us, env);
        }
    }
    *checked = i;
    return OUTBOX_VALID;
}

/* ---- the bytes made anew ---- */

struct copying {
    struct outbox *box;
    const struct outbox_env *env;
    struct buf out;
    int64_t done; /* of the old bytes */
    int64_t now_us;
};

static void
copy_up_to(struct copying *cp, int64_t end)
{
    if (end > cp->done) {
        buf_add(&cp->out, cp->box->bytes.p + cp->done, (size_t)(end - cp->done));
        cp->done = end;
    }
}

/* Copies "ms left" of a mark whose bytes begin at `at`, and in the new ones at `to`. */
static void
copy_ms(struct copying *cp, struct outbox_mark *k, int64_t at, int64_t to)
{
    int64_t left_ms = (k->grant.deadline_us - cp->now_us) / US_PER_MS;
    int64_t from;

    copy_up_to(cp, at + k->ms_at);
    from = (int64_t)cp->out.n;
    if (k->patch) {
        k->left_ms = left_ms > 0 ? left_ms : 0;
        buf_add_i64(&cp->out, k->left_ms);
        cp->done += k->ms_n;
    } else {
        copy_up_to(cp, cp->done + k->ms_n);
    }
    k->ms_at = (uint32_t)(from - to);
    k->ms_n = (uint32_t)((int64_t)cp->out.n - from);
    k->patch = false;
}

/* Copies the bytes of a group of marks: leaves them out, writes them anew, or copies them with the time left now. */
static void
copy_group(struct copying *cp, uint32_t i, uint32_t end)
{
    struct outbox_marks *m = cp->box->marks;
    struct outbox_mark *first = &m->mark[i];
    int64_t at = (int64_t)(first->at - m->gone), n = first->n, to; /* at < 0: it has begun to leave */
    uint32_t k;

    copy_up_to(cp, at);
    to = at < 0 ? at : (int64_t)cp->out.n;
    if (first->to_replace && first->late != OUTBOX_WORD) {
        *cp->env->late += 1;
        cp->done = at + n;
        if (first->late != OUTBOX_DROP) {
            cp->env->rewrite(cp->env->ctx, first, &cp->out);
        }
        return;
    }
    for (k = i; k < end; k++) {
        if (may_rewrite_ms(&m->mark[k], m->gone)) {
            copy_ms(cp, &m->mark[k], at, to);
        }
    }
    copy_up_to(cp, at + n);
    for (k = i; k < end; k++) {
        m->mark[k].at = m->gone + (uint64_t)to;
        m->mark[k].n = (uint32_t)((int64_t)cp->out.n - to);
    }
}

static bool
needs_copy(const struct outbox_marks *m, uint32_t checked)
{
    for (uint32_t i = 0; i < checked; i++) {
        if ((m->mark[i].to_replace && m->mark[i].late != OUTBOX_WORD) || m->mark[i].patch) {
            return true;
        }
    }
    return false;
}

static void
copy(struct outbox *box, int64_t now_us, const struct outbox_env *env)
{
    struct copying cp = {.box = box, .env = env, .now_us = now_us};
    uint32_t i, end;

    buf_init(&cp.out, 0);
    for (i = 0; i < box->marks->n; i = end) {
        end = group_end(box->marks, i);
        copy_group(&cp, i, end);
    }
    copy_up_to(&cp, (int64_t)box->bytes.n);
    buf_fini(&box->bytes);
    box->bytes = cp.out;
}

/*
 * Removes the marks of bytes that were replaced. Returns the number of losses that the new bytes report to their
 * owners, which `reported` lists. If some marks were not checked, all_valid_until_us and losses of the outbox stay.
 */
static uint32_t
remove_replaced(struct outbox *box, uint32_t checked, struct core_grant *reported, const struct outbox_env *env)
{
    struct outbox_marks *m = box->marks;
    uint32_t i, kept = 0, n = 0;
    bool all = checked == m->n;

    box->all_valid_until_us = all ? CORE_FOREVER : box->all_valid_until_us;
    box->valid_until_us = CORE_FOREVER;
    for (i = 0; i < checked; i++) {
        const struct outbox_mark *k = &m->mark[i];

        if (!k->to_replace) {
            lower_valid_until(box, mark_valid_until_us(k));
            box->valid_until_us =
                k->grant.deadline_us < box->valid_until_us ? k->grant.deadline_us : box->valid_until_us;
            m->mark[kept++] = *k;
        } else if (k->late == OUTBOX_LOST && k->lost) {
            reported[n++] = k->grant;
        }
    }
    box->valid_n = all ? box->bytes.n : (size_t)(m->mark[checked].at - m->gone);
    if (kept < checked) {
        memmove(m->mark + kept, m->mark + checked, (m->n - checked) * sizeof(m->mark[0]));
    }
    m->n -= checked - kept;
    m->losses = all ? *env->losses : m->losses;
    if (m->n == 0) {
        drop_marks(box);
    }
    return n;
}

enum outbox_fate
outbox_validate(struct outbox *box, int64_t now_us, const struct outbox_env *env)
{
    struct core_grant *reported;
    uint32_t i, n, checked;
    uint64_t losses;

    if (core_next_us(env->core) <= now_us) {
        env->step(env->ctx, &(struct core_event){.type = CORE_TIME});
    }
    do { /* again where give_back() has ended a hold on which marks in front may rely */
        losses = *env->losses;
        if (note_late(box, now_us, env, &checked) == OUTBOX_TORN) {
            return OUTBOX_TORN;
        }
    } while (*env->losses != losses);
    if (needs_copy(box->marks, checked)) {
        copy(box, now_us, env);
    }
    reported = mem_alloc(checked * sizeof(*reported));
    n = remove_replaced(box, checked, reported, env);
    for (i = 0; i < n; i++) {
        env->step(env->ctx, &(struct core_event){.type = CORE_LOSS_REPORTED, .grant = reported[i]});
    }
    free(reported);
    return OUTBOX_VALID;
}
