/*
 * quorum_servers.c -- warns when another daemon has other nodes: a majority of its nodes and one of ours need not have
 * a node in common, so that one name can have two holders.
 *
 * Daemons broadcast their lists: "S<number of nodes>", and the run_id of each node's server behind a space. Servers are
 * compared and not URLs, because a server has several names. A node that is down, or whose server is not known, may be
 * any server; so two lists differ if one has more nodes, or if both together have more servers than nodes. A daemon may
 * learn late that a server was restarted and has another run_id: two broadcasts have to show the difference.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/backend/quorum_private.h"
#include "daemon/backend/text.h"
#include "daemon/base/clock.h"

/*
 * A list is broadcast when it has a new server, and every PAUSE_US at least while broadcasts of another list arrive.
 * One broadcast stands for all daemons that have the list: each of them waits for a random time, and starts anew when
 * another one has broadcast the list meanwhile. So the broadcasts depend on the number of lists, and hardly on the
 * number of daemons: test_quorum_servers.c.
 */

enum { LETTER = 'S', PAUSE_US = 5 * 1000 * 1000, SPREAD_US = PAUSE_US / 2, SILENCE_US = 3 * PAUSE_US };

/* One more, because another daemon that starts at the same time may not be subscribed yet. */
enum { BROADCASTS_OF_A_CHANGE = 2 };

/* The server of a node that counts; "" = not known. */
static const char *
server_of(const struct quorum_node *node)
{
    return node->up ? shard_run_id(node->shard) : "";
}

static void
print(const struct quorum *qu, char out[QUORUM_LIST_ROOM])
{
    int n = snprintf(out, QUORUM_LIST_ROOM, "%c%u", LETTER, qu->nodes_n);

    for (unsigned i = 0; i < qu->nodes_n; i++) {
        const char *server = server_of(&qu->node[i]);

        n += server[0] != '\0' ? snprintf(out + n, QUORUM_LIST_ROOM - (size_t)n, " %s", server) : 0;
    }
}

/* The next broadcast leaves after pause_us and a random time, if one is needed. */
static void
plan(struct quorum *qu, int64_t pause_us)
{
    bool needed = qu->servers_unsent > 0 || qu->stray.uuid[0] != '\0';
    int64_t at_us = needed ? clock_now_us() + pause_us + quorum_random(qu, SPREAD_US) : INT64_MAX;

    timer_set(&qu->timers, &qu->servers_timer, at_us);
    quorum_wake(qu);
}

static void
forget(struct quorum *qu)
{
    if (qu->stray.warned) {
        log_event(qu->env.log, LOG_INFO, "redis", "no other daemon with other nodes", "daemon",
                  LOG_S(qu->stray.uuid), NULL);
    }
    qu->stray = (struct quorum_stray){.uuid = ""};
}

/* This daemon, or another one, has broadcast the list. */
static void
was_broadcast(struct quorum *qu)
{
    if (qu->stray.uuid[0] != '\0' && clock_now_us() - qu->stray.received_us >= SILENCE_US) {
        forget(qu);
    }
    qu->servers_unsent -= qu->servers_unsent > 0;
    plan(qu, PAUSE_US - SPREAD_US);
}

/* Takes the next word off the list. n == 0: there is none. */
static struct slice
take_word(struct slice *list)
{
    const char *end = memchr(list->p, ' ', list->n);
    struct slice word = {list->p, end != NULL ? (size_t)(end - list->p) : list->n};
    size_t used = end != NULL ? word.n + 1 : word.n;

    *list = (struct slice){list->p + used, list->n - used};
    return word;
}

/* The number of words of `list` that `in` does not have. */
static unsigned
missing(struct slice in, struct slice list)
{
    unsigned n = 0;

    for (struct slice word; (word = take_word(&list)).n > 0;) {
        struct slice left = in, other;

        do {
            other = take_word(&left);
        } while (other.n > 0 && !slice_eq(other, word));
        n += other.n == 0;
    }
    return n;
}

/* Whether the nodes of one list cannot be those of the other. */
static bool
differs(const struct quorum *qu, struct slice own, struct slice list)
{
    struct slice none = {own.p, 0};

    if (!slice_eq(take_word(&own), take_word(&list))) {
        return true;
    }
    return missing(none, own) + missing(own, list) > qu->nodes_n;
}

/* A list that has only lost servers is not broadcast: it shows no difference that the list before it did not show. */
void
quorum_servers_changed(struct quorum *qu)
{
    char list[QUORUM_LIST_ROOM];

    print(qu, list);
    if (missing(slice_of(qu->servers), slice_of(list)) > 0) {
        strcpy(qu->servers, list);
        qu->servers_unsent = BROADCASTS_OF_A_CHANGE;
        plan(qu, 0);
    }
}

static void
suspect(struct quorum *qu)
{
    qu->stray.since_us = qu->stray.received_us = clock_now_us();
    plan(qu, 0);
}

/* A broadcast of some daemon with other nodes. Warns PAUSE_US after the first one at the earliest. */
static void
confirm(struct quorum *qu)
{
    struct quorum_stray *stray = &qu->stray;

    stray->received_us = clock_now_us();
    if (stray->warned || stray->received_us - stray->since_us < PAUSE_US) {
        return;
    }
    stray->warned = true;
    log_event(qu->env.log, LOG_WARN, "redis", QUORUM_STRAY ": one name can have two holders", "daemon",
              LOG_S(stray->uuid), "remedy", LOG_S("the same nodes in redis.url of all daemons"), NULL);
}

bool
quorum_servers_received(struct quorum *qu, struct slice uuid, struct slice what)
{
    struct quorum_stray *stray = &qu->stray;
    bool known = stray->uuid[0] != '\0';
    char own[QUORUM_LIST_ROOM];

    if (what.p[0] != LETTER) {
        return false;
    }
    if (uuid.n == 0 || uuid.n >= sizeof(stray->uuid) || slice_eq(uuid, slice_of(qu->env.uuid))) {
        return true;
    }
    print(qu, own);
    if (differs(qu, slice_of(own), what)) {
        text_print(stray->uuid, sizeof(stray->uuid), uuid);
        if (known) {
            confirm(qu);
        } else {
            suspect(qu);
        }
        return true;
    }
    if (slice_eq(uuid, slice_of(stray->uuid))) {
        forget(qu);
    }
    if (missing(what, slice_of(own)) == 0) {
        was_broadcast(qu);
    }
    return true;
}

void
quorum_servers_due(struct quorum *qu)
{
    char list[QUORUM_LIST_ROOM];

    print(qu, list);
    quorum_broadcast(&qu->head, slice_of(list));
    was_broadcast(qu);
}
