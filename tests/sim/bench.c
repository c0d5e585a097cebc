/*
 * bench.c -- the number of script calls that the simulated Redis runs in a second of processor time: acquire, renew,
 * release.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/backend/call.h"
#include "daemon/backend/sha1.h"
#include "tests/sim/redis.h"

#define UUID "0f9b8a76-1c2d-4e3f-8a9b-726c6f636b64"
#define EPOCH "1763701200000000 0123456789abcdef"
#define WALL_US INT64_C(1763701200123456)

enum { WORDS_MAX = 64 };

struct prepared {
    struct item *item;
    struct buf text;
    struct slice word[WORDS_MAX];
    char sha[SHA1_HEX_BYTES + 1];
    int words;
};

static void
prepare(struct sim_redis *r, struct prepared *p, enum call_verb verb, enum kind kind)
{
    static const struct hash_key secret = {1, 2};
    struct core_op op = {.key = SLICE_LIT("orders:42"), .kind = kind, .owner = 7, .claim = 7, .lease_us = 30000000,
                         .limit = 3, .holds = verb == VERB_ACQUIRE};
    struct call c = {.verb = verb, .kind = kind, .n = 1};
    struct call_sender sender = {.text = call_script_text(verb, kind), .sha = p->sha, .uuid = UUID, .secret = &secret,
                                 .keys = {SLICE_LIT(CALL_CLOCK_KEY), SLICE_LIT(CALL_EPOCH_KEY)},
                                 .epoch = SLICE_LIT(EPOCH)};
    const struct slice load[] = {SLICE_LIT("SCRIPT"), SLICE_LIT("LOAD"), slice_of(call_script_text(verb, kind))};

    p->item = item_new(NULL, &op);
    if (p->item == NULL) {
        abort();
    }
    buf_init(&p->text, 0);
    list_init(&c.items);
    list_push_back(&c.items, &p->item->node);
    memcpy(p->sha, sim_redis_command(r, WALL_US, 3, load)->text.p, sizeof(p->sha));
    p->words = call_words(&c, &sender, &p->text, p->word);
}

static void
forget(struct prepared *p)
{
    free(p->item);
    buf_fini(&p->text);
}

static double
rounds(struct sim_redis *r, enum kind kind, int n)
{
    struct prepared acquire, renew, release;
    int64_t now = WALL_US;
    clock_t began;
    const struct slice set[] = {SLICE_LIT("SET"), SLICE_LIT(CALL_EPOCH_KEY), SLICE_LIT(EPOCH)};
    struct prepared *const all[] = {&acquire, &renew, &renew, &release};
    double rate;

    sim_redis_flush(r);
    sim_redis_command(r, WALL_US, 3, set);
    prepare(r, &acquire, VERB_ACQUIRE, kind);
    prepare(r, &renew, VERB_RENEW, kind);
    prepare(r, &release, VERB_RELEASE, kind);
    began = clock();
    for (int i = 0; i < n; i++) {
        const struct prepared *p = all[i % 4];
        const struct reply *reply = sim_redis_command(r, now += 1000, p->words, p->word);

        if (reply->type != REPLY_ARRAY || (reply->item[1]->n != 1 && kind != KIND_COUNTER)) {
            fprintf(stderr, "bench: %s: %.*s, outcome %" PRId64 "\n", kind_rows[kind].name, (int)reply->text.n,
                    reply->text.p, reply->type == REPLY_ARRAY ? reply->item[1]->n : -1);
            exit(1);
        }
    }
    rate = (double)n * CLOCKS_PER_SEC / (double)(clock() - began);
    forget(&acquire);
    forget(&renew);
    forget(&release);
    return rate;
}

int
main(int argc, char **argv)
{
    struct sim_redis *r = sim_redis_new("1111111111111111111111111111111111111111",
                                        "2222222222222222222222222222222222222222");
    int n = argc > 1 ? atoi(argv[1]) : 400000;

    for (int kind = 0; kind < KINDS; kind++) {
        printf("%-10s %9.0f script calls a second of processor time\n", kind_rows[kind].name,
               rounds(r, (enum kind)kind, n));
    }
    sim_redis_free(&r);
    return 0;
}
