/*
 * turns.h -- claims whose turn it is: by timer, in a window, or by an event; private to daemon/core.
 */
#ifndef RLOCKD_CORE_TURNS_H
#define RLOCKD_CORE_TURNS_H

struct claim;
struct core;

/* turns.c */
void claim_timer(struct core *c, struct claim *cl);
/*
 * An event is about this claim: what is due for it, and what a job has still to do with it, comes first, as if there
 * were no slices. The claim is not freed. lock_catch_up() is in reviews.h.
 */
void claim_catch_up(struct core *c, struct claim *cl);
void windows_advance(struct core *c);                     /* lets waiting claims send, as many as there is room for */

#endif
