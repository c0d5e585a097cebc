/*
 * bundle.h -- calls of one verb and kind, each of one name, as one script command: a bundle; scripts/bundle.lua.
 *
 * In a cluster most names have a slot of their own, and with it a call; a command costs Redis several times what it
 * does for a name. What is usual is done together; a call that is left goes again by itself. The calls are a list, by
 * call.node.
 */
#ifndef RLOCKD_BACKEND_BUNDLE_H
#define RLOCKD_BACKEND_BUNDLE_H

#include "daemon/backend/call.h"
#include "daemon/backend/link.h"
#include "daemon/backend/sha1.h"

/* Whether calls of that verb may be bundled: the call has one name, and nothing unusual is asked for. */
bool bundle_takes(const struct call *c);

/* ... and both in one bundle: what their words have in common is the same. */
bool bundle_joins(const struct call *c, const struct call *other);

/* The words of a command as they are made: no word in front of `words` is known before all are there. */
struct bundle_words {
    struct buf *text; /* scratch; must outlive the words */
    size_t end[LINK_WORDS_MAX];
    int n;
};

/* Begins with what the calls have in common; guard_us by the clock of Redis, 0 = none. */
void bundle_begin(struct bundle_words *w, struct buf *text, const struct list *calls, int64_t guard_us,
                  const struct call_sender *sender);

/* The call, with the sender as it is for its slot. */
void bundle_add(struct bundle_words *w, const struct call *c, const struct call_sender *sender);

/* The command: by its digest, or `whole`. Returns the number of words. */
int bundle_end(const struct bundle_words *w, bool whole, const char *sha, struct slice words[LINK_WORDS_MAX]);

void bundle_sha(char out[SHA1_HEX_BYTES + 1]);

/* Whether the reply answers a bundle of so many calls. */
bool bundle_answer_ok(const struct reply *r, size_t n);

/* The answer of the script of its verb that the i-th call has had; NULL: it is left. */
struct bundle_answer {
    struct reply whole, number[5];
    struct reply *item[5];
};
const struct reply *bundle_answer(const struct reply *r, size_t i, enum call_verb verb, struct bundle_answer *out);

#endif
