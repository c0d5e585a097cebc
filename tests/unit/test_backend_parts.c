/*
 * test_backend_parts.c -- the parts of the backend that need no Redis: outgoing bytes, URLs, values, the meaning of
 * answers and errors, the offset of the clocks, channel names.
 */
#include <check.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/backend/address.h"
#include "daemon/backend/call.h"
#include "daemon/backend/denied.h"
#include "daemon/backend/link.h"
#include "daemon/backend/clock_offset.h"
#include "daemon/backend/push.h"
#include "daemon/backend/server_info.h"
#include "daemon/backend/text.h"
#include "daemon/backend/value.h"
#include "daemon/base/clock.h"

/* ---- outgoing bytes ---- */

static void
on_event(struct bufferevent *bev, short what, void *arg)
{
    (void)bev;
    *(short *)arg = what;
}

/* Bytes leave without a turn of the loop while the socket takes them, and in their order when it does not. */
START_TEST(bytes_leave_at_once_and_in_order)
{
    enum { N = 1 << 20 };
    struct event_base *base = event_base_new();
    struct bufferevent *bev;
    unsigned char *in = malloc(N + 8);
    char *out = malloc(N);
    short what = 0;
    size_t n = 0;
    int fd[2];

    for (size_t i = 0; i < N; i++) {
        out[i] = (char)(i * 31 + i / 251);
    }
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
    bev = bufferevent_socket_new(base, fd[0], BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(bev, NULL, NULL, on_event, &what);
    bufferevent_enable(bev, EV_READ | EV_WRITE);
    push_bytes(bev, "ab", 2);
    push_bytes(bev, "cd", 2);
    ck_assert_int_eq(read(fd[1], in, 8), 4);
    ck_assert_int_eq(memcmp(in, "abcd", 4), 0);
    push_bytes(bev, out, N / 2); /* more than the socket takes */
    ck_assert_uint_gt(evbuffer_get_length(bufferevent_get_output(bev)), 0);
    push_bytes(bev, out + N / 2, N / 2);
    while (n < N) {
        ssize_t got = read(fd[1], in + n, N - n);

        n += got > 0 ? (size_t)got : 0;
        event_base_loop(base, EVLOOP_NONBLOCK);
    }
    ck_assert_int_eq(memcmp(in, out, N), 0);
    ck_assert_int_eq(what, 0);
    close(fd[1]);
    signal(SIGPIPE, SIG_IGN); /* as in the daemon: the write of the bufferevent itself raises it */
    push_bytes(bev, "e", 1); /* the error is reported in a later turn */
    ck_assert_int_eq(what, 0);
    while (what == 0) {
        event_base_loop(base, EVLOOP_ONCE);
    }
    ck_assert_int_ne(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR), 0);
    bufferevent_free(bev);
    event_base_free(base);
    free(in);
    free(out);
}
END_TEST

/* ---- values ---- */

static const unsigned char bytes[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0xff, 0x77,
                                        0xff, 0x99, 0xaa, 0xbb, 0xfb, 0xff, 0xfe, 0xff};

START_TEST(values_as_others_write_them)
{
    static const struct {
        enum value_format format;
        const char *text; /* base64 by coreutils, the others by hand */
    } want[] = {
        {VALUE_UUID, "00112233-4455-4f77-bf99-aabbfbfffeff"},
        {VALUE_HEX32, "001122334455ff77ff99aabbfbfffeff"},
        {VALUE_BASE64_UUID, "ABEiM0RV/3f/maq7+//+/w=="},
        {VALUE_BASE64_URL, "ABEiM0RV_3f_maq7-__-_w"},
    };
    char out[VALUE_ROOM];

    ck_assert_int_eq(sizeof(want) / sizeof(want[0]), VALUES);
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        memset(out, '#', sizeof(out));
        ck_assert_uint_eq(value_print(bytes, want[i].format, out), strlen(want[i].text));
        ck_assert_str_eq(out, want[i].text);
    }
}
END_TEST

START_TEST(a_value_is_of_one_claim_alone)
{
    struct hash_key key = {1, 2}, other = {1, 3};
    char a[VALUE_ROOM], b[VALUE_ROOM];

    value_of_claim(&key, 7, 9, VALUE_HEX32, a);
    value_of_claim(&key, 7, 9, VALUE_HEX32, b);
    ck_assert_str_eq(a, b);
    value_of_claim(&key, 8, 9, VALUE_HEX32, b);
    ck_assert_str_ne(a, b);
    value_of_claim(&key, 7, 10, VALUE_HEX32, b);
    ck_assert_str_ne(a, b);
    value_of_claim(&other, 7, 9, VALUE_HEX32, b);
    ck_assert_str_ne(a, b);
    ck_assert_int_ne(memcmp(a, a + 16, 16), 0); /* the halves differ as well */
}
END_TEST

/* A permit is the bytes of a value, not printed. */
START_TEST(a_permit_is_the_bytes_of_a_value)
{
    struct hash_key key = {1, 2};
    unsigned char permit[VALUE_BYTES], other[VALUE_BYTES];
    char a[VALUE_ROOM], b[VALUE_ROOM];

    value_bytes(&key, 7, 9, permit);
    value_print(permit, VALUE_HEX32, a);
    value_of_claim(&key, 7, 9, VALUE_HEX32, b);
    ck_assert_str_eq(a, b);
    value_bytes(&key, 8, 9, other);
    ck_assert_int_ne(memcmp(permit, other, sizeof(permit)), 0);
}
END_TEST

/* ---- URLs ---- */

static const struct {
    const char *url, *user, *password; /* given */
    const char *path, *host;           /* wanted, as all that follows */
    int port, db;
    const char *url_user, *url_password;
} urls[] = {
    {"unix:/run/r.sock", NULL, NULL, "/run/r.sock", NULL, 6379, 0, NULL, NULL},
    {"unix:/run/r.sock?db=15", NULL, "p", "/run/r.sock", NULL, 6379, 15, NULL, "p"},
    {"redis://h", NULL, NULL, NULL, "h", 6379, 0, NULL, NULL},
    {"redis://h/", NULL, NULL, NULL, "h", 6379, 0, NULL, NULL},
    {"redis://h:1/2", NULL, NULL, NULL, "h", 1, 2, NULL, NULL},
    {"redis://127.0.0.1:65535", "u", "p", NULL, "127.0.0.1", 65535, 0, "u", "p"},
    {"redis://[::1]:7000/1", NULL, NULL, NULL, "::1", 7000, 1, NULL, NULL},
    {"redis://[::1]", NULL, NULL, NULL, "::1", 6379, 0, NULL, NULL},
    {"redis://me:secret@h:1", "u", "p", NULL, "h", 1, 0, "me", "secret"},
    {"redis://:secret@h", NULL, NULL, NULL, "h", 6379, 0, NULL, "secret"},
    {"redis://me:p%40ss%2f%3A@h", NULL, NULL, NULL, "h", 6379, 0, "me", "p@ss/:"},
    {"redis://me:a@b@h:1", NULL, NULL, NULL, "h", 1, 0, "me", "a@b"},
    {"redis://me:@h:1", "u", "p", NULL, "h", 1, 0, "me", "p"},
    {"rediss://h", NULL, NULL, NULL, "h", 6379, 0, NULL, NULL},
    {"rediss://me:secret@[::1]:7000/1", "u", "p", NULL, "::1", 7000, 1, "me", "secret"},
};

static void
same(const char *got, const char *want, const char *url)
{
    ck_assert_msg((got == NULL) == (want == NULL) && (got == NULL || strcmp(got, want) == 0), "%s: %s, not %s", url,
                  got != NULL ? got : "nothing", want != NULL ? want : "nothing");
}

START_TEST(urls_are_read)
{
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        char error[160] = "";
        struct link_address *a = address_parse(urls[i].url, urls[i].user, urls[i].password, error);

        ck_assert_msg(a != NULL, "%s: %s", urls[i].url, error);
        same(a->path, urls[i].path, urls[i].url);
        same(a->host, urls[i].host, urls[i].url);
        same(a->user, urls[i].url_user, urls[i].url);
        same(a->password, urls[i].url_password, urls[i].url);
        ck_assert_msg(a->port == urls[i].port && a->db == urls[i].db, "%s", urls[i].url);
        ck_assert_msg(strstr(a->shown, "secret") == NULL && strstr(a->shown, "p%40") == NULL, "%s", a->shown);
        ck_assert_int_eq(a->secure, strncmp(urls[i].url, "rediss:", 7) == 0);
        ck_assert_msg(strncmp(a->shown, urls[i].url, strcspn(urls[i].url, ":") + 1) == 0, "%s", a->shown);
        address_free(a);
    }
}
END_TEST

/* A new login replaces the old one, except for what the URL has. */
START_TEST(a_login_is_exchanged)
{
    static const struct {
        const char *url, *user, *password;
    } rows[] = {{"redis://h:1", "v", "q"}, {"redis://me:@h:1", "me", "q"}, {"redis://me:secret@h:1", "me", "secret"},
                {"redis://:secret@h:1", NULL, "secret"}};
    char error[160];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct link_address *a = address_parse(rows[i].url, "u", "p", error);

        address_login(a, "v", "q");
        same(a->user, rows[i].user, rows[i].url);
        same(a->password, rows[i].password, rows[i].url);
        address_login(a, "v", NULL);
        same(a->password, a->url_password ? "secret" : NULL, rows[i].url);
        address_free(a);
    }
}
END_TEST

/* ---- script calls ---- */

/* The words of two names' first attempt, at a node of a quorum or not; they point into `text`. */
static int
words_of(const struct core_op ops[2], bool votes, struct buf *text, struct slice *word)
{
    static const struct hash_key secret = {0};
    const struct call_sender sender = {
        .text = call_script_text(VERB_ACQUIRE, KIND_REENTRANT), .sha = "", .uuid = "u", .secret = &secret,
        .keys = {.clock = SLICE_LIT(CALL_CLOCK_KEY), .epoch = SLICE_LIT(CALL_EPOCH_KEY)},
        .epoch = SLICE_LIT("1 e")};
    struct call c = {.verb = VERB_ACQUIRE, .kind = KIND_REENTRANT, .n = 2, .of_quorum = votes};
    int n;

    list_init(&c.items);
    for (size_t i = 0; i < 2; i++) {
        list_push_back(&c.items, &item_new(NULL, &ops[i])->node);
    }
    n = call_words(&c, &sender, text, word);
    while (!list_empty(&c.items)) {
        item_free(NULL, container_of(c.items.next, struct item, node));
    }
    return n;
}

/* Compares the words behind guard, floor, epoch and room. */
static void
says(int64_t lease_ms, uint32_t holds, int64_t other_lease_ms, uint32_t other_holds, const char *want)
{
    const struct core_op ops[] = {
        {.key = SLICE_LIT("a"), .owner = 1, .lease_us = lease_ms * US_PER_MS, .holds = holds},
        {.key = SLICE_LIT("b"), .owner = 2, .lease_us = other_lease_ms * US_PER_MS, .holds = other_holds},
    };
    struct slice word[LINK_WORDS_MAX];
    struct buf text, got;
    int words;

    buf_init(&text, 0);
    buf_init(&got, 0);
    words = words_of(ops, false, &text, word);
    for (int i = 11; i < words; i++) {
        buf_adds(&got, i > 11 ? " " : "");
        buf_add_slice(&got, word[i]);
    }
    ck_assert_msg(slice_is(buf_slice(&got), want), "%.*s, not %s", (int)got.n, got.p, want);
    buf_fini(&got);
    buf_fini(&text);
}

/* However small the buffer is, the words stay inside it. */
START_TEST(no_room_for_the_words)
{
    const struct core_op ops[] = {{.key = SLICE_LIT("a"), .owner = 1}, {.key = SLICE_LIT("b"), .owner = 2}};

    for (size_t room = 1; room < 40; room++) {
        struct slice word[LINK_WORDS_MAX];
        struct buf text;

        buf_init(&text, room);
        for (int n = words_of(ops, false, &text, word); n-- > 11;) {
            ck_assert(word[n].p >= text.p && word[n].p + word[n].n <= text.p + text.n);
        }
        buf_fini(&text);
    }
}
END_TEST

/* The terms that all names share are sent once. */
START_TEST(common_terms_are_sent_once)
{
    says(30, 1, 30, 1, "30 1 0 u:1 u:2");
    says(30, 1, 31, 1, "30 1 0 u:1 31 1 0 u:2");
    says(30, 1, 300, 1, "30 1 0 u:1 300 1 0 u:2");
    says(30, 1, 30, 2, "30 1 0 u:1 30 2 0 u:2");
    says(1, 11, 11, 1, "1 11 0 u:1 11 1 0 u:2");
}
END_TEST

/* One Redis has one clock, so that a call has the highest known token; a quorum has a proposal for each name. */
START_TEST(floors_and_proposals)
{
    static const struct {
        uint64_t token[2];
        const char *floor, *proposals;
    } rows[] = {{{0, 0}, "0", "0"}, {{70, 70}, "70", "70"}, {{70, 71}, "71", "70 71"}, {{71, 70}, "71", "71 70"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct core_op ops[] = {
            {.key = SLICE_LIT("a"), .owner = 1, .token_floor = rows[i].token[0]},
            {.key = SLICE_LIT("b"), .owner = 2, .token_floor = rows[i].token[1]},
        };
        struct slice word[LINK_WORDS_MAX];
        struct buf text;

        for (int votes = 0; votes < 2; votes++) {
            buf_init(&text, 0);
            (void)words_of(ops, votes != 0, &text, word);
            ck_assert(slice_is(word[8], votes ? rows[i].proposals : rows[i].floor));
            buf_fini(&text);
        }
    }
}
END_TEST

/* ---- answers of scripts ---- */

#define LUA_MAX (INT64_C(1) << 53)

/*
 * Numbers that our scripts never return make an answer invalid: they would overflow a time, or spoil all later tokens.
 */
START_TEST(answers_beyond_lua_are_none)
{
    static const struct {
        enum call_verb verb;
        int64_t number[4]; /* TIME, outcome, a, b; of one name */
        bool ok;
    } rows[] = {
        {VERB_ACQUIRE, {1, 1, LUA_MAX, LUA_MAX}, true},
        {VERB_ACQUIRE, {1, 2, LUA_MAX, -LUA_MAX}, true},
        {VERB_ACQUIRE, {1, 2, LUA_MAX + 1, 0}, false},
        {VERB_ACQUIRE, {1, 2, -LUA_MAX - 1, 0}, false},
        {VERB_ACQUIRE, {LUA_MAX + 1, 1, 1, 1}, false},
        {VERB_ACQUIRE, {1, 1, 1, INT64_MIN}, false},
        {VERB_ACQUIRE, {1, 1, 0, 1}, true}, /* a re-entry: the old token holds */
        {VERB_ACQUIRE, {1, 1, -1, 1}, false},
        {VERB_CLEAR, {1, 1, -1, 0}, false},
        {VERB_ACQUIRE, {1, 2, -1, 0}, true}, /* no expiry */
        {VERB_RELEASE, {1, 8, 0, 0}, false},
        {VERB_ACQUIRE, {1, 7, -5, 0}, true}, /* a grace period without a length */
        {VERB_RELEASE, {1, 0, 0, 0}, false},
    };
    struct reply item[5], *items[5] = {&item[0], &item[1], &item[2], &item[3], &item[4]};
    struct reply r = {.type = REPLY_ARRAY, .count = 5, .item = items};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct call c = {.verb = rows[i].verb, .kind = KIND_REENTRANT, .n = 1};
        int64_t time_us;

        for (int j = 0; j < 5; j++) {
            item[j] = (struct reply){.type = REPLY_INT, .n = j < 4 ? rows[i].number[j] : 1};
        }
        ck_assert_msg(call_answer_ok(&c, &r, &time_us) == rows[i].ok, "row %d", (int)i);
        if (rows[i].ok) {
            struct core_done done = {.pttl_us = -1};

            call_outcome(&c, &r, &(struct call_position){0}, &done);
            ck_assert_int_eq(time_us, rows[i].number[0]);
            ck_assert_int_ge(done.pttl_us, -1);
        }
    }
}
END_TEST

/* Numbers as an answer; `item` is room for them. */
static struct reply
answer(size_t n, const int64_t *number, struct reply *item, struct reply **items)
{
    for (size_t i = 0; i < n; i++) {
        item[i] = (struct reply){.type = REPLY_INT, .n = number[i]};
        items[i] = &item[i];
    }
    return (struct reply){.type = REPLY_ARRAY, .count = n, .item = items};
}

/*
 * An answer has its time, and rows of four numbers; the last number of each row counts its names, and the sum is the
 * number of names in the call. Anything else is no answer.
 */
START_TEST(answers_of_another_shape)
{
    static const struct {
        int64_t number[13];
        size_t n;
        bool ok;
    } rows[] = {
        {{1, 1, 0, 0, 2}, 5, true},
        {{1, 1, 0, 0, 1}, 5, false},
        {{1, 1, 0, 0, 3}, 5, false},
        {{1, 1, 0, 0, 1, 1, 0, 0, 1}, 9, true},
        {{1, 1, 0, 0, 2, 1, 0, 0, 1}, 9, false},
        {{1, 1, 0, 0, 2, 1, 0, 0, 0}, 9, false},
        {{1, 1, 0, 0, 3, 1, 0, 0, -1}, 9, false},
        {{1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1}, 13, false},
        {{1, 1, LUA_MAX - 1, 0, 2}, 5, true},
        {{1, 1, LUA_MAX, 0, 2}, 5, false}, /* the number of the second name would be too large */
    };
    static const int64_t reserve_denied[] = {1, 1, 5, 0, 2, 1};
    struct call c = {.verb = VERB_RELEASE, .kind = KIND_REENTRANT, .n = 2};
    struct reply item[13], *items[13], r;
    int64_t time_us;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        r = answer(rows[i].n, rows[i].number, item, items);
        ck_assert_msg(call_answer_ok(&c, &r, &time_us) == rows[i].ok, "row %d", (int)i);
    }
    r = answer(6, reserve_denied, item, items);
    ck_assert(!call_answer_ok(&c, &r, &time_us)); /* only an attempt has a reserve */
    c.verb = VERB_ACQUIRE;
    ck_assert(call_answer_ok(&c, &r, &time_us));
    c.verb = VERB_RELEASE;
    for (size_t n = 0; n <= 8; n++) {
        r = answer(n, rows[3].number, item, items);
        ck_assert(!call_answer_ok(&c, &r, &time_us));
    }
    for (int i = 0; i < 5; i++) {
        r = answer(5, rows[0].number, item, items);
        item[i].type = REPLY_TEXT;
        ck_assert(!call_answer_ok(&c, &r, &time_us));
    }
    ck_assert(!call_answer_ok(&c, &(struct reply){.type = REPLY_INT, .n = 1}, &time_us));
    ck_assert(!call_answer_ok(&c, &(struct reply){.type = REPLY_NULL}, &time_us));
}
END_TEST

/* One row for several names: the token rises by one per name, all else is the same. */
START_TEST(names_in_a_row)
{
    static const int64_t number[] = {9, 1, 70, 42, 3, 2, 5, 0, 2, 1, 73, 42, 1};
    struct reply item[13], *items[13], r = answer(13, number, item, items);
    struct call c = {.verb = VERB_ACQUIRE, .kind = KIND_REENTRANT, .n = 6};
    struct call_position at = {0};
    int64_t time_us;

    ck_assert(call_answer_ok(&c, &r, &time_us));
    for (uint64_t i = 0; i < 6; i++) {
        struct core_done done = {.pttl_us = -1};
        bool taken = i == 3 || i == 4;

        call_outcome(&c, &r, &at, &done);
        ck_assert(done.outcome == (taken ? CORE_TAKEN : CORE_OK) && done.pttl_us == (taken ? 5000 : -1));
        ck_assert(done.token == (taken ? 0 : i < 3 ? 70 + i : 73) && done.expiry_ms == (taken ? 0 : 42));
    }
    c.of_quorum = true;
    at = (struct call_position){0};
    for (int i = 0; i < 3; i++) { /* votes, and other verbs, have the same number for all names of a row */
        struct core_done done = {.pttl_us = -1};

        call_outcome(&c, &r, &at, &done);
        ck_assert_uint_eq(done.token, 70);
    }
    c.verb = VERB_RELEASE;
    at = (struct call_position){0};
    for (int i = 0; i < 2; i++) {
        struct core_done done = {.pttl_us = -1};

        call_outcome(&c, &r, &at, &done);
        ck_assert(done.outcome == CORE_OK && done.remote_subscribers == 70 && done.expiry_ms == 42);
    }
}
END_TEST

/* The outcome of each verb for each answer: of one name, behind the time. */
START_TEST(outcomes_of_answers)
{
    enum { OK = 1, TAKEN, GONE, FOREIGN, FULL, STALE, GRACE };
    static const struct {
        enum call_verb verb;
        int64_t answer, a, b;
        struct core_done want;
    } rows[] = {
        {VERB_ACQUIRE, OK, 7, 42, {.outcome = CORE_OK, .token = 7, .expiry_ms = 42}},
        {VERB_RENEW, OK, 7, 42, {.outcome = CORE_OK, .token = 7, .expiry_ms = 42}},
        {VERB_RELEASE, OK, 3, 42, {.outcome = CORE_OK, .remote_subscribers = 3, .expiry_ms = 42}},
        {VERB_CLEAR, OK, 7, 3, {.outcome = CORE_OK, .token = 7, .remote_subscribers = 3, .expiry_ms = 1}},
        {VERB_ACQUIRE, TAKEN, 5, 1, {.outcome = CORE_TAKEN, .pttl_us = 5000}},
        {VERB_ACQUIRE, TAKEN, -1, 1, {.outcome = CORE_TAKEN, .pttl_us = -1}},
        {VERB_ACQUIRE, FOREIGN, 5, 1, {.outcome = CORE_FOREIGN, .pttl_us = 5000}},
        {VERB_RENEW, GONE, 0, 0, {.outcome = CORE_GONE_IN_REDIS}},
        {VERB_CLEAR, GONE, 7, 3, {.outcome = CORE_OK, .token = 7, .remote_subscribers = 3}}, /* there was no lock */
        {VERB_ACQUIRE, FULL, 0, 0, {.outcome = CORE_FULL}},
        {VERB_ACQUIRE, STALE, 0, 0, {.outcome = CORE_DOWN}},
        {VERB_RELEASE, GRACE, 5, 0, {.outcome = CORE_GRACE, .pttl_us = 5000}},
        {VERB_ACQUIRE, GRACE, -1, 0, {.outcome = CORE_GRACE, .pttl_us = -1}},
        {VERB_CLEAR, GRACE, 7, 3, {.outcome = CORE_OK, .token = 7, .remote_subscribers = 3}}, /* no holder now */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const int64_t number[] = {1, rows[i].answer, rows[i].a, rows[i].b, 1};
        struct reply item[5], *items[5], r = answer(5, number, item, items);
        struct call c = {.verb = rows[i].verb, .kind = KIND_REENTRANT, .n = 1};
        const struct core_done *want = &rows[i].want;
        struct core_done done = {.outcome = CORE_UNKNOWN};
        int64_t time_us;

        ck_assert(call_answer_ok(&c, &r, &time_us));
        ck_assert(call_is_stale(&r) == (rows[i].answer == STALE));
        call_outcome(&c, &r, &(struct call_position){0}, &done);
        ck_assert_msg(done.outcome == want->outcome && done.token == want->token && done.expiry_ms == want->expiry_ms &&
                          done.remote_subscribers == want->remote_subscribers && done.pttl_us == want->pttl_us,
                      "row %d", (int)i);
    }
}
END_TEST

/*
 * Some errors prove that nothing has run; after any other the outcome is unknown. READONLY and NOAUTH: this link is of
 * no use.
 */
START_TEST(outcomes_of_errors)
{
    static const struct {
        const char *text;
        enum core_outcome outcome;
        bool drop, passes, noscript;
    } rows[] = {
        {"LOADING Redis is loading", CORE_DOWN, false, true, false},
        {"READONLY You can't write", CORE_DOWN, true, true, false},
        {"NOAUTH Authentication required.", CORE_DOWN, true, true, false},
        {"NOSCRIPT No matching script.", CORE_DOWN, false, true, true},
        {"OOM command not allowed", CORE_FULL, false, false, false},
        {"ERR something that is long enough", CORE_UNKNOWN, false, false, false},
        /* of a script in Redis 6, with the place of the error */
        {"@user_script: 12: -READONLY You can't write against a read only replica.", CORE_DOWN, true, true, false},
        {"@user_script: 7: -MISCONF Redis is configured to save", CORE_DOWN, false, true, false},
        {"@user_script: 1: -OOM command not allowed", CORE_FULL, false, false, false},
        {"@user_script: 12: -", CORE_UNKNOWN, false, false, false},
        {"@user_script: 12: OOM command not allowed", CORE_UNKNOWN, false, false, false},
        {"@user_script: 12", CORE_UNKNOWN, false, false, false},
        {"@user_script: -OOM command not allowed", CORE_UNKNOWN, false, false, false},
        {"LOADINGS", CORE_UNKNOWN, false, false, false}, /* only the whole word counts */
        {"NOSCRIPT", CORE_UNKNOWN, false, false, false},
        {"", CORE_UNKNOWN, false, false, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice text = slice_of(rows[i].text);
        bool drop = !rows[i].drop;

        ck_assert_int_eq(call_error(text, &drop), rows[i].outcome);
        ck_assert(drop == rows[i].drop);
        ck_assert(text_error_is_transient(text) == rows[i].passes);
        ck_assert(call_is_noscript(&(struct reply){.type = REPLY_ERROR, .text = text}) == rows[i].noscript);
        ck_assert(!call_is_noscript(&(struct reply){.type = REPLY_TEXT, .text = text}));
    }
}
END_TEST

/*
 * Keys that are forbidden, before a script runs and inside it, and no other errors. The texts are those of Redis's
 * sources: 6.0 and 6.2 (server.c; scripting.c, which puts the line in front), 7.0 (acl.c, script.c), 7.2 to 8.0 (the
 * same).
 */
#define LINE_6 "Error running script (call to f_1f): @user_script:9: @user_script: 9: "
#define KEY_6 "The user executing the script can't access at least one of the keys mentioned in the command arguments"
#define RUN_6 "The user executing the script can't run this command or subcommand"
#define CHANNEL_6 "The user executing the script can't publish to the channel mentioned in the command"
#define WHERE_7 " script: 1f, on @user_script:9."
START_TEST(errors_that_deny_a_right)
{
    static const struct {
        const char *text;
        bool denied, inside;
    } rows[] = {
        /* before it runs: 6 and 7.0 */
        {"NOPERM this user has no permissions to access one of the keys used as arguments", true, false},
        {"NOPERM this user has no permissions to access one of the channels used as arguments", false, false},
        {"NOPERM this user has no permissions to run the 'evalsha' command or its subcommand", false, false},
        {"NOPERM this user has no permissions to run the 'evalsha' command", false, false},
        /* 7.2 */
        {"NOPERM No permissions to access a key", true, false},
        {"NOPERM No permissions to access a channel", false, false},
        {"NOPERM User monkeys has no permissions to run the 'evalsha' command", false, false},
        /* 7.2, by ACL DRYRUN */
        {"NOPERM User monkeys has no permissions to access the 'k' key", true, false},
        /* inside: 6, returned by the script, and raised */
        {"@user_script: 9: " KEY_6, false, true},
        {"@user_script: 9: " RUN_6, false, false},
        {"@user_script: 9: " CHANNEL_6, false, false},
        {"ERR " LINE_6 KEY_6, false, true},
        {"ERR " LINE_6 RUN_6, false, false},
        {"ERR " LINE_6 "The user executing the script is lacking the permissions for the command", false, false},
        /* 7.0 */
        {"ERR " KEY_6, false, true},
        {"ERR " KEY_6 WHERE_7, false, true},
        {"ERR " RUN_6 WHERE_7, false, false},
        {"ERR " CHANNEL_6 WHERE_7, false, false},
        /* 7.2 to 8.0 */
        {"ERR ACL failure in script: No permissions to access a key", false, true},
        {"ERR ACL failure in script: No permissions to access a key" WHERE_7, false, true},
        {"ERR ACL failure in script: No permissions to access a channel" WHERE_7, false, false},
        {"ERR ACL failure in script: User monkeys has no permissions to run the 'zadd' command" WHERE_7, false, false},
        {"NOPERM ACL failure in script: No permissions to access a key" WHERE_7, false, true}, /* so far unused */
        {"WRONGTYPE Operation against a key", false, false},
        {"", false, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice text = slice_of(rows[i].text);

        ck_assert_msg(call_is_denied(&(struct reply){.type = REPLY_ERROR, .text = text}) == rows[i].denied, "%s",
                      rows[i].text);
        ck_assert_msg(call_is_denied_inside(&(struct reply){.type = REPLY_ERROR, .text = text}) == rows[i].inside, "%s",
                      rows[i].text);
        ck_assert(!call_is_denied_inside(&(struct reply){.type = REPLY_TEXT, .text = text}));
        ck_assert(!call_is_denied(&(struct reply){.type = REPLY_TEXT, .text = text}));
    }
}
END_TEST

/* Which keys go alone, and for how long. */
START_TEST(suspicion)
{
    static const uint64_t good = UINT64_C(0x1234567800000007), other = UINT64_C(0x8765432100000007);
    struct denied d = {0};

    ck_assert(!denied_suspects(&d) && !denied_alone(&d, good, false, 5));
    denied_accept(&d, good); /* without a suspicion nothing is noted */
    denied_begin(&d, 1000);
    ck_assert(denied_suspects(&d));
    ck_assert(denied_alone(&d, good, false, 1000) && !denied_alone(&d, good, true, 1000));
    denied_accept(&d, good);
    ck_assert(!denied_alone(&d, good, false, 1000));
    ck_assert(denied_alone(&d, other, false, 1000)); /* it has the same slot */
    denied_refuse(&d, other);
    ck_assert(denied_alone(&d, other, true, 1000) && !denied_alone(&d, good, true, 1000));
    ck_assert(denied_alone(&d, good, false, 1000)); /* it was in this slot, and goes alone once more */
    denied_accept(&d, other);
    ck_assert(!denied_alone(&d, other, true, 1000) && !denied_alone(&d, other, false, 1000));
    denied_inside(&d, good);
    denied_accept(&d, good); /* perhaps for another operation */
    ck_assert(denied_alone(&d, good, false, 1000) && denied_alone(&d, good, true, 1000));
    denied_accept(&d, other);
    ck_assert(!denied_alone(&d, other, false, 1000));
    denied_begin(&d, 2000);
    ck_assert(!denied_alone(&d, other, false, 1999 + DENIED_US));
    ck_assert(!denied_alone(&d, good, false, 2000 + DENIED_US)); /* the suspicion is over, and all is forgotten */
    ck_assert(!denied_suspects(&d));
    denied_begin(&d, 3000 + DENIED_US);
    ck_assert(denied_alone(&d, other, false, 3000 + DENIED_US));
    denied_fini(&d);
}
END_TEST

/* The errors of Redis 6, 7.0 and 7.2, and the ACL rule that gives the right. */
START_TEST(errors_of_rights_name_the_remedy)
{
#define CHANNELS "&redisson_* &rlock:deadlock:* &__redis__:invalidate"
#define COMMANDS "+@all -@admin -@dangerous +info"
    static const struct {
        const char *error, *user, *words; /* NULL: no hint */
    } rows[] = {
        {"NOPERM this user has no permissions to run the 'eval' command or its subcommand", "me", "me +eval"}, /* 6 */
        {"NOPERM this user has no permissions to run the 'eval' command", "me", "me +eval"},
        {"NOPERM User me has no permissions to run the 'client|setname' command", "me", "me +client|setname"},
        {"NOPERM this user has no permissions to run the 'ping' command", NULL, "default +ping"},
        {"NOPERM this user has no permissions to run the ''", "me", NULL},
        {"NOPERM this user has no permissions to access one of the keys used as arguments", "me", "me ~*"},
        {"NOPERM No permissions to access a key", "me", "me ~*"},
        {"NOPERM this user has no permissions to access one of the channels used as arguments", "me", "me " CHANNELS},
        {"NOPERM No permissions to access a channel", "me", "me " CHANNELS},
        {"ERR The user executing the script can't run this command or subcommand script: 8a, on @user_script:3.", "me",
         "me " COMMANDS},
        {"ERR The user executing the script can't access at least one of the keys mentioned in the command", "me",
         "me ~*"},
        {"@user_script: 9: " KEY_6, "me", "me ~*"},
        {"ERR " LINE_6 RUN_6, "me", "me " COMMANDS},
        {"ERR ACL failure in script: User me has no permissions to run the 'hset' command script: 8", "me", "me +hset"},
        {"ERR ACL failure in script: No permissions to access a key" WHERE_7, "me", "me ~*"},
        {"NOPERM something else", "me", NULL},
        {"", "me", NULL},
    };
    char out[TEXT_ERROR_ROOM], want[TEXT_ERROR_ROOM], lots[2 * TEXT_ERROR_ROOM];
    struct link_address login = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(want, sizeof(want), "%s%s%s", rows[i].error, rows[i].words != NULL ? ": ACL SETUSER " : "",
                 rows[i].words != NULL ? rows[i].words : "");
        login.user = (char *)(uintptr_t)rows[i].user;
        ck_assert_str_eq(text_error(out, slice_of(rows[i].error), &login), want);
    }
    memset(lots, 'k', sizeof(lots));
    memcpy(lots, "NOPERM a key", 12);
    ck_assert_uint_eq(strlen(text_error(out, (struct slice){lots, sizeof(lots)}, &login)), TEXT_ERROR_ROOM - 1);
}
END_TEST

/*
 * The text of an error is shown without the words of a command and without the password; its first word stays. An error
 * that points to a wrong scheme of the URL gets a hint.
 */
#define IS_SENTINEL ": a sentinel? Its URL is sentinel:HOST:PORT/MASTER"
#define SECRET_NOT_SHOWN "an error that is not shown, because it contains the password"
START_TEST(errors_of_servers)
{
    static const struct {
        const char *error, *shown;
    } rows[] = {
        {"ERR unknown command 'EVAL', with args beginning with: 'local a'", "ERR unknown command 'EVAL'" IS_SENTINEL},
        {"ERR unknown command `CLUSTER`, with args beginning with: `NODES`, ",
         "ERR unknown command `CLUSTER`" IS_SENTINEL},
        {"CROSSSLOT Keys in request don't hash to the same slot",
         "CROSSSLOT Keys in request don't hash to the same slot: a node of a cluster? Its URL is cluster:HOST:PORT"},
        {"ERR unknown command `EVAL`, with args beginning with: `5ecret`, ", "ERR " SECRET_NOT_SHOWN},
        {"ERR unknown command 'PING', with args", "ERR unknown command 'PING'"},
        {"LOADING please wait, 5ecret", "LOADING " SECRET_NOT_SHOWN},
        {"NOPERM 5ecret may not run the 'x' command", "NOPERM " SECRET_NOT_SHOWN},
        {"5ecret", SECRET_NOT_SHOWN},
        {"no 5ecret", SECRET_NOT_SHOWN},
        {"ERR 5ecre", "ERR 5ecre"},
    };
    char out[TEXT_ERROR_ROOM], password[] = "5ecret", code[] = "ERR";
    struct link_address login = {.password = password};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_str_eq(text_error(out, slice_of(rows[i].error), &login), rows[i].shown);
    }
    login.password = code;
    ck_assert_str_eq(text_error(out, slice_of("ERR a"), &login), SECRET_NOT_SHOWN);
    login.password = NULL;
    ck_assert_str_eq(text_error(out, slice_of("ERR 5ecret"), &login), "ERR 5ecret");
}
END_TEST

/* No text of the answer to AUTH is copied: rlockd has its own. */
START_TEST(errors_of_auth_are_not_copied)
{
    static const char *const errors[][2] = {
        {"WRONGPASS 5ecret", "WRONGPASS invalid username-password pair or user is disabled"},
        {"ERR unknown command 'AUTH', with args beginning with: '5ecret' ",
         "ERR unknown command 'AUTH': it is renamed, or this is no Redis"},
        {"DENIED 5ecret", "DENIED Redis is running in protected mode"},
        {"ERR bad command AUTH 5ecret",
         "it refuses AUTH by an error that is not shown, because it may contain the password"},
        {"", "it refuses AUTH by an error that is not shown, because it may contain the password"},
    };

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        ck_assert_str_eq(text_login_error(slice_of(errors[i][0])), errors[i][1]);
    }
}
END_TEST

/* A field of INFO at any place; the end may be cut off. A missing field leaves the output unchanged. */
START_TEST(fields_of_info)
{
    static const struct {
        const char *info, *want;
    } rows[] = {
        {"# Server\r\nrole:master\r\nrole_x:y\r\n", "master"},
        {"role_x:y\r\nrole:slave", "slave"},
        {"role:\r\n", ""},
        {"role:a\tb\r\n", "a\\x09b"},
        {"xrole:y\r\nrole\r\nrol:z\r\n", "before"},
        {"rule:y\r\n", "before"},
        {"role:\r", ""},
        {"x\r", "before"},
        {"xrole", "before"},
        {"", "before"},
    };
    char out[16];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(out, sizeof(out), "before");
        text_info_field(slice_of(rows[i].info), "role", out, sizeof(out));
        ck_assert_str_eq(out, rows[i].want);
    }
    snprintf(out, sizeof(out), "before");
    text_info_field((struct slice){NULL, 0}, "role", out, sizeof(out));
    text_info_field((struct slice){"role:x", 4}, "role", out, sizeof(out)); /* nor beyond the end of the slice */
    ck_assert_str_eq(out, "before");
    text_info_field(slice_of("role:0123456789abcdefghij\r\n"), "role", out, sizeof(out));
    ck_assert_str_eq(out, "0123456789abcde");
}
END_TEST

/* ---- the offset of the clocks ---- */

START_TEST(the_offset_is_narrowed)
{
    struct clock_offset o = {0};

    ck_assert_int_eq(clock_offset_learn(&o, 1000, 3000, 1002000), 0); /* between 999000 and 1001000 */
    ck_assert_int_eq(clock_offset_guess(&o), 1000000);
    ck_assert_int_eq(clock_offset_error(&o, o.at_us), 1000);
    ck_assert_int_eq(clock_offset_rtt_us(&o), 2000);
    ck_assert_int_eq(clock_offset_learn(&o, 5000, 5100, 1005080), 0); /* between 999980 and 1000080 */
    ck_assert_int_ge(clock_offset_guess(&o), 999980);
    ck_assert_int_le(clock_offset_guess(&o), 1000080);
    ck_assert_int_le(clock_offset_error(&o, o.at_us), 60);
    ck_assert_int_eq(clock_offset_learn(&o, 10000, 510000, 1260000), 0); /* a slow answer adds nothing */
    ck_assert_int_ge(clock_offset_guess(&o), 999600);
    ck_assert_int_le(clock_offset_guess(&o), 1000500);
    ck_assert_int_lt(clock_offset_rtt_us(&o), 1000); /* nor does it lengthen the round trip */
}
END_TEST

/* True offset, delays on both ways and a drifting clock: the true offset stays within guess +- error. */
START_TEST(the_offset_never_excludes_the_truth)
{
    struct clock_offset o = {0};
    int64_t now_us = 1000, truth_us = 5000000;

    srand(7);
    for (int i = 0; i < 10000; i++) {
        int64_t there_us = rand() % 3000, back_us = rand() % 3000, step_us = rand() % 1000000;
        int64_t ppm = rand() % 801 - 400;

        now_us += step_us;
        truth_us += step_us * ppm / 1000000;
        ck_assert_int_eq(clock_offset_learn(&o, now_us, now_us + there_us + back_us, now_us + there_us + truth_us), 0);
        now_us += there_us + back_us;
        ck_assert_int_le(llabs(clock_offset_guess(&o) - truth_us), clock_offset_error(&o, o.at_us));
        ck_assert_int_le(clock_offset_error(&o, o.at_us), 3100);
    }
}
END_TEST

START_TEST(a_jump_is_measured_and_believed)
{
    struct clock_offset o = {0};

    clock_offset_learn(&o, 1000, 1100, 1001050);
    ck_assert_int_ge(clock_offset_learn(&o, 2000, 2100, 9002050), 7999000);
    ck_assert_int_ge(clock_offset_guess(&o), 8999900);
    ck_assert_int_le(clock_offset_learn(&o, 3000, 3100, 1003050), -7999000);
    ck_assert_int_le(clock_offset_guess(&o), 1000100);
}
END_TEST

/* ---- channels ---- */

START_TEST(channels_as_redisson_names_them)
{
    static const struct {
        const char *key, *channel;
        enum kind kind;
    } want[] = {
        {"order:1", "redisson_lock__channel:{order:1}", KIND_REENTRANT},
        {"a{b}c", "redisson_lock__channel:a{b}c", KIND_REENTRANT},
        {"{m}:x:lock", "redisson_lock__channel:{m}:x:lock", KIND_REENTRANT},
        {"a}b", "redisson_lock__channel:{a}b}", KIND_REENTRANT},
        {"k", "redisson_lock__channel:{k}", KIND_SIMPLE},
        {"k", "redisson_lock__channel:{k}", KIND_COUNTER},
        {"k", "redisson_lock__channel:{k}", KIND_FAIR},
        {"k", "redisson_lock__channel:{k}", KIND_FENCED},
        {"k", "redisson_rwlock:{k}", KIND_RW},
        {"k", "redisson_sc:{k}", KIND_SEMAPHORE},
        {"a{b}c", "redisson_sc:a{b}c", KIND_SEMAPHORE},
    };

    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        struct buf b;

        buf_init(&b, 0);
        call_channel(want[i].kind, slice_of(want[i].key), &b);
        ck_assert(slice_eq(buf_slice(&b), slice_of(want[i].channel)));
        buf_fini(&b);
    }
}
END_TEST

/* Of several servers: each purpose once. */
START_TEST(purposes_of_links_that_are_down)
{
    struct backend_status sum = {.links_away = ""}, one = {.links_away = "renewals"};
    struct backend_status other = {.links_away = "locks,renewals,subscriptions,replicas"};

    server_info_add_away(&sum, &sum);
    ck_assert_str_eq(sum.links_away, "");
    server_info_add_away(&sum, &one);
    ck_assert_str_eq(sum.links_away, "renewals");
    server_info_add_away(&sum, &other);
    ck_assert_str_eq(sum.links_away, "renewals,locks,subscriptions,replicas");
}
END_TEST

START_TEST(the_answer_to_time)
{
    static const struct {
        const char *s, *us;
        int64_t time_us;
    } rows[] = {
        {"1", "2", 1000002}, {"9007199253", "999999", 9007199253999999}, {"9007199254", "0", -1},
        {"9223372036854775807", "0", -1}, {"9223372036855", "0", -1}, {"-1", "0", -1}, {"1", "1000000", -1},
        {"1", "9223372036854775807", -1}, {"1", "-1", -1}, {"x", "0", -1}, {"", "0", -1}, {"1 ", "0", -1},
    };
    struct reply item[2], *items[2] = {&item[0], &item[1]};
    struct reply r = {.type = REPLY_ARRAY, .count = 2, .item = items};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t time_us = -1;

        item[0] = (struct reply){.type = REPLY_TEXT, .text = slice_of(rows[i].s)};
        item[1] = (struct reply){.type = REPLY_TEXT, .text = slice_of(rows[i].us)};
        ck_assert_msg(reply_time(&r, &time_us) == (rows[i].time_us >= 0), "%s %s", rows[i].s, rows[i].us);
        ck_assert_int_eq(time_us, rows[i].time_us);
    }
    r.count = 1;
    ck_assert(!reply_time(&r, &(int64_t){0}));
    ck_assert(!reply_time(&(struct reply){.type = REPLY_INT, .n = 1}, &(int64_t){0}));
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {
        bytes_leave_at_once_and_in_order,
        values_as_others_write_them,
        a_value_is_of_one_claim_alone,
        a_permit_is_the_bytes_of_a_value,
        urls_are_read,
        a_login_is_exchanged,
        common_terms_are_sent_once,
        floors_and_proposals,
                            no_room_for_the_words,
        answers_beyond_lua_are_none,
        answers_of_another_shape,
        names_in_a_row,
        outcomes_of_answers,
        outcomes_of_errors,
        errors_that_deny_a_right,
        suspicion,
        errors_of_rights_name_the_remedy,
        errors_of_servers,
        errors_of_auth_are_not_copied,
        fields_of_info,
        purposes_of_links_that_are_down,
        the_answer_to_time,
        the_offset_is_narrowed,
        the_offset_never_excludes_the_truth,
        a_jump_is_measured_and_believed,
        channels_as_redisson_names_them,
    };
    Suite *s = suite_create("backend_parts");
    TCase *tc = tcase_create("parts");
    SRunner *sr;
    int failed;

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
