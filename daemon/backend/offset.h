/*
 * offset.h -- how far Redis's clock is ahead of ours, as an interval that each answer narrows.
 */
#ifndef RLOCKD_BACKEND_OFFSET_H
#define RLOCKD_BACKEND_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

struct offset {
    int64_t low_us, high_us; /* Redis's TIME minus our clock lies between */
    int64_t at_us;           /* last narrowed; 0 = nothing known */
};

/* Redis read time_us between sent_us and heard_us of our clock. Returns by how much it jumped out of the interval. */
int64_t offset_learn(struct offset *o, int64_t sent_us, int64_t heard_us, int64_t time_us);

/* The best guess, and by how much it may be wrong. */
int64_t offset_guess(const struct offset *o);
int64_t offset_error(const struct offset *o, int64_t now_us);

/* The round trip, by the fastest answers of late: time spent waiting behind other commands does not count. */
int64_t offset_rtt_us(const struct offset *o);

#endif
