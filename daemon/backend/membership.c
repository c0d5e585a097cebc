/*
 * membership.c -- runs membership.lua in each greeting, at each beat (EPOCH_BEAT_MS), and when there is news to report.
 *
 * Reports, questions for members and lists of members leave at a random time within SPREAD_MS, so that a thousand
 * daemons do not send them at once.
 */
#include "daemon/backend/membership.h"

#include <assert.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/backend/call.h"
#include "daemon/backend/text.h"
#include "daemon/base/clock.h"

enum { SOON_MS = 50, SPREAD_MS = 300 };

/*
 * The link for a registration that may use any: the last one that is up and answers, else one that is up, else the last
 * one.
 */
static struct membership_link *
best_link(struct membership *p)
{
    struct membership_link *last = &p->link[p->links_n - 1];

    for (unsigned i = p->links_n; i-- > 0;) {
        if (link_up(p->link[i].link)) {
            if (!link_silent(p->link[i].link)) {
                return &p->link[i];
            }
            last = link_up(last->link) ? last : &p->link[i];
        }
    }
    return last;
}

/* A random pause: of n daemons, one sends in each ms on average, but all send within SPREAD_MS. */
static int64_t
spread_ms(const struct membership *p)
{
    size_t others = members_count(&p->members);

    return arc4random_uniform((uint32_t)(others < SPREAD_MS ? others : SPREAD_MS) + 1);
}

static bool
has_list(const struct membership *p)
{
    return p->list.uuids.n > 0;
}

static bool
awaits_answer(const struct membership *p)
{
    bool asked = false;

    for (unsigned i = 0; i < p->links_n; i++) {
        asked = asked || p->link[i].asked > 0;
    }
    return asked;
}

/* True: a registration has to be sent before the next beat, to report, or to ask for changes of members. */
static bool
is_urgent(const struct membership *p)
{
    const struct epoch *e = &p->epoch;

    return p->report_due || (e->number != 0 && e->until_ms == 0 && !epoch_is_current(e));
}

static void
arm(struct membership *p)
{
    const struct epoch *e = &p->epoch;
    int64_t ms = EPOCH_BEAT_MS, spread = spread_ms(p), end_ms = e->remaining_ms + 1 + spread;

    if (e->until_ms != 0 && end_ms < ms) { /* only a registration ends the grace period */
        ms = end_ms;
    }
    if (e->bring != EPOCH_BRING_NOTHING && !has_list(p)) {
        ms = SOON_MS + spread;
    }
    if (is_urgent(p)) { /* after the registrations in flight: their answers arm the timer again */
        ms = p->flapping || awaits_answer(p) || !link_up(best_link(p)->link) ? SOON_MS : spread;
    }
    if (p->ask_again) {
        ms = SOON_MS;
    }
    event_add(p->timer, &(struct timeval){ms / 1000, ms % 1000 * 1000});
}

static void
report_life(const struct membership *p, enum shard_life what)
{
    p->events->life(p->events->ctx, what, p->epoch.number);
}

/* Whether another link is up. */
static bool
others_up(const struct membership *p, const struct membership_link *ml)
{
    for (unsigned i = 0; i < p->links_n; i++) {
        if (&p->link[i] != ml && link_up(p->link[i].link)) {
            return true;
        }
    }
    return false;
}

static void
ask_all(struct membership *p)
{
    for (unsigned i = 0; i < p->links_n; i++) {
        membership_ask(p, p->link[i].link);
    }
}

/* Fails the link whose registration was refused, and tries the other links that are up, which Redis may refuse, too. */
static void
refuse(struct membership_link *ml, const char *what, const char *reason)
{
    struct membership *p = ml->of;

    if (!p->error_logged) {
        enum log_level level = text_error_is_transient(slice_of(reason)) ? LOG_WARN : LOG_ERROR;

        log_event(p->env->log, level, "redis", what, "address", LOG_S(p->address->shown), "reason", LOG_S(reason),
                  "uuid", LOG_S(p->epoch.uuid), NULL);
    }
    p->error_logged = true;
    link_fail(ml->link, reason);
    ask_all(p);
}

static void
cannot_register(struct membership_link *ml, const struct reply *r)
{
    char text[TEXT_ERROR_ROOM];

    refuse(ml, "cannot register",
            r->type != REPLY_ERROR ? "a malformed answer"
                                   : text_error(text, r->text, ml->of->address));
}

static void
begin_epoch(struct membership *p, bool first)
{
    if (!first || p->epoch.until_ms != 0) {
        log_event(p->env->log, LOG_WARN, "redis", first ? "grace" : "data may be lost", "address",
                  LOG_S(p->address->shown), "epoch", LOG_N(p->epoch.number), "others",
                  LOG_N(members_count(&p->members)), NULL);
    }
    p->env->metrics->epochs += !first;
    p->flapping = clock_now_us() - p->begun_us < SOON_MS * US_PER_MS;
    p->begun_us = clock_now_us();
    report_life(p, SHARD_NEW_EPOCH);
}

/*
 * The Redis of this link is in an older epoch than the known one. If no other link is up, this is the only Redis, and
 * it has lost what was granted since: the next greeting begins a new epoch, unless another link is answered before.
 */
static void
leave_older_epoch(struct membership_link *ml)
{
    struct membership *p = ml->of;

    p->epoch.rolled_back = !others_up(p, ml);
    link_fail(ml->link, "this Redis is in an older epoch than the known one");
    ask_all(p);
}

/* A passing error, such as BUSY, on a link that is up: the registration is repeated soon, and the link stays. */
static bool
is_transient(const struct membership_link *ml, const struct reply *r)
{
    bool drop;

    return link_up(ml->link) && r->type == REPLY_ERROR && call_error(r->text, &drop) == CORE_DOWN && !drop;
}

/* Other daemons may hold locks: known members, or, until a grace period is over, unknown ones. */
static bool
has_others(const struct membership *p)
{
    return p->epoch.members_unknown || members_count(&p->members) > 0 || p->epoch.until_ms != 0;
}

static void
report_others(struct membership *p)
{
    if (p->others_reported != has_others(p)) {
        p->others_reported = !p->others_reported;
        report_life(p, p->others_reported ? SHARD_SHARED : SHARD_ALONE);
    }
}

/* Takes the answer to the registration that left at sent_us. True: this daemon is registered. */
static bool
take_answer(struct membership_link *ml, const struct reply *r, int64_t sent_us)
{
    struct membership *p = ml->of;
    bool first = p->epoch.number == 0;
    enum epoch_news news = epoch_answer(&p->epoch, &p->members, r);
    bool registered = news == EPOCH_NEW || news == EPOCH_OVER || news == EPOCH_SAME;

    if (registered) {
        int64_t until_us = sent_us + EPOCH_FRESH_MS * US_PER_MS;

        p->fresh_until_us = until_us > p->fresh_until_us ? until_us : p->fresh_until_us;
        if (p->epoch.complete || p->epoch.until_ms != 0) {
            p->members_known_us = sent_us > p->members_known_us ? sent_us : p->members_known_us;
        }
        ml->answered = true;
    }
    switch (news) {
    case EPOCH_NEW:
        begin_epoch(p, first);
        break;
    case EPOCH_OVER:
        log_event(p->env->log, LOG_INFO, "redis", "grace period over", "address", LOG_S(p->address->shown), NULL);
        report_life(p, SHARD_GRANTING);
        break;
    case EPOCH_SAME:
        p->error_logged = false;
        break;
    case EPOCH_OLD:
        leave_older_epoch(ml);
        break;
    case EPOCH_DUPLICATE_UUID:
        refuse(ml, "duplicate uuid", "another daemon has our uuid");
        break;
    case EPOCH_MALFORMED:
        p->ask_again = is_transient(ml, r);
        if (!p->ask_again) {
            cannot_register(ml, r);
        }
        break;
    }
    report_others(p);
    return registered;
}

static void on_answer(void *arg, enum link_result result, const struct reply *r, int64_t sent_us);
static void on_part(void *arg, enum link_result result, const struct reply *r, int64_t sent_us);

/* Registers by the digest of the script, or in a greeting by its text, which makes Redis know the digest. */
static bool
send_registration(struct membership_link *ml, bool part, bool with_text)
{
    struct membership *p = ml->of;
    struct slice word[EPOCH_WORDS_MAX];
    struct epoch_ask ask = {.sha = with_text || !link_up(ml->link) ? NULL : p->sha, .token_floor = p->token_floor,
                            .changes = !awaits_answer(p)};
    int words;

    if (part) {
        ask.part = (struct slice){p->list.uuids.p + p->list.at, p->list.n};
        ask.last = p->list.at + p->list.n == p->list.uuids.n;
    }
    words = epoch_words(&p->epoch, &p->members, &ask, &p->text, word);
    if (!link_send(ml->link, words, word, part ? on_part : on_answer, ml)) {
        return false;
    }
    p->ask_again = p->ask_again && !ask.changes; /* stays if only an earlier registration asks */
    p->report_due = false;
    ml->asked++;
    return true;
}

/* Sends the part of the list that begins at `at`. */
static void
send_part(struct membership_link *ml, size_t at, bool with_text)
{
    struct membership *p = ml->of;
    size_t rest = p->list.uuids.n - at, most = (size_t)EPOCH_PART * MEMBERS_UUID_BYTES;

    p->list.at = at;
    p->list.n = rest < most ? rest : most;
    if (!send_registration(ml, true, with_text)) {
        buf_clear(&p->list.uuids, 0);
    }
}

static void
begin_list(struct membership_link *ml)
{
    struct membership *p = ml->of;

    if (p->epoch.bring == EPOCH_BRING_NOW && p->epoch.list_epoch != 0 && !has_list(p)) {
        members_print(&p->members, &p->list.uuids);
        if (has_list(p)) {
            send_part(ml, 0, false);
        }
    }
}

static void
answered(struct membership_link *ml, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct membership *p = ml->of;
    uint64_t epoch = p->epoch.number;
    bool again = p->ask_again;
    bool registered = result == LINK_ANSWERED && take_answer(ml, r, sent_us);

    if (p->epoch.number != epoch) {
        buf_clear(&p->list.uuids, 0);
    }
    if (again && !p->flapping) {
        membership_beat(p);
    }
    /* The success of a registration from before the wait does not end the wait: it may be too old by now. */
    p->wait_over = p->awaited_us != 0 && !awaits_answer(p) && !(registered && sent_us < p->awaited_us);
}

static void
on_answer(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct membership_link *ml = arg;
    struct membership *p = ml->of;

    ml->asked--;
    if (result == LINK_ANSWERED && call_is_noscript(r) && send_registration(ml, false, true)) {
        return;
    }
    answered(ml, result, r, sent_us);
    begin_list(ml);
    arm(p);
}

/* The answer to a part of the list: the next part follows, unless Redis wants no more. */
static void
on_part(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct membership_link *ml = arg;
    struct membership *p = ml->of;

    ml->asked--;
    if (result == LINK_ANSWERED && call_is_noscript(r) && has_list(p)) {
        send_part(ml, p->list.at, true);
    } else {
        answered(ml, result, r, sent_us);
        if (has_list(p)) {
            size_t next = p->list.at + p->list.n;

            if (result == LINK_ANSWERED && r->type == REPLY_ARRAY && p->epoch.bring == EPOCH_BRING_NOW &&
                next < p->list.uuids.n) {
                send_part(ml, next, false);
            } else {
                buf_clear(&p->list.uuids, 0);
            }
        }
    }
    arm(p);
}

static struct membership_link *
link_of(struct membership *p, const struct redis_link *l)
{
    for (unsigned i = 0; i < p->links_n; i++) {
        if (p->link[i].link == l) {
            return &p->link[i];
        }
    }
    return NULL;
}

void
membership_greet(struct membership *p, struct redis_link *l)
{
    (void)send_registration(link_of(p, l), false, true);
}

/*
 * The longest time until a hanging Redis is detected: the next registration leaves a beat after the last answered one,
 * and the link is dropped two timeouts later. One beat more allows for delays, and for links without registrations.
 */
static int64_t
hang_detection_us(const struct membership *p)
{
    return EPOCH_FRESH_MS * US_PER_MS + 2 * p->conf->timeout_us;
}

void
membership_lost(struct membership *p, const struct redis_link *l)
{
    struct membership_link *ml = link_of(p, l);
    int64_t now_us = clock_now_us();

    if (!ml->answered) {
        return;
    }
    ml->answered = false;
    if (now_us - p->members_known_us > hang_detection_us(p)) {
        p->epoch.members_unknown = true;
        report_others(p);
    } else {
        p->members_known_us = now_us;
    }
}

void
membership_ask(struct membership *p, struct redis_link *l)
{
    struct membership_link *ml = link_of(p, l);

    if (ml->asked == 0 && link_up(l)) {
        (void)send_registration(ml, false, false);
    }
}

void
membership_beat(struct membership *p)
{
    membership_ask(p, best_link(p)->link);
}

bool
membership_pending(struct membership *p)
{
    int64_t now_us = clock_now_us(), since_us = p->awaited_us != 0 ? p->awaited_us : now_us;
    bool over = p->wait_over;

    p->awaited_us = 0;
    p->wait_over = false;
    if (!over && !membership_fresh(p, now_us)) {
        if (!awaits_answer(p)) {
            membership_beat(p);
        }
        p->awaited_us = awaits_answer(p) ? since_us : 0;
    }
    return p->awaited_us != 0;
}

static void
on_beat(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    membership_beat(ctx);
    arm(ctx);
}

void
membership_ask_again(struct membership *p)
{
    if (p->ask_again) {
        return; /* the timer is armed; frequent calls must not delay it */
    }
    p->ask_again = true;
    if (!p->flapping) { /* see membership_reclaimed(): each new epoch makes all daemons register */
        membership_beat(p);
    }
    arm(p);
}

void
membership_newcomer(struct membership *p, struct slice text)
{
    epoch_newcomer(&p->epoch, &p->members, text);
    report_others(p);
}

void
membership_reclaimed(struct membership *p, uint64_t epoch)
{
    p->epoch.reclaimed = epoch;
    if (p->epoch.until_ms != 0) {
        p->report_due = true;
        /* If the Redis is flapping, each answer may begin another epoch: then wait for the timer. */
        if (!p->flapping && members_count(&p->members) == 0) {
            membership_beat(p);
        }
        arm(p);
    }
}

void
membership_leave(struct membership *p)
{
    p->epoch.leaving = true;
    if (link_up(best_link(p)->link)) {
        (void)send_registration(best_link(p), false, false); /* one in flight lacks `leaving` */
    }
}

bool
membership_busy(const struct membership *p)
{
    return p->epoch.leaving && awaits_answer(p);
}

/* ---- begin and end ---- */

void
membership_init(struct membership *p, const struct backend_conf *conf, const struct backend_env *env,
                const struct shard_events *events, const struct link_address *address, const char *channel)
{
    *p = (struct membership){
        .head = {&membership_one_domain}, .conf = conf, .env = env, .events = events, .address = address};
    memcpy(p->epoch.uuid, env->uuid, sizeof(p->epoch.uuid));
    p->epoch.nonce = env->nonce;
    memcpy(p->epoch.former_nonce, env->former_nonce, sizeof(p->epoch.former_nonce));
    p->epoch.number = env->epoch != NULL ? env->epoch(env->ctx, 0) : 0;
    p->epoch.members_unknown = p->others_reported = p->epoch.number != 0 && env->others;
    p->epoch.longest_lease_us = conf->longest_lease_us;
    p->epoch.strict = conf->strict;
    snprintf(p->epoch.channel, sizeof(p->epoch.channel), "%s", channel);
    buf_init(&p->text, 0);
    buf_init(&p->list.uuids, 0);
    members_init(&p->members, &env->secret);
    sha1_hex(slice_of(call_other_text(OTHER_MEMBERSHIP)), p->sha);
    p->timer = event_new(env->base, -1, 0, on_beat, p);
}

void
membership_add(struct membership *p, struct redis_link *l)
{
    assert(p->links_n < MEMBERSHIP_LINKS);
    p->link[p->links_n++] = (struct membership_link){.of = p, .link = l};
    arm(p);
}

void
membership_fini(struct membership *p)
{
    if (p->timer != NULL) {
        event_free(p->timer);
    }
    buf_fini(&p->text);
    buf_fini(&p->list.uuids);
    members_fini(&p->members);
}
