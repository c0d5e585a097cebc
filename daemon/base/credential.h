/*
 * credential.h -- files with secrets: their path, and the check of the users that may read them.
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

/* The path of a name in the configuration. False, with the reason in `why`: there can be no such file. */
bool credential_path(const char *name, char path[PATH_MAX], char why[CREDENTIAL_WHY_ROOM]);

/*
 * Opens a file with a secret, which must be a regular file that not every user may read. -1 with the reason in `why`.
 */
int credential_open(const char *name, char why[CREDENTIAL_WHY_ROOM]);

#endif
