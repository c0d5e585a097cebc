/*
 * text.c -- what Redis says in words, for people.
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

bool
text_error_passes(struct slice error)
{
    bool drop;

    return call_error(error, &drop) == CORE_DOWN;
}
