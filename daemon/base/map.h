/*
 * map.h -- intrusive hash table of records by a number of 64 bits.
 *
 * Made for the daemon because uthash takes 56 bytes a record, and moves all records at once when its table grows.
 *
 * The number is an id of ours, or a keyed hash of a name (hash.h), so clients cannot choose colliding ones. Several
 * records may have one number (two names: once in 2^64), so a search by name must compare names.
 *
 * A record costs 16 bytes in its node, and a chain 8 bytes in the table, which has as many chains as the map ever had
 * records at one time. The map owns only the array of chains; nodes live in their records.
 */
#ifndef RLOCKD_BASE_MAP_H
#define RLOCKD_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_node {
    struct map_node *next; /* of its chain */
    uint64_t number;
};

struct map {
    struct map_node **chain; /* owned array; the nodes are borrowed */
    size_t chains, room;
    size_t half;             /* the largest power of two that is not above `chains`; see map.c */
    size_t count;            /* records */
};

void map_init(struct map *m); /* a zeroed map needs no map_init() */
void map_fini(struct map *m);

void map_add(struct map *m, struct map_node *n, uint64_t number);

/* The node must be in the map. */
void map_remove(struct map *m, struct map_node *n);

/* A node with this number, or NULL. */
struct map_node *map_find(const struct map *m, uint64_t number);

/* The next node with the same number, or NULL. */
struct map_node *map_next(const struct map_node *n);

/* Walks all records, in no order; the body may remove n. A walk costs a step for each chain. */
struct map_node *map_first(const struct map *m);
struct map_node *map_after(const struct map *m, const struct map_node *n);
#define map_for_each_safe(n, nxt, m)                                                                                   \
    for ((n) = map_first(m); (n) != NULL && ((nxt) = map_after((m), (n)), true); (n) = (nxt))

#endif
