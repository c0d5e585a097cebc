/*
 * generation_begin.h -- the proposals of new generations; for the files of generations_private.h.
 */
#ifndef RLOCKD_BACKEND_GENERATION_BEGIN_H
#define RLOCKD_BACKEND_GENERATION_BEGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/backend/anchor_words.h"

struct generations;

/* Of the slots of one node. */
struct generation_proposal {
    uint64_t number, expected, origin, since_us;
    struct slot_range *range; /* owned */
    size_t ranges_n;
    unsigned receivers;      /* the anchors that get it, a bit each: at first the one that has to take it (GB2) */
    unsigned sent, answered; /* the receivers to which it is on its way; those that have answered it */
    int64_t due_us;  /* the end of the random time for others to begin the generation (GB2); 0: no slot needs one */
    int64_t news_asked_us; /* since when an anchor is asked for news; 0: not yet ... */
    unsigned news_asked_n; /* ... and how many have been asked ... */
    bool has_news;         /* ... and the last of these has answered */
    int64_t began_us;
    bool live;       /* it has a number, and is sent */
    bool reported;   /* by GENERATION_BEGUN */
};

bool generation_begin_allowed(const struct generations *g);

/* Asks anchors for news, and makes proposals, when these are due; generation_begin_append() puts them into messages. */
void generation_begin_tick(struct generations *g, int64_t now_us);

/* Appends this daemon's proposals to message.generation. */
void generation_begin_append(struct generations *g, unsigned anchor);
void generation_begin_answered(struct generations *g, unsigned anchor, bool answered, int64_t sent_us, int64_t now_us);
int64_t generation_begin_next_us(const struct generations *g); /* when generation_begin_tick() has something to do */

#endif
