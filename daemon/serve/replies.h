/*
 * replies.h -- a request is answered by the number of its slot. What else is done with slots is in slots.h.
 */
#ifndef RLOCKD_SERVE_REPLIES_H
#define RLOCKD_SERVE_REPLIES_H

#include <stdint.h>

#include "daemon/serve/reply_form.h"

struct engine;
struct outbox;
struct chunks;
struct session;

/*
 * Where to write the reply of slot `id`, and how; call slots_end_reply() when all of it is written. NULL: the slot is
 * answered already.
 */
struct outbox *slots_begin_reply(struct session *s, uint64_t id, enum reply_form *form);
void slots_end_reply(struct session *s, uint64_t id);

/*
 * Appends `more` behind what was written of the oldest slot's reply; takes `more`, and copies no byte. NULL: nothing.
 */
void slots_append(struct session *s, struct chunks *more);

/*
 * Answers slot `id` with the whole reply, which is taken. Unknown ids (of a closed session) are ignored. `more`, of the
 * oldest slot only, follows the reply; NULL: nothing.
 */
void slots_put_reply(struct engine *e, uint64_t session, uint64_t id, struct outbox *reply, struct chunks *more);

#endif
