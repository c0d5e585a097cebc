/*
 * text.c -- texts of Redis: quoting, fields of INFO, kinds of errors.
 */
#include "daemon/backend/text.h"

#include <stdio.h>

#include "daemon/backend/call.h"
#include "daemon/backend/link.h"
#include "daemon/base/buf.h"

void
text_print(char *out, size_t room, struct slice s)
{
    struct buf b;

    buf_init(&b, 0);
    buf_add_escaped(&b, s);
    snprintf(out, room, "%.*s", (int)b.n, b.n > 0 ? b.p : "");
    buf_fini(&b);
}

void
text_info_field(struct slice info, const char *key, char *out, size_t room)
{
    size_t key_n = strlen(key);

    for (const char *p = info.p; p != NULL && p < info.p + info.n;) {
        const char *end = memchr(p, '\r', (size_t)(info.p + info.n - p));
        size_t n = end != NULL ? (size_t)(end - p) : (size_t)(info.p + info.n - p);

        if (n > key_n && memcmp(p, key, key_n) == 0 && p[key_n] == ':') {
            text_print(out, room, (struct slice){p + key_n + 1, n - key_n - 1});
            return;
        }
        p = end != NULL ? end + 2 : NULL;
    }
}

/* Texts by which Redis, since 6, reports a missing right, and the words that give it; NULL: "+" and the command. */
static const struct {
    const char *phrase, *words;
} rights[] = {
    {" run the '", NULL},
    {"channel", "&redisson_* &rlock:deadlock:* &__redis__:invalidate"},
    {" key", "~*"},
    {"executing the script can't run", "+@all -@admin -@dangerous +info"}, /* 7.0 does not name the command */
};

/* Errors of a server that another scheme of the URL is for: how they begin, a word in them, and the hint. */
#define HINT_SENTINEL ": a sentinel? Its URL is sentinel:HOST:PORT/MASTER"
static const struct {
    const char *begin, *word, *hint;
} hints[] = {
    {"CROSSSLOT ", "", ": a node of a cluster? Its URL is cluster:HOST:PORT"},
    {"ERR unknown command", "EVAL", HINT_SENTINEL},
    {"ERR unknown command", "CLUSTER", HINT_SENTINEL},
};

static void
add_hint(char out[TEXT_ERROR_ROOM])
{
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
        if (strncmp(out, hints[i].begin, strlen(hints[i].begin)) == 0 && strstr(out, hints[i].word) != NULL) {
            snprintf(out + strlen(out), TEXT_ERROR_ROOM - strlen(out), "%s", hints[i].hint);
            return;
        }
    }
}

/* How errors to AUTH begin, and what is shown for them. Some are sent before a server reads any command. */
static const struct {
    const char *begin, *shown;
} login_errors[] = {
    {"WRONGPASS ", "WRONGPASS invalid username-password pair or user is disabled"},
    {"ERR AUTH <password> called without", "ERR AUTH <password> called without any password configured for the user"},
    {"ERR unknown command", "ERR unknown command 'AUTH': it is renamed, or this is no Redis"},
    {"DENIED ", "DENIED Redis is running in protected mode"},
    {"ERR max number of clients", "ERR max number of clients reached"},
    {"LOADING ", "LOADING Redis is loading the dataset in memory"},
};

const char *
text_login_error(struct slice error)
{
    for (size_t i = 0; i < sizeof(login_errors) / sizeof(login_errors[0]); i++) {
        if (slice_begins(error, login_errors[i].begin)) {
            return login_errors[i].shown;
        }
    }
    return "it refuses AUTH by an error that is not shown, because it may contain the password";
}

static bool
contains(struct slice s, const char *text)
{
    return text != NULL && text[0] != '\0' && memmem(s.p, s.n, text, strlen(text)) != NULL;
}

#define QUOTED ", with args" /* behind it an error quotes the words of the command */

/* Copies the error; false: it has the password, and only its first word is copied. */
static bool
copy_shown(char out[TEXT_ERROR_ROOM], struct slice error, const char *password)
{
    const char *quoted = memmem(error.p, error.n, QUOTED, strlen(QUOTED));
    struct slice code = {error.p, 0};

    if (contains(error, password)) {
        while (code.n < error.n && error.p[code.n] >= 'A' && error.p[code.n] <= 'Z') {
            code.n++;
        }
        code.n = contains(code, password) ? 0 : code.n;
        snprintf(out, TEXT_ERROR_ROOM, "%.*s%san error that is not shown, because it contains the password",
                 (int)code.n, code.p, code.n > 0 ? " " : "");
        return false;
    }
    snprintf(out, TEXT_ERROR_ROOM, "%.*s", (int)(quoted != NULL ? (size_t)(quoted - error.p) : error.n), error.p);
    return true;
}

const char *
text_error(char out[TEXT_ERROR_ROOM], struct slice error, const struct link_address *login)
{
    const char *at = NULL, *user;
    size_t i = 0;
    int n;

    if (!copy_shown(out, error, login != NULL ? login->password : NULL)) {
        return out;
    }
    add_hint(out);
    if (strncmp(out, "NOPERM ", 7) != 0 && strstr(out, "executing the script can't") == NULL &&
        strstr(out, "ACL failure") == NULL) {
        return out;
    }
    while (i < sizeof(rights) / sizeof(rights[0]) && (at = strstr(out, rights[i].phrase)) == NULL) {
        i++;
    }
    if (at == NULL) {
        return out;
    }
    at += strlen(rights[i].phrase); /* a quote follows the command */
    n = rights[i].words != NULL ? 0 : (int)strcspn(at, "'");
    user = login != NULL && login->user != NULL ? login->user : "default";
    if (n > 0) {
        char command[32];

        snprintf(command, sizeof(command), "%.*s", n, at);
        snprintf(out + strlen(out), TEXT_ERROR_ROOM - strlen(out), ": ACL SETUSER %s +%s", user, command);
    } else if (rights[i].words != NULL) {
        snprintf(out + strlen(out), TEXT_ERROR_ROOM - strlen(out), ": ACL SETUSER %s %s", user, rights[i].words);
    }
    return out;
}

bool
text_error_is_transient(struct slice error)
{
    bool drop;

    return call_error(error, &drop) == CORE_DOWN;
}
