/*
 * rlockd_sockets.c -- the sockets of rlockd.
 *
 * A daemon takes its addresses first, and accepts connections last. So a daemon that does not get its addresses ends
 * before it has touched anything of a running one (the embedded Redis, the state directory), and no connection is
 * accepted before the daemon can serve.
 */
#include "daemon/rlockd_sockets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon/serve/roles.h"

/* Takes a socket that systemd passed under that name. */
static bool
adopt(struct sockets *s, int fd, const char *name, char error[160])
{
    if (strcmp(name, "http") == 0) {
        if (s->has_http) { /* it would serve locks in place of the page */
            close(fd);
            snprintf(error, 160, "passed sockets: more than one is named http");
            return false;
        }
        s->has_http = listening_adopt(&s->http_open, fd, error);
        return s->has_http;
    }
    if (s->open_n == CONF_LISTEN_MAX) {
        close(fd);
        snprintf(error, 160, "passed sockets: more than %d for clients", CONF_LISTEN_MAX);
        return false;
    }
    if (!listening_adopt(&s->open[s->open_n], fd, error)) {
        return false;
    }
    s->open_n++;
    s->passed = true;
    return true;
}

/* Takes the sockets that systemd passed. False: one of them is of no use. */
static bool
take_passed(struct sockets *s, char error[160])
{
    char **names = NULL;
    bool ok = true;
    int n = sd_listen_fds_with_names(1, &names);

    if (n < 0) {
        snprintf(error, 160, "passed sockets: %s", strerror(-n));
        return false;
    }
    for (int i = 0; i < n; i++) {
        int fd = SD_LISTEN_FDS_START + i;

        if (!ok) {
            close(fd);
        } else {
            ok = adopt(s, fd, names[i], error);
        }
        free(names[i]);
    }
    free(names);
    return ok;
}

static bool
open_configured(struct sockets *s, const struct conf *cf, bool need_all, const struct log *log, char error[160])
{
    for (size_t i = 0; i < cf->listen.n; i++) {
        if (listening_open(&s->open[s->open_n], cf->listen.item[i], (unsigned)cf->socket_mode, error)) {
            s->open_n++;
        } else if (need_all) {
            return false;
        } else {
            log_event(log, LOG_WARN, "rlockd", "not listening", "error", LOG_S(error), "effect",
                      LOG_S("no client can connect there"), "remedy", LOG_S("mend the address, then restart rlockd"),
                      NULL);
        }
    }
    if (s->open_n == 0) {
        snprintf(error, 160, "none could be opened");
    }
    return s->open_n > 0;
}

bool
sockets_allowed(const struct sockets *s, const struct conf *cf, char error[160])
{
    for (size_t i = 0; i < s->open_n; i++) {
        if (roles_refuse_listener(cf, s->open[i].addr, s->open[i].other_hosts, error)) {
            return false;
        }
    }
    return true;
}

bool
sockets_open(struct sockets *s, const struct conf *cf, bool need_all, const struct log *log, char error[160])
{
    if (!take_passed(s, error) || (s->open_n == 0 && !open_configured(s, cf, need_all, log, error))) {
        return false;
    }
    if (!sockets_allowed(s, cf, error)) {
        return false;
    }
    if (!s->has_http && cf->http_listen[0] != '\0') {
        s->has_http = listening_open(&s->http_open, cf->http_listen, (unsigned)cf->socket_mode, error);
        return s->has_http;
    }
    return true;
}

bool
sockets_serve(struct sockets *s, struct engine *e, char error[160])
{
    while (s->served_n < s->open_n) {
        struct listener *l = listener_serve(e, &s->open[s->served_n], error);

        s->served[s->served_n++] = l; /* what listened is taken, also on failure */
        if (l == NULL) {
            return false;
        }
        log_event(e->log, LOG_INFO, "rlockd", "listening", "address", LOG_S(listener_addr(l)), NULL);
    }
    if (s->has_http) {
        const struct conf_warning *w = roles_warn_of_page(e->conf, s->http_open.other_hosts);

        s->has_http = false;
        s->http = http_serve(e, &s->http_open, error);
        if (s->http == NULL) {
            return false;
        }
        log_event(e->log, w != NULL ? LOG_WARN : LOG_INFO, "rlockd", "http", "address", LOG_S(http_addr(s->http)),
                  w != NULL ? "reason" : NULL, LOG_S(w != NULL ? w->reason : ""), "remedy",
                  LOG_S(w != NULL ? w->remedy : ""), NULL);
    }
    return true;
}

void
sockets_leave_to_systemd(struct sockets *s)
{
    if (s->passed) {
        sockets_stop_accepting(s);
    }
}

void
sockets_stop_accepting(struct sockets *s)
{
    while (s->open_n > s->served_n) {
        listening_close(&s->open[--s->open_n]);
    }
    while (s->served_n > 0) {
        listener_close(&s->served[--s->served_n]);
    }
    s->open_n = 0;
}

void
sockets_close(struct sockets *s)
{
    sockets_stop_accepting(s);
    if (s->has_http) {
        listening_close(&s->http_open);
        s->has_http = false;
    }
    http_close(&s->http);
}
