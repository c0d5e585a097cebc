/*
 * anchors.h -- generations.h with its messages sent: a daemon's part in the continuity of a cluster.
 *
 * Links are the topology's: it is asked which node owns a slot, and to send words to a node. What is told comes from
 * the loop, never from inside a function below.
 */
#ifndef RLOCKD_BACKEND_ANCHORS_H
#define RLOCKD_BACKEND_ANCHORS_H

#include "daemon/backend/backend_env.h"
#include "daemon/backend/generations.h"
#include "daemon/backend/link.h"

struct anchors;

struct anchors_io {
    /* The number (generations_node()) of the slot's owner by the map; GENERATION_NODES_MAX: none is known. */
    uint16_t (*owner)(void *ctx, uint16_t slot);
    /* Sends by any link to that node that is up; false: none is. */
    bool (*send)(void *ctx, uint16_t node, int words, const struct slice *word, link_reply_fn *fn, void *arg);
    const char *(*tag)(void *ctx, uint16_t slot);
    void (*map_outdated)(void *ctx); /* a node has said that it is not what the map says */
    generations_news_fn *on_news;
    void *ctx;
};

/* env is borrowed. */
struct anchors *anchors_new(const struct backend_conf *conf, const struct backend_env *env,
                            const struct anchors_io *io);
void anchors_free(struct anchors **a);

/* For its questions and news; anchors_wake() behind news. */
struct generations *anchors_generations(struct anchors *a);
void anchors_wake(struct anchors *a);

/*
 * The link to that node is greeting: the node is asked what data it has, and the link is not up before the answer. A
 * link to a node that is no master, or another node than before, is given up.
 */
void anchors_greet(struct anchors *a, uint16_t node, struct redis_link *l);

/* A node can be asked now: so anchors may be reached that were not. */
void anchors_reached(struct anchors *a);

/* All links to the node were closed: what was in flight there has no answer. */
void anchors_closed(struct anchors *a, uint16_t node);

/* Leaves, and whether that is still on its way. */
void anchors_leave(struct anchors *a);
bool anchors_busy(const struct anchors *a);

/* For link_close() of links that anchors_greet() was called with. True: it was ours. */
bool anchors_forget(link_reply_fn *fn, void *arg);

#endif
