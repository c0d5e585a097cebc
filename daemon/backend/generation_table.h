/*
 * generation_table.h -- the known generations, and which of them each anchor knows; private to generations.h.
 */
#ifndef RLOCKD_BACKEND_GENERATION_TABLE_H
#define RLOCKD_BACKEND_GENERATION_TABLE_H

#include "daemon/backend/generations_private.h"

/* The anchor has named the generation: takes it in, with its slots. True: it is new, and has slots. */
bool generation_table_take(struct generations *g, unsigned anchor, const struct generation_entry *e, int64_t now_us);

bool generation_table_has(const struct generations *g, uint64_t number);

/* Whether two anchors have named it. */
bool generation_table_is_named(const struct known_generation *e);

/* The anchor has lost its data: forgets its versions. */
void generation_table_forget(struct generations *g, unsigned anchor);

/* Up to the version `done` of the anchor all its members have reclaimed. */
void generation_table_done(struct generations *g, unsigned anchor, uint64_t done);

/* The answers of the anchor are of a former master: forgets `done`, and that the anchor has answered. */
void generation_table_forget_done(struct generations *g, unsigned anchor);

/* The generation is over: all members have reclaimed its slots, or its grace period has ended. */
void generation_table_over(struct generations *g, struct known_generation *e);

/* A record of the generation grants: the generation is over when two anchors have answered once more. */
void generation_table_end_seen(struct generations *g, struct known_generation *e);

/* A registration at the anchor has ended. votes: it was answered, and the anchor votes. */
void generation_table_registered(struct generations *g, unsigned anchor, bool votes);

/* This daemon has reclaimed all generations up to this version of the anchor. */
uint64_t generation_table_reclaimed(const struct generations *g, unsigned anchor);

/* Appends the generations that the anchor lacks to message.generation. */
void generation_table_forward(struct generations *g, unsigned anchor);

/* Appends the generation to message.generation. */
void message_add(struct generations *g, const struct generation_entry *e, uint64_t expected);

/* Whether generation_table_forward() has something for the anchor. */
bool generation_table_lacks(const struct generations *g, unsigned anchor);

#endif
