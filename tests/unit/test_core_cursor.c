/*
 * test_core_cursor.c -- a walk over all locks, or over all waiters, a part at a time, while they come and go.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/core/state.h"
#include "tests/unit/core_world.h"
#include "tests/unit/rng.h"

enum { NAMES = 10 };

struct seen {
    char text[4000];
};

static void
see_lock(void *ctx, const struct core_lock_view *v)
{
    struct seen *s = ctx;
    size_t n = strlen(s->text);

    snprintf(s->text + n, sizeof(s->text) - n, "%.*s ", (int)v->name.n, v->name.p);
}

static void
see_waiter(void *ctx, const struct core_waiter_view *v)
{
    struct seen *s = ctx;
    size_t n = strlen(s->text);

    snprintf(s->text + n, sizeof(s->text) - n, "%.*s:%.*s:%d ", (int)v->name.n, v->name.p, (int)v->owner.name.n,
             v->owner.name.p, (int)v->position);
}

static void
see_none(void *ctx, const struct core_waiter_view *v)
{
    (void)ctx;
    (void)v;
}

/* Under valgrind or a sanitizer. */
static bool
is_slowed(void)
{
    return getenv("RLOCKD_SEEDS") != NULL;
}

static const char *
name_of(int i)
{
    static char name[8];

    snprintf(name, sizeof(name), "n%d", i);
    return name;
}

static void
take_names(struct world *w, uint64_t s, int from, int to)
{
    for (int i = from; i < to; i++) {
        take(w, s, name_of(i));
    }
}

static void
give_back(struct world *w, uint64_t s, const char *name)
{
    ck_assert_int_eq(redis_releases(w, name, unlock(w, s, name))->left, 0);
}

static bool
walk(struct world *w, struct core_cursor *walk, const char *glob, unsigned n, struct seen *s)
{
    s->text[0] = '\0';
    return core_cursor_locks(w->core, walk, w->now_us, slice_of(glob), n, see_lock, s);
}

START_TEST(all_that_there_are_when_it_begins)
{
    struct core_cursor cursor;
    struct world w;
    struct seen seen;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    core_cursor_begin(w.core, &cursor); /* there is no lock */
    ck_assert(!walk(&w, &cursor, "", 4, &seen));
    ck_assert_str_eq(seen.text, "");
    take_names(&w, s, 0, NAMES);
    core_cursor_begin(w.core, &cursor);
    ck_assert(walk(&w, &cursor, "", 4, &seen));
    ck_assert_str_eq(seen.text, "n0 n1 n2 n3 ");
    take_names(&w, s, NAMES, NAMES + 2); /* these come too late */
    ck_assert(walk(&w, &cursor, "*[57]", 4, &seen)); /* four are looked at, two match */
    ck_assert_str_eq(seen.text, "n5 n7 ");
    ck_assert(!walk(&w, &cursor, "", 4, &seen));
    ck_assert_str_eq(seen.text, "n8 n9 ");
    ck_assert(!walk(&w, &cursor, "", 4, &seen));
    world_close(&w);
}
END_TEST

/* The next lock of the walk goes, the last one, those before, those behind, all. */
START_TEST(names_go_meanwhile)
{
    struct core_cursor cursor, other;
    struct world w;
    struct seen seen;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    take_names(&w, s, 0, NAMES);
    core_cursor_begin(w.core, &cursor);
    core_cursor_begin(w.core, &other);
    ck_assert(walk(&w, &cursor, "", 3, &seen));
    give_back(&w, s, "n3");
    give_back(&w, s, "n9");
    give_back(&w, s, "n0");
    give_back(&w, s, "n6");
    take_names(&w, s, 3, 4);
    ck_assert(walk(&w, &cursor, "", 2, &seen));
    ck_assert_str_eq(seen.text, "n4 n5 ");
    ck_assert(walk(&w, &other, "", 1, &seen));
    ck_assert_str_eq(seen.text, "n1 ");
    give_back(&w, s, "n7");
    give_back(&w, s, "n8");
    ck_assert(!walk(&w, &cursor, "", 9, &seen));
    ck_assert_str_eq(seen.text, "");
    core_cursor_end(w.core, &other);
    core_cursor_begin(w.core, &other);
    core_cursor_end(w.core, &other); /* a second end is harmless */
    core_cursor_end(w.core, &other);
    world_close(&w);
}
END_TEST

START_TEST(waiters_come_and_go_meanwhile)
{
    char owner[8];
    struct core_cursor cursor;
    struct world w;
    struct seen seen = {.text = ""};
    uint64_t s, ids[6];

    world_open(&w);
    s = session(&w);
    take(&w, s, "free");
    take(&w, s, "hot");
    take(&w, s, "late");
    for (int i = 0; i < 6; i++) {
        snprintf(owner, sizeof(owner), "o%d", i);
        ids[i] = lock(&w, s, "hot", .owner = owner, .wait_us = SEC(1 + (i == 2 || i == 3 ? 0 : 60)));
    }
    lock(&w, s, "late", .owner = "o9");
    core_cursor_begin(w.core, &cursor);
#define WALK(n) core_cursor_waiters(w.core, &cursor, w.now_us, SLICE_LIT(""), n, see_waiter, &seen)
    ck_assert(WALK(3));
    ck_assert_str_eq(seen.text, "hot:o0:1 hot:o1:2 ");
    pass(&w, SEC(2)); /* o2, the next one of the walk, gives up, and o3 */
    expect_reply(&w, ids[2], CORE_NOT_GRANTED);
    expect_reply(&w, ids[3], CORE_NOT_GRANTED);
    pass(&w, SEC(3)); /* their positions end, too */
    lock(&w, s, "hot", .owner = "o7");
    seen.text[0] = '\0';
    ck_assert(WALK(2));
    ck_assert_str_eq(seen.text, "hot:o4:3 hot:o5:4 ");
    seen.text[0] = '\0';
    while (WALK(1)) {
    }
    ck_assert_str_eq(seen.text, "hot:o7:5 late:o9:1 ");
    world_close(&w);
}
END_TEST

/* A view has the number of waiters, however many they are, but looks at few of them. */
START_TEST(a_view_does_not_walk_a_queue)
{
    struct core_lock_view v;
    struct world w;
    struct seen seen = {.text = ""};
    char owner[8];
    uint64_t s;

    world_open(&w);
    s = session(&w);
    take(&w, s, "hot");
    for (int i = 0; i < 200; i++) {
        snprintf(owner, sizeof(owner), "o%d", i);
        lock(&w, s, "hot", .owner = owner);
        pass(&w, 1000);
    }
    v = view_of(&w, "hot");
    ck_assert_uint_eq(v.waiters, 200);
    ck_assert_int_eq(v.oldest_wait_us, 200 * 1000);
    core_waiters_of(w.core, w.now_us, SLICE_LIT("hot"), 2, see_waiter, &seen);
    ck_assert_str_eq(seen.text, "hot:o0:1 hot:o1:2 ");
    world_close(&w);
}
END_TEST

/* The waiter at the cursor of a walk leaves: the walk goes on behind it, however many waiters stand before both. */
START_TEST(a_walk_does_not_look_for_its_place)
{
    enum { FRONT = 30000, GO = 300 };
    struct core_cursor cursor;
    struct world w;
    struct seen seen = {.text = ""};
    uint64_t s, id[2 * GO];
    char owner[16], want[64];
    clock_t spent = 0;

    world_open(&w);
    w.unchecked = true; /* a check looks at all records */
    s = session(&w);
    redis_grants(&w, "hot", lock(&w, s, "hot", .no_queue_grace = true));
    for (int i = 0; i < FRONT; i++) {
        snprintf(owner, sizeof(owner), "f%d", i);
        lock(&w, s, "hot", .owner = owner, .no_queue_grace = true);
    }
    for (int i = 0; i < 2 * GO; i++) { /* every second one gives up, one after the other */
        snprintf(owner, sizeof(owner), "g%d", i);
        id[i] = lock(&w, s, "hot", .owner = owner, .no_queue_grace = true,
                     .wait_us = i % 2 == 0 ? SEC(1) + i * 1000 : SEC(1000));
    }
    pass(&w, SEC(1) - 1);
    core_cursor_begin(w.core, &cursor);
    ck_assert(core_cursor_waiters(w.core, &cursor, w.now_us, SLICE_LIT(""), FRONT, see_none, &seen));
    for (int i = 0; i < GO; i++) {
        clock_t began;

        pass(&w, i == 0 ? 1 : 2000);
        expect_reply(&w, id[2 * i], CORE_NOT_GRANTED);
        seen.text[0] = '\0';
        began = clock();
        ck_assert_int_eq(core_cursor_waiters(w.core, &cursor, w.now_us, SLICE_LIT(""), 1, see_waiter, &seen),
                         i < GO - 1);
        spent += clock() - began;
        snprintf(want, sizeof(want), "hot:g%d:%d ", 2 * i + 1, FRONT + i + 1);
        ck_assert_str_eq(seen.text, want);
    }
    /* 0.4 ms; 97 ms if each call passed all waiters in front. */
    ck_assert_msg(is_slowed() || spent < CLOCKS_PER_SEC / 100, "%ld us", (long)spent);
    world_close(&w);
}
END_TEST

/* The last waiter leaves while a walk stands at it: the walk leaves this queue, and does not see later waiters. */
START_TEST(a_queue_ends_under_a_walk)
{
    struct core_cursor cursor;
    struct world w;
    struct seen seen = {.text = ""};
    uint64_t s, id;

    world_open(&w);
    s = session(&w);
    redis_grants(&w, "hot", lock(&w, s, "hot", .no_queue_grace = true));
    take(&w, s, "late");
    lock(&w, s, "hot", .owner = "o1", .no_queue_grace = true);
    id = lock(&w, s, "hot", .owner = "o2", .wait_us = SEC(1), .no_queue_grace = true);
    lock(&w, s, "late", .owner = "o3");
    core_cursor_begin(w.core, &cursor);
    ck_assert(WALK(1));
    ck_assert_str_eq(seen.text, "hot:o1:1 ");
    pass(&w, SEC(2));
    expect_reply(&w, id, CORE_NOT_GRANTED);
    lock(&w, s, "hot", .owner = "o4");
    seen.text[0] = '\0';
    while (WALK(1)) {
    }
    ck_assert_str_eq(seen.text, "late:o3:1 ");
    world_close(&w);
}
END_TEST

/* Leases that are over, but have not been handled yet: a view looks at some of the first and of the last holders. */
START_TEST(a_view_does_not_walk_holders)
{
    enum { OVER = 70, ALL = 2 * OVER + 1 };
    struct world w;
    struct core_lock_view v;
    uint64_t s, id[ALL];
    char owner[8];

    for (int stands = 0; stands <= ALL; stands += OVER) { /* the lasting one: the first, the middle, the last, none */
        world_open(&w);
        s = session(&w);
        for (int i = 0; i < ALL; i++) {
            struct flight op;

            snprintf(owner, sizeof(owner), "o%d", i);
            id[i] = lock(&w, s, "a", .kind = KIND_RW, .shared = true, .owner = owner,
                         .lease_us = i == stands ? SEC(60) : SEC(1));
            op = expect_op(&w, CORE_ACQUIRE, "a");
            redis_says(&w, op, CORE_OK);
            expect_reply(&w, id[i], CORE_GRANTED);
        }
        ck_assert(core_lock_info(w.core, w.now_us + SEC(2), SLICE_LIT("a"), &v)); /* as in the middle of a step */
        ck_assert_str_eq(v.state, stands == 0 || stands == ALL - 1 ? "held" : "lost");
        world_close(&w);
    }
}
END_TEST

START_TEST(one_holder_by_its_name)
{
    struct core_holder_view v;
    struct world w;
    uint64_t s;

    world_open(&w);
    s = session(&w);
    redis_grants(&w, "a", lock(&w, s, "a", .owner = "me"));
    ck_assert(core_holder_named(w.core, w.now_us, SLICE_LIT("a"), SLICE_LIT("me"), &v));
    ck_assert(slice_eq(v.owner.name, SLICE_LIT("me")) && v.deadline_us > w.now_us);
    ck_assert(!core_holder_named(w.core, w.now_us, SLICE_LIT("a"), SLICE_LIT("you"), &v));
    ck_assert(!core_holder_named(w.core, w.now_us, SLICE_LIT("b"), SLICE_LIT("me"), &v));
    ck_assert(!core_holder_named(w.core, w.now_us + SEC(40), SLICE_LIT("a"), SLICE_LIT("me"), &v));
    world_close(&w);
}
END_TEST

enum { CROWD = 20000 };

/* As in the record of a listing, whose cursors do not share lines of the cache. */
struct listed {
    struct core_cursor cursor;
    char rest[448];
};

/* As many cursors as there may be sessions stand at the names that go, and at all others: nothing looks at them. */
START_TEST(a_freed_lock_does_not_look_for_cursors)
{
    enum { GO = 900 };
    struct listed *l = calloc(CROWD, sizeof(*l));
    struct world w;
    struct seen seen;
    clock_t began, spent;
    uint64_t s;

    world_open(&w);
    w.unchecked = true;
    s = session(&w);
    take_names(&w, s, 0, GO + 10);
    for (int i = 0; i < CROWD; i++) {
        core_cursor_begin(w.core, &l[i].cursor);
        ck_assert(i % 2 == 0 || core_cursor_locks(w.core, &l[i].cursor, w.now_us, SLICE_LIT("no"), (unsigned)(i % GO),
                                                  NULL, NULL));
    }
    began = clock();
    for (int i = 0; i < GO; i++) {
        give_back(&w, s, name_of(i));
    }
    spent = clock() - began;
    for (int i = 0; i < CROWD; i++) {
        ck_assert(walk(&w, &l[i].cursor, "", 1, &seen));
        ck_assert_str_eq(seen.text, "n900 ");
        core_cursor_end(w.core, &l[i].cursor);
    }
    /* 7 ms; 140 ms if each freed lock looks at all cursors. */
    ck_assert_msg(is_slowed() || spent < CLOCKS_PER_SEC / 20, "%ld us", (long)spent);
    world_close(&w);
    free(l);
}
END_TEST

/* The same of waiters that give up, while all cursors stand in their queue. */
START_TEST(a_waiter_that_leaves_does_not_look_for_cursors)
{
    enum { GO = 900 };
    struct listed *l = calloc(CROWD, sizeof(*l));
    struct world w;
    struct seen seen = {.text = ""};
    clock_t began, spent;
    uint64_t s, id[GO + 2];
    char owner[16];

    world_open(&w);
    w.unchecked = true;
    s = session(&w);
    redis_grants(&w, "hot", lock(&w, s, "hot", .no_queue_grace = true));
    for (int i = 0; i < GO + 2; i++) {
        snprintf(owner, sizeof(owner), "o%d", i);
        id[i] = lock(&w, s, "hot", .owner = owner, .no_queue_grace = true,
                     .wait_us = i >= 2 && i < GO ? SEC(1) : SEC(1000));
    }
    for (int i = 0; i < CROWD; i++) {
        unsigned n = 2 + (unsigned)(i % (GO - 2)) * (unsigned)(i % 2);

        core_cursor_begin(w.core, &l[i].cursor);
        ck_assert(core_cursor_waiters(w.core, &l[i].cursor, w.now_us, SLICE_LIT(""), n, see_none, NULL));
    }
    began = clock();
    pass(&w, SEC(1));
    spent = clock() - began;
    for (int i = 2; i < GO; i++) {
        expect_reply(&w, id[i], CORE_NOT_GRANTED);
    }
    for (int i = 0; i < CROWD; i++) {
        seen.text[0] = '\0';
        ck_assert(!core_cursor_waiters(w.core, &l[i].cursor, w.now_us, SLICE_LIT(""), 3, see_waiter, &seen));
        ck_assert_msg(strncmp(seen.text, "hot:o900:", 9) == 0, "%s", seen.text);
        core_cursor_end(w.core, &l[i].cursor);
    }
    /* 2 ms; 160 ms if each waiter that leaves looks at all cursors. */
    ck_assert_msg(is_slowed() || spent < CLOCKS_PER_SEC / 20, "%ld us", (long)spent);
    world_close(&w);
    free(l);
}
END_TEST

/* Names come and go at random: each cursor sees those that were there when it began and are still there. */
START_TEST(cursors_share_bookmarks)
{
    enum { CURSORS = 6, ALL = 2000 };
    struct core_cursor cursor[CURSORS] = {{.next = NULL}};
    bool live[ALL] = {false}, pending[CURSORS][ALL] = {{false}};
    struct world w;
    struct seen seen, want;
    struct rng rng = rng_of(1);
    uint64_t s;
    int made = 0;

    world_open(&w);
    s = session(&w);
    for (int turn = 0; turn < 3000; turn++) {
        unsigned what = (unsigned)rng_below(&rng, 8), k = (unsigned)rng_below(&rng, CURSORS);
        int any = made > 0 ? made - 1 - (int)rng_below(&rng, made < 16 ? (unsigned)made : 16) : 0;

        if (what < 2 && made < ALL) {
            take(&w, s, name_of(made));
            live[made++] = true;
        } else if (what < 5 && live[any]) {
            give_back(&w, s, name_of(any));
            live[any] = false;
            for (int i = 0; i < CURSORS; i++) {
                pending[i][any] = false;
            }
        } else if (what == 5) {
            core_cursor_end(w.core, &cursor[k]);
            core_cursor_begin(w.core, &cursor[k]);
            memcpy(pending[k], live, sizeof(live));
        } else if (what > 5) {
            unsigned n = 1 + (unsigned)rng_below(&rng, 3), most = n;
            bool more = false;

            want.text[0] = '\0';
            for (int i = 0; i < made; i++) {
                if (pending[k][i] && n > 0) {
                    snprintf(want.text + strlen(want.text), 16, "%s ", name_of(i));
                    pending[k][i] = false;
                    n--;
                } else {
                    more |= pending[k][i];
                }
            }
            ck_assert_int_eq(walk(&w, &cursor[k], "", most, &seen), more);
            ck_assert_str_eq(seen.text, want.text);
        }
    }
    for (int i = 0; i < CURSORS; i++) {
        core_cursor_end(w.core, &cursor[i]);
    }
    ck_assert_uint_eq(w.core->bookmarks.count, 0);
    world_close(&w);
}
END_TEST

int
main(void)
{
    const TTest *tests[] = {all_that_there_are_when_it_begins, names_go_meanwhile, waiters_come_and_go_meanwhile,
                            a_view_does_not_walk_a_queue, a_walk_does_not_look_for_its_place,
                            a_queue_ends_under_a_walk, a_view_does_not_walk_holders, one_holder_by_its_name,
                            a_freed_lock_does_not_look_for_cursors,
                            a_waiter_that_leaves_does_not_look_for_cursors, cursors_share_bookmarks};

    return suite_main("core, walks", tests, sizeof(tests) / sizeof(tests[0]));
}
