/*
 * credential.h -- secrets in files: where they are, and who may read them.
 *
 * A path of the configuration may be "credential:NAME": a credential that systemd passes (LoadCredential=), which is
 * the file NAME in $CREDENTIALS_DIRECTORY.
 */
#ifndef RLOCKD_BASE_CREDENTIAL_H
#define RLOCKD_BASE_CREDENTIAL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { CREDENTIAL_WHY_ROOM = 128 };

/* The path that is meant. False: there is none; `why` has a sentence. */
bool credential_path(const char *name, char path[PATH_MAX], char why[CREDENTIAL_WHY_ROOM]);

/*
 * Opens a file with a secret, which must be a regular one that not everyone may read. -1: `why` has a sentence.
 */
int credential_open(const char *name, char why[CREDENTIAL_WHY_ROOM]);

#endif
