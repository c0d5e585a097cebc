/*
 * anchors.h -- sends the messages of generations.h, and takes their answers: the continuity of a cluster's data.
 *
 * The topology owns the links: anchors.c asks it which node owns a slot, and to send words to a node. on_news is called
 * from the loop, never from inside a function below.
 */
#ifndef RLOCKD_BACKEND_ANCHORS_H
#define RLOCKD_BACKEND_ANCHORS_H

#include "daemon/backend/backend_env.h"
#include "daemon/backend/generations.h"
#include "daemon/backend/link.h"

struct anchors;

struct anchors_io {
    /* The index (generations_node_index()) of the slot's owner by the map; GENERATION_NODES_MAX: no owner is known. */
    uint16_t (*owner)(void *ctx, uint16_t slot);
    /* Sends the words to the node, by any link that is up; false: no link is up. */
    bool (*send)(void *ctx, uint16_t node, int words, const struct slice *word, link_reply_fn *fn, void *arg);
    const char *(*tag)(void *ctx, uint16_t slot); /* the slot's hash tag: slot.h */
    const struct link_address *login; /* that of all nodes, for errors in the log */
    void (*map_outdated)(void *ctx); /* the answer of a node contradicts the map */
    generations_news_fn *on_news;
    void *ctx;
};

/* env is borrowed. */
struct anchors *anchors_new(const struct backend_conf *conf, const struct backend_env *env,
                            const struct anchors_io *io);
void anchors_free(struct anchors **a);

/* The generations. The caller calls anchors_wake() after each report to them. */
struct generations *anchors_generations(struct anchors *a);
void anchors_wake(struct anchors *a);

#define ANCHORS_NO_MASTER "this node is no master, or not the one that it was"

/*
 * The link to the node is greeting: asks the node what data it has. The link is not up before the answer. If that is an
 * error, the link fails with it; if the node is no master, or another node than before, with ANCHORS_NO_MASTER.
 */
void anchors_greet(struct anchors *a, uint16_t node, struct redis_link *l);

/* A node came up: registers at the anchors at once, since one of them may be there. */
void anchors_reached(struct anchors *a);

/* All links to the node are closed: messages in flight there end without an answer. */
void anchors_closed(struct anchors *a, uint16_t node);

/* Sends each anchor a registration that leaves the members. */
void anchors_leave(struct anchors *a);

/* True from anchors_leave() until the leaving registrations at all anchors have ended. */
bool anchors_busy(const struct anchors *a);

/* Frees the arg of a greeting whose link is being closed. False: fn is not the callback of a greeting. */
bool anchors_forget(link_reply_fn *fn, void *arg);

#endif
