/*
 * script_variants.h -- the scripts of the verbs as nodes of a cluster or of a quorum run them.
 */
#ifndef RLOCKD_BACKEND_SCRIPT_VARIANTS_H
#define RLOCKD_BACKEND_SCRIPT_VARIANTS_H

#include "daemon/backend/call.h"

/* Texts; owned. NULL: the plain text serves, or the kind has no such variant. */
struct script_variants {
    bool of_quorum;              /* call_quorum_text() */
    bool sharded;                /* scripts publish wake-ups by SPUBLISH (Redis >= 7), in the slot of the name */
    bool publishes_both;         /* if sharded: and by PUBLISH */
    char *text[VERBS][KINDS];    /* if sharded */
    char *one_key[VERBS][KINDS]; /* RENEW and RELEASE with KEYS = the name alone */
    char *bundle;                /* if publishes_both */
};

/* NULL: the plain variants. */
static inline bool
script_variants_sharded(const struct script_variants *f)
{
    return f != NULL && f->sharded;
}

/*
 * A node with an open slot runs no script with several keys if it lacks one of them. So held locks in an open slot are
 * renewed and released by scripts that name one key and no epoch. In these variants a missing key is GRACE, never GONE.
 * Kinds with further keys have no such variant.
 */
void script_variants_init(struct script_variants *f, bool sharded, bool both);
void script_variants_fini(struct script_variants *f);

/* Those of a quorum; they have nothing to free. */
extern const struct script_variants script_variants_of_quorum;

/* f NULL: the plain ones. Returns NULL if the verb of the kind has no variant with one key. */
const char *script_variants_text(const struct script_variants *f, enum call_verb verb, enum kind kind, bool one_key);

const char *script_variants_bundle(const struct script_variants *f);

#endif
