/*
 * clock_offset.h -- Redis's clock minus the daemon's, as an interval that each answer narrows.
 */
#ifndef RLOCKD_BACKEND_CLOCK_OFFSET_H
#define RLOCKD_BACKEND_CLOCK_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

struct clock_offset {
    int64_t low_us, high_us; /* the offset lies between them */
    int64_t at_us;           /* when the last answer came; 0 = none has */
};

/*
 * Redis's clock was time_us between sent_us and received_us of the daemon's. Returns the jump in us by which the offset
 * has left the interval, negative if downwards; 0: it has not.
 */
int64_t clock_offset_learn(struct clock_offset *o, int64_t sent_us, int64_t received_us, int64_t time_us);

/* The middle of the interval, and the most by which it may be wrong. */
int64_t clock_offset_guess(const struct clock_offset *o);
int64_t clock_offset_error(const struct clock_offset *o, int64_t now_us);

/* The round trip of the fastest recent answers, which did not wait behind other commands. */
int64_t clock_offset_rtt_us(const struct clock_offset *o);

#endif
