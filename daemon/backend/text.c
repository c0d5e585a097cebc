/*
 * text.c -- texts of Redis: quoting, fields of INFO, kinds of errors.
 */
#include "daemon/backend/text.h"

#include <stdio.h>

#include "daemon/backend/call.h"
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
    const char *says, *words;
} rights[] = {
    {" run the '", NULL},
    {"channel", "&redisson_* &rlock:deadlock:* &__redis__:invalidate"},
    {" key", "~*"},
    {"executing the script can't run", "+@all -@admin -@dangerous +info"}, /* 7.0 does not say which command */
};

const char *
text_error(char out[TEXT_ERROR_ROOM], struct slice error, const char *user)
{
    const char *at = NULL;
    size_t i = 0;
    int n;

    snprintf(out, TEXT_ERROR_ROOM, "%.*s", (int)error.n, error.p);
    if (strncmp(out, "NOPERM ", 7) != 0 && strstr(out, "executing the script can't") == NULL &&
        strstr(out, "ACL failure") == NULL) {
        return out;
    }
    while (i < sizeof(rights) / sizeof(rights[0]) && (at = strstr(out, rights[i].says)) == NULL) {
        i++;
    }
    if (at == NULL) {
        return out;
    }
    at += strlen(rights[i].says); /* a quote follows the command */
    n = rights[i].words != NULL ? 0 : (int)strcspn(at, "'");
    user = user != NULL ? user : "default";
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
