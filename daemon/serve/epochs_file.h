/*
 * epochs_file.h -- the epochs of the domains above 0, in the file `epochs`; that of domain 0 is in the state file.
 *
 * The file is there only when some such domain has had an epoch: with one Redis there is none.
 */
#ifndef RLOCKD_SERVE_EPOCHS_FILE_H
#define RLOCKD_SERVE_EPOCHS_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/serve/slot_file.h"

#define EPOCHS_FILE "epochs"

struct epochs_file {
    struct slot_file table; /* fd -1: it is not there */
    int dir;                /* borrowed */
};

/*
 * Opens the file if it exists; `anew`: drops its contents. False: errno says why; the other functions can be called all
 * the same.
 */
bool epochs_file_open(struct epochs_file *f, int dir, bool anew);
void epochs_file_close(struct epochs_file *f);

uint64_t epochs_file_get(const struct epochs_file *f, uint16_t domain);            /* 0 = not known */
bool epochs_file_set(struct epochs_file *f, uint16_t domain, uint64_t epoch);     /* false: it is not kept */

#endif
