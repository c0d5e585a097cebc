/*
 * lockinfo.h -- questions to Redis about one name.
 */
#ifndef RLOCKD_SERVE_LOCKINFO_H
#define RLOCKD_SERVE_LOCKINFO_H

#include <stdint.h>

#include "daemon/serve/cmd.h"

struct inspected_key;
struct engine;
struct outbox;
struct writer;

/* Asks Redis about a name; `write` then makes the whole reply of what Redis has. */
typedef void lockinfo_fn(struct engine *e, struct slice name, const struct inspected_key *found, struct outbox *box,
                         struct writer *w);
enum cmd_result lockinfo_ask(struct cmd *c, struct slice name, lockinfo_fn *write);

/* Redis has answered the question that was given to backend_inspect() with this id. */
void lockinfo_inspected(struct engine *e, uint64_t id, const struct inspected_key *found);

/* Drops the questions that Redis has not answered, because the engine ends. */
void lockinfo_drop_all(struct engine *e);

#endif
