/*
 * test_bundle.c -- which calls may share a command, what its words are, and what an answer means for each call.
 */
#include <check.h>
#include <string.h>

#include "daemon/backend/bundle.h"
#include "daemon/base/clock.h"
#include "daemon/base/freelist.h"
#include "tests/unit/suite.h"

static struct freelist freelist;

/* A call of one name, as most calls are. */
static struct call *
call_of(enum call_verb verb, enum kind kind, const char *key)
{
    static struct call c[2];
    static int at;
    struct call *out = &c[at++ % 2];
    struct core_op op = {.key = {key, strlen(key)}, .kind = kind, .owner = 7, .holds = verb == VERB_ACQUIRE,
                         .lease_us = 30 * US_PER_S};

    *out = (struct call){.verb = verb, .kind = kind, .n = 1};
    list_init(&out->items);
    list_init(&out->node);
    list_push_back(&out->items, &item_new(&freelist, &op)->node);
    return out;
}

static struct core_op *
op_of(const struct call *c)
{
    return &container_of(c->items.next, struct item, node)->op;
}

static void
end(struct call *c)
{
    item_free(&freelist, container_of(c->items.next, struct item, node));
}

START_TEST(idempotent_calls_are_bundled)
{
    for (int kind = 0; kind < KINDS; kind++) {
        for (int verb = 0; verb < VERBS; verb++) {
            struct call *c = call_of((enum call_verb)verb, (enum kind)kind, "k");

            ck_assert_int_eq(bundle_takes(c), (kind == KIND_REENTRANT || kind == KIND_SIMPLE) && verb != VERB_CLEAR);
            end(c);
        }
    }
}
END_TEST

START_TEST(unusual_calls_are_sent_alone)
{
    struct call *c = call_of(VERB_ACQUIRE, KIND_REENTRANT, "k");
    bool *const flags[] = {&c->alone, &c->one_key, &c->asking, &c->with_text, &c->reclaim, &c->partial,
                           &op_of(c)->reentry};

    ck_assert(bundle_takes(c));
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        *flags[i] = true;
        ck_assert_msg(!bundle_takes(c), "flag %zu", i);
        *flags[i] = false;
    }
    c->n = 2;
    ck_assert(!bundle_takes(c));
    end(c);
    c = call_of(VERB_RENEW, KIND_SIMPLE, "k");
    op_of(c)->exact = true;
    ck_assert(!bundle_takes(c));
    end(c);
    c = call_of(VERB_RELEASE, KIND_SIMPLE, "k");
    op_of(c)->wakes = WAKES_SPRING;
    ck_assert(!bundle_takes(c));
    end(c);
}
END_TEST

START_TEST(calls_with_the_same_terms_join)
{
    struct call *a = call_of(VERB_ACQUIRE, KIND_REENTRANT, "a"), *b = call_of(VERB_ACQUIRE, KIND_REENTRANT, "b");

    ck_assert(bundle_joins(a, b));
    op_of(b)->lease_us++;
    ck_assert(!bundle_joins(a, b));
    a->verb = b->verb = VERB_RELEASE; /* a release has no lease */
    ck_assert(bundle_joins(a, b));
    b->link = 1;
    ck_assert(!bundle_joins(a, b));
    b->link = 0;
    b->verb = VERB_RENEW;
    ck_assert(!bundle_joins(a, b));
    end(a);
    end(b);
}
END_TEST

START_TEST(the_words_of_two_acquisitions)
{
    static const struct hash_key secret;
    static const char *const want[] = {"EVALSHA", "sha", "0", "acquire", "reentrant", "5", "9", "4", "30000", "1",
                                       "t", "E", "a", "u:7", "t", "E", "b", "u:7"};
    struct call *a = call_of(VERB_ACQUIRE, KIND_REENTRANT, "a"), *b = call_of(VERB_ACQUIRE, KIND_REENTRANT, "b");
    struct call_sender sender = {.uuid = "u", .secret = &secret, .floor = 3, .epoch = {"E", 1}, .keys.tag = {"t", 1}};
    struct slice words[LINK_WORDS_MAX];
    struct bundle_words w;
    struct list calls;
    struct buf text;
    int n;

    list_init(&calls);
    list_push_back(&calls, &a->node);
    list_push_back(&calls, &b->node);
    op_of(a)->token_floor = 9; /* the highest of all, that of the sender included */
    op_of(b)->reserve = 4;
    buf_init(&text, 0);
    bundle_begin(&w, &text, &calls, 5, &sender);
    bundle_add(&w, a, &sender);
    bundle_add(&w, b, &sender);
    n = bundle_end(&w, NULL, "sha", words);
    ck_assert_int_eq(n, sizeof(want) / sizeof(want[0]));
    for (int i = 0; i < n; i++) {
        ck_assert_msg(slice_eq(words[i], slice_of(want[i])), "word %d: %.*s", i, (int)words[i].n, words[i].p);
    }
    buf_fini(&text);
    end(a);
    end(b);
}
END_TEST

/* Numbers as a reply has them; at most 8. */
static const struct reply *
reply_of(size_t n, const int64_t *number)
{
    static struct reply r, item[8], *items[8];

    for (size_t i = 0; i < n; i++) {
        item[i] = (struct reply){.type = REPLY_INT, .n = number[i]};
        items[i] = &item[i];
    }
    r = (struct reply){.type = REPLY_ARRAY, .count = n, .item = items};
    return &r;
}

#define REPLY(...) reply_of(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

START_TEST(an_answer_is_that_of_each_call)
{
    struct bundle_answer room;
    const struct reply *own;
    struct call_position at = {0};
    struct core_done done = {0};
    struct call *c = call_of(VERB_RELEASE, KIND_REENTRANT, "k");
    int64_t time_us;

    ck_assert_ptr_null(bundle_answer(REPLY(100, 200, 300, 0, 1, 0), 1, c, &room));
    own = bundle_answer(REPLY(100, 200, 300, 0, 3, 1), 0, c, &room);
    ck_assert(call_answer_ok(c, own, &time_us) && time_us == 100);
    call_outcome(c, own, &at, &done);
    ck_assert(done.outcome == CORE_OK && done.remote_subscribers == 2);
    c->verb = VERB_ACQUIRE;
    at = (struct call_position){0};
    own = bundle_answer(REPLY(100, 200, 300, 0, 3, 1), 1, c, &room);
    ck_assert(call_answer_ok(c, own, &time_us));
    call_outcome(c, own, &at, &done);
    ck_assert(done.outcome == CORE_OK && done.token == 200 && done.expiry_ms == 300 && !done.reserve_denied);
    ck_assert_ptr_null(bundle_answer(REPLY(100), 0, c, &room)); /* too late for all calls */
    for (int64_t reserve = 0; reserve <= 7; reserve += 7) { /* none of the 7 tokens requested, or all */
        at = (struct call_position){0};
        op_of(c)->reserve = 7;
        own = bundle_answer(REPLY(100, 200, 300, reserve, 1), 0, c, &room);
        ck_assert(call_answer_ok(c, own, &time_us));
        call_outcome(c, own, &at, &done);
        ck_assert_int_eq(done.reserve_denied, reserve == 0);
    }
    end(c);
}
END_TEST

START_TEST(an_answer_of_another_shape)
{
    const struct reply text = {.type = REPLY_STATUS, .text = {"OK", 2}};

    ck_assert(bundle_answer_ok(REPLY(100, 200, 300, 0, 1, 0), 2));
    ck_assert(bundle_answer_ok(REPLY(100), 2));
    ck_assert(!bundle_answer_ok(REPLY(100, 200, 300, 0, 1), 2));
    ck_assert(!bundle_answer_ok(REPLY(100, 200, 300, 0, 1, 0, 1), 2));
    ck_assert(!bundle_answer_ok(reply_of(0, NULL), 2));
    ck_assert(!bundle_answer_ok(REPLY(100, 200, 300, 0, 1, INT64_MIN), 2));
    ck_assert(!bundle_answer_ok(&text, 2));
}
END_TEST

static void
none_stays(void)
{
    freelist_clear(&freelist);
}

int
main(void)
{
    const TTest *tests[] = {idempotent_calls_are_bundled, unusual_calls_are_sent_alone,
                            calls_with_the_same_terms_join, the_words_of_two_acquisitions,
                            an_answer_is_that_of_each_call, an_answer_of_another_shape};

    return suite_main_with("bundle", tests, sizeof(tests) / sizeof(tests[0]), NULL, none_stays);
}
