/*
 * test_tree.c -- INFO tree over worlds that are tables: this file takes the place of the core, and has no sessions.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/glob.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"
#include "daemon/serve/tree.h"

#define S INT64_C(1000000)
#define NOW (100 * S)
#define ROWS_MAX 100

/* One record: an owner (its number is its session's) that holds the name, or waits for it. */
struct rec {
    const char *name;
    uint64_t owner; /* 0 = none here: another client has the name */
    char what;      /* 'h' holds, 's' holds shared, 'w' waits, 'r' waits shared, 'k' its place is kept, 'e' elsewhere */
    const char *id; /* of a named owner, or NULL */
};

/* All records; those of one name follow each other. */
static struct rec world[300];
static size_t world_n;
static enum kind kind;

static void
set(const struct rec *recs, size_t n)
{
    memcpy(world, recs, n * sizeof(*recs));
    world_n = n;
    kind = KIND_RW;
}

static struct core_owner_view
owner_of(const struct rec *r)
{
    return (struct core_owner_view){.id = r->owner, .redis_owner = r->owner, .session = r->owner,
                                    .name = slice_of(r->id != NULL ? r->id : "")};
}

void
core_cursor_begin(struct core *c, struct core_cursor *w)
{
    (void)c;
    (void)w;
}

void
core_cursor_end(struct core *c, struct core_cursor *w)
{
    (void)c;
    (void)w;
}

/* All waiters at once. */
bool
core_cursor_waiters(struct core *c, struct core_cursor *w, int64_t now_us, struct slice glob, unsigned n,
                    core_waiter_fn *fn, void *ctx)
{
    uint32_t position = 0;

    (void)c;
    (void)n;
    if (w->position++ > 0) {
        return false;
    }
    for (size_t i = 0; i < world_n; i++) {
        struct core_waiter_view v = {.name = slice_of(world[i].name), .owner = owner_of(&world[i])};

        position = i > 0 && strcmp(world[i].name, world[i - 1].name) == 0 ? position : 0;
        if (strchr("wrk", world[i].what) == NULL || (glob.n > 0 && !glob_match(glob, v.name))) {
            continue;
        }
        v.position = ++position;
        v.waited_us = (int64_t)world[i].owner * S;
        v.due_us = world[i].what == 'r' ? now_us + 5 * S : CORE_FOREVER;
        v.shared = world[i].what == 'r';
        v.kept = world[i].what == 'k';
        fn(ctx, &v);
    }
    return true;
}

void
core_holders_of(const struct core *c, int64_t now_us, struct slice name, size_t most, core_holder_fn *fn, void *ctx)
{
    (void)c;
    (void)now_us;
    (void)most;
    for (size_t i = 0; i < world_n; i++) {
        struct core_holder_view v = {.name = name, .owner = owner_of(&world[i]), .token = 100 + i, .holds = 1,
                                     .shared = world[i].what == 's', .held_us = 3 * S};

        if (slice_is(name, world[i].name) && (world[i].what == 'h' || world[i].what == 's')) {
            fn(ctx, &v);
        }
    }
}

bool
core_lock_info(const struct core *c, int64_t now_us, struct slice name, struct core_lock_view *out)
{
    (void)c;
    *out = (struct core_lock_view){.name = name, .kind = kind, .limit = 3, .state = "held"};
    for (size_t i = 0; i < world_n; i++) {
        if (slice_is(name, world[i].name) && world[i].what == 'e') {
            out->state = "taken";
            out->deadline_us = now_us + 12 * S;
        }
    }
    return true;
}

struct session *
session_find(struct engine *e, uint64_t id)
{
    (void)e;
    (void)id;
    return NULL;
}

static void
draw(struct engine *e, const char *glob, size_t rows_max, struct buf *out)
{
    struct tree *t = tree_new(e, slice_of(glob), rows_max);

    ck_assert_ptr_nonnull(t);
    while (tree_advance(t, NOW)) {
    }
    tree_print(t, out, NULL);
    tree_free(t);
}

static void
draws_at(int line, const char *glob, size_t rows_max, const char *want)
{
    struct engine e = {.sessions_n = 0};
    struct buf out;
    char *to, *from;

    buf_init(&out, 0);
    draw(&e, glob, rows_max, &out);
    ck_assert(!out.failed);
    buf_add(&out, "", 1);
    for (to = from = out.p; *from != '\0'; from++) { /* CRLF to LF */
        *to = *from;
        to += *from != '\r';
    }
    *to = '\0';
    ck_assert_msg(strcmp(out.p, want) == 0, "line %d:\n%s\nwant:\n%s", line, out.p, want);
    buf_fini(&out);
}
#define draws(want) draws_at(__LINE__, "", ROWS_MAX, want)
#define draws_some(glob, want) draws_at(__LINE__, glob, ROWS_MAX, want)

START_TEST(empty_queue)
{
    static const struct rec held[] = {{"a", 1, 'h', NULL}};

    set(held, 0);
    draws("nobody waits\n");
    set(held, 1);
    draws("nobody waits\n");
}
END_TEST

static const struct rec chain[] = {
    {"b", 2, 'h', NULL}, {"b", 3, 'w', NULL}, {"b", 4, 'w', "job"},
    {"a", 1, 'h', "me"}, {"a", 2, 'w', NULL},
    {"c", 9, 'h', NULL}, {"c", 8, 'w', NULL},
};

/* b is first in the core's order, but its holder waits for a: so the holder of a is the root. */
START_TEST(root_first)
{
    set(chain, 7);
    draws("owner \"me\" by session 1\n"
          "  holds a for 3.0s, token 103\n"
          "    1. session 2, waiting 2.0s\n"
          "      holds b for 3.0s, token 100\n"
          "        1. session 3, waiting 3.0s\n"
          "        2. owner \"job\" by session 4, waiting 4.0s\n"
          "session 9\n"
          "  holds c for 3.0s, token 105\n"
          "    1. session 8, waiting 8.0s\n");
}
END_TEST

/* The output has the names that match, and what stands above them; no other names below. */
START_TEST(by_glob)
{
    set(chain, 7);
    draws_some("c", "session 9\n  holds c for 3.0s, token 105\n    1. session 8, waiting 8.0s\n");
    draws_some("a", "owner \"me\" by session 1\n  holds a for 3.0s, token 103\n    1. session 2, waiting 2.0s\n");
    draws_some("[b]", "owner \"me\" by session 1\n"
                      "  holds a for 3.0s, token 103\n"
                      "    1. session 2, waiting 2.0s\n"
                      "      holds b for 3.0s, token 100\n"
                      "        1. session 3, waiting 3.0s\n"
                      "        2. owner \"job\" by session 4, waiting 4.0s\n");
    draws_some("nosuch", "nobody waits\n");
}
END_TEST

START_TEST(readers)
{
    static const struct rec recs[] = {
        {"doc", 1, 's', NULL}, {"doc", 2, 's', NULL}, {"doc", 3, 'w', NULL}, {"doc", 4, 'r', NULL},
        {"x", 5, 'h', NULL},   {"x", 2, 'w', NULL},
    };

    set(recs, 6);
    draws("session 1\n"
          "  holds doc shared for 3.0s, token 100\n"
          "    1. session 3, waiting 3.0s\n"
          "    2. session 4, shared, waiting 4.0s, 5.0s more\n"
          "session 5\n"
          "  holds x for 3.0s, token 104\n"
          "    1. session 2, waiting 2.0s\n"
          "      holds doc shared for 3.0s, token 101 (its queue stands above)\n");
}
END_TEST

START_TEST(permits)
{
    static const struct rec recs[] = {
        {"pool", 1, 'h', NULL}, {"pool", 1, 'h', NULL}, {"pool", 2, 'h', NULL}, {"pool", 3, 'w', NULL},
    };

    set(recs, 4);
    kind = KIND_SEMAPHORE;
    draws("session 1\n"
          "  holds pool, 2 of 3 permits, for 3.0s, token 100\n"
          "    1. session 3, waiting 3.0s\n"
          "session 2\n"
          "  holds pool, 1 of 3 permits, for 3.0s, token 102 (its queue stands above)\n");
}
END_TEST

START_TEST(elsewhere_comes_behind)
{
    static const struct rec recs[] = {
        {"far", 0, 'e', NULL}, {"far", 1, 'w', NULL}, {"a", 1, 'h', NULL}, {"a", 2, 'w', NULL},
        {"b", 3, 'h', NULL},   {"b", 4, 'w', NULL},
    };

    set(&recs[1], 5); /* the record of the other client comes last */
    world[world_n++] = recs[0];
    draws("session 3\n"
          "  holds b for 3.0s, token 103\n"
          "    1. session 4, waiting 4.0s\n"
          "far is taken elsewhere, for 12.0s at most\n"
          "  1. session 1, waiting 1.0s\n"
          "    holds a for 3.0s, token 101\n"
          "      1. session 2, waiting 2.0s\n");
}
END_TEST

/* One more owner waits for a lock of the cycle; each queue is printed once, and the end points to the place above. */
START_TEST(cycles)
{
    static const struct rec recs[] = {
        {"a", 1, 'h', NULL}, {"a", 2, 'w', NULL}, {"a", 5, 'w', NULL}, {"b", 2, 'h', NULL}, {"b", 3, 'w', NULL},
        {"c", 3, 'h', NULL}, {"c", 1, 'w', NULL},
    };

    set(recs, 7);
    draws("session 1, in a cycle\n"
          "  holds a for 3.0s, token 100\n"
          "    1. session 2, waiting 2.0s\n"
          "      holds b for 3.0s, token 103\n"
          "        1. session 3, waiting 3.0s\n"
          "          holds c for 3.0s, token 105\n"
          "            1. session 1, waiting 1.0s\n"
          "              holds a for 3.0s, token 100 (a cycle: it stands above)\n"
          "    2. session 5, waiting 5.0s\n");
}
END_TEST

/* Owner 2 has only a kept place: it does not wait, so it is a root. */
START_TEST(kept_places_are_no_waits)
{
    static const struct rec recs[] = {
        {"a", 1, 'h', NULL}, {"a", 2, 'k', "two"}, {"b", 2, 'h', "two"}, {"b", 3, 'w', NULL},
    };

    set(recs, 4);
    draws("session 1\n"
          "  holds a for 3.0s, token 100\n"
          "    1. owner \"two\" by session 2, waiting 2.0s, place kept\n"
          "owner \"two\" by session 2\n"
          "  holds b for 3.0s, token 102\n"
          "    1. session 3, waiting 3.0s\n");
}
END_TEST

START_TEST(lines_are_counted)
{
    set(chain, 7);
    draws_at(__LINE__, "", 3,
             "owner \"me\" by session 1\n"
             "  holds a for 3.0s, token 103\n"
             "    1. session 2, waiting 2.0s\n"
             "... and 6 more, not shown\n");
}
END_TEST

/*
 * In a chain of 100 owners the indentation starts again at the left when it gets too deep; each name is printed once.
 */
START_TEST(depth_is_bounded)
{
    static char names[101][8];
    struct engine e = {.sessions_n = 0};
    struct buf out;

    world_n = 0;
    for (uint64_t i = 0; i < 100; i++) {
        snprintf(names[i], sizeof(names[i]), "n%u", (unsigned)i);
        world[world_n++] = (struct rec){names[i], i + 1, 'h', NULL};
        world[world_n++] = (struct rec){names[i], i + 2, 'w', NULL};
    }
    kind = KIND_REENTRANT;
    buf_init(&out, 0);
    draw(&e, "", 1000, &out);
    buf_add(&out, "", 1);
    ck_assert_ptr_nonnull(strstr(out.p, "holds n31 for 3.0s, token 162\r\n"));
    ck_assert_ptr_nonnull(strstr(out.p, "holds n32 for 3.0s, token 164 (its queue stands below)\r\n"
                                        "n32, from above\r\n  1. session 34,"));
    ck_assert_ptr_nonnull(strstr(out.p, "1. session 101, waiting 1m41s\r\n"));
    ck_assert_ptr_null(strstr(out.p, "cycle"));
    for (uint64_t i = 0; i < 100; i++) {
        char line[900];
        const char *once;

        snprintf(line, sizeof(line), "holds %s for", names[i]);
        once = strstr(out.p, line);
        ck_assert_msg(once != NULL && strstr(once + 1, line) == NULL, "%s", line);
    }
    buf_fini(&out);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("tree");
    TCase *tc = tcase_create("all");
    SRunner *run;
    int failed;

    tcase_add_test(tc, empty_queue);
    tcase_add_test(tc, root_first);
    tcase_add_test(tc, by_glob);
    tcase_add_test(tc, readers);
    tcase_add_test(tc, permits);
    tcase_add_test(tc, elsewhere_comes_behind);
    tcase_add_test(tc, cycles);
    tcase_add_test(tc, kept_places_are_no_waits);
    tcase_add_test(tc, lines_are_counted);
    tcase_add_test(tc, depth_is_bounded);
    suite_add_tcase(s, tc);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
