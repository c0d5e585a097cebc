/*
 * rlockd_rights.c -- reads the files of TLS, asks the configured Redis over one link, for a second at most, and prints
 * what is to be changed.
 */
#include "daemon/rlockd_rights.h"

#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "daemon/backend/address.h"
#include "daemon/backend/resolver.h"
#include "daemon/backend/rights.h"
#include "daemon/base/clock.h"
#include "daemon/base/freelist.h"

struct asking {
    struct backend_conf conf;
    struct backend_env env;
    struct log silent;
    struct metrics metrics;
    struct freelist freelist;
    struct link_address *address;
    struct resolver *resolver;
    struct redis_link *link;
    struct rights rights;
};

static void
on_greet(void *ctx, struct redis_link *l)
{
    rights_ask(&((struct asking *)ctx)->rights, l);
}

/* Up: all questions are answered. Down: Redis refuses the user, or cannot be reached. */
static void
on_state(void *ctx, struct redis_link *l, bool up)
{
    (void)l;
    (void)up;
    event_base_loopbreak(((struct asking *)ctx)->env.base);
}

static void
ask(struct asking *a)
{
    struct link_callbacks callbacks = {.greet = on_greet, .state = on_state, .ctx = a};
    struct timeval second = {.tv_sec = 1};

    a->resolver = a->address->path == NULL ? resolver_new(a->env.base) : NULL;
    a->link = link_open(a->address, &a->conf, &a->env, a->resolver, false, callbacks);
    event_base_loopexit(a->env.base, &second);
    event_base_dispatch(a->env.base);
    link_close(&a->link, NULL);
    resolver_free(&a->resolver);
}

static void
print_advice(const struct asking *a)
{
    struct buf advice;

    buf_init(&advice, 0);
    rights_advice(&a->rights, &advice);
    fprintf(stderr, "rlockd: warning: the user at %s may use keys that no rule gives to a name; enough is: %.*s\n",
            a->address->shown, (int)advice.n, advice.p == NULL ? "" : advice.p);
    buf_fini(&advice);
}

/* Reads the files of TLS, whether or not Redis can be reached. */
static bool
read_files(const struct conf *cf, struct link_address *a)
{
    const struct tls_files files = {cf->redis_tls_ca_file, cf->redis_tls_cert_file, cf->redis_tls_key_file,
                                    cf->redis_tls_server_name};
    char error[TLS_ERROR_ROOM], warning[TLS_ERROR_ROOM];
    bool ok = address_secure(a, &files, error, warning);

    if (!ok) {
        fprintf(stderr, "%s\n", error);
    } else if (warning[0] != '\0') {
        fprintf(stderr, "rlockd: warning: %s\n", warning);
    }
    return ok;
}

static void
ask_about(struct link_address *address, const char *patterns, const char *unmapped_key)
{
    struct asking a = {.conf = {.timeout_us = US_PER_S, .connect_us = US_PER_S, .backoff_min_us = US_PER_S,
                                .backoff_max_us = US_PER_S, .unmapped_key = unmapped_key, .patterns = patterns}};

    log_init(&a.silent);
    a.silent.fd = -1;
    a.env.log = &a.silent;
    a.env.metrics = &a.metrics;
    a.env.freelist = &a.freelist;
    a.address = address;
    a.env.base = event_base_new();
    rights_init(&a.rights, &a.conf, &a.env, a.address);
    if (a.env.base != NULL) {
        ask(&a);
        if (a.rights.allows_unmapped) {
            print_advice(&a);
        }
    }
    rights_fini(&a.rights);
    if (a.env.base != NULL) {
        resolver_run_until_freed(a.env.base);
        event_base_free(a.env.base);
    }
    freelist_clear(&a.freelist);
}

/* With a URL of sentinels, of a cluster or of a quorum only the files are tested. */
static bool
test_files(const struct conf *cf)
{
    struct link_address *a = address_unknown("several servers", NULL, NULL, 0, conf_url_tls(cf->redis_url).with);
    bool ok = read_files(cf, a);

    address_free(a);
    return ok;
}

bool
rlockd_rights_test(const struct conf *cf)
{
    char unmapped_key[CONF_UNMAPPED_KEY_BYTES], error[160];
    struct link_address *a = strcmp(cf->redis_url, "embedded") == 0
                                 ? NULL
                                 : address_parse(cf->redis_url, cf->redis_user, cf->redis_password, error);
    struct buf patterns;
    bool ok = true;

    if (a == NULL) {
        return test_files(cf);
    }
    buf_init(&patterns, 0);
    ok = read_files(cf, a);
    if (ok && conf_key_rights(cf, &patterns, unmapped_key)) {
        buf_add(&patterns, "", 1);
        ask_about(a, patterns.p, unmapped_key);
    }
    buf_fini(&patterns);
    address_free(a);
    return ok;
}
