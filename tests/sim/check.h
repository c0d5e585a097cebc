/*
 * check.h -- declarations that the checking files share.
 */
#ifndef RLOCKD_TESTS_SIM_CHECK_H
#define RLOCKD_TESTS_SIM_CHECK_H

#include "tests/sim/sim.h"

bool name_has(const struct name *n, unsigned flag);        /* its kind has the flag: KIND_F_* */
uint64_t epoch_of(const struct daemon *d);                 /* of Redis, as the daemon knows it */
bool is_excused(const struct world *w, const struct name *n); /* S1 and S2 are excused */

/* Daemon a has the name, or its client does, by a grant in that epoch; b has it, too. */
void double_grant(struct world *w, const char *how, struct name *n, int a, uint64_t epoch, int b);

struct promise *promise_find(struct name *n, const struct daemon *d, uint64_t owner);
void promise_forget(struct name *n, int i);

#endif
