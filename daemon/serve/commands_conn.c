/*
 * commands_conn.c -- a connection's own affairs: its identity, its version of RESP, its health.
 *
 * Owns authentication. Answers in the words of Redis 7, which client libraries match. Invariant: comparing a password
 * takes a time that does not depend on how much of it was right, and no record keeps the password of a client (buffers
 * that are freed are not wiped).
 */
#include <stdlib.h>

#include "daemon/base/glob.h"
#include "daemon/base/units.h"
#include "daemon/serve/auth_limit.h"
#include "daemon/serve/cmd.h"
#include "daemon/serve/commands.h"
#include "daemon/serve/commands_check.h"
#include "daemon/serve/commands_client.h"
#include "daemon/serve/fields.h"
#include "daemon/serve/listing.h"
#include "daemon/serve/pubsub.h"
#include "daemon/serve/roles.h"
#include "daemon/serve/session_out.h"
#include "daemon/serve/session_record.h"
#include "daemon/version.h"

#define AUTH_FAILURES_MAX 3 /* then the connection is closed */

/* ---- AUTH ---- */

/* Compares every byte that was given, also after one that differs: the time must not depend on the secret. */
static bool
same_secret(const char *secret, struct slice given)
{
    size_t n = strlen(secret), i;
    unsigned char differ = given.n != n;

    for (i = 0; i < given.n; i++) {
        differ |= (unsigned char)(given.p[i] ^ secret[n > 0 ? i % n : 0]);
    }
    return differ == 0;
}

/*
 * `user` NULL: either user, whichever has this password. If `default` has no password, any password is right for the
 * user name `default`, as in Redis: clients with a password in their settings work with a daemon that has none. False:
 * the password is wrong.
 */
static bool
authenticate(struct session *s, const struct slice *user, struct slice password)
{
    const struct conf *cf = s->engine->conf;
    const struct {
        const char *user, *secret;
        bool admin;
    } known[] = {
        {"default", cf->auth_password, false},
        {"admin", cf->auth_admin_password, true},
    };
    bool found = false, proved = false; /* a user without a password proves nothing */
    size_t i;

    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (user != NULL ? !slice_is(*user, known[i].user) : known[i].secret == NULL) {
            continue;
        }
        if (known[i].secret == NULL ? !known[i].admin : same_secret(known[i].secret, password)) {
            found = true;
            proved = proved || known[i].secret != NULL;
            roles_authenticated(s, known[i].admin);
        }
    }
    if (found) {
        s->auth_failures = proved ? 0 : s->auth_failures;
    } else if (auth_limit_failed(s) || s->auth_failures >= AUTH_FAILURES_MAX) {
        session_quit(s);
    }
    return found;
}

enum cmd_result
cmd_auth(struct cmd *c)
{
    const struct words *w = c->words;
    const struct conf *cf = c->session->engine->conf;

    if (w->n == 2 && cf->auth_password == NULL && cf->auth_admin_password == NULL) {
        writer_error(c->out, ERR_SYNTAX,
                     "AUTH <password> called without any password configured for the default user. Are you sure your "
                     "configuration is correct?");
    } else if (authenticate(c->session, w->n == 3 ? &w->word[1] : NULL, w->word[w->n - 1])) {
        writer_simple(c->out, "OK");
    } else {
        writer_error_plain(c->out, ERR_WRONG_PASS);
    }
    return CMD_DONE;
}

/* ---- HELLO ---- */

struct hello {
    int proto;
    const struct slice *user, *password, *name; /* NULL = not given */
};

/* False: the error is written, and nothing has changed. */
static bool
read_hello(struct cmd *c, struct hello *h)
{
    const struct words *w = c->words;
    int64_t version;
    unsigned i;

    *h = (struct hello){.proto = c->session->proto};
    if (w->n >= 2) {
        if (!number_parse(w->word[1], &version)) {
            writer_error(c->out, ERR_SYNTAX, "Protocol version is not an integer or out of range");
            return false;
        }
        if (version != 2 && version != 3) {
            writer_error_plain(c->out, ERR_NO_PROTO);
            return false;
        }
        h->proto = (int)version;
    }
    for (i = 2; i < w->n; i++) {
        unsigned more = w->n - 1 - i;

        if (slice_is(w->word[i], "AUTH") && more >= 2) {
            h->user = &w->word[i + 1];
            h->password = &w->word[i + 2];
            i += 2;
        } else if (slice_is(w->word[i], "SETNAME") && more >= 1) {
            h->name = &w->word[++i];
        } else {
            writer_error(c->out, ERR_SYNTAX, "Syntax error in HELLO option '%.*s'",
                         w->word[i].n < 128 ? (int)w->word[i].n : 128, w->word[i].p);
            return false;
        }
    }
    return h->name == NULL || client_check_word("Client names", *h->name, c->out);
}

static void
write_hello(struct cmd *c)
{
    writer_map(c->out, 7);
    writer_text(c->out, "server");
    writer_text(c->out, "rlockd");
    writer_text(c->out, "version");
    writer_text(c->out, REDIS_VERSION_SPOKEN);
    writer_text(c->out, "proto");
    writer_int(c->out, c->session->proto);
    writer_text(c->out, "id");
    writer_int(c->out, (int64_t)c->session->id);
    writer_text(c->out, "mode");
    writer_text(c->out, "standalone");
    writer_text(c->out, "role");
    writer_text(c->out, "master");
    writer_text(c->out, "modules");
    writer_array(c->out, 0);
}

enum cmd_result
cmd_hello(struct cmd *c)
{
    struct session *s = c->session;
    struct hello h;

    if (!read_hello(c, &h)) {
        return CMD_DONE;
    }
    if (h.password != NULL && !authenticate(s, h.user, *h.password)) {
        writer_error_plain(c->out, ERR_WRONG_PASS);
        return CMD_DONE;
    }
    if (!s->authed) {
        writer_error(c->out, ERR_NO_AUTH,
                     "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
                     "<user> <pass> option can be used to authenticate the client and select the RESP protocol version "
                     "at the same time");
        return CMD_DONE;
    }
    if (h.name != NULL) {
        client_set_word(&s->name, *h.name);
    }
    s->proto = c->out->proto = h.proto;
    write_hello(c);
    return CMD_DONE;
}

/* ---- PING and others ---- */

enum cmd_result
cmd_ping(struct cmd *c)
{
    struct slice message = c->words->n == 2 ? c->words->word[1] : SLICE_LIT("");

    if (c->session->proto == 2 && pubsub_count(c->session) > 0) {
        writer_array(c->out, 2);
        writer_text(c->out, "pong");
        writer_bulk(c->out, message);
    } else if (c->words->n == 2) {
        writer_bulk(c->out, message);
    } else {
        writer_simple(c->out, "PONG");
    }
    return CMD_DONE;
}

enum cmd_result
cmd_echo(struct cmd *c)
{
    writer_bulk(c->out, c->words->word[1]);
    return CMD_DONE;
}

enum cmd_result
cmd_quit(struct cmd *c)
{
    writer_simple(c->out, "OK");
    session_quit(c->session);
    return CMD_DONE;
}

enum cmd_result
cmd_select(struct cmd *c)
{
    int64_t index;

    if (!number_parse(c->words->word[1], &index)) {
        writer_error(c->out, ERR_SYNTAX, "value is not an integer or out of range");
    } else if (index != 0) {
        writer_error(c->out, ERR_SYNTAX, "DB index is out of range");
    } else {
        writer_simple(c->out, "OK");
    }
    return CMD_DONE;
}

/* What the connection holds stays: it is still the same session. */
enum cmd_result
cmd_reset(struct cmd *c)
{
    struct session *s = c->session;

    pubsub_drop(s->engine->pubsub, s);
    list_remove(&s->monitor_node);
    client_clear_name(s);
    roles_reset(s);
    s->proto = c->out->proto = 2;
    writer_simple(c->out, "RESET");
    return CMD_DONE;
}

/* ---- CONFIG ---- */

/* Settings of Redis that clients ask for by name when they connect; the values are true of rlockd. */
static const struct {
    const char *name, *value;
} redis_settings[] = {
    {"save", ""},
    {"appendonly", "no"},
    {"databases", "1"},
    {"timeout", "0"},
};

struct config_get {
    const struct words *words; /* patterns from the third on */
    struct rows rows;
};

static void
config_row(struct config_get *g, const char *name, const char *value)
{
    writer_text(&g->rows.w, name);
    writer_text(&g->rows.w, value);
    g->rows.n++;
}

static void
config_key(void *ctx, const char *path, const char *value, bool reloadable)
{
    struct config_get *g = ctx;
    unsigned i;

    (void)reloadable;
    for (i = 2; i < g->words->n; i++) {
        if (glob_match(g->words->word[i], slice_of(path))) {
            config_row(g, path, value);
            return;
        }
    }
}

/* A setting of Redis is found by its exact name only: a pattern finds rlockd's own keys. */
static void
config_redis(struct config_get *g)
{
    size_t row;
    unsigned i;

    for (row = 0; row < sizeof(redis_settings) / sizeof(redis_settings[0]); row++) {
        for (i = 2; i < g->words->n; i++) {
            if (slice_is(g->words->word[i], redis_settings[row].name)) {
                config_row(g, redis_settings[row].name, redis_settings[row].value);
                break;
            }
        }
    }
}

static enum cmd_result
config_now(struct cmd *c)
{
    struct slice sub = c->words->word[1];
    struct config_get g = {.words = c->words};

    if (slice_is(sub, "HELP")) {
        command_subcommand_help(c);
        return CMD_DONE;
    }
    if (!slice_is(sub, "GET")) {
        command_refuse_subcommand(c);
        return CMD_DONE;
    }
    if (c->words->n < 3) {
        writer_error(c->out, ERR_SYNTAX, "wrong number of arguments for 'config|get' command");
        return CMD_DONE;
    }
    fields_rows_init(&g.rows, c->out);
    config_redis(&g);
    conf_each(c->session->engine->conf, config_key, &g);
    fields_rows_send(&g.rows, c->out, true);
    return CMD_DONE;
}

enum cmd_result
cmd_config(struct cmd *c)
{
    return listing_once(c, config_now);
}
