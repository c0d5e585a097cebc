/*
 * grants.h -- a claim is granted its lock; when its lease is renewed. Private to daemon/core.
 */
#ifndef RLOCKD_CORE_GRANTS_H
#define RLOCKD_CORE_GRANTS_H

#include <stdint.h>

struct claim;
struct core;

/* HELD now: the first of its requests is answered; serve_claim() goes on with the others */
void grant_claim(struct core *c, struct claim *cl, int64_t tried_us, int64_t sent_us);
void grant_plan_renewal(const struct core *c, struct claim *cl, int64_t sent_us);

#endif
