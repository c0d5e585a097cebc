/*
 * replay.c -- runs a target without libFuzzer: each file of its corpus as it is, then, for the given time, the same
 * files cut short, with bits flipped and with pieces of each other. Always the same edits in the same order.
 *
 *   replay MILLISECONDS FILE...
 *
 * The last line is "N runs of M files" on success. After a crash the bytes are in $RLOCKD_FUZZ_CRASH.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/rng.h"

enum { INPUT_BYTES_MAX = 64 * 1024, EDITS_MAX = 8, PATIENCE_S = 20 };

struct input {
    uint8_t *p;
    size_t n;
};

static struct input now; /* the present input: for the handler */

void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak)); /* not there in `make coverage` */

/* Keeps the input, however the process ends. */
static void
keep_input(void)
{
    const char *path = getenv("RLOCKD_FUZZ_CRASH");
    FILE *f = path != NULL ? fopen(path, "wb") : NULL;

    if (f != NULL) {
        fwrite(now.p, 1, now.n, f);
        fclose(f);
    }
}

static void
on_signal(int sig)
{
    keep_input();
    signal(sig, SIG_DFL);
    raise(sig == SIGALRM ? SIGABRT : sig);
}

/* A copy of its own, so that a read past its end is found; and with a limit of time. */
static void
run(const uint8_t *p, size_t n)
{
    now = (struct input){(uint8_t *)exact_copy((struct slice){(const char *)p, n}, false), n};
    alarm(PATIENCE_S);
    (void)LLVMFuzzerTestOneInput(now.p, n);
    alarm(0);
    free(now.p);
    now = (struct input){NULL, 0};
}

static struct input
load(const char *path)
{
    struct input in = {malloc(INPUT_BYTES_MAX), 0};
    FILE *f = fopen(path, "rb");

    CHECK(f != NULL && in.p != NULL, "%s", path);
    in.n = fread(in.p, 1, INPUT_BYTES_MAX, f);
    fclose(f);
    return in;
}

/* Copies `in` with a few edits to `out`; returns its size. */
static size_t
edit(struct rng *r, const struct input *in, const struct input *other, uint8_t *out)
{
    size_t n = in->n;
    unsigned edits = 1 + rng_below(r, EDITS_MAX);

    memcpy(out, in->p, n);
    while (edits-- > 0 && n > 0) {
        size_t at = rng_below(r, (unsigned)n), bytes;

        switch (rng_below(r, 5)) {
        case 0:
            out[at] ^= (uint8_t)(1u << rng_below(r, 8));
            break;
        case 1:
            out[at] = (uint8_t)rng_next(r);
            break;
        case 2: /* left out */
            bytes = rng_below(r, (unsigned)(n - at < 16 ? n - at : 16)) + 1;
            memmove(out + at, out + at + bytes, n - at - bytes);
            n -= bytes;
            break;
        case 3: /* cut short */
            n = rng_below(r, 4) == 0 ? at : n;
            break;
        default: /* a piece of another file */
            bytes = other->n > 0 ? rng_below(r, (unsigned)other->n) : 0;
            bytes = bytes < n - at ? bytes : n - at;
            memcpy(out + at, other->p + rng_below(r, (unsigned)(other->n - bytes) + 1), bytes);
            break;
        }
    }
    return n;
}

static int64_t
clock_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int
main(int argc, char **argv)
{
    size_t files_n = argc > 2 ? (size_t)argc - 2 : 0, runs = 0;
    struct input *files = calloc(files_n + 1, sizeof(*files));
    uint8_t *scratch = malloc(INPUT_BYTES_MAX);
    struct rng r = rng_of(1);
    int64_t until_ms;

    CHECK(files_n > 0 && files != NULL && scratch != NULL, "usage: %s MILLISECONDS FILE...", argv[0]);
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(keep_input);
    }
    signal(SIGABRT, on_signal);
    signal(SIGALRM, on_signal);
    for (size_t i = 0; i < files_n; i++) {
        files[i] = load(argv[i + 2]);
        run(files[i].p, files[i].n);
        runs++;
    }
    until_ms = clock_ms() + strtol(argv[1], NULL, 10);
    for (size_t i = 0; clock_ms() < until_ms; i = (i + 1) % files_n) {
        run(files[i].p, files[i].n > 0 ? rng_below(&r, (unsigned)files[i].n) : 0);
        run(scratch, edit(&r, &files[i], &files[rng_below(&r, (unsigned)files_n)], scratch));
        runs += 2;
    }
    for (size_t i = 0; i < files_n; i++) {
        free(files[i].p);
    }
    free(files);
    free(scratch);
    printf("%zu runs of %zu files\n", runs, files_n);
    return 0;
}
