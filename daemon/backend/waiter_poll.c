/*
 * waiter_poll.c -- PUBSUB NUMSUB, and its answer.
 *
 * The core polls at most once in a millisecond, while locks stay with it, and can do without an answer: so no poll is
 * queued or repeated. One is in flight at a time; the link's deadline ends it.
 */
#include "daemon/backend/waiter_poll.h"

#include "daemon/backend/call.h"
#include "daemon/backend/text.h"

void
waiter_poll_init(struct waiter_poller *p, const struct backend_env *env, const struct shard_events *events,
                 const struct link_address *address)
{
    *p = (struct waiter_poller){.env = env, .events = events, .address = address};
    buf_init(&p->channels, 0);
}

void
waiter_poll_fini(struct waiter_poller *p)
{
    buf_fini(&p->channels);
}

bool
waiter_poll_read(const struct reply *r, size_t n, int64_t *subscribers)
{
    if (r->type != REPLY_ARRAY || r->count != 2 * n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (r->item[2 * i + 1]->type != REPLY_INT) {
            return false;
        }
        subscribers[i] = r->item[2 * i + 1]->n;
    }
    return true;
}

/* Without PUBSUB remote waiters are not detected; the bounds of a cohort still hold. */
static void
on_refused(struct waiter_poller *p, struct slice error)
{
    char text[TEXT_ERROR_ROOM];

    p->refused = true;
    if (!p->logged) {
        p->logged = true;
        log_event(p->env->log, LOG_WARN, "redis", "remote waiters not detected", "address", LOG_S(p->address->shown),
                  "error", LOG_S(text_error(text, error, p->address)), NULL);
    }
}

static void
on_answer(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct waiter_poller *p = arg;
    int64_t subscribers[CORE_WAITER_POLL_MAX];
    struct core_event ev = {.type = CORE_WAITERS_POLLED, .polled = {p->op, subscribers, p->n}};

    (void)sent_us;
    p->op = 0;
    if (result != LINK_ANSWERED) {
        return;
    }
    if (r->type == REPLY_ERROR) {
        if (!text_error_is_transient(r->text)) {
            on_refused(p, r->text);
        }
    } else if (waiter_poll_read(r, p->n, subscribers)) {
        p->events->event(p->events->ctx, &ev);
    } else {
        p->env->metrics->redis_protocol_errors++;
    }
}

/* Appends all channels to the scratch, which may move while it grows, and then makes the words point into it. */
static void
add_channels(struct waiter_poller *p, const struct core_waiter_poll *what, struct slice *word)
{
    const char *at;

    buf_clear(&p->channels, p->channels.room);
    for (size_t i = 0; i < what->n; i++) {
        size_t from = p->channels.n;

        call_channel(what->name[i].kind, what->name[i].key, &p->channels);
        word[i].n = p->channels.n - from;
    }
    at = p->channels.p;
    for (size_t i = 0; i < what->n; i++) {
        word[i].p = at;
        at += word[i].n;
    }
}

void
waiter_poll_send(struct waiter_poller *p, struct redis_link *l, const struct core_waiter_poll *what)
{
    struct slice word[2 + CORE_WAITER_POLL_MAX] = {SLICE_LIT("PUBSUB"), SLICE_LIT("NUMSUB")};

    if (p->refused || p->op != 0 || !link_up(l)) {
        return;
    }
    add_channels(p, what, word + 2);
    if (link_send(l, (int)what->n + 2, word, on_answer, p)) {
        p->env->metrics->probes++;
        p->op = what->op;
        p->n = what->n;
    }
}
