/*
 * commands_client.c -- CLIENT: what connections report of themselves, the list of them, and KILL as Redis spells it.
 *
 * Owns the subcommands' table. Refuses words that would break the lines of CLIENT LIST. SESSIONS and KILL are rlockd's
 * own forms of CLIENT LIST and CLIENT KILL.
 */
#include "daemon/serve/commands_client.h"

#include <inttypes.h>
#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "daemon/base/units.h"
#include "daemon/serve/cmd.h"
#include "daemon/serve/commands.h"
#include "daemon/serve/commands_check.h"
#include "daemon/serve/fields.h"
#include "daemon/serve/listing.h"
#include "daemon/serve/pubsub.h"
#include "daemon/serve/roles.h"
#include "daemon/serve/session_out.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"

/* ---- what a client reports of itself ---- */

bool
client_check_word(const char *what, struct slice word, struct writer *out)
{
    size_t i;

    for (i = 0; i < word.n; i++) {
        if (word.p[i] < '!' || word.p[i] > '~') {
            writer_error(out, ERR_SYNTAX, "%s cannot contain spaces, newlines or special characters.", what);
            return false;
        }
    }
    if (word.n > CLIENT_WORD_BYTES_MAX) {
        writer_error(out, ERR_SYNTAX, "%s cannot be longer than %d bytes.", what, CLIENT_WORD_BYTES_MAX);
        return false;
    }
    return true;
}

void
client_set_word(char **owned, struct slice word)
{
    free(*owned);
    *owned = word.n > 0 ? mem_text(word) : NULL;
}

void
client_clear_name(struct session *s)
{
    client_set_word(&s->name, SLICE_LIT(""));
}

static void
take_word(struct cmd *c, const char *what, char **owned, struct slice word)
{
    if (!client_check_word(what, word, c->out)) {
        return;
    }
    client_set_word(owned, word);
    writer_simple(c->out, "OK");
}

static void
client_id(struct cmd *c)
{
    writer_int(c->out, (int64_t)c->session->id);
}

static void
client_setname(struct cmd *c)
{
    take_word(c, "Client names", &c->session->name, c->words->word[2]);
}

static void
client_getname(struct cmd *c)
{
    if (c->session->name == NULL) {
        writer_null(c->out);
    } else {
        writer_text(c->out, c->session->name);
    }
}

static void
client_setinfo(struct cmd *c)
{
    struct slice what = c->words->word[2], value = c->words->word[3];

    if (slice_is(what, "lib-name")) {
        take_word(c, "lib-name", &c->session->lib_name, value);
    } else if (slice_is(what, "lib-ver")) {
        take_word(c, "lib-ver", &c->session->lib_ver, value);
    } else {
        writer_error(c->out, ERR_SYNTAX, "Unrecognized option '%.*s'", what.n < 128 ? (int)what.n : 128, what.p);
    }
}

/* NO-EVICT and NO-TOUCH change nothing, because rlockd evicts no client and keeps no age of keys. */
static void
client_switch(struct cmd *c)
{
    if (slice_is(c->words->word[2], "on") || slice_is(c->words->word[2], "off")) {
        writer_simple(c->out, "OK");
    } else {
        writer_error_plain(c->out, ERR_SYNTAX);
    }
}

/* ---- client-side caching ---- */

/*
 * rlockd tracks no keys. With OPTIN Redis tracks none either before CLIENT CACHING YES, so ON OPTIN, with which clients
 * begin a connection (rueidis), promises nothing; any other form would promise messages about changes.
 */
static void
client_tracking(struct cmd *c)
{
    bool off = slice_is(c->words->word[2], "off") && c->words->n == 3, optin = false, on;
    unsigned i;

    on = slice_is(c->words->word[2], "on");
    for (i = 3; i < c->words->n && on; i++) {
        optin = optin || slice_is(c->words->word[i], "optin");
        on = slice_is(c->words->word[i], "optin") || slice_is(c->words->word[i], "noloop");
    }
    if (off || (on && optin)) {
        writer_simple(c->out, "OK");
        return;
    }
    command_note_refusal(c->session, c->words->word[0], "no key is tracked here");
    writer_error(c->out, ERR_SYNTAX, "no key is tracked here; CLIENT TRACKING takes OFF, or ON OPTIN");
}

static void
client_caching(struct cmd *c)
{
    if (slice_is(c->words->word[2], "no")) {
        writer_simple(c->out, "OK");
        return;
    }
    command_note_refusal(c->session, c->words->word[0], "no key is tracked here");
    writer_error(c->out, ERR_SYNTAX, "no key is tracked here, so none can be cached");
}

/* ---- the list ---- */

/* The filter: which sessions are meant; a part that was not given matches all. */
struct filter {
    const struct words *words;
    unsigned ids_from, ids_to; /* words that are ids */
    const struct slice *addr, *laddr, *type, *user;
    bool skip_me;
};

static const char *
type_of(const struct session *s)
{
    return pubsub_count(s) > 0 ? "pubsub" : "normal";
}

static const char *
user_of(const struct session *s)
{
    return s->admin ? "admin" : "default";
}

static bool
id_is_among(const struct filter *f, uint64_t id)
{
    unsigned i;

    for (i = f->ids_from; i < f->ids_to; i++) {
        int64_t n;

        if (number_parse(f->words->word[i], &n) && (uint64_t)n == id) {
            return true;
        }
    }
    return false;
}

static bool
matches(const struct filter *f, const struct session *s)
{
    return (f->ids_from == f->ids_to || id_is_among(f, s->id)) &&
           (f->addr == NULL || slice_is(*f->addr, s->peer)) && (f->laddr == NULL || slice_is(*f->laddr, s->addr)) &&
           (f->type == NULL || slice_is(*f->type, type_of(s))) && (f->user == NULL || slice_is(*f->user, user_of(s)));
}

static bool
known_type(struct slice type)
{
    static const char *const types[] = {"normal", "pubsub", "master", "replica", "slave"};
    size_t i;

    for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (slice_is(type, types[i])) {
            return true;
        }
    }
    return false;
}

/* One option and its value at words[*i]; false: the error is written. */
static bool
read_option(struct cmd *c, struct filter *f, unsigned *i)
{
    const struct words *w = c->words;
    struct slice option = w->word[*i];
    const struct slice *value = *i + 1 < w->n ? &w->word[*i + 1] : NULL;
    int64_t id;

    if (value == NULL) {
        writer_error_plain(c->out, ERR_SYNTAX);
        return false;
    }
    *i += 2;
    if (slice_is(option, "ID")) {
        f->ids_from = *i - 1;
        f->ids_to = *i;
        while (f->ids_to < w->n && number_parse(w->word[f->ids_to], &id)) {
            f->ids_to++;
        }
        *i = f->ids_to;
        if (!number_parse(*value, &id) || id == 0) {
            writer_error(c->out, ERR_SYNTAX, "client-id should be greater than 0");
            return false;
        }
    } else if (slice_is(option, "TYPE")) {
        if (!known_type(*value)) {
            writer_error(c->out, ERR_SYNTAX, "Unknown client type '%.*s'", value->n < 128 ? (int)value->n : 128,
                         value->p);
            return false;
        }
        f->type = value;
    } else if (slice_is(option, "ADDR")) {
        f->addr = value;
    } else if (slice_is(option, "LADDR")) {
        f->laddr = value;
    } else if (slice_is(option, "USER")) {
        f->user = value;
    } else if (slice_is(option, "SKIPME") && (slice_is(*value, "yes") || slice_is(*value, "no"))) {
        f->skip_me = slice_is(*value, "yes");
    } else {
        writer_error_plain(c->out, ERR_SYNTAX);
        return false;
    }
    return true;
}

static bool
read_filter(struct cmd *c, struct filter *f)
{
    unsigned i = 2;

    while (i < c->words->n) {
        if (!read_option(c, f, &i)) {
            return false;
        }
    }
    return true;
}

static const char *
or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* One line as in Redis, without the fields of things that rlockd does not have, except fields that clients look for. */
static void
add_line(const struct session *s, int64_t now_us, struct buf *out)
{
    const char *cmd = s->last_command != NULL ? s->last_command : "NULL";

    buf_printf(out, "id=%" PRIu64 " addr=%s laddr=%s fd=%d name=%s age=%" PRId64 " idle=%" PRId64, s->id, s->peer,
               s->addr, s->fd, or_empty(s->name), (now_us - s->opened_us) / US_PER_S,
               (now_us - s->active_us) / US_PER_S);
    buf_printf(out, " flags=%s%s%s%s", list_linked(&s->monitor_node) ? "O" : "", pubsub_count(s) > 0 ? "P" : "",
               s->is_unix ? "U" : "", !s->is_unix && pubsub_count(s) == 0 && !list_linked(&s->monitor_node) ? "N" : "");
    buf_printf(out, " db=0 sub=%d psub=0 ssub=0 multi=-1 qbuf=%zu omem=%zu events=r cmd=", pubsub_count(s),
               reader_pending(&s->reader), session_out_bytes(s));
    for (; *cmd != '\0'; cmd++) {
        buf_printf(out, "%c", *cmd >= 'A' && *cmd <= 'Z' && s->last_command != NULL ? *cmd - 'A' + 'a' : *cmd);
    }
    buf_printf(out, " user=%s redir=-1 resp=%d lib-name=%s lib-ver=%s\n", user_of(s), s->proto, or_empty(s->lib_name),
               or_empty(s->lib_ver));
}

/* ---- LIST and KILL, in slices ---- */

enum { SLICE_SESSIONS = 8 };

struct client_work {
    struct listing_work work;
    struct words words;       /* slices into text; the filter points into it */
    struct filter filter;
    bool kills, old_form;     /* old_form: KILL addr, without options */
    uint64_t asked_by;        /* session */
    uint64_t session, newest; /* the session that was looked at last; the newest one when the work began */
    int64_t killed;
    bool kills_itself;        /* the session that has asked ends last, behind its reply */
    struct buf lines;         /* owned */
    char text[];
};

static void
do_session(struct client_work *w, struct session *s)
{
    if (!matches(&w->filter, s)) {
        return;
    }
    if (!w->kills) {
        add_line(s, clock_now_us(), &w->lines);
    } else if (s->id != w->asked_by) {
        session_kill(s, NULL);
        w->killed++;
    } else if (!w->filter.skip_me) {
        w->kills_itself = true;
        w->killed++;
    }
}

static bool
advance(struct listing_work *lw, struct engine *e)
{
    struct client_work *w = container_of(lw, struct client_work, work);

    struct session *s = session_after(e, w->session), *next;

    for (int i = 0; i < SLICE_SESSIONS; i++, s = next) {
        if (s == NULL || s->id > w->newest || w->lines.failed) {
            return false;
        }
        w->session = s->id;
        next = session_after(e, s->id);
        do_session(w, s);
    }
    return true;
}

static void
finish(struct listing_work *lw, struct engine *e, struct outbox *box, struct writer *out)
{
    struct client_work *w = container_of(lw, struct client_work, work);
    struct session *self = w->kills_itself ? session_find(e, w->asked_by) : NULL;

    (void)box;
    if (self != NULL) {
        session_kill(self, self);
    }
    if (!w->kills) {
        fields_send_text(&w->lines, out);
    } else if (!w->old_form) {
        writer_int(out, w->killed);
    } else if (w->killed > 0) {
        writer_simple(out, "OK");
    } else {
        writer_error(out, ERR_SYNTAX, "No such client");
    }
}

static void
drop(struct listing_work *lw, struct engine *e)
{
    struct client_work *w = container_of(lw, struct client_work, work);

    (void)e;
    buf_fini(&w->lines);
    free(w);
}

/* The new work has a copy of the words. */
static struct client_work *
work_new(const struct cmd *c)
{
    struct client_work *w = mem_zalloc(sizeof(*w) + listing_words_bytes(c->words));

    w->work = (struct listing_work){advance, finish, drop, NULL};
    listing_copy_words(c->words, &w->words, w->text);
    w->filter.words = &w->words;
    w->asked_by = c->session->id;
    w->newest = session_newest(c->session->engine);
    buf_init(&w->lines, command_reply_bytes_max(c));
    return w;
}

/* The filter is read from the copied words, which stay. */
static enum cmd_result
run_filtered(struct cmd *c, struct client_work *w)
{
    struct cmd copy = *c;

    copy.words = &w->words;
    if (!w->old_form && !read_filter(&copy, &w->filter)) {
        drop(&w->work, c->session->engine);
        return CMD_DONE;
    }
    return listing_run(c, &w->work);
}

static enum cmd_result
client_list(struct cmd *c)
{
    return run_filtered(c, work_new(c));
}

static void
client_info(struct cmd *c)
{
    struct buf text;

    buf_init(&text, 0);
    add_line(c->session, clock_now_us(), &text);
    fields_send_text(&text, c->out);
}

static enum cmd_result
client_kill(struct cmd *c)
{
    struct client_work *w;

    if (!c->session->admin) {
        writer_error(c->out, ERR_NO_PERM, "CLIENT KILL needs the admin role");
        return CMD_DONE;
    }
    w = work_new(c);
    w->kills = true;
    w->old_form = c->words->n == 3; /* CLIENT KILL addr */
    w->filter.skip_me = !w->old_form;
    w->filter.addr = w->old_form ? &w->words.word[2] : NULL;
    return run_filtered(c, w);
}

/* ---- the table ---- */

static const struct subcommand subcommands[] = {
    {"ID", 2, 2, client_id, NULL},
    {"SETNAME", 3, 3, client_setname, NULL},
    {"GETNAME", 2, 2, client_getname, NULL},
    {"SETINFO", 4, 4, client_setinfo, NULL},
    {"LIST", 2, 0, NULL, client_list},
    {"INFO", 2, 2, client_info, NULL},
    {"KILL", 3, 0, NULL, client_kill},
    {"NO-EVICT", 3, 3, client_switch, NULL},
    {"NO-TOUCH", 3, 3, client_switch, NULL},
    {"TRACKING", 3, 0, client_tracking, NULL},
    {"CACHING", 3, 3, client_caching, NULL},
    {"HELP", 2, 2, command_subcommand_help, NULL},
};

enum cmd_result
cmd_client(struct cmd *c)
{
    return command_run_subcommand(c, subcommands, sizeof(subcommands) / sizeof(subcommands[0]));
}
