/* load_hist.c -- see load.h. Bucket i < 128 is the value i; above, 128 buckets of one width for each power of two. */
#include <stdio.h>

#include "load.h"

static unsigned
place(uint64_t v)
{
    unsigned shift, i;

    if (v < HIST_STEPS) {
        return (unsigned)v;
    }
    shift = 63u - (unsigned)__builtin_clzll(v) - 7;
    i = (shift + 1) * HIST_STEPS + (unsigned)((v >> shift) - HIST_STEPS);
    return i < HIST_BUCKETS ? i : HIST_BUCKETS - 1;
}

static uint64_t
middle(unsigned i)
{
    unsigned shift;

    if (i < HIST_STEPS) {
        return i;
    }
    shift = i / HIST_STEPS - 1;
    return ((uint64_t)(i % HIST_STEPS + HIST_STEPS) << shift) + (((uint64_t)1 << shift) >> 1);
}

void
hist_add(struct hist *h, uint64_t value)
{
    h->n++;
    h->max = value > h->max ? value : h->max;
    h->bucket[place(value)]++;
}

void
hist_merge(struct hist *into, const struct hist *from)
{
    unsigned i;

    into->n += from->n;
    into->max = from->max > into->max ? from->max : into->max;
    for (i = 0; i < HIST_BUCKETS; i++) {
        into->bucket[i] += from->bucket[i];
    }
}

uint64_t
hist_quantile(const struct hist *h, double q)
{
    uint64_t rank = (uint64_t)(q * (double)h->n), seen = 0;
    unsigned i;

    rank = rank < h->n ? rank : h->n - 1;
    for (i = 0; h->n > 0 && i < HIST_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen > rank) {
            return middle(i) < h->max ? middle(i) : h->max;
        }
    }
    return 0;
}

void
hist_print(const char *name, const struct hist *h)
{
    printf("\"%s\": {\"n\": %llu, \"p50\": %.2f, \"p90\": %.2f, \"p99\": %.2f, \"max\": %.2f}", name,
           (unsigned long long)h->n, (double)hist_quantile(h, 0.5) / 1e3, (double)hist_quantile(h, 0.9) / 1e3,
           (double)hist_quantile(h, 0.99) / 1e3, (double)h->max / 1e3);
}
