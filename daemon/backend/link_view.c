/*
 * link_view.c -- questions about the state and the deadlines of a link; changes nothing.
 */
#include "daemon/backend/link_private.h"

static int64_t
earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

int64_t
link_next_us(const struct redis_link *l)
{
    int64_t at_us = CORE_FOREVER;
    struct list *pos, *nxt;

    if (l->failing[0] != '\0') {
        return 0;
    }
    switch (l->state) {
    case LINK_DOWN:
        return l->since_us + l->backoff_us;
    case LINK_CONNECTING:
        return l->since_us + l->conf->connect_us;
    case LINK_GREETING:
        return l->since_us + l->conf->connect_us;
    case LINK_UP:
        at_us = l->pinged_us != 0 ? l->pinged_us + l->conf->timeout_us : l->received_us + IDLE_PING_US;
        break;
    }
    list_for_each_safe(pos, nxt, &l->sent)
    {
        const struct link_command *s = container_of(pos, struct link_command, node);

        if (s->fn != NULL) {
            return earlier(at_us, s->sent_us + l->conf->timeout_us);
        }
        at_us = earlier(at_us, s->sent_us + 2 * l->conf->timeout_us);
    }
    return at_us;
}

bool
link_up(const struct redis_link *l)
{
    return l->state == LINK_UP && l->failing[0] == '\0';
}

bool
link_silent(const struct redis_link *l)
{
    return l->silent;
}

bool
link_lost(const struct redis_link *l)
{
    return l->state != LINK_UP;
}

bool
link_has_straggler(const struct redis_link *l)
{
    return !list_empty(&l->sent) && container_of(l->sent.next, struct link_command, node)->fn == NULL;
}

size_t
link_in_flight(const struct redis_link *l)
{
    return l->sent_n;
}

const char *
link_last_error(const struct redis_link *l)
{
    return l->last_error;
}

int64_t
link_rtt_us(const struct redis_link *l)
{
    return l->rtt_us;
}

const struct tls_connection *
link_tls(const struct redis_link *l)
{
    return l->tls;
}
