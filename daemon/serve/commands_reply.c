/*
 * commands_reply.c -- a reply of the core as bytes.
 *
 * Owns the words of each answer, whether it comes at once or later. Calls no command. Nothing is allocated for
 * a grant: this is the hot path.
 */
#include "daemon/serve/commands_reply.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/clock.h"
#include "daemon/serve/fields.h"
#include "daemon/serve/session_record.h"

/* The error row and the text of each refusal of the core; `text` NULL = the usual text of that row. */
static const struct {
    bool error;
    enum error_code code;
    const char *text;
} core_errors[CORE_ANSWERS] = {
    [CORE_NOT_HELD] = {true, ERR_NOT_HELD, NULL},
    [CORE_STALE] = {true, ERR_STALE, NULL},
    [CORE_WAS_LOST] = {true, ERR_LOST, NULL},
    [CORE_WRONG_KIND] = {true, ERR_WRONG_KIND, NULL},
    [CORE_KEY_IN_USE] = {true, ERR_WRONG_KIND, NULL},
    [CORE_DEADLOCK] = {true, ERR_DEADLOCK, NULL},
    [CORE_TOO_MANY_WAITERS] = {true, ERR_LIMIT, "too many waiters"},
    [CORE_TOO_MANY_LOCKS] = {true, ERR_LIMIT, "this owner holds or waits for too many locks"},
    [CORE_LOCKS_FULL] = {true, ERR_LIMIT, "too many locks, of all clients or of this user"},
    [CORE_TOO_MANY_OWNERS] = {true, ERR_LIMIT, "connections use too many owners, in all or those of this user"},
    [CORE_TOO_MANY_REQUESTS] = {true, ERR_LIMIT, "too many requests of this connection wait behind this one"},
    [CORE_DRAINING] = {true, ERR_DRAINING, NULL},
    [CORE_UNAVAILABLE] = {true, ERR_UNAVAILABLE, NULL},
    [CORE_REDIS_FULL] = {true, ERR_UNAVAILABLE, "Redis is out of memory"},
    [CORE_NO_REPLICAS] = {true, ERR_NO_REPLICAS, NULL},
    [CORE_FORBIDDEN] = {true, ERR_NO_PERM, "the ACL of Redis forbids rlockd the key of this name"},
};

void
command_print_owner(const struct engine *e, uint64_t redis_owner, char out[OWNER_BYTES])
{
    snprintf(out, OWNER_BYTES, "%s:%" PRIu64, e->uuid, redis_owner);
}

/* `ms` gets the range of "lease_ms". */
static void
write_full(const struct engine *e, struct writer *out, const struct core_reply *r, struct fields_range *ms)
{
    struct fields f = {.n = 0};
    char owner[OWNER_BYTES];

    command_print_owner(e, r->owner, owner);
    fields_text(&f, "name", r->name);
    fields_number(&f, "token", (int64_t)r->token);
    fields_text(&f, "owner", slice_of(owner));
    fields_text(&f, "kind", slice_of(kind_rows[r->kind].name));
    fields_number(&f, "holds", r->holds);
    fields_ms(&f, "lease_ms", r->lease_us);
    fields_note_range(&f, ms);
    fields_ms(&f, "waited_ms", r->waited_us);
    if (r->replicas_wanted > 0) {
        fields_number(&f, "replicas", r->replicas);
    }
    fields_write_map(&f, out);
}

/* ---- the cycle of a deadlock ---- */

#define HOPS_SHOWN 8

static void
add_hop_owner(struct buf *out, const struct core_hop *hop)
{
    if (hop->owner_name.n > 0) {
        buf_adds(out, "owner ");
        fields_quote_name(hop->owner_name, out);
    } else {
        buf_printf(out, "session %" PRIu64, hop->owner);
    }
    if (hop->daemon.n > 0) {
        buf_adds(out, " of daemon ");
        fields_print_name(hop->daemon, out);
    }
}

/* A waits for "x", held by B, which waits for "y", held by A. */
static void
add_cycle(struct buf *out, const struct core_hop *hop, size_t n)
{
    size_t i;

    add_hop_owner(out, &hop[0]);
    buf_adds(out, " waits for ");
    fields_quote_name(hop[0].name, out);
    for (i = 1; i < n && i < HOPS_SHOWN; i++) {
        buf_adds(out, ", held by ");
        add_hop_owner(out, &hop[i]);
        buf_adds(out, ", which waits for ");
        fields_quote_name(hop[i].name, out);
    }
    if (i < n) {
        buf_printf(out, ", and so on over %zu more owners", n - i);
    }
    buf_adds(out, ", held by ");
    add_hop_owner(out, &hop[0]);
}

static void
add_self(struct buf *out, const struct core_reply *r)
{
    if (r->hops == 1) {
        add_hop_owner(out, &r->hop[0]);
    } else {
        buf_printf(out, "%s %" PRIu64, r->owner == r->session ? "session" : "owner", r->owner);
    }
    buf_adds(out, " already holds ");
    fields_quote_name(r->name, out);
    buf_adds(out, " and would wait for itself");
}

/* Writes a deadlock in one line, whatever the names are: each is escaped and cut, and so is the cycle. */
static void
write_deadlock(struct writer *out, const struct core_reply *r)
{
    struct buf text;

    buf_init(&text, 0);
    if (r->hops > 1) {
        add_cycle(&text, r->hop, r->hops);
    } else {
        add_self(&text, r);
    }
    writer_error(out, ERR_DEADLOCK, "%.*s", (int)text.n, text.p == NULL ? "" : text.p);
    buf_fini(&text);
}

/* Writes both names: one of them, or the rules, must change. */
static void
write_key_in_use(struct writer *out, const struct core_reply *r)
{
    struct buf text;

    buf_init(&text, 0);
    fields_quote_name(r->name, &text);
    buf_adds(&text, " has a key in Redis that is in use by another name, ");
    fields_quote_name(r->other, &text);
    writer_error(out, ERR_WRONG_KIND, "%.*s", (int)text.n, text.p == NULL ? "" : text.p);
    buf_fini(&text);
}

/* ---- the core's reply as bytes ---- */

/* Why Redis, or the link for Redis's WAIT, is down, late, or grants nothing, in the words of INFO redis. */
static void
add_reason(const struct engine *e, const struct core_reply *r, struct buf *text)
{
    struct backend_status st;
    char why[160];
    struct buf key;
    bool away;

    if (e->backend == NULL) {
        return;
    }
    buf_init(&key, 0);
    conf_key_of(conf_locks_for(e->conf, r->name), r->name, &key);
    backend_refusal(e->backend, buf_slice(&key), why);
    buf_fini(&key);
    if (why[0] != '\0') {
        buf_printf(text, ": %s", why);
        return;
    }
    backend_status(e->backend, &st);
    away = !e->redis_up || st.locks_away || (r->replicas_wanted > 0 && strstr(st.links_away, "replicas") != NULL);
    if (st.refusal[0] != '\0') {
        buf_printf(text, ": %s", st.refusal);
    } else if (away && st.last_error[0] != '\0') {
        buf_printf(text, ": %s: %s", st.address, st.last_error);
    } else if (!away) {
        buf_printf(text, " in time: calls in flight: %" PRIu64 ", operations behind them: %" PRIu64
                   ", the last round trip: %" PRId64 " ms", st.in_flight, st.queued, st.rtt_us / US_PER_MS);
    }
}

/* `named`: the request had several names, and the refusal names the one that it is about. */
static void
write_refusal(const struct engine *e, struct writer *out, const struct core_reply *r, bool named)
{
    enum error_code code = core_errors[r->answer].code;
    const char *text = core_errors[r->answer].text;
    struct buf tail;

    if (r->answer == CORE_DEADLOCK) {
        write_deadlock(out, r);
        return;
    }
    if (r->answer == CORE_KEY_IN_USE) {
        write_key_in_use(out, r);
        return;
    }
    buf_init(&tail, 0);
    if (r->answer == CORE_UNAVAILABLE) {
        add_reason(e, r, &tail);
    } else if (r->answer == CORE_NO_REPLICAS) {
        buf_printf(&tail, ": %u of %u", r->replicas, r->replicas_wanted);
    }
    if (named || r->answer == CORE_FORBIDDEN) {
        buf_adds(&tail, ": ");
        fields_quote_name(r->name, &tail);
    }
    writer_error(out, code, "%s%.*s", text != NULL ? text : error_rows[code].text, (int)tail.n,
                 tail.p == NULL ? "" : tail.p);
    buf_fini(&tail);
}

/* Where a reply is written, with the grants that it relies on. */
struct target {
    const struct engine *engine;
    struct outbox *box;
    struct outbox_group group;
    struct writer *out;
};

/* Writes that the lock was granted, or how many holds are left; of a RENEW, how many ms. */
static void
write_held(const struct target *to, const struct core_reply *r, bool full)
{
    struct fields_range ms = {0, 0};
    int64_t left_ms = r->left;
    size_t before = to->out->out->n;

    if (full && r->answer == CORE_GRANTED) {
        write_full(to->engine, to->out, r, &ms);
        left_ms = r->lease_us / US_PER_MS;
    } else {
        writer_int(to->out, r->answer == CORE_GRANTED ? (int64_t)r->token : r->left);
    }
    if (r->answer == CORE_LEFT && r->left_is_ms) {
        ms = fields_integer_range(before, to->out->out->n);
    }
    outbox_rely(to->box, &r->grant, to->engine->metrics.lost);
    if (r->grant.claim != 0 && ms.to > ms.from) {
        outbox_mark_ms(to->box, to->group, ms.from, ms.to, left_ms);
    }
}

/* Writes the answer for a single name. */
static void
write_name(const struct target *to, const struct core_reply *r, bool full, bool named)
{
    switch (r->answer) {
    case CORE_GRANTED:
    case CORE_LEFT:
        write_held(to, r, full);
        break;
    case CORE_NOT_GRANTED:
    case CORE_CANCELLED:
        writer_null(to->out);
        break;
    default:
        write_refusal(to->engine, to->out, r, named);
    }
}

/* Writes an answer for each name, or the refusal of the first that was refused. */
static void
write_parts(const struct target *to, const struct core_reply *r)
{
    size_t i;

    for (i = 0; i < r->parts; i++) {
        if (core_errors[r->part[i].answer].error) {
            write_refusal(to->engine, to->out, &r->part[i], true);
            return;
        }
    }
    writer_array(to->out, r->parts);
    for (i = 0; i < r->parts; i++) {
        write_name(to, &r->part[i], r->full, true);
    }
}

void
command_write_reply(struct engine *e, struct outbox *box, struct writer *out, const struct core_reply *r)
{
    struct target to = {.engine = e, .box = box, .group = outbox_begin(box), .out = out};

    if (r->parts > 0 && (r->answer == CORE_GRANTED || r->answer == CORE_LEFT)) {
        write_parts(&to, r);
    } else {
        write_name(&to, r, r->full, r->parts > 0);
    }
}
