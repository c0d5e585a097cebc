/*
 * commands_private.h -- what the command files share. For daemon/serve/ alone.
 */
#ifndef RLOCKD_SERVE_COMMANDS_PRIVATE_H
#define RLOCKD_SERVE_COMMANDS_PRIVATE_H

#include "daemon/serve/commands.h"
#include "daemon/serve/fields.h"

#define REDIS_VERSION_SPOKEN "7.2.0" /* the version whose connection commands we answer; clients check it */
#define COMMAND_NAME_BYTES 32
#define COMMAND_USAGE_BYTES 256
#define COMMAND_SHOWN_BYTES 128 /* of an unknown command, shown in the error as by Redis */
#define CLIENT_WORD_BYTES_MAX 255
#define CLIENT_LIB_BYTES (2 * CLIENT_WORD_BYTES_MAX + 2)
#define OWNER_BYTES 64 /* "<uuid>:<number>" and some */

/* ---- commands_check.c ---- */

/* "lock"; "LOCK name [WAIT ...". */
void command_lower_name(enum command_id id, char out[COMMAND_NAME_BYTES]);
void command_print_usage(enum command_id id, char out[COMMAND_USAGE_BYTES]);

/* `-ERR unknown subcommand 'X'. Try CLIENT HELP.`, noted as below. */
void command_refuse_subcommand(struct cmd *c);

/*
 * Refuses a command of Redis that rlockd does not have, counts it, and logs it, for the client may have been pointed
 * here by mistake. `command`: its first word; `reason`: as in the reply, of any bytes and length.
 */
void command_note_refusal(struct session *s, struct slice command, const char *reason);

/* The greatest length of one answer of this command. */
size_t command_answer_bytes_max(const struct cmd *c);

/*
 * A name in word[1] of 1..limit bytes, or one that is in use: a reload may have changed the limit. False: the error is
 * written.
 */
bool command_check_name(struct cmd *c);

/* Each of the names is within the limit, or in use. */
bool command_names_allowed(const struct cmd *c, const struct slice *name, unsigned n);

/* CLIENT HELP and its like: usage and summary, as an array of lines. */
void command_subcommand_help(struct cmd *c);

/* ---- commands_reply.c ---- */

/* "<uuid>:<number>", as Redis has it. */
void owner_print(const struct engine *e, uint64_t number, char out[OWNER_BYTES]);

/* ---- the commands ---- */

/*
 * commands_lock.c: may the key that the rules give the name be a lock? A name that is in use keeps its key, and is
 * always allowed. False: the error is written.
 */
bool command_check_key(struct cmd *c, const struct core_request *rq);

/* The fields that all requests of this command to the core have in common. */
struct core_request command_request(const struct cmd *c, struct slice name);

/* Ends a session; a session that kills itself still gets its reply. */
void command_kill(struct session *victim, struct session *by);

/*
 * commands_client.c: what a client says of itself. check: false with the error written (what = "Client names");
 * set: an empty word unsets.
 */
bool client_check_word(const char *what, struct slice word, struct writer *out);
void client_set_word(char **owned, struct slice word);
void client_forget_words(struct session *s);

/* monitor.c: sends the command to every MONITOR session, before it runs. */
void monitor_feed(const struct cmd *c);

/* look.c: one record each, for LOCKS, WAITERS, SESSIONS and for the tables of INFO. */
struct look_text {
    char owner[OWNER_BYTES], lib[CLIENT_LIB_BYTES]; /* what the fields of one record point at */
};
void look_lock(const struct engine *e, const struct core_lock_view *v, int64_t now_us, struct look_text *text,
               struct fields *f, struct fields_spot *state); /* gets the place of the value `state`; NULL: not needed */
void look_waiter(const struct engine *e, const struct core_waiter_view *v, int64_t now_us, struct look_text *text,
                 struct fields *f);
void look_holder(const struct engine *e, const struct core_holder_view *v, int64_t now_us, struct look_text *text,
                 struct fields *f);
void look_session(const struct session *s, int64_t now_us, struct look_text *text, struct fields *f);

/* Marks the word "held" at `state` in the box: it is true while the grant stands. */
void look_says_held(const struct engine *e, struct outbox *box, const struct core_lock_view *v,
                    struct fields_spot state);

/* look.c: asks Redis about a name; `write` then makes the whole reply of what Redis has. */
typedef void look_fn(struct engine *e, struct slice name, const struct backend_seen *seen, struct outbox *box,
                     struct writer *w);
enum cmd_result look_ask(struct cmd *c, struct slice name, look_fn *write);

/*
 * tree.c: which owner waits for which, root holders first: names that match and those above them, in at most rows_max
 * lines. tree_step() takes some tens of microseconds; when it returns false, the tree can be printed.
 */
struct tree;
struct tree *tree_new(struct engine *e, struct slice glob, size_t rows_max);
bool tree_step(struct tree *t, int64_t now_us);
void tree_print(struct tree *t, struct buf *out, struct outbox *box); /* box: notes the grants relied on */
void tree_free(struct tree *t);

/* info_tables.c: INFO locks, waiters, sessions, tree; made in slices. */
bool info_is_table(struct slice section);
enum cmd_result info_table(struct cmd *c, struct slice section, struct slice glob, size_t rows_max);

/* lists.c: how many records one step of a listing compares with the glob. */
unsigned look_step_records(struct slice glob);

#endif
