/*
 * serving.h -- serves the requests about a claim that is held; private to daemon/core.
 */
#ifndef RLOCKD_CORE_SERVING_H
#define RLOCKD_CORE_SERVING_H

#include <stdbool.h>

struct claim;
struct core;
struct request;

/* serving.c */
void serve_claim(struct core *c, struct claim *cl);      /* HELD: serves the next requests of its owner */

#endif
