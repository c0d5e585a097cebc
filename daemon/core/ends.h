/*
 * ends.h -- the end of a claim's hold, and the loss that is to be reported to its owner; private to daemon/core.
 */
#ifndef RLOCKD_CORE_ENDS_H
#define RLOCKD_CORE_ENDS_H

#include <stdbool.h>

struct claim;
struct core;

void end_by_loss(struct core *c, struct claim *cl, const char *reason, bool gone_in_redis);
void end_lapsed(struct core *c, struct claim *cl); /* the lease has ended, or the name was broken: ends the hold */
void end_gone_in_redis(struct core *c, struct claim *cl, bool news); /* Redis has nothing of the claim any more */
void end_keep_loss(struct core *c, struct claim *cl); /* LOST, until the loss is reported */
/* the loss expires: after its time, or because its owner, or all owners, have too many */
void end_loss_expired(struct core *c, struct claim *cl);
/* the loss of the claim has been reported to its owner: clears it; with permits, each loss of the owner at that lock */
void end_loss_reported(struct core *c, struct claim *cl);
/* the owner has received LOST for a grant: if the claim is still HELD, ends it first; then as end_loss_reported() */
void end_known_to_owner(struct core *c, struct claim *cl);
/* clears the loss of this claim: it was reported, or is not to be */
void end_clear_loss(struct core *c, struct claim *cl);

#endif
