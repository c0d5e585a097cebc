/*
 * commands_reply.h -- replies of the core, as they are written to a client.
 */
#ifndef RLOCKD_SERVE_COMMANDS_REPLY_H
#define RLOCKD_SERVE_COMMANDS_REPLY_H

#include <stdint.h>

#include "daemon/core/core.h"

struct engine;
struct outbox;
struct writer;

#define OWNER_BYTES 64 /* "<uuid>:<number>" and some */

/* Writes a reply of the core: `out` writes into box, which notes the grants that it relies on. */
void command_write_reply(struct engine *e, struct outbox *box, struct writer *out, const struct core_reply *r);

/* Prints "<uuid>:<number>", the owner's name in Redis. */
void command_print_owner(const struct engine *e, uint64_t redis_owner, char out[OWNER_BYTES]);

#endif
