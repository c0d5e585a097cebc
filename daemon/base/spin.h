/*
 * spin.h -- whether the loop polls once more instead of sleeping.
 *
 * Waking a process costs about 50 us. If input keeps arriving sooner than that, polling trades processor time for
 * latency. It adapts: if input has not arrived in time lately, the loop sleeps.
 */
#ifndef RLOCKD_BASE_SPIN_H
#define RLOCKD_BASE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

struct spin {
    int64_t last_input_us; /* when the last input came */
    int64_t gap_us;        /* a moving average of the quiet spells between inputs */
};

/*
 * Called after each turn of the loop; busy: input came in it. True: the next turn must not block. limit_us: how long a
 * quiet spell is polled; 0 = not at all. The record is zeroed at first.
 */
bool spin_should_poll(struct spin *s, int64_t limit_us, bool busy, int64_t now_us);

#endif
