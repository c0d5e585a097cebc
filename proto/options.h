/*
 * options.h -- the words of LOCK, UNLOCK, RENEW, CANCEL, MLOCK and MUNLOCK as a struct.
 */
#ifndef RLOCKD_PROTO_OPTIONS_H
#define RLOCKD_PROTO_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/kinds.h"
#include "daemon/base/slice.h"
#include "proto/commands.h"
#include "proto/reader.h"

#define OPTIONS_OWNER_BYTES_MAX 128
#define OPTIONS_LIMIT_MAX 1000000
#define OPTIONS_ERROR_BYTES 320

struct lock_options {
    const struct slice *name; /* in the words, one behind the other */
    unsigned names;           /* 1; M commands: 1 and more, all different */
    struct slice owner;       /* n == 0: none given */
    bool has_wait, has_lease, has_kind, shared, once, full;
    int64_t wait_us;  /* NOWAIT = 0; "WAIT forever" = DURATION_FOREVER */
    int64_t lease_us; /* LEASE, or RENEW's duration; > 0 */
    int64_t grace_us; /* GRACE; 0 = none given */
    enum kind kind;
    uint32_t limit; /* 0 = none given */
    uint64_t token; /* 0 = none given */
};

/*
 * Reads the words of one of these commands. False: `error` holds the sentence for `-ERR …`, which names the word that
 * is wrong and ends with the usage line.
 */
bool options_parse(enum command_id cmd, const struct words *w, size_t name_bytes_max, struct lock_options *out,
                   char error[OPTIONS_ERROR_BYTES]);

#endif
