/*
 * script_forms.h -- the scripts of the verbs as nodes of a cluster run them.
 */
#ifndef RLOCKD_BACKEND_SCRIPT_FORMS_H
#define RLOCKD_BACKEND_SCRIPT_FORMS_H

#include "daemon/backend/call.h"

/* Texts; owned. NULL: the plain one will do, or the kind has no such form. */
struct script_forms {
    bool sharded;                /* wake-ups are published in the slot of the name: SPUBLISH, Redis >= 7 */
    char *text[VERBS][KINDS];    /* ... by these */
    char *one_key[VERBS][KINDS]; /* RENEW and RELEASE with KEYS = the name alone */
};

/*
 * Of a slot that is being moved a node runs no script with several keys of which it lacks one. So in an open slot what
 * is held is renewed and given back by scripts that name one key, and do not ask which epoch it is: there "not mine" is
 * GRACE, never GONE. Kinds that have keys beside the name's have no such form.
 */
void script_forms_init(struct script_forms *f, bool sharded);
void script_forms_fini(struct script_forms *f);

/* forms may be NULL: no cluster. NULL: there is none with one key. */
const char *script_forms_text(const struct script_forms *f, enum call_verb verb, enum kind kind, bool one_key);

#endif
