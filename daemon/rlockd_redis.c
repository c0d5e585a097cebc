/*
 * rlockd_redis.c -- the embedded Redis: its directory, its log lines, and its restart when it ends.
 */
#include "daemon/rlockd_redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/base/memory.h"

static bool
is_embedded(const struct conf *cf)
{
    return strcmp(cf->redis_url, "embedded") == 0;
}

void
own_redis_put_url(const struct embedded *e, struct conf *cf)
{
    if (e == NULL || !is_embedded(cf)) {
        return;
    }
    free(cf->redis_url);
    cf->redis_url = mem_text(slice_of(embedded_url(e)));
}

/* The directory of the embedded Redis: run_dir, else systemd's, else that of the daemon's socket, else build/run. */
static void
choose_run_dir(const struct conf *cf, char dir[256])
{
    const char *systemd = getenv("RUNTIME_DIRECTORY");
    size_t i;

    snprintf(dir, 256, "%s", cf->run_dir[0] != '\0' ? cf->run_dir : systemd != NULL ? systemd : "");
    for (i = 0; i < cf->listen.n && dir[0] == '\0'; i++) {
        const char *addr = cf->listen.item[i], *slash = strrchr(addr, '/');

        if (strncmp(addr, "unix:", 5) == 0 && slash != NULL && slash > addr + 5) {
            snprintf(dir, 256, "%.*s", (int)(slash - (addr + 5)), addr + 5);
        }
    }
    if (dir[0] == '\0') {
        snprintf(dir, 256, "build/run");
    }
}

/*
 * The name of the embedded Redis's socket contains that of the daemon's Unix socket: NAME.sock gives redis-NAME, and a
 * NAME without this end gives redis.NAME. Only rlockd.sock, or no Unix socket at all, gives `redis`. So daemons with
 * Unix sockets in one directory have different ones, and the next daemon at the same socket is refused while the Redis
 * of the former one still runs. Of daemons without a Unix socket only one can use the directory.
 */
static void
choose_name(const struct conf *cf, char name[128])
{
    snprintf(name, 128, "redis");
    for (size_t i = 0; i < cf->listen.n; i++) {
        const char *addr = cf->listen.item[i], *slash = strrchr(addr, '/');
        const char *base = slash != NULL ? slash + 1 : addr + 5;

        if (strncmp(addr, "unix:", 5) == 0) {
            size_t n = strlen(base);
            bool has_end = n > 5 && strcmp(base + n - 5, ".sock") == 0;

            if (strcmp(base, "rlockd.sock") != 0) {
                snprintf(name, 128, "redis%c%.*s", has_end ? '-' : '.', (int)(has_end ? n - 5 : n), base);
            }
            return;
        }
    }
}

static void
log_redis(const struct embedded *e, const struct log *log)
{
    log_event(log, LOG_INFO, "rlockd", "embedded redis", "url", LOG_S(embedded_url(e)), "pid", LOG_N(embedded_pid(e)),
              NULL);
}

bool
own_redis_start(struct embedded **e, struct conf *cf, const struct log *log, char error[160])
{
    char dir[256], name[128];

    if (!is_embedded(cf)) {
        return true;
    }
    choose_run_dir(cf, dir);
    (void)mkdir(dir, 0755);
    choose_name(cf, name);
    *e = embedded_start(dir, name, error);
    if (*e == NULL) {
        return false;
    }
    own_redis_put_url(*e, cf);
    log_redis(*e, log);
    return true;
}

/* The new Redis has no locks: the backend reclaims them. */
bool
own_redis_restart(struct embedded *e, const struct log *log)
{
    pid_t was = embedded_pid(e);
    char error[160] = "";

    if (!embedded_restart(e, error)) {
        log_event(log, LOG_ERROR, "rlockd", "embedded redis has ended", "error", LOG_S(error), "effect",
                  LOG_S("rlockd ends, too"), "remedy", LOG_S("restart rlockd; use a Redis of its own for production"),
                  NULL);
        return false;
    }
    if (embedded_pid(e) != was) {
        log_event(log, LOG_WARN, "rlockd", "embedded redis has ended", "pid", LOG_N(was), "effect",
                  LOG_S("another one is started, and held locks are reclaimed there"), "remedy",
                  LOG_S("find out who killed it: the kernel, for its memory, or a person"), NULL);
        log_redis(e, log);
    }
    return true;
}
