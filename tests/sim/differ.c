/*
 * differ.c -- the differential test: random commands to a real redis-server and to the simulated one, at the same
 * microsecond. Every reply, every published message and, again and again, the whole key space must be the same.
 *
 *   differ CLOCK.so SEED COMMANDS     0 = the same, 1 = a difference, 2 = no test (no redis-server, ...)
 *   differ CLOCK.so prove             proves that the test finds deliberate faults
 *
 * Commands go out in batches, and within a batch the clock stands still. The commands depend on the seed alone, so a
 * difference can be reproduced by its seed and number.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "tests/sim/differ.h"

#define BEGAN_US INT64_C(1763701200123456)

enum { OUTCOMES = 8, ALL_LINES = 100000, BATCH_MAX = 64, PHASE_LINES = 1500, CHECK_LINES = 500, FLAT_MAX = 8192 };

/* Deliberate faults of the simulated Redis, which the test must find. */
enum wrong { RIGHT, WRONG_CLOCK, WRONG_LOST_WRITE, WRONG_NEVER_FULL, WRONG_SCRIPTS_KEPT, WRONG_MESSAGE, WRONGS };

static const char *const wrong_names[WRONGS] = {
    [RIGHT] = "right", [WRONG_CLOCK] = "a clock that is 1 ms ahead", [WRONG_LOST_WRITE] = "one lost command in 400",
    [WRONG_NEVER_FULL] = "never full", [WRONG_SCRIPTS_KEPT] = "scripts that SCRIPT FLUSH leaves",
    [WRONG_MESSAGE] = "a message that was not received",
};

struct test {
    struct server real;
    struct sim_redis *sim;
    struct words words;
    struct line line[BATCH_MAX];
    uint64_t seed, commands, scripts, errors, keys_seen, messages;
    uint64_t outcomes[VERBS][KINDS][OUTCOMES]; /* of shipped scripts: OK to GRACE, see call.c; the last: an error */
    enum wrong wrong;
    bool full, listening;
    struct buf published, received; /* messages since the last comparison: channel NUL message NUL ... */
    bool differs;
};

/* ---- replies ---- */

static bool
same(const struct reply *a, const struct reply *b)
{
    if (a->type != b->type || a->n != b->n || a->count != b->count || !slice_eq(a->text, b->text)) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (!same(a->item[i], b->item[i])) {
            return false;
        }
    }
    return true;
}

static void
print_reply(struct buf *out, const struct reply *r)
{
    static const char *const sort[] = {"nil", ":", "\"", "+", "-", "["};

    buf_adds(out, sort[r->type]);
    if (r->type == REPLY_INT) {
        buf_printf(out, "%" PRId64, r->n);
    }
    buf_add_escaped(out, r->text);
    for (size_t i = 0; i < r->count; i++) {
        buf_adds(out, i > 0 ? ", " : "");
        print_reply(out, r->item[i]);
    }
    buf_adds(out, r->type == REPLY_TEXT ? "\"" : r->type == REPLY_ARRAY ? "]" : "");
}

/* All texts and numbers of a reply, in the order in which they come: for a reply that Redis gives in any order. */
static size_t
flatten(const struct reply *r, const struct reply **flat, size_t n)
{
    if (r->type != REPLY_ARRAY && n < FLAT_MAX) {
        flat[n++] = r;
    }
    for (size_t i = 0; i < r->count; i++) {
        n = flatten(r->item[i], flat, n);
    }
    return n;
}

static int
by_content(const void *a, const void *b)
{
    const struct reply *x = *(const struct reply *const *)a, *y = *(const struct reply *const *)b;
    size_t n = x->text.n < y->text.n ? x->text.n : y->text.n;
    int c = (x->type > y->type) - (x->type < y->type);

    c = c != 0 ? c : (x->n > y->n) - (x->n < y->n);
    c = c != 0 || n == 0 ? c : memcmp(x->text.p, y->text.p, n);
    return c != 0 ? c : (x->text.n > y->text.n) - (x->text.n < y->text.n);
}

static bool
same_in_any_order(const struct reply *a, const struct reply *b)
{
    static const struct reply *flat[2][FLAT_MAX];
    size_t n = flatten(a, flat[0], 0);

    if (flatten(b, flat[1], 0) != n || n == FLAT_MAX) {
        return false;
    }
    qsort(flat[0], n, sizeof(flat[0][0]), by_content);
    qsort(flat[1], n, sizeof(flat[1][0]), by_content);
    for (size_t i = 0; i < n; i++) {
        if (!same(flat[0][i], flat[1][i])) {
            return false;
        }
    }
    return true;
}

/* Whether a word of the line is KEYS, or a key that Redis returns in an order of its own. */
static bool
unordered(const struct test *t, const struct line *l)
{
    for (int i = 0; i < l->words; i++) {
        if (slice_is(l->word[i], "keys") || !sim_redis_ordered(t->sim, l->word[i])) {
            return true;
        }
    }
    return false;
}

static void
print_difference(struct test *t, const struct line *l, const struct reply *real, const struct reply *sim)
{
    struct buf b;

    t->differs = true;
    if (t->wrong != RIGHT) {
        return;
    }
    buf_init(&b, 0);
    buf_printf(&b, "differ: seed %" PRIu64 ", command %" PRIu64 " at %" PRId64 "%s:", t->seed, t->commands,
               t->words.now_us, t->full ? " (full)" : "");
    for (int i = 0; i < l->words; i++) {
        bool script = l->word[i].n > 400;

        buf_adds(&b, " \"");
        buf_add_escaped(&b, script ? (struct slice){l->word[i].p, 40} : l->word[i]);
        buf_adds(&b, script ? "...\"" : "\"");
    }
    if (l->call.n > 0) {
        buf_printf(&b, "\n  script: verb %d of %s", (int)l->call.verb, kind_rows[l->call.kind].name);
    } else if (l->membership != NULL) {
        buf_adds(&b, "\n  script: membership");
    }
    buf_adds(&b, "\n  redis-server: ");
    print_reply(&b, real);
    buf_adds(&b, "\n  simulated:    ");
    print_reply(&b, sim);
    fprintf(stderr, "%.*s\n", (int)b.n, b.p);
    buf_fini(&b);
}

/* ---- one command ---- */

/* The reply of the simulated Redis, with the deliberate fault. */
static const struct reply *
simulate(struct test *t, const struct line *l)
{
    static const struct slice nothing[] = {SLICE_LIT("PING")};
    bool lost = t->wrong == WRONG_LOST_WRITE && t->commands % 400 == 399;
    bool kept = t->wrong == WRONG_SCRIPTS_KEPT && l->words == 2 && slice_is(l->word[1], "flush");

    int64_t now_us = t->words.now_us + (t->wrong == WRONG_CLOCK ? 1000 : 0);

    return lost || kept ? sim_redis_command(t->sim, now_us, 1, nothing)
                        : sim_redis_command(t->sim, now_us, l->words, l->word);
}

static void
count_outcomes(struct test *t, const struct line *l, const struct reply *r)
{
    uint64_t *of = l->call.n > 0 ? t->outcomes[l->call.verb][l->call.kind] : NULL;

    if (of != NULL && r->type != REPLY_ARRAY) {
        of[OUTCOMES - 1] += l->call.n;
    }
    for (size_t i = 1; of != NULL && r->type == REPLY_ARRAY && i < r->count; i += 4) {
        of[r->item[i]->n - 1] += (uint64_t)r->item[i + 3]->n;
    }
}

static void
compare(struct test *t, const struct line *l)
{
    bool any_order = unordered(t, l);
    const struct reply *sim = simulate(t, l);
    struct reply *real = server_read(t->real.to);
    bool ok = same(real, sim);

    if (!ok && !t->differs) {
        any_order = any_order || unordered(t, l);
        ok = any_order && (l->inspect ? real->type == sim->type : same_in_any_order(real, sim));
    }
    t->commands++;
    t->scripts += l->call.n > 0 || l->inspect || l->membership != NULL;
    t->errors += real->type == REPLY_ERROR;
    if (!ok && !t->differs && !(t->wrong == WRONG_LOST_WRITE && t->commands % 400 == 0)) {
        print_difference(t, l, real, sim);
    }
    count_outcomes(t, l, sim);
    words_answer(&t->words, l, sim);
    reply_free(real);
}

/* Each line of the batch, to both. */
static void
run_batch(struct test *t, int lines)
{
    for (int i = 0; i < lines; i++) {
        server_append(t->real.to, t->line[i].words, t->line[i].word);
    }
    for (int i = 0; i < lines; i++) {
        compare(t, &t->line[i]);
        line_fini(&t->line[i]);
    }
}

static void
run_one(struct test *t, int words, const struct slice *word)
{
    line_of(&t->line[0], words, word);
    run_batch(t, 1);
}

/* To the real one alone, which must not answer an error. */
static void
steer(redisContext *c, int words, const struct slice *word)
{
    struct reply *r = server_ask(c, words, word);

    if (r->type == REPLY_ERROR) {
        fprintf(stderr, "differ: %.*s: %.*s\n", (int)word[0].n, word[0].p, (int)r->text.n, r->text.p);
        exit(2);
    }
    reply_free(r);
}

/* ---- the key space ---- */

static void
compare_key(void *ctx, struct slice key)
{
    struct buf *keys = ctx;
    size_t n = key.n;

    buf_add(keys, &n, sizeof(n));
    buf_add_slice(keys, key);
}

static void
compare_keys(struct test *t)
{
    static const struct slice types[] = {SLICE_LIT("string"), SLICE_LIT("hash"), SLICE_LIT("list"), SLICE_LIT("set"),
                                         SLICE_LIT("zset")};
    struct slice all[] = {SLICE_LIT("KEYS"), SLICE_LIT("*")};
    struct buf keys;

    run_one(t, 2, all);
    buf_init(&keys, 0);
    sim_redis_keys(t->sim, t->words.now_us, compare_key, &keys);
    for (size_t at = 0, n; at < keys.n && !t->differs; at += n) {
        struct slice words[5] = {SLICE_LIT("TYPE")}, key;

        memcpy(&n, keys.p + at, sizeof(n));
        at += sizeof(n);
        key = (struct slice){keys.p + at, n};
        words[1] = key;
        line_of(&t->line[0], 2, words);
        words[0] = SLICE_LIT("PEXPIRETIME");
        line_of(&t->line[1], 2, words);
        /* The key has one type: four of the five commands get an error on both sides. */
        for (unsigned i = 0; i < 5; i++) {
            const struct slice read[5][5] = {{SLICE_LIT("GET"), key},
                                             {SLICE_LIT("HGETALL"), key},
                                             {SLICE_LIT("LRANGE"), key, SLICE_LIT("0"), SLICE_LIT("-1")},
                                             {SLICE_LIT("SMEMBERS"), key},
                                             {SLICE_LIT("ZRANGE"), key, SLICE_LIT("0"), SLICE_LIT("-1"),
                                              SLICE_LIT("WITHSCORES")}};
            static const int words_n[5] = {2, 2, 4, 2, 5};
            const struct reply *type = sim_redis_command(t->sim, t->words.now_us, 2,
                                                         (const struct slice[]){SLICE_LIT("TYPE"), key});

            if (slice_eq(type->text, types[i])) {
                line_of(&t->line[2], words_n[i], read[i]);
                run_batch(t, 3);
                t->keys_seen++;
                break;
            }
        }
    }
    buf_fini(&keys);
}

/* ---- messages ---- */

static int
on_publish(void *ctx, struct slice channel, struct slice message, bool sharded)
{
    struct test *t = ctx;

    /* NUMSUB: the subscriber has a pattern, which does not count */
    if (sharded || !t->listening || message.p == NULL) {
        return 0;
    }
    buf_add_slice(&t->published, channel);
    buf_add(&t->published, "\0", 1);
    buf_add_slice(&t->published, message);
    buf_add(&t->published, "\0", 1);
    t->messages++;
    return t->wrong == WRONG_MESSAGE ? 0 : 1;
}

static void
listen_or_not(struct test *t, bool listening)
{
    const struct slice on[] = {SLICE_LIT("PSUBSCRIBE"), SLICE_LIT("*")}, off[] = {SLICE_LIT("PUNSUBSCRIBE")};

    if (listening != t->listening) {
        steer(t->real.subscriber, listening ? 2 : 1, listening ? on : off);
        t->listening = listening;
    }
}

/* Every message that was published here must arrive there, in this order. */
static void
compare_messages(struct test *t)
{
    while (t->received.n < t->published.n && !t->differs) {
        struct reply *r = server_read(t->real.subscriber);

        for (size_t i = 2; i < 4 && r->type == REPLY_ARRAY && r->count == 4; i++) {
            buf_add_slice(&t->received, r->item[i]->text);
            buf_add(&t->received, "\0", 1);
        }
        reply_free(r);
    }
    if (!t->differs && !slice_eq(buf_slice(&t->published), buf_slice(&t->received))) {
        t->differs = true;
        if (t->wrong == RIGHT) {
            fprintf(stderr, "differ: seed %" PRIu64 ", command %" PRIu64 ": other messages\n", t->seed, t->commands);
        }
    }
    buf_clear(&t->published, SIZE_MAX);
    buf_clear(&t->received, SIZE_MAX);
}

/* ---- a run ---- */

static void
set_full(struct test *t, bool full)
{
    const struct slice set[] = {SLICE_LIT("CONFIG"), SLICE_LIT("SET"), SLICE_LIT("maxmemory"),
                                full ? SLICE_LIT("1") : SLICE_LIT("0")};

    if (full != t->full) {
        t->full = full;
        steer(t->real.to, 4, set);
        sim_redis_full(t->sim, full && t->wrong != WRONG_NEVER_FULL);
    }
}

/* Reads an id of 40 digits from the INFO of the real one. */
static void
read_id(const struct reply *info, const char *field, char id[41])
{
    const char *at = strstr(info->text.p, field);

    if (at == NULL) {
        fprintf(stderr, "differ: INFO without %s\n", field);
        exit(2);
    }
    snprintf(id, 41, "%s", at + strlen(field));
}

/* A simulated Redis with the same ids, which scripts can read. */
static struct sim_redis *
twin(struct test *t)
{
    struct reply *info = server_ask(t->real.to, 1, (const struct slice[]){SLICE_LIT("INFO")});
    struct sim_redis *sim;
    char run_id[41], replid[41];

    read_id(info, "run_id:", run_id);
    read_id(info, "master_replid:", replid);
    reply_free(info);
    sim = sim_redis_new(run_id, replid);
    sim_redis_started(sim, BEGAN_US);
    sim_redis_on_publish(sim, on_publish, t);
    return sim;
}

/* Mostly forward by a little; now and then by a day, or back. */
static void
move_clock(struct test *t)
{
    unsigned d = rng_below(&t->words.rng, 100);
    int64_t most = d < 70 ? 500 : d < 93 ? 5000 : d < 99 ? 300000 : INT64_C(90000000000);

    t->words.now_us += (int64_t)(rng_next(&t->words.rng) % (uint64_t)most);
    if (d == 0) {
        t->words.now_us -= 1000000;
    }
    *t->real.now_us = t->words.now_us;
}

static void
begin_phase(struct test *t)
{
    words_phase(&t->words);
    set_full(t, rng_below(&t->words.rng, 4) == 0);
    listen_or_not(t, rng_below(&t->words.rng, 3) == 0);
    if (rng_below(&t->words.rng, 8) == 0) {
        run_one(t, 1, (const struct slice[]){SLICE_LIT("FLUSHALL")});
    }
    for (int i = 0; i < 3 * UUIDS; i++) { /* each learns the epoch, then has its locks again; then all have */
        words_membership(&t->words, &t->line[0], i % UUIDS);
        run_batch(t, 1);
    }
}

static void
try_odd(struct test *t)
{
    struct slice words[] = {SLICE_LIT("EVAL"), {NULL, 0}, SLICE_LIT("1"), SLICE_LIT("k"),
                            SLICE_LIT("a"),    SLICE_LIT("2"), SLICE_LIT("")};
    const char *text;

    for (size_t i = 0; (text = lua_odd(i)) != NULL; i++) {
        words[1] = slice_of(text);
        run_one(t, 7, words);
    }
}

/* Runs at least so many commands, or until the first difference: true = there was one. */
static bool
run(struct test *t, const char *preload, uint64_t seed, uint64_t commands, enum wrong wrong)
{
    uint64_t phase_at = 0, check_at = 0;

    *t = (struct test){.seed = seed, .wrong = wrong};
    words_init(&t->words, seed);
    t->words.now_us = BEGAN_US;
    server_start(&t->real, preload, BEGAN_US);
    t->sim = twin(t);
    buf_init(&t->published, 0);
    buf_init(&t->received, 0);
    try_odd(t);
    while (t->commands < commands && !t->differs) {
        int lines = 1 + (int)rng_below(&t->words.rng, rng_below(&t->words.rng, 2) == 0 ? 4 : BATCH_MAX);

        if (t->commands >= phase_at) {
            begin_phase(t);
            phase_at = t->commands + PHASE_LINES;
        }
        move_clock(t);
        for (int i = 0; i < lines; i++) {
            words_next(&t->words, &t->line[i]);
        }
        run_batch(t, lines);
        compare_messages(t);
        if (t->commands >= check_at && !t->differs) {
            compare_keys(t);
            check_at = t->commands + CHECK_LINES;
        }
    }
    if (!t->differs) {
        compare_keys(t);
    }
    buf_fini(&t->published);
    buf_fini(&t->received);
    sim_redis_free(&t->sim);
    words_fini(&t->words);
    server_stop(&t->real);
    return t->differs;
}

static void
print_outcomes(const struct test *t)
{
    static const char *const names[OUTCOMES] = {"OK", "TAKEN", "GONE", "FOREIGN", "FULL", "STALE", "GRACE", "errors"};

    printf("differ: outcomes:");
    for (int o = 0; o < OUTCOMES; o++) {
        uint64_t n = 0;

        for (int i = 0; i < VERBS * KINDS; i++) {
            n += t->outcomes[i / KINDS][i % KINDS][o];
        }
        printf(" %" PRIu64 " %s", n, names[o]);
    }
    printf("\n");
}

/* In a long run each shipped script must have had each outcome that it can have. */
static bool
saw_all(const struct test *t)
{
    for (int verb = 0; verb < VERBS; verb++) {
        for (int kind = 0; kind < KINDS; kind++) {
            const uint64_t *of = t->outcomes[verb][kind];

            if (of[0] == 0 || (verb == VERB_ACQUIRE && (of[1] == 0 || of[3] == 0 || of[4] == 0 || of[6] == 0)) ||
                (verb != VERB_ACQUIRE && of[2] == 0) || of[5] == 0 || of[OUTCOMES - 1] == 0) {
                fprintf(stderr, "differ: the run is too short, or blind: verb %d of %s\n", verb, kind_rows[kind].name);
                return false;
            }
        }
    }
    return true;
}

static int
prove(struct test *t, const char *preload)
{
    for (enum wrong w = RIGHT + 1; w < WRONGS; w++) {
        if (!run(t, preload, 1, 50000, w)) {
            fprintf(stderr, "differ: blind to %s\n", wrong_names[w]);
            return 1;
        }
        printf("differ: %s is found after %" PRIu64 " commands\n", wrong_names[w], t->commands);
    }
    return 0;
}

int
main(int argc, char **argv)
{
    static struct test t;
    int64_t began = clock_now_us();
    const char *missing = words_missing();
    bool differs;
    double s;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (missing != NULL) {
        fprintf(stderr, "differ: the command %s is never tried\n", missing);
        return 1;
    }
    if (argc == 3 && strcmp(argv[2], "prove") == 0) {
        return prove(&t, argv[1]);
    }
    if (argc != 4) {
        fprintf(stderr, "usage: differ CLOCK.so SEED COMMANDS\n       differ CLOCK.so prove\n");
        return 2;
    }
    differs = run(&t, argv[1], strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10), RIGHT);
    s = (double)(clock_now_us() - began) / 1e6;
    printf("differ: seed %" PRIu64 ": %" PRIu64 " commands (%" PRIu64 " shipped scripts, %" PRIu64 " errors), %" PRIu64
           " keys and %" PRIu64 " messages compared, %s; %.1f s, %.0f commands a second\n",
           t.seed, t.commands, t.scripts, t.errors, t.keys_seen, t.messages, differs ? "DIFFERENT" : "all the same", s,
           (double)t.commands / s);
    print_outcomes(&t);
    return differs || (t.commands >= ALL_LINES && !saw_all(&t)) ? 1 : 0;
}
