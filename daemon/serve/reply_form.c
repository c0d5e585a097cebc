/*
 * reply_form.c -- replies of the core in the forms of Redis. Owns the table of forms and nothing else.
 *
 * Invariant: what the core did not grant, release or renew is never counted.
 */
#include "daemon/serve/reply_form.h"

#include "daemon/serve/commands_reply.h"
#include "daemon/serve/outbox.h"
#include "daemon/serve/session_record.h"

_Static_assert(REPLY_FORMS <= 1 << OUTBOX_FORM_BITS, "a mark has room for each form");

/* The answers of a reply, as they are counted for a client that knows only yes, no and errors. */
enum verdict { VERDICT_ERROR, VERDICT_YES, VERDICT_NO };

static const enum verdict verdicts[CORE_ANSWERS] = {
    [CORE_GRANTED] = VERDICT_YES, [CORE_LEFT] = VERDICT_YES, [CORE_NOT_GRANTED] = VERDICT_NO,
    [CORE_CANCELLED] = VERDICT_NO,
    [CORE_NOT_HELD] = VERDICT_NO, [CORE_STALE] = VERDICT_NO, [CORE_WAS_LOST] = VERDICT_NO,
};

struct tally {
    size_t yes, no;
    size_t freed;                   /* of the yes answers, those after which no hold is left */
    const struct core_reply *error; /* the first */
};

static void
count(struct tally *t, const struct core_reply *r)
{
    switch (verdicts[r->answer]) {
    case VERDICT_YES:
        t->yes++;
        t->freed += r->left == 0;
        break;
    case VERDICT_NO:
        t->no++;
        break;
    case VERDICT_ERROR:
        t->error = t->error != NULL ? t->error : r;
        break;
    }
}

/* A reply about several names has parts, unless the request was refused as a whole. */
static struct tally
tally_of(const struct core_reply *r)
{
    struct tally t = {0, 0, 0, NULL};
    size_t i;

    if (r->parts == 0 || verdicts[r->answer] != VERDICT_YES) {
        count(&t, r);
        return t;
    }
    for (i = 0; i < r->parts; i++) {
        count(&t, &r->part[i]);
    }
    return t;
}

typedef void form_fn(struct writer *out, const struct tally *t);

static void
write_set(struct writer *out, const struct tally *t)
{
    if (t->no > 0) {
        writer_null(out);
    } else {
        writer_simple(out, "OK");
    }
}

static void
write_status(struct writer *out, const struct tally *t)
{
    if (t->no > 0) {
        writer_int(out, 0);
    } else {
        writer_simple(out, "OK");
    }
}

static void
write_count(struct writer *out, const struct tally *t)
{
    writer_int(out, (int64_t)t->freed);
}

static void
write_all(struct writer *out, const struct tally *t)
{
    writer_int(out, t->no > 0 ? 0 : (int64_t)t->yes);
}

static form_fn *const forms[REPLY_FORMS] = {
    [FORM_SET] = write_set, [FORM_STATUS] = write_status, [FORM_COUNT] = write_count, [FORM_ALL] = write_all,
};

/* A yes means that a name is held, or that it is free; only "held" relies on a grant. */
static void
rely(struct outbox *box, const struct core_reply *r, uint64_t losses)
{
    size_t i;

    if (r->parts == 0) {
        outbox_rely(box, &r->grant, losses);
    }
    for (i = 0; i < r->parts; i++) {
        if (verdicts[r->part[i].answer] == VERDICT_YES) {
            outbox_rely(box, &r->part[i].grant, losses);
        }
    }
}

void
reply_form_write(struct engine *e, struct outbox *box, int proto, enum reply_form form, const struct core_reply *r)
{
    struct writer out = {.out = &box->bytes, .proto = proto};
    struct outbox_group group = outbox_begin(box);
    struct tally t;

    if (form == FORM_NATIVE) {
        command_write_reply(e, box, &out, r);
    } else {
        t = tally_of(r);
        if (t.error != NULL) {
            command_write_reply(e, box, &out, t.error);
        } else {
            forms[form](&out, &t);
        }
        if (t.error == NULL && t.no == 0 && form != FORM_COUNT) {
            rely(box, r, e->metrics.lost);
        }
    }
    outbox_end(box, group, OUTBOX_LOST, form, proto);
}

/* The reply as if the lock had been lost before: clients that know no LOST get the `no` of their command. */
void
reply_form_rewrite(struct engine *e, const struct outbox_mark *m, struct buf *out)
{
    struct core_reply lost = {.answer = CORE_WAS_LOST};
    struct writer w = {.out = out, .proto = m->proto};
    struct outbox box;

    if (m->late != OUTBOX_LOST) {
        writer_error(&w, ERR_UNAVAILABLE, "a lease in this reply has ended; send the command again");
        return;
    }
    outbox_init(&box);
    reply_form_write(e, &box, m->proto, m->form, &lost);
    buf_add_slice(out, buf_slice(&box.bytes));
    outbox_fini(&box);
}
