/*
 * recheck.h -- checks sessions that may have ended unseen (see session.c), some milliseconds later.
 */
#ifndef RLOCKD_SERVE_RECHECK_H
#define RLOCKD_SERVE_RECHECK_H

#include "daemon/serve/session_record.h"

/* A session that has left engine.recheck by then is not checked. */
void recheck_add(struct engine *e, struct session *s);

/* At engine.recheck_us. */
void recheck_run(struct engine *e, int64_t now_us);

#endif
