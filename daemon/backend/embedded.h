/*
 * embedded.h -- a private redis-server as a child: `--redis embedded`.
 */
#ifndef RLOCKD_BACKEND_EMBEDDED_H
#define RLOCKD_BACKEND_EMBEDDED_H

#include <stdbool.h>
#include <sys/types.h>

struct embedded;

/*
 * Starts redis-server on RUN_DIR/NAME.sock: no TCP port, no persistence, log in RUN_DIR/NAME.log. The child ends with
 * this process, even after SIGKILL. Waits up to two seconds until the server listens. NAME.sock.lock stays locked while
 * the record lives. NULL with a message in `error`.
 */
struct embedded *embedded_start(const char *run_dir, const char *name, char error[160]);

/*
 * A child of this process has ended. If it was this Redis, reaps it and starts it anew, empty, at the same address.
 * False with a message in `error`: it cannot be started, or has been started anew RESTARTS_MAX times in a row and has
 * ended each time within seconds.
 */
bool embedded_restart(struct embedded *e, char error[160]);

/* "unix:RUN_DIR/NAME.sock"; valid until embedded_stop(). */
const char *embedded_url(const struct embedded *e);

pid_t embedded_pid(const struct embedded *e);

/* Kills and reaps the child. */
void embedded_stop(struct embedded **e);

#endif
