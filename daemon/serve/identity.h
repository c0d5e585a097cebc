/*
 * identity.h -- the identity of this daemon in Redis: random for this process, or stored in a state directory.
 *
 * With a state directory a daemon stays the same after a restart: it keeps its uuid, and the secret from which values
 * of `simple` locks and permits are derived. One process at a time may use it: the file `lock` is locked for the life
 * of the process. A copy of the directory on another machine is noticed by the nonces: each process has its own, and
 * knows those of the processes before it.
 */
#ifndef RLOCKD_SERVE_IDENTITY_H
#define RLOCKD_SERVE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/hash.h"

enum { IDENTITY_NONCES = 4, IDENTITY_DIR_BYTES = 256 };

struct identity_nonces {
    uint64_t now;                  /* of this process, never 0 */
    uint64_t was[IDENTITY_NONCES]; /* of former processes, the last one first; 0 = none. More than one, because a
                                      process may have ended before it registered */
};

struct identity {
    char uuid[37];
    struct hash_key secret;
    struct identity_nonces nonces;
    bool predecessor_ended; /* the former process is known to have ended: its registration need not lapse first */
    int lock; /* owned: the locked file; -1 = for this process only */
    int dir;  /* owned: the state directory; -1 = none */
};

/*
 * The state directory by the configuration: "none": no directory; "": the one that systemd made for the daemon, if any.
 * False: there is none.
 */
bool identity_dir(const char *configured, char dir[IDENTITY_DIR_BYTES]);

/* Draws a new identity, for this process only. False: no random bytes. */
bool identity_draw(struct identity *id);

/* The identity stored in `dir`; if there is none, makes the directory and a new identity. False with a message. */
bool identity_take(struct identity *id, const char *dir, char error[160]);

/* The id of this boot of the machine. False: it cannot be read; `boot` is "", errno says why. */
#define IDENTITY_BOOT_FILE "/proc/sys/kernel/random/boot_id"
bool identity_boot(char boot[40]);

/* Lets another process use the directory. */
void identity_release(struct identity *id);

#endif
