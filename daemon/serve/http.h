/*
 * http.h -- /healthz, /readyz and /metrics, for probes and Prometheus. Changes nothing.
 */
#ifndef RLOCKD_SERVE_HTTP_H
#define RLOCKD_SERVE_HTTP_H

#include "daemon/serve/engine_record.h"

struct http;
struct listening;

/* Serves at a listening socket (taken over, also on failure). NULL with a message in `error`. */
struct http *http_serve(struct engine *e, struct listening *on, char error[160]);

const char *http_addr(const struct http *h);
void http_close(struct http **h);

#endif
