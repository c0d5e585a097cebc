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
 * us, even after SIGKILL. Does not wait until it answers. NAME.sock.lock is locked as long as it is ours. NULL with a
 * message in `error`.
 */
struct embedded *embedded_start(const char *run_dir, const char *name, char error[160]);

/*
 * A child of ours has ended: when it was this one, it is reaped and started again, empty, at the same address. False
 * with a message in `error`: it cannot be, or it has ended again and again, each time within seconds.
 */
bool embedded_again(struct embedded *e, char error[160]);

/* "unix:RUN_DIR/NAME.sock"; lives as long as it. */
const char *embedded_url(const struct embedded *e);

pid_t embedded_pid(const struct embedded *e);

/* Ends and reaps it. */
void embedded_stop(struct embedded **e);

#endif
