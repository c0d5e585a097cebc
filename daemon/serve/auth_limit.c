/*
 * auth_limit.c -- the clients that sent wrong passwords lately, and their AUTHs that wait.
 *
 * The table has a fixed size and exists from the first wrong password on. A client without an entry replaces, in its
 * row, the entry whose score was computed longest ago, but no entry with waiting AUTHs. A guesser with more addresses
 * than the table has entries is not slowed down.
 * AL1 auth_limits.waiting is in the order of auth_wait.due_us, except after a reload that changes auth.timeout.
 * AL2 entry.waiting is the number of waits on the list with its key.
 */
#include "daemon/serve/auth_limit.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "daemon/serve/sessions.h"

#define ROWS 128
#define WAYS 8
#define SCORE_MAX (AUTH_LIMIT_FREE + 8) /* so low that the delay ends soon after a client has stopped guessing */
#define LOG_EVERY_US (60 * US_PER_S)

struct entry {
    uint64_t key; /* 0: none */
    int64_t at_us;      /* when `score` was computed */
    int64_t logged_us;
    uint32_t score;     /* wrong passwords, less those that time has given back */
    uint32_t waiting;
    uint32_t failures;  /* failures since the last log line */
};

struct auth_limits {
    struct list waiting; /* auth_wait.node */
    struct entry entry[ROWS][WAYS];
};

struct auth_wait {
    struct list node;   /* not linked: its time has come */
    struct session *session;
    uint64_t key;
    int64_t due_us;
};

/* NULL: the client has no entry. */
static struct entry *
find(struct engine *e, uint64_t key)
{
    struct entry *row;

    if (e->auth_limits == NULL) {
        return NULL;
    }
    row = e->auth_limits->entry[(key >> 1) % ROWS];
    for (int i = 0; i < WAYS; i++) {
        if (row[i].key == key) {
            return &row[i];
        }
    }
    return NULL;
}

/* NULL: every entry of its row has waiting AUTHs. */
static struct entry *
find_or_add(struct engine *e, uint64_t key)
{
    struct entry *at = find(e, key), *row;

    if (at != NULL) {
        return at;
    }
    if (e->auth_limits == NULL) {
        e->auth_limits = mem_zalloc(sizeof(*e->auth_limits));
        list_init(&e->auth_limits->waiting);
    }
    row = e->auth_limits->entry[(key >> 1) % ROWS];
    for (int i = 0; i < WAYS; i++) {
        if (row[i].waiting == 0 && (at == NULL || row[i].at_us < at->at_us)) {
            at = &row[i];
        }
    }
    if (at != NULL) {
        *at = (struct entry){.key = key, .at_us = clock_now_us(), .logged_us = INT64_MIN / 2};
    }
    return at;
}

static void
regain(struct entry *at, int64_t now_us)
{
    int64_t n = (now_us - at->at_us) / AUTH_LIMIT_REGAIN_US;

    at->score = n < at->score ? at->score - (uint32_t)n : 0;
    at->at_us = at->score == 0 ? now_us : at->at_us + n * AUTH_LIMIT_REGAIN_US;
}

static bool
has_password(enum command_id id, const struct words *w)
{
    for (unsigned i = 2; id == CMD_HELLO && i < w->n; i++) {
        if (slice_is(w->word[i], "AUTH")) {
            return true;
        }
    }
    return id == CMD_AUTH;
}

static int64_t
delay_us(const struct engine *e)
{
    int64_t half_us = e->conf->auth_timeout_us / 2; /* the delay must end before auth.timeout closes the connection */

    return half_us < AUTH_LIMIT_DELAY_US ? half_us : AUTH_LIMIT_DELAY_US;
}

enum auth_limit
auth_limit_check(struct session *s, enum command_id id, const struct words *w)
{
    struct engine *e = s->engine;
    struct auth_wait *wait = s->auth_wait;
    struct entry *at;

    if (wait != NULL) { /* the request is the AUTH that has waited: nothing was read after it */
        s->auth_wait = NULL;
        free(wait);
        return AUTH_LIMIT_GO;
    }
    if (e->auth_limits == NULL || !has_password(id, w)) {
        return AUTH_LIMIT_GO;
    }
    at = find(e, s->user);
    if (at == NULL) {
        return AUTH_LIMIT_GO;
    }
    regain(at, clock_now_us());
    if (at->score < AUTH_LIMIT_FREE) {
        return AUTH_LIMIT_GO;
    }
    if (at->waiting == AUTH_LIMIT_WAITING) {
        return AUTH_LIMIT_REFUSE;
    }
    wait = mem_alloc(sizeof(*wait));
    *wait = (struct auth_wait){.session = s, .key = at->key, .due_us = clock_now_us() + delay_us(e)};
    list_init(&wait->node);
    list_push_back(&e->auth_limits->waiting, &wait->node);
    at->waiting++;
    s->auth_wait = wait;
    return AUTH_LIMIT_WAIT;
}

bool
auth_limit_failed(struct session *s)
{
    int64_t now_us = clock_now_us();
    struct entry *at = find_or_add(s->engine, s->user);

    s->engine->metrics.auth_failures++;
    s->auth_failures++;
    if (at == NULL) {
        return true;
    }
    regain(at, now_us);
    at->score += at->score < SCORE_MAX;
    at->failures++;
    if (at->score >= AUTH_LIMIT_FREE && now_us - at->logged_us >= LOG_EVERY_US) {
        log_event(s->engine->log, LOG_WARN, "session", "auth failed", "peer", LOG_S(s->peer), "failures",
                  LOG_N(at->failures), "effect", LOG_S("each AUTH of this user waits"), "for_ms",
                  LOG_N(delay_us(s->engine) / US_PER_MS), "remedy",
                  LOG_S("give the client the right password, or keep its address away"), NULL);
        at->logged_us = now_us;
        at->failures = 0;
    }
    return at->score >= AUTH_LIMIT_FREE;
}

/* Takes the wait off the list. */
static void
end_wait(struct engine *e, struct auth_wait *wait)
{
    struct entry *at = find(e, wait->key);

    if (!list_linked(&wait->node)) {
        return;
    }
    list_remove(&wait->node);
    at->waiting--; /* AL2: an entry with waiting AUTHs is never replaced */
}

void
auth_limit_leave(struct session *s)
{
    if (s->auth_wait != NULL) {
        end_wait(s->engine, s->auth_wait);
        free(s->auth_wait);
        s->auth_wait = NULL;
    }
}

int64_t
auth_limit_next_us(const struct engine *e)
{
    if (e->auth_limits == NULL || list_empty(&e->auth_limits->waiting)) {
        return CORE_FOREVER;
    }
    return container_of(e->auth_limits->waiting.next, struct auth_wait, node)->due_us;
}

void
auth_limit_due(struct engine *e, int64_t now_us)
{
    while (auth_limit_next_us(e) <= now_us) {
        struct auth_wait *wait = container_of(e->auth_limits->waiting.next, struct auth_wait, node);

        end_wait(e, wait);
        session_wake(wait->session);
    }
}

bool
auth_limit_waits(const struct session *s)
{
    return s->auth_wait != NULL && list_linked(&s->auth_wait->node);
}

void
auth_limit_free(struct engine *e)
{
    free(e->auth_limits);
    e->auth_limits = NULL;
}
