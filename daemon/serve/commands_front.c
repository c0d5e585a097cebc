/*
 * commands_front.c -- SET, GET, DEL, EVAL, EVALSHA, SCRIPT: rlockd in Redis's place, for unchanged lock libraries.
 *
 * Owns the way from front.c's result to requests of the core; reply_form.c has the forms of replies. The value of a SET
 * is the owner of the name, so inspection, events and tokens are those of any named owner. Nothing is stored here: the
 * core holds what SET took, and DEL and GET read it there.
 */
#include "daemon/backend/sha1.h"
#include "daemon/base/clock.h"
#include "daemon/serve/cmd.h"
#include "daemon/serve/commands.h"
#include "daemon/serve/commands_check.h"
#include "daemon/serve/front.h"
#include "daemon/serve/lockinfo.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/step.h"

static size_t
name_bytes_max(const struct cmd *c)
{
    return (size_t)c->session->engine->conf->limit_name_bytes;
}

/* ---- asking the core ---- */

static enum core_event_type
multilock_event(enum core_event_type event)
{
    switch (event) {
    case CORE_LOCK:
        return CORE_MLOCK;
    case CORE_UNLOCK:
        return CORE_MUNLOCK;
    default:
        return CORE_MRENEW;
    }
}

/* event: that for a single name. */
static enum cmd_result
ask_core(struct cmd *c, enum core_event_type event, enum reply_form form, const struct core_request *rq, size_t n)
{
    struct core_event ev = {.type = event};

    if (n == 1) {
        ev.request = *rq;
    } else {
        ev.type = multilock_event(event);
        ev.multilock.request = rq;
        ev.multilock.n = n;
    }
    *c->form = form;
    engine_step(c->session->engine, &ev);
    return CMD_LATER;
}

static enum cmd_result
run_call(struct cmd *c, const struct front_call *fc)
{
    struct core_request many[CORE_MULTILOCK_MAX];
    unsigned i;

    for (i = 0; i < fc->names; i++) {
        many[i] = command_request(c, fc->name[i]);
        many[i].owner = fc->owner;
        many[i].lease_us = fc->lease_us;
        many[i].fresh = fc->event == CORE_LOCK;
    }
    if (fc->event == CORE_LOCK) {
        engine_specs(c->session->engine, many, fc->names);
    }
    for (i = 0; i < fc->names && fc->event == CORE_LOCK; i++) {
        if (!command_check_key(c, &many[i])) {
            return CMD_DONE;
        }
    }
    return ask_core(c, fc->event, fc->form, many, fc->names);
}

/* Refuses the request, and logs that. The words may hold anything; `error` has 32 bytes of them at most. */
static enum cmd_result
refuse(struct cmd *c, const char *error)
{
    command_note_refusal(c->session, c->words->word[0], error);
    writer_error(c->out, ERR_SYNTAX, "%s", error);
    return CMD_DONE;
}

/* ---- SET ---- */

/* As read_long_names() of commands_lock.c: accepts names longer than limits.name_bytes that are in use. */
static bool
read_long_set(const struct cmd *c, struct front_call *fc)
{
    char error[FRONT_ERROR_BYTES];

    return front_read_set(c->words, CONF_NAME_BYTES_MAX, fc, error) && command_names_allowed(c, fc->name, fc->names);
}

enum cmd_result
cmd_set(struct cmd *c)
{
    char error[FRONT_ERROR_BYTES];
    struct front_call fc;

    if (!front_read_set(c->words, name_bytes_max(c), &fc, error) && !read_long_set(c, &fc)) {
        return refuse(c, error);
    }
    return run_call(c, &fc);
}

/* ---- GET, DEL ---- */

/* Does a named owner hold the name here? A session's own owner is no value that a SET could have set. */
static bool
held_here(const struct engine *e, struct slice name, struct core_lock_view *v)
{
    return core_lock_info(e->core, clock_now_us(), name, v) && strcmp(v->state, "held") == 0 && v->owner.name.n > 0;
}

/* Would SET find the name taken, and not of another kind? */
static bool
counts_as_taken(struct engine *e, struct slice name, const struct inspected_key *found)
{
    struct core_lock_view v;
    struct core_spec spec;

    engine_spec(e, name, &spec);
    if (core_lock_info(e->core, clock_now_us(), name, &v)) {
        spec.kind = v.kind;
    }
    return spec.foreign_wait ||
           ((kind_rows[spec.kind].flags & KIND_F_STRING) != 0 && strcmp(found->type, "string") == 0);
}

/* Writes the value of the holder here. */
static void
write_holder(const struct engine *e, const struct core_lock_view *v, struct outbox *box, struct writer *w)
{
    struct core_grant g = {.claim = v->claim, .token = v->token, .deadline_us = v->deadline_us};
    struct outbox_group group = outbox_begin(box);

    writer_bulk(w, v->owner.name);
    outbox_rely(box, &g, e->metrics.lost);
    outbox_end(box, group, OUTBOX_STALE, FORM_NATIVE, w->proto);
}

/* The reply to GET. Of a value that others have set only a digest: it may prove its owner, or be no lock at all. */
static void
write_value(struct engine *e, struct slice name, const struct inspected_key *found, struct outbox *box,
            struct writer *w)
{
    struct core_lock_view v;

    if (held_here(e, name, &v)) {
        write_holder(e, &v, box, w);
    } else if (!found->ok) {
        writer_error_plain(w, ERR_UNAVAILABLE);
    } else if (!found->exists) {
        writer_null(w);
    } else if (found->owner[0] != '\0') {
        writer_text(w, found->owner);
    } else if (counts_as_taken(e, name, found)) {
        writer_text(w, found->digest);
    } else {
        writer_error_plain(w, ERR_WRONG_KIND);
    }
}

enum cmd_result
cmd_get(struct cmd *c)
{
    struct slice name = c->words->word[1];
    struct core_lock_view v;

    if (!command_check_name(c)) {
        return CMD_DONE;
    }
    if (!held_here(c->session->engine, name, &v)) {
        return lockinfo_ask(c, name, write_value);
    }
    write_holder(c->session->engine, &v, c->box, c->out);
    return CMD_DONE;
}

static bool
given_before(const struct words *w, unsigned at)
{
    unsigned i;

    for (i = 1; i < at; i++) {
        if (slice_eq(w->word[i], w->word[at])) {
            return true;
        }
    }
    return false;
}

/* Releases only holds that a SET took, and each by its token, so that no later holder loses its lock. */
enum cmd_result
cmd_del(struct cmd *c)
{
    struct core_request many[READER_WORDS_MAX];
    struct core_lock_view v;
    unsigned i, n = 0;

    for (i = 1; i < c->words->n; i++) {
        struct slice name = c->words->word[i];

        if (!given_before(c->words, i) && held_here(c->session->engine, name, &v) && v.fresh) {
            many[n] = command_request(c, name);
            many[n++].token = v.token;
        }
    }
    if (n == 0) {
        writer_int(c->out, 0);
        return CMD_DONE;
    }
    return ask_core(c, CORE_UNLOCK, FORM_COUNT, many, n);
}

_Static_assert(READER_WORDS_MAX <= CORE_MULTILOCK_MAX, "the core takes as many names as a request can say");

/* ---- EVAL, EVALSHA ---- */

/*
 * Adds the time left to fc->lease_us. False: the owner does not hold the name, so there is no time left; the session
 * uses the owner all the same, as it would by a RENEW.
 */
static bool
add_time_left(const struct cmd *c, struct front_call *fc)
{
    struct engine *e = c->session->engine;
    struct core_event use = {.type = CORE_USE, .request = command_request(c, fc->name[0])};
    int64_t now_us = clock_now_us();
    struct core_holder_view h;

    if (!core_holder_named(e->core, now_us, fc->name[0], fc->owner, &h)) {
        use.request.owner = fc->owner;
        engine_step(e, &use);
        return false;
    }
    fc->lease_us += h.deadline_us - now_us;
    fc->lease_us = fc->lease_us < FRONT_LEASE_US_MAX ? fc->lease_us : FRONT_LEASE_US_MAX;
    return true;
}

static bool
read_long_script(const struct cmd *c, const struct front_script *sc, struct front_call *fc)
{
    char error[FRONT_ERROR_BYTES];

    return front_read_script(sc, c->words, CONF_NAME_BYTES_MAX, fc, error) &&
           command_names_allowed(c, fc->name, fc->names);
}

static enum cmd_result
run_script(struct cmd *c, const struct front_script *sc)
{
    char error[FRONT_ERROR_BYTES];
    struct front_call fc;

    if (!front_read_script(sc, c->words, name_bytes_max(c), &fc, error) && !read_long_script(c, sc, &fc)) {
        return refuse(c, error);
    }
    if (fc.adds && !add_time_left(c, &fc)) {
        writer_int(c->out, 0);
        return CMD_DONE;
    }
    return run_call(c, &fc);
}

static enum cmd_result
refuse_script(struct cmd *c)
{
    return refuse(c, "no script is run here; known are " FRONT_SUPPORTED);
}

enum cmd_result
cmd_eval(struct cmd *c)
{
    const struct front_script *sc = front_by_text(c->words->word[1]);

    if (sc == NULL) {
        return refuse_script(c);
    }
    return run_script(c, sc);
}

enum cmd_result
cmd_evalsha(struct cmd *c)
{
    const struct front_script *sc = front_by_sha(c->words->word[1]);

    if (sc == NULL) {
        writer_error_plain(c->out, ERR_NO_SCRIPT);
        return CMD_DONE;
    }
    return run_script(c, sc);
}

/* ---- SCRIPT ---- */

static void
script_load(struct cmd *c)
{
    char sha[SHA1_HEX_BYTES + 1];

    sha1_hex(c->words->word[2], sha);
    if (front_by_sha(slice_of(sha)) == NULL) {
        (void)refuse_script(c);
    } else {
        writer_text(c->out, sha);
    }
}

static void
script_exists(struct cmd *c)
{
    unsigned i;

    writer_array(c->out, c->words->n - 2);
    for (i = 2; i < c->words->n; i++) {
        writer_int(c->out, front_by_sha(c->words->word[i]) != NULL);
    }
}

static const struct subcommand subcommands[] = {
    {"LOAD", 3, 3, script_load, NULL},
    {"EXISTS", 3, 0, script_exists, NULL},
    {"HELP", 2, 2, command_subcommand_help, NULL},
};

enum cmd_result
cmd_script(struct cmd *c)
{
    return command_run_subcommand(c, subcommands, sizeof(subcommands) / sizeof(subcommands[0]));
}
