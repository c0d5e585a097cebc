/*
 * epochs.h -- a new epoch of a domain, or a clock that has jumped; private to daemon/core.
 */
#ifndef RLOCKD_CORE_EPOCHS_H
#define RLOCKD_CORE_EPOCHS_H

#include <stdint.h>

struct core;
struct domain;

/* epochs.c */
void epochs_reclaim(struct core *c, struct domain *d, uint64_t epoch); /* Redis may have lost all that is held there */
void epochs_suspect(struct core *c, struct domain *d); /* a clock has jumped: Redis may not have the holds of the domain
                                                          any more */
void epochs_report(struct core *c);                   /* at the end of a step: RECLAIMED for each domain whose holds
                                                         are all reclaimed */

#endif
