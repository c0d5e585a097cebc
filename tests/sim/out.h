/*
 * out.h -- replies of the simulated Redis, in memory that the next command frees as a whole.
 */
#ifndef RLOCKD_TESTS_SIM_OUT_H
#define RLOCKD_TESTS_SIM_OUT_H

#include "daemon/backend/reply.h"
#include "daemon/base/slice.h"

struct out_chunk;

struct out {
    struct out_chunk *chunk; /* the present chunk, then older ones */
    size_t n;                /* used bytes of the present chunk */
};

void out_fini(struct out *o);

/* Frees all replies. */
void out_reset(struct out *o);

/* Aligned for anything; aborts when out of memory. */
void *out_alloc(struct out *o, size_t n);

struct reply *out_null(struct out *o);
struct reply *out_int(struct out *o, int64_t n);
struct reply *out_text(struct out *o, struct slice text); /* copied */
struct reply *out_double(struct out *o, double d);
struct reply *out_status(struct out *o, struct slice text);

enum { DIGITS_ROOM = 32 };

/* Digits, somewhere in `room`: without printf, which would take a fifth of a script's time. A double as by "%.17g". */
struct slice print_int(int64_t n, char room[DIGITS_ROOM]);
struct slice print_double(double d, char room[DIGITS_ROOM]);

/* "CODE text"; line ends become blanks, as in Redis. */
struct reply *out_error(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Room for `count` items, which the caller fills; it may lower the count. */
struct reply *out_array(struct out *o, size_t count);

#endif
