/*
 * script_forms.h -- the scripts of the verbs as nodes of a cluster or of a quorum run them.
 */
#ifndef RLOCKD_BACKEND_SCRIPT_FORMS_H
#define RLOCKD_BACKEND_SCRIPT_FORMS_H

#include "daemon/backend/call.h"

/* Texts; owned. NULL: the plain text serves, or the kind has no such form. */
struct script_forms {
    bool of_quorum;              /* call_quorum_text() */
    bool sharded;                /* scripts publish wake-ups by SPUBLISH (Redis >= 7), in the slot of the name */
    bool publishes_both;         /* if sharded: and by PUBLISH */
    char *text[VERBS][KINDS];    /* if sharded */
    char *one_key[VERBS][KINDS]; /* RENEW and RELEASE with KEYS = the name alone */
    char *bundle;                /* if publishes_both */
};

/* NULL: the plain forms. */
static inline bool
script_forms_sharded(const struct script_forms *f)
{
    return f != NULL && f->sharded;
}

/*
 * A node with an open slot runs no script with several keys if it lacks one of them. So held locks in an open slot are
 * renewed and released by scripts that name one key and no epoch. In these forms a missing key is GRACE, never GONE.
 * Kinds with further keys have no such form.
 */
void script_forms_init(struct script_forms *f, bool sharded, bool both);
void script_forms_fini(struct script_forms *f);

/* Those of a quorum; they have nothing to free. */
extern const struct script_forms script_forms_of_quorum;

/* forms NULL: the plain ones. Returns NULL if the kind has no form with one key. */
const char *script_forms_text(const struct script_forms *f, enum call_verb verb, enum kind kind, bool one_key);

const char *script_forms_bundle(const struct script_forms *f);

#endif
