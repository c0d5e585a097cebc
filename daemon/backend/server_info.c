/*
 * server_info.c -- INFO and SCRIPT LOAD, for each new connection for locks or renewals; in strict mode INFO every few
 * seconds.
 */
#include "daemon/backend/server_info.h"

#include <stdio.h>
#include <string.h>

#include "daemon/backend/text.h"
#include "daemon/base/clock.h"

/* Strict mode: older answers are asked for again; a tenth of it while Redis evicts. */
#define EVICTION_US (10 * US_PER_S)

/* Every policy but noeviction drops keys with an expiry, such as locks, when the memory limit is reached. */
static void
learn_eviction(struct server_info *s, struct slice info)
{
    char limit[24] = "";
    bool was = s->evicts;

    text_info_field(info, "maxmemory", limit, sizeof(limit));
    text_info_field(info, "maxmemory_policy", s->maxmemory_policy, sizeof(s->maxmemory_policy));
    s->fresh_us = clock_now_us();
    s->evicts = limit[0] != '\0' && strcmp(limit, "0") != 0 && s->maxmemory_policy[0] != '\0' &&
                strcmp(s->maxmemory_policy, "noeviction") != 0;
    if (s->evicts != was) {
        log_event(s->env->log, s->evicts ? LOG_WARN : LOG_INFO, "redis",
                  s->evicts ? "may evict locks" : "evicts no locks", "address", LOG_S(s->shown), "maxmemory_policy",
                  LOG_S(s->maxmemory_policy), NULL);
    }
}

static void
on_info(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct server_info *s = arg;

    (void)sent_us;
    if (result != LINK_ANSWERED || r->type != REPLY_TEXT) {
        return;
    }
    text_info_field(r->text, "redis_version", s->version, sizeof(s->version));
    text_info_field(r->text, "run_id", s->run_id, sizeof(s->run_id));
    text_info_field(r->text, "role", s->role, sizeof(s->role));
    learn_eviction(s, r->text);
}

/* SCRIPT LOAD answers the digest for EVALSHA, which is copied to arg. */
static void
on_loaded(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    (void)sent_us;
    if (result == LINK_ANSWERED && r->type == REPLY_TEXT && r->text.n == 40) {
        memcpy(arg, r->text.p, 41);
    }
}

void
server_info_ask(struct server_info *s, struct redis_link *l)
{
    struct slice word[3] = {SLICE_LIT("INFO")};

    (void)link_send(l, 1, word, on_info, s);
    word[0] = SLICE_LIT("SCRIPT");
    word[1] = SLICE_LIT("LOAD");
    for (int verb = 0; verb < VERBS; verb++) {
        for (int kind = 0; kind < KINDS; kind++) {
            word[2] = slice_of(script_variants_text(s->variants, (enum call_verb)verb, (enum kind)kind, false));
            (void)link_send(l, 3, word, on_loaded, s->sha[verb][kind]);
        }
    }
}

void
server_info_ask_again(struct server_info *s, struct redis_link *l)
{
    struct slice word = SLICE_LIT("INFO");
    int64_t now_us = clock_now_us();

    if (now_us - s->fresh_us >= (s->evicts ? EVICTION_US / 10 : EVICTION_US)) {
        s->fresh_us = now_us; /* no second question before the answer; CONFIG SET may have changed the policy */
        (void)link_send(l, 1, &word, on_info, s);
    }
}

bool
server_info_may_grant(const struct server_info *s)
{
    return !s->evicts && s->maxmemory_policy[0] != '\0'; /* "": the ACL forbids INFO */
}

void
server_info_explain(const struct server_info *s, char *out, size_t room)
{
    out[0] = '\0';
    if (s->evicts) {
        snprintf(out, room, "strict: %s may evict locks: its maxmemory_policy is %s, not noeviction", s->shown,
                 s->maxmemory_policy);
    } else if (s->maxmemory_policy[0] == '\0') {
        snprintf(out, room, "strict: %s does not report whether it may evict locks: allow INFO (+info)", s->shown);
    }
}

void
server_info_add_policy(struct backend_status *sum, const struct backend_status *one)
{
    bool evicts = sum->maxmemory_policy[0] != '\0' && strcmp(sum->maxmemory_policy, "noeviction") != 0;

    if (!evicts && one->maxmemory_policy[0] != '\0') {
        memcpy(sum->maxmemory_policy, one->maxmemory_policy, sizeof(sum->maxmemory_policy));
    }
}

void
server_info_add_away(struct backend_status *sum, const struct backend_status *one)
{
    char away[sizeof(one->links_away)], *rest = away, *purpose;

    memcpy(away, one->links_away, sizeof(away));
    while ((purpose = strsep(&rest, ",")) != NULL) {
        size_t at = strlen(sum->links_away);

        if (strstr(sum->links_away, purpose) == NULL) {
            snprintf(sum->links_away + at, sizeof(sum->links_away) - at, "%s%s", at > 0 ? "," : "", purpose);
        }
    }
}

void
server_info_status(const struct server_info *s, struct backend_status *out)
{
    snprintf(out->version, sizeof(out->version), "%s", s->version);
    snprintf(out->run_id, sizeof(out->run_id), "%s", s->run_id);
    snprintf(out->role, sizeof(out->role), "%s", s->role);
    snprintf(out->maxmemory_policy, sizeof(out->maxmemory_policy), "%s", s->maxmemory_policy);
}
