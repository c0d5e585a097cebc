/*
 * sessions.c -- all sessions of the engine: found by id, walked in their order, and woken for their turns.
 *
 * Owns nothing. Called from every floor of the room; calls none of them. Waking only notes that a session has work to
 * do: the work is done in the turn.
 */
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"

struct session *
session_find(struct engine *e, uint64_t id)
{
    struct map_node *n = map_find(&e->by_id, id);

    return n != NULL ? container_of(n, struct session, by_id) : NULL;
}

struct session *
session_after(struct engine *e, uint64_t id)
{
    struct session *s = id != 0 ? session_find(e, id) : NULL;
    struct list *node;

    if (s != NULL && !s->closed) {
        node = s->node.next;
        return node != &e->sessions ? container_of(node, struct session, node) : NULL;
    }
    for (node = e->sessions.next; node != &e->sessions; node = node->next) {
        s = container_of(node, struct session, node);
        if (s->id > id) {
            return s;
        }
    }
    return NULL;
}

uint64_t
session_newest(const struct engine *e)
{
    return list_empty(&e->sessions) ? 0 : container_of(e->sessions.prev, struct session, node)->id;
}

void
session_wake(struct session *s)
{
    if (s->closed) {
        return;
    }
    if (!list_linked(&s->ready_node)) {
        list_push_back(&s->engine->ready, &s->ready_node);
    }
    if (!list_linked(&s->write_node)) {
        list_push_back(&s->engine->writing, &s->write_node);
    } else if (s->only_events) {
        s->only_events = false;
        list_remove(&s->write_node);
        list_push_back(&s->engine->writing, &s->write_node);
    }
}

void
session_wake_to_write(struct session *s)
{
    if (!s->closed && !list_linked(&s->write_node)) {
        list_push_back(&s->engine->writing_events, &s->write_node);
        s->only_events = true;
    }
}

void
session_lose_peer(struct session *s)
{
    s->unreachable = s->hung_up = s->readable = true;
    session_wake(s);
}

void
session_orphan(struct session *s)
{
    s->orphan = true;
    session_lose_peer(s);
}
