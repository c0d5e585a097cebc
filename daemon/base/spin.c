/*
 * spin.c -- a moving average of quiet spells. A new one counts for a quarter, and for 8 * limit_us at most, so that one
 * long night counts for no more than a few misses.
 */
#include "daemon/base/spin.h"

bool
spin_should_poll(struct spin *s, int64_t limit_us, bool busy, int64_t now_us)
{
    int64_t gap_us = now_us - s->last_input_us;

    if (limit_us == 0) {
        return false;
    }
    if (busy) {
        s->gap_us += ((gap_us < 8 * limit_us ? gap_us : 8 * limit_us) - s->gap_us) / 4;
        s->last_input_us = now_us;
        gap_us = 0;
    }
    return gap_us < limit_us && s->gap_us < limit_us;
}
