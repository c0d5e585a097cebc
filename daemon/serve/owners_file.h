/*
 * owners_file.h -- the file `owners` beside those of state_file.h: until when named owners without a session live.
 *
 * `serial`, up to which ids are reserved, is in the state file and in this one. A version of rlockd without this file
 * raises it in the state file alone: when the two differ, this file is begun anew. It is also begun anew after a boot:
 * its times are of CLOCK_BOOTTIME, like all deadlines, so setting the wall clock changes nothing. An owner without a
 * checkpoint has its whole owner grace.
 */
#ifndef RLOCKD_SERVE_OWNERS_FILE_H
#define RLOCKD_SERVE_OWNERS_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/core.h"
#include "daemon/serve/slot_file.h"

#define OWNERS_FILE "owners"

struct owners_file {
    struct slot_file table; /* owned */
};

/* False: errno says why. It may be closed even then, and before it is opened if table.fd is -1. */
bool owners_file_open(struct owners_file *f, int dir);
void owners_file_close(struct owners_file *f);

/*
 * Loads the checkpoints. If the file is not valid (same_boot, serial) it is emptied; broken checkpoints are dropped and
 * counted in *torn. The names point into the block of *out, which the caller frees.
 */
void owners_file_load(struct owners_file *f, bool same_boot, uint64_t serial, struct core_owner_checkpoint **out,
                      size_t *n, uint64_t *torn);
void owners_file_serial(struct owners_file *f, uint64_t serial);

bool owners_file_keep(struct owners_file *f, const struct core_owner_checkpoint *cp); /* false: no room */
void owners_file_drop(struct owners_file *f, uint64_t id);

#endif
