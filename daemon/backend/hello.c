/*
 * hello.c -- INFO and SCRIPT LOAD, once for each new connection.
 */
#include "daemon/backend/hello.h"

#include <stdio.h>

#include "daemon/backend/text.h"

static void
on_info(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct hello *h = arg;

    (void)sent_us;
    if (result != LINK_ANSWERED || r->type != REPLY_TEXT) {
        return;
    }
    text_info_field(r->text, "redis_version", h->version, sizeof(h->version));
    text_info_field(r->text, "run_id", h->run_id, sizeof(h->run_id));
    text_info_field(r->text, "role", h->role, sizeof(h->role));
    text_info_field(r->text, "maxmemory_policy", h->maxmemory_policy, sizeof(h->maxmemory_policy));
    if (h->maxmemory_policy[0] != '\0' && strcmp(h->maxmemory_policy, "noeviction") != 0) {
        log_event(h->env->log, LOG_WARN, "redis", "may evict locks", "address", LOG_S(h->shown), "maxmemory_policy",
                  LOG_S(h->maxmemory_policy), NULL);
    }
}

/* SCRIPT LOAD answers the digest by which EVALSHA knows the script; the arg is where it goes. */
static void
on_loaded(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    (void)sent_us;
    if (result == LINK_ANSWERED && r->type == REPLY_TEXT && r->text.n == 40) {
        memcpy(arg, r->text.p, 41);
    }
}

void
hello_ask(struct hello *h, struct redis_link *l)
{
    struct slice word[3] = {SLICE_LIT("INFO")};

    (void)link_send(l, 1, word, on_info, h);
    word[0] = SLICE_LIT("SCRIPT");
    word[1] = SLICE_LIT("LOAD");
    for (int verb = 0; verb < VERBS; verb++) {
        for (int kind = 0; kind < KINDS; kind++) {
            word[2] = slice_of(call_script_text((enum call_verb)verb, (enum kind)kind));
            (void)link_send(l, 3, word, on_loaded, h->sha[verb][kind]);
        }
    }
}

void
hello_status(const struct hello *h, struct backend_status *out)
{
    snprintf(out->version, sizeof(out->version), "%s", h->version);
    snprintf(out->run_id, sizeof(out->run_id), "%s", h->run_id);
    snprintf(out->role, sizeof(out->role), "%s", h->role);
    snprintf(out->maxmemory_policy, sizeof(out->maxmemory_policy), "%s", h->maxmemory_policy);
}
