/*
 * list.h -- intrusive doubly linked list.
 *
 * A node lives inside its record and is on at most one list at a time. An initialised node that is on no list points to
 * itself: list_remove() does nothing then, and list_linked() is false. <sys/queue.h> has no such node: a removal needs
 * the list there, and a node does not show whether it is on one.
 */
#ifndef RLOCKD_BASE_LIST_H
#define RLOCKD_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Safe against removal of the current node (not of the following one). */
#define list_for_each_safe(pos, nxt, head)                                                                  \
    for ((pos) = (head)->next, (nxt) = (pos)->next; (pos) != (head); (pos) = (nxt), (nxt) = (pos)->next)

static inline void
list_init(struct list *l)
{
    l->next = l->prev = l;
}

static inline bool
list_empty(const struct list *head)
{
    return head->next == head;
}

static inline bool
list_linked(const struct list *node)
{
    return node->next != node;
}

/* The node is the only one on its list. */
static inline bool
list_alone(const struct list *node)
{
    return list_linked(node) && node->next == node->prev;
}

/* Puts node in front of pos; with pos the head: at the tail of the list. */
static inline void
list_insert_before(struct list *pos, struct list *node)
{
    node->prev = pos->prev;
    node->next = pos;
    pos->prev->next = node;
    pos->prev = node;
}

static inline void
list_push_back(struct list *head, struct list *node)
{
    list_insert_before(head, node);
}

static inline void
list_push_front(struct list *head, struct list *node)
{
    list_insert_before(head->next, node);
}

/* Moves all nodes of `from` to the end of `to`, in order. */
static inline void
list_move_all(struct list *to, struct list *from)
{
    if (list_empty(from)) {
        return;
    }
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

static inline void
list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

#endif
