/*
 * certificates.c -- warns ahead of the day on which a certificate expires, while the connections still work.
 */
#include "daemon/backend/certificates.h"

#include "daemon/base/clock.h"

#define S_PER_DAY INT64_C(86400)
#define WARN_S (14 * S_PER_DAY) /* for a life shorter than six weeks: a third of it */
#define CHECK_US (60 * US_PER_S)

static void
warn(struct certificate_warning *w, const struct backend_env *env, const struct link_address *address,
     const char *whose, const char *remedy, struct tls_validity valid)
{
    int64_t now_us = clock_now_us(), left_s = valid.expires_s - clock_wall_us() / US_PER_S;
    int64_t third_s = (valid.expires_s - valid.begins_s) / 3;

    if (valid.expires_s == 0 || left_s > (third_s < WARN_S ? third_s : WARN_S) ||
        (w->expires_s == valid.expires_s && now_us < w->again_us)) {
        return;
    }
    *w = (struct certificate_warning){valid.expires_s, now_us + S_PER_DAY * US_PER_S};
    log_event(env->log, LOG_WARN, "redis", left_s > 0 ? "certificate expires soon" : "certificate has expired",
              "address", LOG_S(address->shown), "certificate", LOG_S(whose), "days",
              LOG_N(left_s > 0 ? left_s / S_PER_DAY : 0), "remedy",
              LOG_S(remedy), NULL);
}

void
certificates_turn(struct certificates *c, const struct backend_env *env, const struct link_address *address,
                  const struct redis_link *l)
{
    struct tls_view view;

    if (!link_up(l) || clock_now_us() < c->due_us) {
        return;
    }
    c->due_us = clock_now_us() + CHECK_US;
    tls_connection_view(link_tls(l), &view);
    warn(&c->peer, env, address, "redis", "renew it at Redis", view.peer);
    warn(tls_own_warning(address->tls), env, address, "redis.tls_cert_file", "renew the file, then reload rlockd",
         tls_own(address->tls));
}
