/*
 * held.h -- the table of what Redis has of us, in files that outlive the process: `held`, and for longer names
 * `held-1k`, `held-2k` and `held-long`. They grow with what is kept, and shrink when they are mostly empty.
 *
 * Mapped memory: to keep something is to copy a few words, with no call to the kernel. It survives the process, however
 * that ends. When the machine loses its power it may be old or gone; then what was not found runs out by its lease, as
 * it would without a table.
 */
#ifndef RLOCKD_SERVE_HELD_H
#define RLOCKD_SERVE_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/core/core.h"

enum { HELD_BOOT = 96, HELD_BLOCK = 1 << 20 };

struct held;

struct held_counts {
    uint64_t kept;   /* records now */
    uint64_t owners; /* named owners that no session uses */
    uint64_t bytes;  /* of the files */
    uint64_t torn;   /* found broken at the start, and dropped */
    uint64_t unkept; /* could not be kept: no room on the disk, no memory, or too long a name */
};

/* This boot of this machine, and the clock by which deadlines are reckoned. */
void held_boot(char boot[HELD_BOOT]);

/* Opens or begins the files in the directory. One of another version is begun anew. NULL with a message. */
struct held *held_open(int dir, const char *boot, char error[160]);
void held_close(struct held **h);

/*
 * What is in it, for ADOPT: records (of another boot: without their deadlines, which no clock can tell any more), named
 * owners without a session (of another boot: none), the last id and token. Ids above that are reserved from now on.
 * False: out of memory. The records are to be freed.
 */
bool held_load(struct held *h, struct core_adoption *a);
void held_loaded_free(struct core_adoption *a);

/* All that was loaded has been adopted: what is in it from now on is of this boot. */
void held_adopted(struct held *h);

/* False: it is not kept (any more). */
bool held_keep(struct held *h, const struct core_kept *k);
void held_forget(struct held *h, uint64_t claim);

/* The same for named owners that no session uses; see owners_file.h. */
bool held_keep_owner(struct held *h, const struct core_kept_owner *k);
void held_forget_owner(struct held *h, uint64_t id);

/* A bit of what makes files smaller that are mostly empty. True: there is more of it. */
bool held_tidy(struct held *h);

/* Ids up to this one have been used: those above it stay reserved. */
void held_serial(struct held *h, uint64_t serial);

/* The epoch of Redis's data (backend/epoch.h) in which all that is held was last; 0 = not known. */
uint64_t held_epoch(const struct held *h);
void held_set_epoch(struct held *h, uint64_t epoch);

/* Whether there were other daemons on that Redis. */
bool held_others(const struct held *h);
void held_set_others(struct held *h, bool others);

struct held_counts held_count(const struct held *h);

#endif
