/*
 * map.c -- linear hashing (Litwin 1980): an insertion into a full table adds one chain, which takes records of one
 * other chain. So no insertion moves all records, and a million of them do not stop the daemon.
 *
 * Owns the array of chains, never the nodes. The table does not shrink. Invariants:
 *
 * M1  A node is in the chain that chain_of() names.
 * M2  count <= chains <= room, and half <= chains < 2 * half; or all are 0.
 */
#include "daemon/base/map.h"

#include <assert.h>
#include <stdlib.h>

#include "daemon/base/memory.h"

enum { ROOM_MIN = 16 };

void
map_init(struct map *m)
{
    *m = (struct map){.chain = NULL};
}

void
map_fini(struct map *m)
{
    free(m->chain);
    map_init(m);
}

enum { PAGE_BITS = 9, PAGE = 1 << PAGE_BITS }; /* chains, in 4 KiB */

/*
 * Ids count up, and ids that were given together are mostly searched together, so they lie on one page of the table.
 * The page and the offset on it are pseudo-random: otherwise ids with a common factor, such as every eighth one, would
 * use one chain in eight of each page.
 */
static size_t
spread(uint64_t number)
{
    uint64_t page = (number >> PAGE_BITS) * UINT64_C(0x9e3779b97f4a7c15);

    page ^= page >> 32;
    return (size_t)(page << PAGE_BITS | ((number + (page >> 40)) & (PAGE - 1)));
}

/* The chain of a number. A record of a chain that does not exist yet is in the chain from which that one will split. */
static struct map_node **
chain_of(const struct map *m, uint64_t number)
{
    size_t i = spread(number) & (2 * m->half - 1);

    return &m->chain[i < m->chains ? i : i - m->half];
}

/* Adds a chain, and moves its records there. */
static void
grow(struct map *m)
{
    struct map_node **from, **to;

    if (m->chains == m->room) {
        m->room = m->room == 0 ? ROOM_MIN : m->room * 2;
        m->chain = mem_array(m->chain, m->room, sizeof(*m->chain));
    }
    m->chain[m->chains++] = NULL;
    if (m->chains == 1) {
        m->half = 1;
        return;
    }
    from = &m->chain[m->chains - 1 - m->half];
    to = &m->chain[m->chains - 1];
    while (*from != NULL) {
        struct map_node *n = *from;

        if (chain_of(m, n->number) == to) {
            *from = n->next;
            n->next = *to;
            *to = n;
        } else {
            from = &n->next;
        }
    }
    m->half = m->chains == 2 * m->half ? m->chains : m->half;
}

void
map_add(struct map *m, struct map_node *n, uint64_t number)
{
    struct map_node **chain;

    if (m->count == m->chains) {
        grow(m);
    }
    chain = chain_of(m, number);
    n->number = number;
    n->next = *chain;
    *chain = n;
    m->count++;
}

void
map_remove(struct map *m, struct map_node *n)
{
    struct map_node **at = chain_of(m, n->number);

    while (*at != n) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = n->next;
    m->count--;
}

static struct map_node *
first_from(struct map_node *n, uint64_t number)
{
    while (n != NULL && n->number != number) {
        n = n->next;
    }
    return n;
}

struct map_node *
map_find(const struct map *m, uint64_t number)
{
    return m->count > 0 ? first_from(*chain_of(m, number), number) : NULL;
}

struct map_node *
map_next(const struct map_node *n)
{
    return first_from(n->next, n->number);
}

/* The first node of the chains from i on. */
static struct map_node *
first_of(const struct map *m, size_t i)
{
    while (i < m->chains && m->chain[i] == NULL) {
        i++;
    }
    return i < m->chains ? m->chain[i] : NULL;
}

struct map_node *
map_first(const struct map *m)
{
    return first_of(m, 0);
}

struct map_node *
map_after(const struct map *m, const struct map_node *n)
{
    return n->next != NULL ? n->next : first_of(m, (size_t)(chain_of(m, n->number) - m->chain) + 1);
}
