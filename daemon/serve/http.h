/*
 * http.h -- /healthz, /readyz and /metrics, for probes and Prometheus. Looks, and changes nothing.
 */
#ifndef RLOCKD_SERVE_HTTP_H
#define RLOCKD_SERVE_HTTP_H

#include "daemon/serve/engine.h"

struct http;
struct listening;

/* Serves at "unix:PATH" or "tcp:HOST:PORT". NULL with a message in `error`. */
struct http *http_open(struct engine *e, const char *addr, char error[160]);

/* Serves at what listens (taken, also on failure). */
struct http *http_serve(struct engine *e, struct listening *on, char error[160]);

/* Serves on a listening fd that systemd passed (taken, also on failure). */
struct http *http_adopt(struct engine *e, int fd, char error[160]);

const char *http_addr(const struct http *h);
void http_close(struct http **h);

#endif
