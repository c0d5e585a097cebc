/*
 * commands_pubsub.c -- SUBSCRIBE and its family, in Redis's own frames.
 *
 * Owns the limits on subscriptions. One frame per channel, as a push in RESP3 and without any other reply, which is
 * what every client library expects. A command that would pass a limit, or names a channel that no event has, is
 * refused whole, before its first frame.
 */
#include "daemon/serve/commands.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/base/units.h"
#include "daemon/serve/cmd.h"
#include "daemon/serve/pubsub.h"
#include "daemon/serve/session_record.h"

#define SUBSCRIPTIONS_MAX 1024   /* of one session */
#define CHANNEL_EXTRA_BYTES 16   /* "lock:" and some: a channel is as long as a name and these */

static void
write_frame(struct cmd *c, const char *what, const struct slice *channel, int count)
{
    writer_push(c->out, 3);
    writer_text(c->out, what);
    if (channel != NULL) {
        writer_bulk(c->out, *channel);
    } else {
        writer_null(c->out);
    }
    writer_int(c->out, count);
}

/* The number of words that are channels without a subscription of the session; a word that comes twice counts twice. */
static unsigned
count_new(const struct cmd *c, bool pattern)
{
    unsigned n = 0;

    for (unsigned i = 1; i < c->words->n; i++) {
        n += !pubsub_has(c->session->engine->pubsub, c->session, c->words->word[i], pattern);
    }
    return n;
}

static bool
within_limits(struct cmd *c, bool pattern)
{
    int64_t bytes_max = c->session->engine->conf->limit_name_bytes + CHANNEL_EXTRA_BYTES;
    unsigned i;

    if ((unsigned)pubsub_count(c->session) + count_new(c, pattern) > SUBSCRIPTIONS_MAX) {
        writer_error(c->out, ERR_LIMIT, "a session may have at most %d subscriptions", SUBSCRIPTIONS_MAX);
        return false;
    }
    for (i = 1; i < c->words->n; i++) {
        if (c->words->word[i].n > (size_t)bytes_max) {
            writer_error(c->out, ERR_LIMIT, "a channel may have at most %" PRId64 " bytes", bytes_max);
            return false;
        }
    }
    return true;
}

/*
 * How the channels of events begin (see pubsub_news()); and those of client libraries, which are accepted and silent:
 * StackExchange.Redis subscribes to __Booksleeve_MasterChanged when it connects, and gives up where that is refused.
 */
static const struct {
    struct slice begin;
    bool id; /* a session's id follows, and nothing else */
} channels[] = {{SLICE_LIT("lock:"), false}, {SLICE_LIT("session:"), true}, {SLICE_LIT("__"), false}};

static bool
names_event(struct slice channel)
{
    for (size_t i = 0; i < sizeof(channels) / sizeof(channels[0]); i++) {
        struct slice begin = channels[i].begin;
        int64_t id;

        if (channel.n > begin.n && memcmp(channel.p, begin.p, begin.n) == 0) {
            return !channels[i].id || number_parse((struct slice){channel.p + begin.n, channel.n - begin.n}, &id);
        }
    }
    return false;
}

/* Compares the bytes before the first wildcard. A pattern that matches an event passes; others may, too. */
static bool
may_match_event(struct slice pattern)
{
    char head[16];
    size_t n = 0, at = 0;

    while (at < pattern.n && n < sizeof(head) && memchr("*?[", pattern.p[at], 3) == NULL) {
        at += pattern.p[at] == '\\' && at + 1 < pattern.n;
        head[n++] = pattern.p[at++];
    }
    for (size_t i = 0; i < sizeof(channels) / sizeof(channels[0]); i++) {
        struct slice begin = channels[i].begin;

        if (memcmp(head, begin.p, n < begin.n ? n : begin.n) == 0 && (at < pattern.n || n > begin.n)) {
            return true;
        }
    }
    return false;
}

/* Refuses channels that no event has: the client would wait for ever without an error. */
static bool
all_may_fire(struct cmd *c, bool pattern)
{
    for (unsigned i = 1; i < c->words->n; i++) {
        struct slice word = c->words->word[i];

        if (!(pattern ? may_match_event(word) : names_event(word))) {
            writer_error(c->out, ERR_SYNTAX,
                         "no event is ever published to '%.*s'; channels are lock:<name> and session:<id>", (int)word.n,
                         word.n > 0 ? word.p : "");
            return false;
        }
    }
    return true;
}

static enum cmd_result
subscribe(struct cmd *c, const char *what, bool pattern)
{
    unsigned i;

    if (!within_limits(c, pattern) || !all_may_fire(c, pattern)) {
        return CMD_DONE;
    }
    for (i = 1; i < c->words->n; i++) {
        int count = pubsub_subscribe(c->session->engine->pubsub, c->session, c->words->word[i], pattern);

        write_frame(c, what, &c->words->word[i], count);
    }
    return CMD_DONE;
}

struct leaving {
    struct cmd *c;
    const char *what;
    bool pattern;
};

static void
leave(void *ctx, struct slice channel)
{
    struct leaving *l = ctx;
    struct session *s = l->c->session;

    /* The frame first: the channel's bytes may go with the subscription. */
    write_frame(l->c, l->what, &channel, pubsub_count(s) - 1);
    pubsub_unsubscribe(s->engine->pubsub, s, channel, l->pattern);
}

static enum cmd_result
unsubscribe(struct cmd *c, const char *what, bool pattern)
{
    struct leaving l = {.c = c, .what = what, .pattern = pattern};
    size_t before = c->out->out->n;
    unsigned i;

    for (i = 1; i < c->words->n; i++) {
        write_frame(c, what, &c->words->word[i],
                    pubsub_unsubscribe(c->session->engine->pubsub, c->session, c->words->word[i], pattern));
    }
    if (c->words->n > 1) {
        return CMD_DONE;
    }
    pubsub_each(c->session, pattern, leave, &l);
    if (c->out->out->n == before) {
        write_frame(c, what, NULL, pubsub_count(c->session));
    }
    return CMD_DONE;
}

enum cmd_result
cmd_subscribe(struct cmd *c)
{
    return subscribe(c, "subscribe", false);
}

enum cmd_result
cmd_unsubscribe(struct cmd *c)
{
    return unsubscribe(c, "unsubscribe", false);
}

enum cmd_result
cmd_psubscribe(struct cmd *c)
{
    return subscribe(c, "psubscribe", true);
}

enum cmd_result
cmd_punsubscribe(struct cmd *c)
{
    return unsubscribe(c, "punsubscribe", true);
}
