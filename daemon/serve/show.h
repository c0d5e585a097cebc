/*
 * show.h -- the fields of a lock, a waiter, a holder and a session, for programs.
 */
#ifndef RLOCKD_SERVE_SHOW_H
#define RLOCKD_SERVE_SHOW_H

#include <stdint.h>

#include "daemon/core/view.h"
#include "daemon/serve/commands_client.h"
#include "daemon/serve/commands_reply.h"
#include "daemon/serve/fields.h"

struct engine;
struct outbox;
struct session;

struct show_text {
    char owner[OWNER_BYTES], lib[CLIENT_LIB_BYTES]; /* what the fields of one record point at */
};

/* One record each. state: gets the range of the value `state`; NULL: not needed. */
void show_lock(const struct engine *e, const struct core_lock_view *v, int64_t now_us, struct show_text *text,
               struct fields *f, struct fields_range *state);
void show_waiter(const struct engine *e, const struct core_waiter_view *v, int64_t now_us, struct show_text *text,
                 struct fields *f);
void show_holder(const struct engine *e, const struct core_holder_view *v, int64_t now_us, struct show_text *text,
                 struct fields *f);
void show_session(const struct session *s, int64_t now_us, struct show_text *text, struct fields *f);

/* Marks the word "held" at `state` in the box: it is true while the grant is valid. */
void show_mark_held(const struct engine *e, struct outbox *box, const struct core_lock_view *v,
                    struct fields_range state);

#endif
