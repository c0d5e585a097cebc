/*
 * commands.h -- what each command does.
 *
 * A handler gets the words of one request and a writer for its reply. It
 * either writes its one whole reply and returns CMD_DONE, or returns CMD_LATER
 * after it has arranged that session_answer() will be called with `slot`.
 */
#ifndef RLOCKD_SERVE_COMMANDS_H
#define RLOCKD_SERVE_COMMANDS_H

#include "daemon/serve/session.h"

enum cmd_result { CMD_DONE, CMD_LATER };

struct cmd {
    struct session *session;
    const struct words *words;
    uint64_t slot;      /* for CMD_LATER */
    enum command_id id;
    struct writer *out;
    struct outbox *box; /* behind `out`: notes the grants that the reply relies on */
    enum reply_form *form; /* the slot's, FORM_NATIVE at first; set it before a step of the core */
};

typedef enum cmd_result cmd_fn(struct cmd *c);

/*
 * Looks the verb up and checks arity, authentication and role. CMD_NONE: the error is
 * in `out` (or, for a cross-protocol verb, *close is set and nothing must be written).
 */
#define CMD_NONE (-1)
int command_admit(struct session *s, const struct words *w, struct writer *out, bool *close);

/* Runs it. */
enum cmd_result command_run(struct cmd *c);

/* Writes a reply of the core (commands_reply.c): `out` writes into box, which notes the grants that it relies on. */
void command_write_reply(struct engine *e, struct outbox *box, struct writer *out, const struct core_reply *r);

/* Redis has answered the question that look.c gave to backend_look() with this id. */
void command_seen(struct engine *e, uint64_t id, const struct backend_seen *seen);

/* Drops the questions that Redis has not answered, because the engine ends (look.c). */
void look_forget(struct engine *e);

/* One handler per row of commands.def. */
#define COMMAND(name, least, most, role, when, handler, group, usage, summary) cmd_fn cmd_##handler;
#include "proto/commands.def"
#undef COMMAND

#endif
