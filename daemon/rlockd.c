/*
 * rlockd.c -- the lock manager's process: options, configuration, start and end, signals, systemd, the loop.
 *
 * Owns everything that lives as long as the process. Knows nothing of single locks, only their totals.
 * One thread: the loop turns, then the engine ends its turn, then after_turn() checks whether the process enters its
 * next phase.
 */
#include <errno.h>
#include <event2/event.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "conf/conf.h"
#include "conf/conf_keys.h"
#include "daemon/backend/embedded.h"
#include "daemon/backend/resolver.h"
#include "daemon/backend/tls.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/memory.h"
#include "daemon/serve/drain.h"
#include "daemon/serve/engine.h"
#include "daemon/serve/engine_record.h"
#include "daemon/serve/roles.h"
#include "daemon/rlockd_notify.h"
#include "daemon/rlockd_options.h"
#include "daemon/rlockd_redis.h"
#include "daemon/rlockd_rights.h"
#include "daemon/rlockd_sockets.h"
#include "daemon/version.h"

#define READY_WAIT_US (5 * US_PER_S)    /* the longest wait for Redis before READY */
#define RELEASES_US (500 * US_PER_MS)   /* the longest wait for the replies to the releases */

/* ---- the process ---- */

enum phase { PHASE_SERVING, PHASE_DRAINING, PHASE_ENDING, PHASE_OVER };

struct process {
    struct options opt;
    struct conf *conf;
    struct log log;
    struct log_cap log_cap;
    struct event_base *base;
    struct engine *engine;
    struct embedded *embedded;
    struct sockets sockets;
    struct event *signals[4];
    struct event *timer;    /* of the phase: READY_WAIT_US, the drain, RELEASES_US */
    struct notify notify;
    enum phase phase;
    bool time_up;           /* the timer has fired */
    bool left;              /* the daemon has left the membership in Redis */
    bool failed;            /* the process ends with status 1 */
    bool again;             /* there is work for another turn at once */
    bool ready;             /* READY was sent to systemd */
};

static void
set_timer(struct process *p, int64_t in_us)
{
    struct timeval tv = {.tv_sec = (time_t)(in_us / US_PER_S), .tv_usec = (suseconds_t)(in_us % US_PER_S)};

    p->time_up = false;
    event_add(p->timer, &tv);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct process *p = arg;

    (void)fd;
    (void)what;
    p->time_up = true;
}

/* READY once Redis was reached, or READY_WAIT_US later: a start must not wait for Redis for ever. */
static void
report_ready(struct process *p)
{
    bool up = p->engine->redis_up;

    if (p->ready || !(up || p->time_up)) {
        return;
    }
    p->ready = true;
    event_del(p->timer);
    notify_ready();
    notify_status(&p->notify, p->engine);
    log_event(&p->log, up ? LOG_INFO : LOG_WARN, "rlockd", "ready", "redis", LOG_S(up ? "up" : "down"),
              up ? NULL : "waited_ms", LOG_N(READY_WAIT_US / US_PER_MS), "effect",
              LOG_S("LOCK is answered UNAVAILABLE until Redis is up"), "remedy",
              LOG_S("start Redis, or mend redis.url: the lines of `redis` have the reason"), NULL);
}

/* ---- config ---- */

/* One line of errors per call of fn. */
static void
each_line(const struct buf *errors, void (*fn)(void *ctx, struct slice line), void *ctx)
{
    const char *at = errors->p, *end = errors->p + errors->n;

    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));

        stop = stop != NULL ? stop : end;
        if (stop > at) {
            fn(ctx, (struct slice){at, (size_t)(stop - at)});
        }
        at = stop + 1;
    }
}

static void
print_error(void *ctx, struct slice line)
{
    (void)ctx;
    fprintf(stderr, "%.*s\n", (int)line.n, line.p);
}

static void
log_error(void *ctx, struct slice line)
{
    const struct process *p = ctx;

    log_event(&p->log, LOG_ERROR, "conf", "refused", "error", LOG_B(line), NULL);
}

/* The first load. 0, or the exit status: an error on the command line is a usage error. */
static int
load_conf(struct process *p)
{
    struct buf errors;
    int status = 0;

    buf_init(&errors, 0);
    p->conf = conf_load(p->opt.conf_path, &p->opt.over, &errors);
    if (p->conf == NULL) {
        each_line(&errors, print_error, NULL);
        status = errors.n >= 2 && memcmp(errors.p, "--", 2) == 0 ? EXIT_USAGE : 1;
    }
    buf_fini(&errors);
    return status;
}

static void
log_restart_key(void *ctx, const char *path, const char *value, bool reloadable)
{
    const struct process *p = ctx;

    (void)value;
    (void)reloadable;
    log_event(&p->log, LOG_WARN, "conf", "needs a restart", "key", LOG_S(path), "effect",
              LOG_S("the old value stays in use"), "remedy", LOG_S("restart rlockd"), NULL);
}

/*
 * Takes the credentials for Redis, before the rest of the configuration: their files may be of no use, and then nothing
 * is taken. Credentials beside another URL are for the Redis of that URL, which the daemon uses after a restart.
 */
static bool
take_login(struct process *p, const struct conf *now, struct buf *errors)
{
    char error[160];

    if (strcmp(p->conf->redis_url, now->redis_url) != 0 || engine_login(p->engine, now, error)) {
        return true;
    }
    buf_adds(errors, error);
    return false;
}

static void
reload(struct process *p)
{
    struct buf errors;
    struct conf *now;
    char error[160];

    if (p->ready) { /* else systemd still waits for report_ready() */
        notify_reloading();
    }
    buf_init(&errors, 0);
    now = conf_load(p->opt.conf_path, &p->opt.over, &errors);
    if (now != NULL && !sockets_allowed(&p->sockets, now, error)) {
        buf_adds(&errors, error);
        conf_free(&now);
    }
    if (now != NULL) {
        own_redis_put_url(p->embedded, now);
    }
    if (now != NULL && conf_suits_url(now, p->conf->redis_url, &errors) && conf_same_keys(p->conf, now, &errors) &&
        take_login(p, now, &errors)) {
        struct conf *was = p->conf;

        conf_each_restart(was, now, log_restart_key, p);
        conf_keep(now, was);
        p->log.level = now->log_level;
        engine_reload(p->engine, now);
        p->conf = now;
        conf_free(&was);
        log_event(&p->log, LOG_INFO, "conf", "reloaded", NULL);
    } else {
        each_line(&errors, log_error, p);
        log_event(&p->log, LOG_ERROR, "conf", "not reloaded: the old configuration stays", "remedy",
                  LOG_S("mend the errors above, then reload again"), NULL);
        p->engine->metrics.config_reload_failures++;
        conf_free(&now);
    }
    buf_fini(&errors);
    if (p->ready) {
        notify_ready();
    }
}

/* ---- the way out ---- */

/* Ends all sessions, and so their own holds; the loop runs until Redis has answered, or for RELEASES_US. */
static void
end_now(struct process *p)
{
    if (p->phase >= PHASE_ENDING) {
        return;
    }
    p->phase = PHASE_ENDING;
    sockets_stop_accepting(&p->sockets);
    drain_start(p->engine, RELEASES_US);
    drain_close_sessions(p->engine, "shutdown");
    p->again = true; /* what the sessions held is still to be flushed */
    set_timer(p, RELEASES_US);
}

static void
drain(struct process *p)
{
    p->phase = PHASE_DRAINING;
    notify_stopping();
    sockets_leave_to_systemd(&p->sockets);
    drain_start(p->engine, p->conf->drain_us);
    notify_status(&p->notify, p->engine);
    set_timer(p, p->conf->drain_us);
}

/* The embedded Redis, the only child, has ended, or was only stopped. */
static void
redis_ended(struct process *p)
{
    if (p->embedded != NULL && p->phase < PHASE_ENDING && !own_redis_restart(p->embedded, &p->log)) {
        p->failed = true; /* without its Redis the daemon serves nothing */
        notify_stopping();
        end_now(p);
    }
}

static void
on_signal(evutil_socket_t number, short what, void *arg)
{
    struct process *p = arg;

    (void)what;
    if (number == SIGCHLD) {
        redis_ended(p);
        return;
    }
    log_event(&p->log, LOG_INFO, "rlockd", "signal", "name", LOG_S(strsignal((int)number)), NULL);
    if (number == SIGHUP) {
        reload(p);
    } else if (number == SIGTERM && p->phase == PHASE_SERVING) {
        drain(p);
    } else {
        notify_stopping();
        end_now(p);
    }
}

/*
 * True: Redis has answered all releases and then, unless named owners hold locks, that this daemon has left the
 * membership. Locks of named owners stay until their leases end: the daemon stays a member, and the others wait for it
 * if Redis loses data meanwhile.
 */
static bool
all_answered(struct process *p)
{
    struct core_totals t = core_totals(p->engine->core);

    if (t.releasing_claims == 0 && t.held_claims == 0 && !p->left && backend_idle(p->engine->backend)) {
        p->left = true;
        backend_leave(p->engine->backend);
    }
    return t.releasing_claims == 0 && backend_idle(p->engine->backend);
}

static void
after_turn(struct process *p)
{
    log_report_left_out(&p->log, false);
    notify_turn(&p->notify, p->engine);
    switch (p->phase) {
    case PHASE_SERVING:
        report_ready(p);
        break;
    case PHASE_DRAINING:
        if (p->time_up || drain_is_complete(p->engine)) {
            drain_log_timeout(p->engine);
            end_now(p);
        }
        break;
    case PHASE_ENDING:
        if (p->time_up || all_answered(p)) {
            p->phase = PHASE_OVER;
        }
        break;
    case PHASE_OVER:
        break;
    }
}

/* ---- the start, and the end ---- */

static bool
fatal(struct process *p, const char *what, const char *error)
{
    log_event(&p->log, LOG_ERROR, "rlockd", "cannot start", "what", LOG_S(what), "error", LOG_S(error), NULL);
    return false;
}

#define SESSIONS_UNASKED 20000 /* the default of limits.sessions: too few files for it are no reason to warn */

static void
log_kinds(struct process *p)
{
    const struct conf_warning *w = conf_warn_of_semaphores(p->conf);

    if (w != NULL) {
        log_event(&p->log, LOG_WARN, "conf", "kind", "kind", LOG_S("semaphore"), "reason", LOG_S(w->reason), "remedy",
                  LOG_S(w->remedy), NULL);
    }
}

/* Sessions cost a descriptor each: takes all that the hard limit allows. */
static void
raise_files(struct process *p)
{
    struct rlimit r;
    bool few;

    if (getrlimit(RLIMIT_NOFILE, &r) != 0) {
        return;
    }
    if (r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r);
        (void)getrlimit(RLIMIT_NOFILE, &r);
    }
    few = p->conf->limit_sessions > SESSIONS_UNASKED &&
          r.rlim_cur < (rlim_t)p->conf->limit_sessions + ENGINE_FILES_BESIDE;
    log_event(&p->log, few ? LOG_WARN : LOG_INFO, "rlockd", "limits",
              "files", LOG_N(r.rlim_cur), "sessions", LOG_N(p->conf->limit_sessions), few ? "reason" : NULL,
              LOG_S("the open-file limit is too low for limits.sessions: connections will be refused"), "remedy",
              LOG_S("raise LimitNOFILE, or lower limits.sessions"), NULL);
}

static bool
start_loop(struct process *p)
{
    static const int numbers[] = {SIGHUP, SIGTERM, SIGINT, SIGCHLD};
    struct event_config *ec = event_config_new();
    size_t i;

    (void)event_config_require_features(ec, EV_FEATURE_ET | EV_FEATURE_EARLY_CLOSE); /* sessions rely on both */
    (void)event_config_set_flag(ec, EVENT_BASE_FLAG_NOLOCK);
    p->base = event_base_new_with_config(ec);
    event_config_free(ec);
    if (p->base == NULL) {
        return fatal(p, "event loop", "not available");
    }
    p->timer = event_new(p->base, -1, 0, on_timer, p);
    for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        p->signals[i] = evsignal_new(p->base, numbers[i], on_signal, p);
        if (event_add(p->signals[i], NULL) != 0) {
            return fatal(p, "signals", strerror(errno));
        }
    }
    notify_start(&p->notify, p->base);
    return true;
}

/* True with a configuration file or --listen: all addresses are needed. Else one of the default ones is enough. */
static bool
has_configured_addresses(const struct process *p)
{
    return p->opt.conf_path != NULL || p->opt.over.listen.n > 0;
}

static bool
build(struct process *p)
{
    char error[160] = "";

    (void)signal(SIGPIPE, SIG_IGN);
    raise_files(p);
    if (!start_loop(p)) {
        return false;
    }
    /* before all else: a daemon that cannot serve must not touch what a running one uses */
    if (!sockets_open(&p->sockets, p->conf, has_configured_addresses(p), &p->log, error)) {
        return fatal(p, "listener", error);
    }
    if (!own_redis_start(&p->embedded, p->conf, &p->log, error)) {
        return fatal(p, "embedded redis", error);
    }
    p->engine = engine_new(p->base, p->conf, &p->log, error);
    if (p->engine == NULL) {
        return fatal(p, "engine", error);
    }
    log_event(&p->log, LOG_INFO, "rlockd", "start", "version", LOG_S(RLOCKD_VERSION), "pid", LOG_N(getpid()), "uuid",
              LOG_S(p->engine->uuid), NULL);
    log_kinds(p);
    if (!sockets_serve(&p->sockets, p->engine, error)) {
        return fatal(p, "listener", error);
    }
    set_timer(p, READY_WAIT_US);
    return true;
}

static void
take_down(struct process *p)
{
    size_t i;

    sockets_close(&p->sockets);
    engine_free(&p->engine);
    if (p->embedded != NULL) {
        embedded_stop(&p->embedded);
    }
    for (i = 0; i < sizeof(p->signals) / sizeof(p->signals[0]); i++) {
        if (p->signals[i] != NULL) {
            event_free(p->signals[i]);
        }
    }
    if (p->timer != NULL) {
        event_free(p->timer);
    }
    notify_stop(&p->notify);
    if (p->base != NULL) {
        resolver_run_until_freed(p->base);
        event_base_free(p->base);
    }
    conf_free(&p->conf);
}

static int
serve(struct process *p)
{
    bool ok;

    log_init(&p->log);
    p->log.level = p->conf->log_level;
    p->log_cap.now_us = clock_now_us;
    p->log.cap = &p->log_cap;
    ok = build(p);
    while (ok && p->phase != PHASE_OVER) {
        if (event_base_loop(p->base, EVLOOP_ONCE | (p->again ? EVLOOP_NONBLOCK : 0)) < 0) {
            log_event(&p->log, LOG_ERROR, "rlockd", "event loop failed", "error", LOG_S(strerror(errno)), NULL);
            ok = false;
            break;
        }
        p->again = engine_turn(p->engine);
        after_turn(p);
    }
    log_report_left_out(&p->log, true);
    if (ok) {
        log_event(&p->log, LOG_INFO, "rlockd", "end", NULL);
    }
    take_down(p);
    return ok && !p->failed ? 0 : 1;
}

static int
print_conf(struct process *p)
{
    struct buf b;
    bool ok;

    buf_init(&b, 0);
    conf_print(p->conf, &b);
    ok = fwrite(b.p, 1, b.n, stdout) == b.n;
    buf_fini(&b);
    return ok ? 0 : 1;
}

static void
print_warning(void *ctx, struct slice line)
{
    (void)ctx;
    fprintf(stderr, "rlockd: warning: %.*s\n", (int)line.n, line.p);
}

static void
warn_of_collisions(const struct process *p)
{
    struct buf warnings;

    buf_init(&warnings, 0);
    conf_print_collisions(p->conf, &warnings);
    each_line(&warnings, print_warning, NULL);
    buf_fini(&warnings);
}

/*
 * Large blocks (long replies, tables that grow) get mappings of their own, which go back to the kernel when they are
 * freed. Without this the allocator raises its limit to the largest block that was ever freed, and memory stays at its
 * peak.
 */
static void
keep_no_peak(void)
{
    enum { MAPPED_BYTES = 128 * 1024, TRIM_BYTES = 1024 * 1024 };

    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
}

static void
warn_of_semaphores(const struct conf *cf)
{
    const struct conf_warning *w = conf_warn_of_semaphores(cf);

    if (w != NULL) {
        fprintf(stderr, "rlockd: warning: kind: semaphore: %s: %s\n", w->reason, w->remedy);
    }
}

static void
warn_of_page(const struct conf *cf)
{
    bool other_hosts = cf->http_listen[0] != '\0' && !conf_address_is_local(cf->http_listen);
    const struct conf_warning *w = roles_warn_of_page(cf, other_hosts);

    if (w != NULL) {
        fprintf(stderr, "rlockd: warning: http.listen: %s: %s: %s\n", cf->http_listen, w->reason, w->remedy);
    }
}

int
main(int argc, char **argv)
{
    struct process p = {.phase = PHASE_SERVING};
    int status;

    event_set_mem_functions(mem_alloc, mem_realloc, free);
    tls_use_memory();
    status = options_read(argc, argv, &p.opt);
    if (status >= 0) {
        return status;
    }
    status = load_conf(&p);
    if (status != 0) {
        return status;
    }
    if (p.opt.mode == MODE_SERVE) {
        keep_no_peak();
        return serve(&p);
    }
    if (p.opt.mode == MODE_TEST) {
        warn_of_collisions(&p);
        warn_of_page(p.conf);
        warn_of_semaphores(p.conf);
        if (!rlockd_rights_test(p.conf)) {
            conf_free(&p.conf);
            return 1;
        }
    }
    status = p.opt.mode == MODE_PRINT ? print_conf(&p) : (puts("configuration ok"), 0);
    conf_free(&p.conf);
    return status;
}
