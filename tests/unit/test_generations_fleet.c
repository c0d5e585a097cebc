/*
 * test_generations_fleet.c -- many daemons notice one change of a cluster at the same time: how many generations they
 * begin, and how many proposals an anchor gets.
 */
#include <inttypes.h>

#define AW_MEMBERS 100
#include "anchor_world.h"
#include "daemon/backend/generation_sends.h"
#include "daemon/backend/generations.h"
#include "daemon/backend/generations_private.h"
#include "daemon/base/memory.h"
#include "rng.h"
#include "suite.h"

enum { FLEET = AW_MEMBERS, NODES = 3, FLIGHTS = FLEET * 8, NUMBERS = 4096, BROADCASTS = 16 };
#define LEASE_US (10 * US_PER_S)
#define STEP_US (US_PER_MS / 2)

struct flight {
    bool is, ran, lost;
    unsigned who;
    struct generation_send send;
    int64_t sent_us, run_us, reply_us;
    struct anchor_message m; /* with arrays of its own */
    struct aw_answer *answer;
    struct node_answer node;
    struct slot_range range;
};

/* The broadcast that a generation with this number has begun; each daemon receives it at a time of its own. */
struct broadcast {
    uint64_t number; /* 0: none */
    int64_t at_us[FLEET]; /* 0: the daemon has received it */
};

static struct {
    struct rng r;
    int64_t now_us;
    struct aw_anchor anchor[ANCHORS];
    uint64_t origin[NODES];
    struct generations *g[FLEET];
    uint16_t number[FLEET][NODES]; /* of the node, at the daemon */
    int64_t from_us[FLEET];        /* before that time the daemon does nothing; INT64_MAX: it is dead */
    struct flight f[FLIGHTS];
    struct broadcast broadcast[BROADCASTS];
    bool mute; /* broadcasts are lost */
    bool cut_off[ANCHORS]; /* the anchor's answers are lost */
    bool shut[FLEET];   /* no registration of the daemon reaches the first anchor */
    uint64_t begun[NUMBERS];       /* numbers that an anchor has accepted */
    unsigned begun_n, proposals[ANCHORS];
} *w;

static void
on_news(void *ctx, enum generation_news news, uint16_t slot, uint64_t number)
{
    unsigned i = 0;

    (void)ctx;
    (void)slot;
    if (news != GENERATION_BEGUN || w->mute) {
        return;
    }
    while (w->broadcast[i].number != 0) {
        i++;
        ck_assert_uint_lt(i, BROADCASTS);
    }
    w->broadcast[i].number = number;
    for (unsigned who = 0; who < FLEET; who++) {
        w->broadcast[i].at_us[who] = w->now_us + 400 + rng_below(&w->r, 4000);
    }
}

static void
receives(struct broadcast *b)
{
    bool all = true;

    for (unsigned who = 0; b->number != 0 && who < FLEET; who++) {
        if (b->at_us[who] != 0 && b->at_us[who] <= w->now_us) {
            generations_announced(w->g[who], b->number, w->now_us);
            b->at_us[who] = 0;
        }
        all = all && b->at_us[who] == 0;
    }
    b->number = all ? 0 : b->number;
}

static struct slot_range
range_of(unsigned node)
{
    return (struct slot_range){(uint16_t)(node * 5462), (uint16_t)(node == 2 ? 16383 : node * 5462 + 5461)};
}

static const char *
id_of(unsigned node)
{
    static const char id[NODES][NODE_ID_ROOM] = {"a", "b", "c"};

    return id[node];
}

static void
flight_free(struct flight *f)
{
    aw_message_free(&f->m);
    free(f->answer);
    *f = (struct flight){.is = false};
}

static void
note_begun(const struct aw_anchor *an)
{
    for (unsigned e = 0; e < an->entries_n; e++) {
        unsigned i = 0;

        while (i < w->begun_n && w->begun[i] != an->entry[e].number) {
            i++;
        }
        if (i == w->begun_n && an->entry[e].number != 0) {
            ck_assert_uint_lt(i, NUMBERS);
            w->begun[w->begun_n++] = an->entry[e].number;
        }
    }
}

static void
flight_run(struct flight *f)
{
    unsigned at = f->send.anchor;

    f->ran = true;
    if (f->send.type == SEND_REGISTER) {
        struct anchor_identity id = {.lease_us = LEASE_US};

        if (at == 0 && w->shut[f->who]) {
            f->lost = true;
            return;
        }
        for (size_t i = 0; i < f->m.generations_n; i++) {
            w->proposals[at] += f->m.expected[i] > 0;
        }
        f->answer = mem_zalloc(sizeof(*f->answer));
        aw_register(&w->anchor[at], 1 + at, f->who, &id, &f->m, w->now_us, f->answer);
        note_begun(&w->anchor[at]);
        f->lost = w->cut_off[at];
        return;
    }
    for (unsigned n = 0; n < NODES; n++) {
        if (w->number[f->who][n] == f->send.node) {
            f->range = range_of(n);
            f->node = (struct node_answer){.time_us = w->now_us, .master = true, .origin = w->origin[n],
                                           .config_epoch = 1 + n, .range = &f->range, .ranges_n = 1};
            memcpy(f->node.id, id_of(n), strlen(id_of(n)));
        }
    }
}

static void
flight_end(struct flight *f)
{
    if (f->send.type == SEND_REGISTER) {
        generations_anchor_answered(w->g[f->who], f->send.anchor, f->lost ? NULL : &f->answer->a, f->sent_us,
                                    w->now_us);
    } else {
        ck_assert(generations_node_answered(w->g[f->who], f->send.node, &f->node, f->sent_us, w->now_us));
    }
    flight_free(f);
}

static void
pump(unsigned who)
{
    struct generation_send out;

    while (w->from_us[who] <= w->now_us) {
        unsigned i = 0;

        generations_next(w->g[who], w->now_us, &out);
        if (out.type == SEND_NOTHING) {
            return;
        }
        ck_assert_int_ne(out.type, SEND_RECORD);
        while (w->f[i].is) {
            i++;
            ck_assert_uint_lt(i, FLIGHTS);
        }
        w->f[i] = (struct flight){.is = true, .who = who, .send = out, .sent_us = w->now_us};
        w->f[i].run_us = w->now_us + 200 + rng_below(&w->r, 2000);
        w->f[i].reply_us = w->f[i].run_us + 200 + rng_below(&w->r, 2000);
        if (out.type == SEND_REGISTER) {
            if (w->cut_off[out.anchor]) {
                w->f[i].reply_us += US_PER_S; /* as redis.timeout */
            }
            aw_message_copy(&w->f[i].m, generations_message(w->g[who], out.anchor, w->number[who][out.anchor]));
        }
    }
}

static void
run_for(int64_t us)
{
    int64_t end_us = w->now_us + us;

    while (w->now_us < end_us) {
        w->now_us += STEP_US;
        for (unsigned i = 0; i < FLIGHTS; i++) {
            if (w->f[i].is && !w->f[i].ran && w->f[i].run_us <= w->now_us) {
                flight_run(&w->f[i]);
            }
            if (w->f[i].is && w->f[i].ran && w->f[i].reply_us <= w->now_us) {
                flight_end(&w->f[i]);
            }
        }
        for (unsigned i = 0; i < BROADCASTS; i++) {
            receives(&w->broadcast[i]);
        }
        for (unsigned who = 0; who < FLEET; who++) {
            pump(who);
        }
    }
}

static bool
is_dead(unsigned who)
{
    return w->from_us[who] == INT64_MAX;
}

/* The number of living daemons that know the node's origin and the generation of its slots, and that it has ended. */
static unsigned
settled_n(unsigned node)
{
    uint16_t slot = range_of(node).first;
    unsigned n = 0;

    for (unsigned who = 0; who < FLEET; who++) {
        const struct generations *g = w->g[who];

        n += !is_dead(who) && generations_number(g, slot) != 0 &&
             g->node[w->number[who][node]].origin == w->origin[node] &&
             generations_number(g, slot) == generations_number(w->g[0], slot) &&
             generation_slot_is_intact(g, &g->slot[slot]) &&
             g->in_grace_n == 0;
    }
    return n;
}

/* All living daemons are settled. */
static bool
is_settled(unsigned node)
{
    unsigned alive_n = 0;

    for (unsigned who = 0; who < FLEET; who++) {
        alive_n += !is_dead(who);
    }
    return settled_n(node) == alive_n;
}

static void
world_new(int seed)
{
    w = mem_zalloc(sizeof(*w));
    w->r = rng_of(seed);
    w->now_us = 1000 * US_PER_S;
    for (unsigned n = 0; n < NODES; n++) {
        w->origin[n] = 1 + n;
    }
    for (unsigned who = 0; who < FLEET; who++) {
        struct anchor_identity id = {.nonce = who + 1, .lease_us = LEASE_US};

        w->g[who] = generations_new(&id, rng_next(&w->r), on_news, NULL);
        w->from_us[who] = w->now_us + rng_below(&w->r, 2 * US_PER_S);
        for (unsigned n = 0; n < NODES; n++) {
            w->number[who][n] = generations_node_index(w->g[who], id_of(n));
        }
    }
    run_for(6 * US_PER_S);
    for (unsigned n = 0; n < NODES; n++) {
        ck_assert(is_settled(n));
    }
}

static void
world_free(void)
{
    for (unsigned i = 0; i < FLIGHTS; i++) {
        if (w->f[i].is) {
            flight_free(&w->f[i]);
        }
    }
    for (unsigned who = 0; who < FLEET; who++) {
        generations_free(&w->g[who]);
    }
    free(w);
}

/*
 * The node gets another origin. `cut`: all connections to it are cut, so all daemons ask it within some ms; else each
 * daemon asks it at its next beat. Returns how many generations have begun before.
 */
static unsigned
change(unsigned node, bool cut)
{
    w->origin[node] += 10;
    memset(w->proposals, 0, sizeof(w->proposals));
    for (unsigned who = 0; cut && who < FLEET; who++) {
        generations_node_lost(w->g[who], w->number[who][node], w->now_us);
        w->from_us[who] = is_dead(who) ? INT64_MAX : w->now_us + (int64_t)rng_below(&w->r, 10 * US_PER_MS);
    }
    return w->begun_n;
}

static int64_t
until_settled(unsigned node)
{
    int64_t began_us = w->now_us;

    do {
        run_for(10 * US_PER_MS);
        ck_assert_int_lt(w->now_us - began_us, 6 * US_PER_S);
    } while (!is_settled(node));
    return w->now_us - began_us;
}

/* GB2: one number for a change, and few daemons that propose one. GENERATIONS_REPORT=1 prints the numbers. */
static void
few_begun(const char *what, unsigned before, unsigned changes, int64_t us)
{
    if (getenv("GENERATIONS_REPORT") != NULL) {
        fprintf(stderr, "%s: %u generations, proposals at the anchors %u %u %u, over after %" PRId64 " ms\n", what,
                w->begun_n - before, w->proposals[0], w->proposals[1], w->proposals[2], us / US_PER_MS);
    }
    ck_assert_uint_eq(w->begun_n - before, changes);
    for (unsigned i = 0; i < ANCHORS; i++) {
        ck_assert_uint_le(w->proposals[i], changes * FLEET / 4);
    }
}

START_TEST(one_change_is_few_generations)
{
    unsigned before;
    int64_t us;

    world_new(_i);
    before = change(0, true);
    us = until_settled(0);
    few_begun("one change", before, 1, us);
    world_free();
}
END_TEST

/*
 * The node gets its first replica, which ends no connection. Returns how long it takes until all daemons grant again.
 */
static int64_t
seen_one_by_one(int seed, bool mute)
{
    unsigned before;
    int64_t us;

    world_new(seed);
    w->mute = mute;
    for (unsigned who = 0; who < FLEET; who++) { /* registers between its questions to the node now */
        run_for(2 * US_PER_S / FLEET);
        generations_reached(w->g[who]);
    }
    before = change(0, false);
    us = until_settled(0);
    few_begun(mute ? "seen one by one, broadcasts lost" : "seen one by one", before, 1, us);
    world_free();
    return us;
}

/* GB1: some daemons know the generation before they ask the node. GB3: no daemon waits for its beat. */
START_TEST(a_change_that_each_daemon_sees_at_another_time)
{
    ck_assert_int_lt(seen_one_by_one(_i, false), US_PER_S);
}
END_TEST

/* GB1 */
START_TEST(a_broadcast_that_is_lost_costs_beats)
{
    ck_assert_int_gt(seen_one_by_one(_i, true), US_PER_S);
}
END_TEST

START_TEST(changes_of_two_nodes)
{
    unsigned before;
    int64_t us;

    world_new(_i);
    before = change(2, true);
    (void)change(1, true);
    us = until_settled(1);
    us += is_settled(2) ? 0 : until_settled(2);
    few_begun("two changes", before, 2, us);
    world_free();
}
END_TEST

START_TEST(the_first_anchor_does_not_answer)
{
    unsigned before;
    int64_t us;

    world_new(_i);
    w->cut_off[0] = true;
    before = change(1, true);
    us = until_settled(1);
    few_begun("a silent anchor", before, 1, us);
    world_free();
}
END_TEST

static void
die(unsigned who)
{
    w->from_us[who] = INT64_MAX;
    for (unsigned i = 0; i < FLIGHTS; i++) {
        if (w->f[i].is && w->f[i].who == who) {
            flight_free(&w->f[i]);
        }
    }
}

/* The time at which the registered leases of the dead end at two of the anchors: the second one of three. */
static int64_t
leases_end_us(void)
{
    int64_t least_us = INT64_MAX, most_us = 0, sum_us = 0;

    for (unsigned i = 0; i < ANCHORS; i++) {
        int64_t end_us = 0;

        for (unsigned who = 0; who < FLEET; who++) {
            const struct aw_member *m = &w->anchor[i].member[who];

            ck_assert(m->is);
            end_us = is_dead(who) && m->until_us > end_us ? m->until_us : end_us;
        }
        least_us = end_us < least_us ? end_us : least_us;
        most_us = end_us > most_us ? end_us : most_us;
        sum_us += end_us;
    }
    return sum_us - least_us - most_us;
}

/*
 * R5: a grace period waits until the leases of the dead daemons have ended at two anchors, and no longer. At the first
 * anchor they end some seconds earlier, as the daemons had not registered there any more.
 */
START_TEST(some_are_dead)
{
    static const unsigned dead[] = {7, 40, 99};
    int64_t end_us;

    world_new(_i);
    for (unsigned i = 0; i < 3; i++) {
        w->shut[dead[i]] = true;
    }
    run_for(4 * US_PER_S);
    for (unsigned i = 0; i < 3; i++) {
        run_for(rng_below(&w->r, US_PER_S));
        die(dead[i]);
    }
    end_us = leases_end_us();
    ck_assert_int_gt(end_us, w->now_us + LEASE_US / 2);
    (void)change(0, true);
    while (w->now_us < end_us - 5 * US_PER_MS) {
        run_for(5 * US_PER_MS);
        ck_assert_msg(settled_n(0) == 0, "%u daemons, %" PRId64 " ms before the leases end", settled_n(0),
                      (end_us - w->now_us) / US_PER_MS);
    }
    while (!is_settled(0)) {
        run_for(10 * US_PER_MS);
        ck_assert_int_lt(w->now_us, end_us + 5 * US_PER_S); /* two beats and a second */
    }
    world_free();
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("generations_fleet");
    TCase *t = tcase_create("all");
    const char *most = getenv("GENERATIONS_SEEDS");
    int seeds = (rng_seeds(5 * (most != NULL ? atoi(most) : 5)) + 4) / 5; /* one seed takes as long as five elsewhere */

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, one_change_is_few_generations, 0, seeds);
    tcase_add_loop_test(t, a_change_that_each_daemon_sees_at_another_time, 0, seeds);
    tcase_add_loop_test(t, a_broadcast_that_is_lost_costs_beats, 0, seeds);
    tcase_add_loop_test(t, changes_of_two_nodes, 0, seeds);
    tcase_add_loop_test(t, the_first_anchor_does_not_answer, 0, seeds);
    tcase_add_loop_test(t, some_are_dead, 0, (seeds + 4) / 5); /* a seed takes longer than those of the others */
    suite_add_tcase(s, t);
    return suite_run(s);
}
