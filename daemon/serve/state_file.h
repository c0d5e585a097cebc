/*
 * state_file.h -- the daemon's claims in Redis, in files that outlive the process: `held`, and for longer names
 * `held-1k`, `held-2k` and `held-long`. They grow with the checkpoints, and shrink when they are mostly empty.
 *
 * Mapped memory: a write copies a few words, without a system call, and survives the process, however that ends. After
 * a loss of power checkpoints may be old or gone; a lock without a checkpoint ends by its lease, as it would without a
 * file.
 */
#ifndef RLOCKD_SERVE_STATE_FILE_H
#define RLOCKD_SERVE_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/core/core.h"

enum { STATE_FILE_BOOT_BYTES = 96, STATE_FILE_IDS = 1 << 20 }; /* IDS: ids that are reserved at a time */

struct state_file;

struct state_file_counts {
    uint64_t checkpoints; /* of claims, now */
    uint64_t owners;      /* named owners that no session uses */
    uint64_t bytes;       /* of the files */
    uint64_t torn;        /* found broken at the start, and dropped */
    uint64_t not_written; /* no room on the disk, or too long a name */
};

/*
 * Identifies the boot of this machine, and the clock by which deadlines are measured. False: the boot is not known, so
 * `boot` is "", which is never the boot of a former process; errno says why.
 */
bool state_file_boot(char boot[STATE_FILE_BOOT_BYTES]);

/* Opens or creates the files in the directory (borrowed); empties those of another version. NULL with a message. */
struct state_file *state_file_open(int dir, const char *boot, char error[160]);
void state_file_close(struct state_file **h);

/*
 * The contents, for RESTORE: checkpoints (of another boot: without their deadlines, which no clock can measure any
 * more), named owners without a session (of another boot: none), the last id and token. Higher ids are reserved from
 * now on. False: errno says why. The caller frees the checkpoints.
 */
bool state_file_load(struct state_file *sf, struct core_restored *rs);
void state_file_loaded_free(struct core_restored *rs);

/* All that was loaded has been restored: checkpoints are of this boot from now on. */
void state_file_restored(struct state_file *sf);

/* Writes the checkpoint of a claim; removes it. False: it cannot be kept. */
bool state_file_keep(struct state_file *sf, const struct core_checkpoint *cp);
void state_file_drop(struct state_file *sf, uint64_t claim);

/* The same for named owners that no session uses; see owners_file.h. */
bool state_file_keep_owner(struct state_file *sf, const struct core_owner_checkpoint *cp);
void state_file_drop_owner(struct state_file *sf, uint64_t id);

/* One slice of making mostly empty files smaller. True: call again soon. */
bool state_file_tidy(struct state_file *sf);

/* Ids up to this one have been used: those above it stay reserved. */
void state_file_serial(struct state_file *sf, uint64_t serial);

/* The epoch (backend/epoch.h) to which all held locks of the domain belong; 0 = not known. */
uint64_t state_file_epoch(const struct state_file *sf, uint16_t domain);
void state_file_set_epoch(struct state_file *sf, uint16_t domain, uint64_t epoch);

/* Whether there were other daemons on that Redis. */
bool state_file_others(const struct state_file *sf);
void state_file_set_others(struct state_file *sf, bool others);

/* The longest redis.timeout of this process and the former ones whose commands may still run in Redis. */
void state_file_set_timeout(struct state_file *sf, int64_t timeout_us);

struct state_file_counts state_file_count(const struct state_file *sf);

#endif
