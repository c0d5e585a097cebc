/*
 * clock_offset.c -- Redis's clock minus the daemon's, by intersecting intervals.
 *
 * Redis read TIME after the call was sent and before the answer was received, so the offset lies in [time - received,
 * time - sent]. Intervals are intersected; an old one is widened by the drift of two clocks (500 ppm). An empty
 * intersection means that one of the clocks was set, or slept: then only the new interval counts.
 */
#include "daemon/backend/clock_offset.h"

int64_t
clock_offset_learn(struct clock_offset *o, int64_t sent_us, int64_t received_us, int64_t time_us)
{
    int64_t low_us = time_us - received_us, high_us = time_us - sent_us, jump_us = 0;

    if (o->at_us != 0) {
        int64_t drift_us = (received_us - o->at_us) / 2000 + 1;

        o->low_us -= drift_us;
        o->high_us += drift_us;
        if (low_us > o->high_us) {
            jump_us = low_us - o->high_us;
        } else if (high_us < o->low_us) {
            jump_us = high_us - o->low_us;
        } else {
            low_us = low_us > o->low_us ? low_us : o->low_us;
            high_us = high_us < o->high_us ? high_us : o->high_us;
        }
    }
    o->low_us = low_us;
    o->high_us = high_us;
    o->at_us = received_us;
    return jump_us;
}

int64_t
clock_offset_guess(const struct clock_offset *o)
{
    return o->low_us + (o->high_us - o->low_us) / 2;
}

int64_t
clock_offset_rtt_us(const struct clock_offset *o)
{
    return o->high_us - o->low_us;
}

int64_t
clock_offset_error(const struct clock_offset *o, int64_t now_us)
{
    return (o->high_us - o->low_us + 1) / 2 + (now_us - o->at_us) / 2000;
}
