/*
 * front.h -- translates the commands of lock libraries made for Redis into the core's terms.
 *
 * Such clients send SET ... NX and a handful of fixed Lua scripts, which are known here by their SHA-1. Nothing is run:
 * a script that is known stands for what it does to a lock, any other is refused.
 */
#ifndef RLOCKD_SERVE_FRONT_H
#define RLOCKD_SERVE_FRONT_H

#include "daemon/base/clock.h"
#include "daemon/core/core.h"
#include "daemon/serve/reply_form.h"
#include "proto/commands.h"
#include "proto/reader.h"

#define FRONT_ERROR_BYTES 256
/* the bound of LOCK, too; longer leases are cut to it */
#define FRONT_LEASE_US_MAX (INT64_C(365) * 24 * 3600 * US_PER_S)
#define FRONT_SUPPORTED "the scripts of redis-py's Lock, of redlock 4.2 and 5, and of node-redis-warlock 1"

struct front_script; /* a row of the table of scripts */

struct front_call {
    enum core_event_type event; /* CORE_LOCK, CORE_UNLOCK or CORE_RENEW, of each name */
    enum reply_form form;
    const struct slice *name;   /* in the words, one behind the other, all different */
    unsigned names;             /* 1 .. CORE_MULTILOCK_MAX */
    struct slice owner;         /* 1 .. OPTIONS_OWNER_BYTES_MAX bytes */
    int64_t lease_us;           /* 0 = none given */
    bool adds;                  /* the lease is to be added to the time that is left */
};

/* The words of SET. False: the text for `-ERR ...` is in `error`. */
bool front_read_set(const struct words *w, size_t name_bytes_max, struct front_call *out,
                    char error[FRONT_ERROR_BYTES]);

/* The script of that SHA-1, in any case of its digits; or of that text. NULL: the front does not know it. */
const struct front_script *front_by_sha(struct slice sha);
const struct front_script *front_by_text(struct slice text);

/* The words of EVAL or EVALSHA, of this script. False as above. */
bool front_read_script(const struct front_script *sc, const struct words *w, size_t name_bytes_max,
                       struct front_call *out, char error[FRONT_ERROR_BYTES]);

/*
 * Must the request wait until all requests before it on its connection are answered, although its row has WHEN_OWNER?
 * It must if its handler looks up what is held at that moment.
 */
bool front_in_turn(enum command_id id, const struct words *w);

#endif
