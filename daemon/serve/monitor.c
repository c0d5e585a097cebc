/*
 * monitor.c -- MONITOR: every command, in Redis's own lines, to the admins that sent MONITOR.
 *
 * Owns the form of a line: +<seconds.micros> [0 <peer>] "CMD" "arg" ... Passwords of AUTH and HELLO ... AUTH appear as
 * "(redacted)". Costs one comparison while there is no such session.
 */
#include "daemon/serve/commands.h"

#include <inttypes.h>

#include "daemon/base/clock.h"
#include "daemon/serve/cmd.h"
#include "daemon/serve/session_out.h"
#include "daemon/serve/session_record.h"

/*
 * Is word i a secret? May hide one word too many: of HELLO, the two words after every AUTH, also where the version is
 * missing.
 */
static bool
is_secret(const struct cmd *c, unsigned i)
{
    const struct slice *word = c->words->word;

    if (c->id == CMD_AUTH) {
        return i > 0;
    }
    return c->id == CMD_HELLO && ((i > 1 && slice_is(word[i - 1], "AUTH")) || (i > 2 && slice_is(word[i - 2], "AUTH")));
}

/* Quoted so that redis-cli --pipe, and proto/reader.c, read the same word from it. */
static void
add_quoted(struct buf *out, struct slice word)
{
    static const char plain[] = "\n\r\t\a\b\"\\", escaped[] = "nrtab\"\\";
    size_t i;

    buf_add(out, "\"", 1);
    for (i = 0; i < word.n; i++) {
        const char *at = word.p[i] != '\0' ? strchr(plain, word.p[i]) : NULL;

        if (at != NULL) {
            buf_printf(out, "\\%c", escaped[at - plain]);
        } else {
            buf_add_escaped(out, (struct slice){word.p + i, 1});
        }
    }
    buf_add(out, "\"", 1);
}

static void
add_line(const struct cmd *c, struct buf *out)
{
    int64_t now_us = clock_wall_us();
    unsigned i;

    buf_printf(out, "+%" PRId64 ".%06" PRId64 " [0 %s]", now_us / US_PER_S, now_us % US_PER_S, c->session->peer);
    for (i = 0; i < c->words->n; i++) {
        buf_add(out, " ", 1);
        add_quoted(out, is_secret(c, i) ? SLICE_LIT("(redacted)") : c->words->word[i]);
    }
    buf_adds(out, "\r\n");
}

void
monitor_feed(const struct cmd *c)
{
    struct list *monitors = &c->session->engine->monitors, *node, *next;
    struct buf line;

    if (list_empty(monitors)) {
        return;
    }
    buf_init(&line, 0);
    add_line(c, &line);
    list_for_each_safe(node, next, monitors) {
        session_push(container_of(node, struct session, monitor_node), buf_slice(&line), NULL, 0);
    }
    buf_fini(&line);
}

enum cmd_result
cmd_monitor(struct cmd *c)
{
    if (!list_linked(&c->session->monitor_node)) {
        list_push_back(&c->session->engine->monitors, &c->session->monitor_node);
    }
    writer_simple(c->out, "OK");
    return CMD_DONE;
}
