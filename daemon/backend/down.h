/*
 * down.h -- what is known at once not to run, told in a later turn: verbs that end in DOWN, questions with no answer.
 *
 * That takes no memory, for there may be none: an item or a question lies here itself. An operation that did not even
 * become one was not taken, which the core is told at once (core_op.untaken).
 */
#ifndef RLOCKD_BACKEND_DOWN_H
#define RLOCKD_BACKEND_DOWN_H

#include "daemon/backend/backend.h"
#include "daemon/backend/call.h"
#include "daemon/backend/inspect.h"

/* Embedded in its node. */
struct down {
    const struct backend_env *env;
    struct list items;  /* item.node; owned */
    struct list blind;  /* inspect.node; owned */
    struct event *ev;   /* owned: somebody is to be told */
};

/* False: out of memory. down_fini() is called in both cases. */
bool down_init(struct down *d, const struct backend_env *env);
void down_fini(struct down *d);

/* Takes the item, from wherever it stands. */
void down_item(struct down *d, struct item *it);

/* Takes the question. */
void down_look(struct down *d, struct inspect *q);

/* Nobody is to be told. */
bool down_idle(const struct down *d);

#endif
