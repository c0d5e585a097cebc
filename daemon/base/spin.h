/*
 * spin.h -- whether to poll once more instead of going to sleep.
 *
 * Waking a process costs about 50 us. Where input arrives again and again after less than that, polling buys latency
 * with processor time. Adaptive: where nothing came in time lately, nothing is polled.
 */
#ifndef RLOCKD_BASE_SPIN_H
#define RLOCKD_BASE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

struct spin {
    int64_t quiet_us; /* since when nothing has come */
    int64_t gap_us;   /* how long that lasted lately, on the average */
};

/*
 * After a turn of the loop, in which something came (`busy`) or not: true = do not block in the next one. Of a quiet
 * spell the first limit_us are looked through; 0 = never. All zero at first.
 */
bool spin_on(struct spin *s, int64_t limit_us, bool busy, int64_t now_us);

#endif
