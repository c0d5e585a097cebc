/*
 * cluster_map.c -- CLUSTER NODES, line by line:
 *
 *   <id> <host>:<port>@<bus>[,<name>[,<aux>=...]] <flags> <master> <ping> <pong> <epoch> <link> [<slots> ...]
 *
 * where <slots> is "5" or "0-99", and in the line of the asked node also "[7->-<id>]" (7 moves to that node) or
 * "[7-<-<id>]" (7 comes from that node).
 */
#include "daemon/backend/cluster_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/memory.h"
#include "daemon/base/units.h"

enum {
    WORDS = 8,                          /* of a line, before its slots */
    MERGED_MAX = 2 * CLUSTER_NODES_MAX, /* nodes of an answer, and former nodes that still own slots */
};

void
cluster_map_init(struct cluster_map *m)
{
    *m = (struct cluster_map){0};
    memset(m->owner, 0xff, sizeof(m->owner));
    memset(m->claimant, 0xff, sizeof(m->claimant));
}

void
cluster_map_fini(struct cluster_map *m)
{
    free(m->node);
    m->node = NULL;
    m->nodes_n = 0;
}

static const struct cluster_node *
find(const struct cluster_map *m, const char *id)
{
    for (size_t i = 0; i < m->nodes_n; i++) {
        if (strcmp(m->node[i].id, id) == 0) {
            return &m->node[i];
        }
    }
    return NULL;
}

/*
 * Finds the node by its address or announced name, else by its port if only one master has that port: with
 * cluster-preferred-endpoint-type unknown-endpoint a redirection names a port only, and `host` is the asked node's.
 */
const struct cluster_node *
cluster_map_at(const struct cluster_map *m, const char *host, int port)
{
    const struct cluster_node *by_port = NULL;
    unsigned with_port = 0;

    for (size_t i = 0; i < m->nodes_n; i++) {
        const struct cluster_node *n = &m->node[i];

        if (n->port == port && (strcmp(n->host, host) == 0 || strcmp(n->name, host) == 0)) {
            return n;
        }
        if (n->port == port && n->master) {
            by_port = n;
            with_port++;
        }
    }
    return with_port == 1 ? by_port : NULL;
}

/* ---- words of a line ---- */

/* Takes from `text` the part before the next `mark`, and the mark; or all, if there is none. */
static struct slice
take_until(struct slice *text, char mark)
{
    const char *at = text->n > 0 ? memchr(text->p, mark, text->n) : NULL;
    size_t n = at != NULL ? (size_t)(at - text->p) : text->n, skip = n + (at != NULL);
    struct slice word = {text->p, n};

    *text = (struct slice){text->p + skip, text->n - skip};
    return word;
}

static bool
has_flag(struct slice flags, const char *flag)
{
    while (flags.n > 0) {
        if (slice_eq(take_until(&flags, ','), slice_of(flag))) {
            return true;
        }
    }
    return false;
}

/* Reads the address at which clients reach the node. */
static bool
take_address(struct cluster_node *node, struct slice word, const char *asked_host, bool secure)
{
    struct slice address = take_until(&word, ','), name = take_until(&word, ',');
    struct slice host = take_until(&address, '@'), port;
    const char *colon = host.n > 0 ? memrchr(host.p, ':', host.n) : NULL;
    int64_t n;

    if (colon == NULL) {
        return false;
    }
    port = (struct slice){colon + 1, host.n - (size_t)(colon + 1 - host.p)};
    host.n = (size_t)(colon - host.p);
    if (name.n > 0 && memchr(name.p, '=', name.n) == NULL && host_copy(name, node->name) && secure) {
        host = name;
    }
    if (host.n == 0 || slice_eq(host, SLICE_LIT("?"))) {
        host = slice_of(asked_host);
    }
    if (!number_parse(port, &n) || n < 0 || n > 65535 || !host_copy(host, node->host)) {
        return false;
    }
    node->port = (int)n;
    return true;
}

/* Takes the node from a line; leaves its slots there. False: the line names no node. */
static bool
take_node(struct cluster_node *node, struct slice *line, const struct cluster_asked *asked, bool *myself)
{
    struct slice word[WORDS];
    int64_t epoch;

    for (int i = 0; i < WORDS; i++) {
        word[i] = take_until(line, ' ');
    }
    *node = (struct cluster_node){0};
    *myself = has_flag(word[2], "myself");
    node->master = has_flag(word[2], "master");
    node->failed = has_flag(word[2], "fail") || has_flag(word[2], "fail?");
    node->reached = *myself || (!node->failed && slice_is(word[7], "connected"));
    if (word[0].n != CLUSTER_ID_ROOM - 1 || word[7].n == 0 || !number_parse(word[6], &epoch) || epoch < 0) {
        return false;
    }
    memcpy(node->id, word[0].p, word[0].n);
    node->epoch = (uint64_t)epoch;
    if (has_flag(word[2], "noaddr")) {
        snprintf(node->host, sizeof(node->host), "%s", "?");
        return true;
    }
    return take_address(node, word[1], asked->host, asked->secure);
}

/* "5" or "0-99". */
static bool
take_range(struct slice word, int64_t *first, int64_t *last)
{
    struct slice from = take_until(&word, '-');

    if (!number_parse(from, first)) {
        return false;
    }
    *last = *first;
    return (word.n == 0 || number_parse(word, last)) && *first >= 0 && *first <= *last && *last < SLOTS;
}

/* ---- the answer ---- */

struct answer {
    struct cluster_map map; /* of this answer alone; epoch[] is not set */
    bool slots;             /* the answer has slots */
    struct cluster_news *news;
    const struct cluster_asked *asked;
};

static bool
take_slots(struct answer *a, size_t node, struct slice line)
{
    while (line.n > 0) {
        struct slice word = take_until(&line, ' ');
        int64_t first, last;

        if (word.n > 1 && word.p[0] == '[') { /* an open slot of the asked node, which node.lua reports as well */
            word = (struct slice){word.p + 1, word.n - 1};
            if (!number_parse(take_until(&word, '-'), &first) || first < 0 || first >= SLOTS) {
                return false;
            }
            continue;
        }
        if (!take_range(word, &first, &last)) {
            return false;
        }
        for (int64_t slot = first; slot <= last; slot++) {
            a->map.owner[slot] = (uint16_t)node;
        }
        a->slots = true;
    }
    return true;
}

/* Reads the text into a->map and a->news. */
static bool
read_answer(struct answer *a, struct slice text, char error[160])
{
    while (text.n > 0) {
        struct slice line = take_until(&text, '\n');
        struct cluster_node node;
        bool myself;

        if (line.n == 0) {
            continue;
        }
        if (a->map.nodes_n == CLUSTER_NODES_MAX) {
            snprintf(error, 160, "a cluster of more than %d nodes", CLUSTER_NODES_MAX);
            return false;
        }
        if (!take_node(&node, &line, a->asked, &myself)) {
            snprintf(error, 160, "no answer to CLUSTER NODES");
            return false;
        }
        a->map.node = mem_array(a->map.node, a->map.nodes_n + 1, sizeof(node));
        a->map.node[a->map.nodes_n++] = node;
        if (myself) {
            memcpy(a->news->myself, node.id, sizeof(node.id));
        }
        if (!take_slots(a, a->map.nodes_n - 1, line)) {
            snprintf(error, 160, "malformed slots in CLUSTER NODES");
            return false;
        }
    }
    if (a->map.nodes_n == 0) {
        snprintf(error, 160, "CLUSTER NODES names no node");
    }
    return a->map.nodes_n > 0;
}

/* ---- the answer and the known map, merged ---- */

static bool
is_other_cluster(const struct cluster_map *m, const struct cluster_map *answer)
{
    for (size_t i = 0; i < answer->nodes_n; i++) {
        if (find(m, answer->node[i].id) != NULL) {
            return false;
        }
    }
    return m->nodes_n > 0;
}

/* The index in `to` of node i of `from`, which owns slots; adds the node to `to` if it is not there. */
static uint16_t
carry_owner(struct cluster_map *to, const struct cluster_map *from, uint16_t i)
{
    const struct cluster_node *had = find(to, from->node[i].id);

    if (had == NULL) {
        to->node = mem_array(to->node, to->nodes_n + 1, sizeof(*to->node));
        to->node[to->nodes_n] = from->node[i];
        to->node[to->nodes_n].slots_n = 0; /* the caller counts them anew */
        had = &to->node[to->nodes_n++];
    }
    return (uint16_t)(had - to->node);
}

/* Whether the node itself has answered: an owner may give slots away then, and may take them back (CM1). */
static bool
has_answered(const struct cluster_node *node, const struct cluster_news *news)
{
    return strcmp(node->id, news->myself) == 0;
}

/* CM4 */
static void
keep_addresses(const struct cluster_map *m, struct cluster_map *answer)
{
    for (size_t i = 0; i < answer->nodes_n; i++) {
        struct cluster_node *node = &answer->node[i];
        const struct cluster_node *had = find(m, node->id);

        if (had != NULL && !node->reached && had->port != 0) {
            memcpy(node->host, had->host, sizeof(node->host));
            node->port = had->port;
        }
    }
}

/* Whether the answer decides the owner of the slot; else the known owner keeps it (CM1, CM2). */
static bool
decides(const struct cluster_map *m, const struct cluster_map *answer, unsigned slot, const struct cluster_news *news)
{
    uint16_t was = m->owner[slot], is = answer->owner[slot];
    const struct cluster_node *node = is != CLUSTER_NO_OWNER ? &answer->node[is] : NULL;

    if (was == CLUSTER_NO_OWNER || node == NULL) {
        return node != NULL;
    }
    return node->epoch > m->epoch[slot] || has_answered(&m->node[was], news) ||
           (has_answered(node, news) && node->epoch == m->epoch[slot] && node->epoch > m->node[was].epoch);
}

/* Sets the owner of each slot in the answer's map, and the slot's config epoch, which never falls (CM1). */
static void
merge_slots(const struct cluster_map *m, struct cluster_map *answer, struct cluster_news *news)
{
    uint16_t index[MERGED_MAX];
    size_t named_n = answer->nodes_n; /* carry_owner() adds nodes behind these */

    memset(index, 0xff, sizeof(index));
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        uint16_t was = m->owner[slot], is = answer->owner[slot];

        answer->epoch[slot] = is != CLUSTER_NO_OWNER ? answer->node[is].epoch : 0;
        if (was != CLUSTER_NO_OWNER && !decides(m, answer, slot, news)) {
            if (index[was] == CLUSTER_NO_OWNER) {
                index[was] = carry_owner(answer, m, was);
            }
            if (is != CLUSTER_NO_OWNER && index[was] >= named_n && answer->node[is].reached) {
                answer->claimant[slot] = is;
                answer->claimants_n++;
            }
            answer->owner[slot] = index[was];
            answer->epoch[slot] = m->epoch[slot];
        } else if (is != CLUSTER_NO_OWNER &&
                   (was == CLUSTER_NO_OWNER || strcmp(m->node[was].id, answer->node[is].id) != 0)) {
            slot_set_add(&news->moved, (uint16_t)slot);
            news->moved_n++;
        }
        if (m->epoch[slot] > answer->epoch[slot]) {
            answer->epoch[slot] = m->epoch[slot];
        }
        if (answer->owner[slot] != CLUSTER_NO_OWNER) {
            answer->node[answer->owner[slot]].slots_n++;
        }
    }
}

/* Whether the answer may be taken in (CM3); false with the reason in `error`. */
static bool
is_ours(const struct cluster_map *m, const struct answer *a, char error[160])
{
    if (a->map.nodes_n + m->nodes_n > MERGED_MAX) { /* many former nodes still own slots */
        snprintf(error, 160, "too many nodes have come and gone");
    } else if (!a->slots) {
        snprintf(error, 160, "the node is in no cluster: it knows of no slot that a node has");
    } else if (a->news->other_cluster && !a->asked->replaces) {
        snprintf(error, 160, "the node is in another cluster: it names none of the nodes that are known");
    } else {
        return true;
    }
    return false;
}

bool
cluster_map_take(struct cluster_map *m, struct slice text, const struct cluster_asked *asked,
                 struct cluster_news *news, char error[160])
{
    struct answer *a = mem_zalloc(sizeof(*a));
    bool ok;

    memset(news, 0, sizeof(*news));
    *a = (struct answer){.news = news, .asked = asked};
    cluster_map_init(&a->map);
    ok = read_answer(a, text, error);
    news->other_cluster = ok && is_other_cluster(m, &a->map);
    ok = ok && is_ours(m, a, error);
    if (ok) {
        if (news->other_cluster) {
            cluster_map_fini(m);
            cluster_map_init(m);
        }
        keep_addresses(m, &a->map);
        merge_slots(m, &a->map, news);
        free(m->node);
        *m = a->map;
    } else {
        cluster_map_fini(&a->map);
    }
    free(a);
    return ok;
}
