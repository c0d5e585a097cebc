/*
 * bundle.h -- calls of one verb and kind, each of one name, as one script command: a bundle; scripts/bundle.lua.
 *
 * In a cluster most names have a slot of their own, and so a call of their own; but a command costs Redis several
 * times what a name costs. So usual calls share a command. The script leaves a call undone if its name is in no usual
 * state; that call is sent again by itself. The calls are a list, by call.node.
 */
#ifndef RLOCKD_BACKEND_BUNDLE_H
#define RLOCKD_BACKEND_BUNDLE_H

#include "daemon/backend/call.h"
#include "daemon/backend/link.h"

/* Whether the call may be in a bundle: it has one name, and no unusual terms. */
bool bundle_takes(const struct call *c);

/* Whether both calls may share a bundle: verb, kind, link and common words are the same. */
bool bundle_joins(const struct call *c, const struct call *other);

/* The words of a command while they are made. They move with `text` until bundle_end() slices it. */
struct bundle_words {
    struct buf *text; /* scratch; must outlive the words */
    size_t end[LINK_WORDS_MAX];
    int n;
};

/* Puts the words that the calls have in common. guard_us: by the clock of Redis; 0 = none. */
void bundle_begin(struct bundle_words *w, struct buf *text, const struct list *calls, int64_t guard_us,
                  const struct call_sender *sender);

/* Adds the words of the call. `sender`: with keys and epoch of the call's slot. */
void bundle_add(struct bundle_words *w, const struct call *c, const struct call_sender *sender);

/* Makes the words of the command, by the script's text or, if that is NULL, its digest. Returns their number. */
int bundle_end(const struct bundle_words *w, const char *text, const char *sha, struct slice words[LINK_WORDS_MAX]);

/* Whether the reply is an answer to a bundle of n calls. */
bool bundle_answer_ok(const struct reply *r, size_t n);

/* The answer to the i-th call, `c`, as the script of its verb would give it; NULL: the script has left `c` undone. */
struct bundle_answer {
    struct reply whole, number[6];
    struct reply *item[6];
};
const struct reply *bundle_answer(const struct reply *r, size_t i, const struct call *c, struct bundle_answer *out);

#endif
