/*
 * cmd.h -- the record of one command while its handler runs.
 */
#ifndef RLOCKD_SERVE_CMD_H
#define RLOCKD_SERVE_CMD_H

#include <stdint.h>

#include "daemon/serve/session_record.h"

enum cmd_result { CMD_DONE, CMD_LATER }; /* see commands.h */

struct cmd {
    struct session *session;
    const struct words *words;
    uint64_t slot;      /* for CMD_LATER */
    enum command_id id;
    struct writer *out;
    struct outbox *box; /* where `out` writes; notes the grants that the reply relies on */
    enum reply_form *form; /* the slot's, FORM_NATIVE at first; set it before a step of the core */
};

typedef enum cmd_result cmd_fn(struct cmd *c);

#endif
