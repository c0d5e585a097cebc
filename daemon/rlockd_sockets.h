/*
 * rlockd_sockets.h -- the sockets that rlockd serves at: taken before anything else, served when all else is ready.
 */
#ifndef RLOCKD_SOCKETS_H
#define RLOCKD_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/conf.h"
#include "daemon/serve/http.h"
#include "daemon/serve/listener.h"

struct sockets {
    struct listening open[CONF_LISTEN_MAX];
    struct listener *served[CONF_LISTEN_MAX]; /* [i] serves open[i]; of that sockets_allowed() still reads addr */
    size_t open_n, served_n;
    bool passed;   /* systemd has passed these sockets, and keeps them open */
    struct listening http_open;
    bool has_http; /* http_open is taken, and not served yet */
    struct http *http;
};

/*
 * Takes the sockets that systemd passed, else those of the configuration; clients can connect from now on, and wait.
 * need_all: an address that cannot be opened is an error; else it is a line in the log, as long as another one can be
 * opened. False with a message in `error`; then, too, sockets_close() is needed.
 */
bool sockets_open(struct sockets *s, const struct conf *cf, bool need_all, const struct log *log, char error[160]);

/* Whether protected mode of this configuration lets clients connect here. False with a message in `error`. */
bool sockets_allowed(const struct sockets *s, const struct conf *cf, char error[160]);

/* Accepts waiting connections. False with a message in `error`. */
bool sockets_serve(struct sockets *s, struct engine *e, char error[160]);

/*
 * For a drain: connections to a socket of systemd wait for the next process. Sockets that the daemon has opened accept
 * until the end, for clients that only read, and for named owners that come back to unlock.
 */
void sockets_leave_to_systemd(struct sockets *s);

/* No client is accepted any more; the page for health checks stays. */
void sockets_stop_accepting(struct sockets *s);

void sockets_close(struct sockets *s);

#endif
