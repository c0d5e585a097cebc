/*
 * owners_file.h -- the file `owners` beside the table of state_file.h: named owners that no session uses, and when they
 * end.
 *
 * It counts only for who wrote it last: `serial`, the ids reserved in the table, is written to both, so where a version
 * that knows no such file has run since, they differ and the file is begun anew. So it is after a boot, for its times
 * are of CLOCK_BOOTTIME, like all deadlines: setting the wall clock changes nothing. Without a record an owner has its
 * grace anew.
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

/* False: errno says why. Zeroed or opened, it may be closed. */
bool owners_file_open(struct owners_file *f, int dir);
void owners_file_close(struct owners_file *f);

/*
 * Its records, if it counts; those that do not are gone. The names point into the same block, which is the caller's to
 * free; broken records are dropped and counted.
 */
void owners_file_load(struct owners_file *f, bool counts, uint64_t serial, struct core_owner_record **out, size_t *n,
                      uint64_t *torn);
void owners_file_serial(struct owners_file *f, uint64_t serial);

bool owners_file_keep(struct owners_file *f, const struct core_owner_record *k); /* false: no room */
void owners_file_forget(struct owners_file *f, uint64_t id);

#endif
