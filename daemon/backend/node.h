/*
 * node.h -- one Redis node: a pool of links, the calls gathered for them, its clock, its channels.
 *
 * A topology (single.c) finds the node of a key; everything else happens here.
 */
#ifndef RLOCKD_BACKEND_NODE_H
#define RLOCKD_BACKEND_NODE_H

#include "daemon/backend/backend.h"
#include "daemon/backend/link.h"

struct node;

/* conf and env are borrowed for the node's life, address is taken over (freed with it, also on failure). */
struct node *node_open(struct link_address *address, const struct backend_conf *conf, const struct backend_env *env);
void node_close(struct node **n);

void node_perform(struct node *n, const struct core_op *op, enum core_action_type verb);
bool node_look(struct node *n, uint64_t id, struct slice key);
void node_say(struct node *n, struct slice what);
void node_waiter_poll(struct node *n, const struct core_waiter_poll *p);
void node_configure(struct node *n, int64_t grace_us);
void node_reclaimed(struct node *n, uint64_t epoch);
void node_leave(struct node *n);
void node_flush(struct node *n);
bool node_idle(const struct node *n);
void node_status(const struct node *n, struct backend_status *out);

#endif
