/*
 * commands_private.h -- what the files of commands share. For daemon/serve/ alone.
 */
#ifndef RLOCKD_SERVE_COMMANDS_PRIVATE_H
#define RLOCKD_SERVE_COMMANDS_PRIVATE_H

#include "daemon/serve/cmd.h"
#include "daemon/serve/commands_reply.h"
#include "daemon/serve/fields.h"

#define REDIS_VERSION_SPOKEN "7.2.0" /* the version whose connection commands the daemon answers; clients check it */
#define CLIENT_WORD_BYTES_MAX 255
#define CLIENT_LIB_BYTES (2 * CLIENT_WORD_BYTES_MAX + 2)

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

/* lockinfo.c: one record each, for LOCKS, WAITERS, SESSIONS and for the tables of INFO. */
struct show_text {
    char owner[OWNER_BYTES], lib[CLIENT_LIB_BYTES]; /* what the fields of one record point at */
};
void show_lock(const struct engine *e, const struct core_lock_view *v, int64_t now_us, struct show_text *text,
               struct fields *f, struct fields_spot *state); /* gets the spot of the value `state`; NULL: not needed */
void show_waiter(const struct engine *e, const struct core_waiter_view *v, int64_t now_us, struct show_text *text,
                 struct fields *f);
void show_holder(const struct engine *e, const struct core_holder_view *v, int64_t now_us, struct show_text *text,
                 struct fields *f);
void show_session(const struct session *s, int64_t now_us, struct show_text *text, struct fields *f);

/* Marks the word "held" at `state` in the box: it is true while the grant stands. */
void show_marks_held(const struct engine *e, struct outbox *box, const struct core_lock_view *v,
                    struct fields_spot state);

/* lockinfo.c: asks Redis about a name; `write` then makes the whole reply of what Redis has. */
typedef void lockinfo_fn(struct engine *e, struct slice name, const struct backend_key *found, struct outbox *box,
                     struct writer *w);
enum cmd_result lockinfo_ask(struct cmd *c, struct slice name, lockinfo_fn *write);

/* info_tables.c: INFO locks, waiters, sessions, tree; made in slices. */
bool info_is_table(struct slice section);
enum cmd_result info_table(struct cmd *c, struct slice section, struct slice glob, size_t rows_max);

/* lists.c: how many records one step of a listing compares with the glob. */
unsigned lists_records_at_once(struct slice glob);

#endif
