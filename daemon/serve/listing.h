/*
 * listing.h -- long replies, made in slices: LOCKS over a million names must not stop the loop.
 *
 * A listing is work that looks at a few records at a time. If no other listing waits, and it fits into the time that
 * this turn has left for listings, it is answered at once; else the request's slot waits, and the listing goes on in
 * the next turns, in turn with those of other sessions. A session has one at a time, because these commands run as the
 * oldest request. It is no snapshot: records come and go meanwhile, and each row shows its own moment.
 */
#ifndef RLOCKD_SERVE_LISTING_H
#define RLOCKD_SERVE_LISTING_H

#include "daemon/serve/cmd.h"
#include "daemon/serve/session_record.h"

/* What a kind of listing does with its work, a record of its own whose first member is this. */
struct listing_work {
    /* Some tens of microseconds of it. False: all is done. */
    bool (*advance)(struct listing_work *w, struct engine *e);
    /* Writes the one reply; `out` writes into box, which notes the grants that it relies on. */
    void (*finish)(struct listing_work *w, struct engine *e, struct outbox *box, struct writer *out);
    /* Frees it, finished or not. */
    void (*drop)(struct listing_work *w, struct engine *e);
    struct chunks *more; /* owned by the work; follows what finish() has written. NULL: nothing */
};

/* A copy of a request's words, which are only lent: its size in bytes, and the slices into it. */
size_t listing_words_bytes(const struct words *w);
void listing_copy_words(const struct words *from, struct words *to, char *bytes);

/* Takes the work (owned from now on). */
enum cmd_result listing_run(struct cmd *c, struct listing_work *w);

/* The same for a command that replies at once, but whose reply costs much: the handler runs when there is time. */
enum cmd_result listing_once(struct cmd *c, cmd_fn *handler);

/* To be called once in a turn: works on listings that wait. While engine.listings has any, the loop must not sleep. */
void listings_turn(struct engine *e);

/* Drops them all, unanswered: the engine ends. */
void listings_drop_all(struct engine *e);

#endif
