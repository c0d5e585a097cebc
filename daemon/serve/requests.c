/*
 * requests.c -- one session's requests: run when they may, in order.
 *
 * Owns the words of a request that waits for its turn, in its slot. Above the commands and slots.c: nothing that a
 * command calls comes back here.
 *
 * RQ1 A WHEN_TURN command runs only as the oldest slot, and writes straight to the output of the session.
 * RQ2 Once the session is closed, nothing here runs any more.
 */
#include "daemon/serve/requests.h"

#include <assert.h>
#include <string.h>

#include "daemon/serve/auth_limit.h"
#include "daemon/serve/cmd.h"
#include "daemon/serve/commands.h"
#include "daemon/serve/front.h"
#include "daemon/serve/roles.h"
#include "daemon/serve/session_out.h"
#include "daemon/serve/session_record.h"

/* The head of a deferred request; each word follows as its length and its bytes. */
struct packed {
    size_t bytes;
    bool inline_form;
};

/* Runs an admitted command, which is request `slot`. The slot may be gone afterwards (answered at once). */
static void
run(struct session *s, uint64_t slot, const struct words *w, int id)
{
    struct slot *sl = slot_at(s, slot);
    struct outbox *box = slots_box(s, sl);
    struct writer writer = {.out = &box->bytes, .proto = s->proto};
    struct cmd c = {.session = s, .words = w, .slot = slot, .id = (enum command_id)id, .out = &writer, .box = box,
                    .form = &sl->form};
    enum cmd_result res;

    sl->state = SLOT_WAITING;
    s->last_command = command_rows[id].name;
    res = command_run(&c);
    if (s->closed) {
        return;
    }
    roles_apply(s);
    if (res == CMD_DONE) {
        slots_done(s, sl);
    }
}

/* Copies the words into the slot; they run in its turn. */
static void
defer(struct session *s, struct slot *sl, const struct words *w)
{
    struct packed head = {.bytes = w->bytes, .inline_form = w->inline_form};
    unsigned i;

    sl->state = SLOT_DEFERRED;
    sl->words_n = w->n;
    buf_add(&sl->box.bytes, &head, sizeof(head));
    for (i = 0; i < w->n; i++) {
        buf_add(&sl->box.bytes, &w->word[i].n, sizeof(w->word[i].n));
        buf_add_slice(&sl->box.bytes, w->word[i]);
    }
    slots_count(s, sl);
}

/* The words of a deferred slot, as slices into `bytes`. */
static void
unpack(const struct buf *bytes, unsigned words_n, struct words *out)
{
    struct packed head;
    const char *p = bytes->p;
    unsigned i;

    assert(words_n >= 1 && words_n <= READER_WORDS_MAX);
    memcpy(&head, p, sizeof(head));
    p += sizeof(head);
    out->n = words_n;
    out->bytes = head.bytes;
    out->inline_form = head.inline_form;
    for (i = 0; i < words_n; i++) {
        memcpy(&out->word[i].n, p, sizeof(out->word[i].n));
        p += sizeof(out->word[i].n);
        out->word[i].p = p;
        p += out->word[i].n;
    }
    assert(p == bytes->p + bytes->n);
}

/* Closes the session: the verb shows a browser, or a proxy, that was tricked into talking to the daemon. */
static void
refuse_cross_protocol(struct session *s, const struct words *w)
{
    log_event(s->engine->log, LOG_WARN, "session", "cross-protocol", "session", LOG_N(s->id), "peer",
              LOG_S(s->peer), "verb", LOG_B(w->word[0]), "reason",
              LOG_S("HTTP, perhaps of a browser that was tricked: the session is closed"), "remedy",
              LOG_S("health checks and metrics are served at http.listen"), NULL);
    session_close(s, CLOSE_CROSS_PROTOCOL);
}

/* Asks whether the command may run; its id, or CMD_NONE when it is answered (or the session closed). */
static int
admit(struct session *s, struct slot *sl, const struct words *w)
{
    struct writer writer = {.out = &slots_box(s, sl)->bytes, .proto = s->proto};
    bool close = false;
    int id = command_admit(s, w, &writer, &close);

    if (close) {
        refuse_cross_protocol(s, w);
        return CMD_NONE;
    }
    if (id == CMD_NONE) {
        slots_done(s, sl);
    }
    return id;
}

static bool
waits_its_turn(enum command_id id, const struct words *w)
{
    return command_rows[id].when == WHEN_TURN || front_in_turn(id, w);
}

/* Refuses an AUTH without comparing the password, and ends the connection. */
static void
refuse_guess(struct session *s, struct slot *sl)
{
    struct writer writer = {.out = &slots_box(s, sl)->bytes, .proto = s->proto};

    writer_error(&writer, ERR_LIMIT, "too many wrong passwords from this client");
    session_quit(s);
    slots_done(s, sl);
}

void
requests_take(struct session *s, const struct words *w)
{
    struct slot *sl;
    int id;

    assert(!s->closed);
    s->requests_n++;
    s->engine->metrics.requests++;
    s->active_us = s->engine->clock_read_us;
    sl = slots_open(s);
    id = admit(s, sl, w);
    if (id == CMD_NONE) {
        return;
    }
    sl->cmd = (enum command_id)id;
    if (sl != slots_first(s) && waits_its_turn((enum command_id)id, w)) {
        defer(s, sl, w);
        return;
    }
    switch (sl == slots_first(s) ? auth_limit_ask(s, sl->cmd, w) : AUTH_LIMIT_GO) {
    case AUTH_LIMIT_WAIT:
        defer(s, sl, w);
        break;
    case AUTH_LIMIT_REFUSE:
        refuse_guess(s, sl);
        break;
    case AUTH_LIMIT_GO:
        run(s, s->next_slot - 1, w, id);
        break;
    }
}

bool
requests_may_run(const struct session *s)
{
    return !s->closed && !s->quitting && !auth_limit_waits(s) && !session_out_over_limit(s);
}

void
requests_run_deferred(struct session *s)
{
    while (requests_can_run_deferred(s)) {
        struct slot *sl = slots_first(s);
        struct buf packed = sl->box.bytes;
        struct words w;
        enum auth_limit limit;
        int id;

        unpack(&packed, sl->words_n, &w);
        limit = auth_limit_ask(s, sl->cmd, &w);
        if (limit == AUTH_LIMIT_WAIT) {
            return;
        }
        /* The words leave the slot first: the handler may answer at once, which frees the slot and its bytes. */
        buf_init(&sl->box.bytes, 0);
        slots_count(s, sl);
        id = limit == AUTH_LIMIT_GO ? admit(s, sl, &w) : CMD_NONE;
        if (limit == AUTH_LIMIT_REFUSE) {
            refuse_guess(s, sl);
        } else if (id != CMD_NONE) {
            run(s, slots_first_id(s), &w, id);
        }
        buf_fini(&packed);
    }
}
