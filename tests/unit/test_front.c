/*
 * test_front.c -- SET and the known scripts as requests of the core, replies in the forms of Redis, and their order.
 */
#pragma GCC diagnostic ignored "-Wunused-function" /* of house.h */
#include "tests/unit/house.h"

#include "daemon/serve/front.h"

#define NAME_BYTES_MAX 16

/* The words of a text line, for one reader. */
static struct reader reader;
static struct words words;

static void
read_words(const char *line)
{
    static const struct reader_limits limits = {16384, 16384, READER_WORDS_MAX};

    reader_init(&reader, &limits);
    reader_feed(&reader, line, strlen(line));
    reader_feed(&reader, "\n", 1);
    ck_assert_int_eq(reader_next(&reader, &words), READER_READY);
}

static void
check_call(const struct front_call *fc, unsigned names, const char *first, const char *owner, int64_t lease_ms)
{
    ck_assert_uint_eq(fc->names, names);
    ck_assert(slice_eq(fc->name[0], slice_of(first)));
    ck_assert(slice_eq(fc->owner, slice_of(owner)));
    ck_assert_int_eq(fc->lease_us, lease_ms * US_PER_MS);
}

/* ---- SET ---- */

static const struct {
    const char *line;
    int64_t lease_ms; /* -1 = refused */
} sets[] = {
    {"SET k v NX", 0},
    {"SET k v nx px 1500", 1500},
    {"SET k v PX 1500 NX", 1500},
    {"SET k v NX EX 7", 7000},
    {"SET k v Ex 7 nX", 7000},
    {"SET k v NX PX 31536000000", 31536000000},
    {"SET k v NX EX 31536000", 31536000000},
    {"SET k v", -1},
    {"SET k v PX 1500", -1},
    {"SET k v XX", -1},
    {"SET k v NX XX", -1},
    {"SET k v NX NX", -1},
    {"SET k v NX PX 5 PX 5", -1},
    {"SET k v NX PX 5 EX 5", -1},
    {"SET k v NX PX", -1},
    {"SET k v PX NX", -1},
    {"SET k v NX PX 0", -1},
    {"SET k v NX PX -1", -1},
    {"SET k v NX PX 1.5", -1},
    {"SET k v NX PX 5s", -1},
    {"SET k v NX PX 31536000001", 31536000000}, /* the longest lease */
    {"SET k v NX EX 31536001", 31536000000},
    {"SET k v NX PX 9223372036854775807", 31536000000},
    {"SET k v NX EX 9223372036854775", 31536000000},
    {"SET k v NX EX 9223372036854776", -1},
    {"SET k v NX EX 9223372036854775807", -1},
    {"SET k v NX EX -9223372036854775808", -1},
    {"SET k v NX PXAT 1763701200123", -1},
    {"SET k v NX EXAT 1763701200", -1},
    {"SET k v NX KEEPTTL", -1},
    {"SET k v NX GET", -1},
    {"SET \"\" v NX", -1},
    {"SET k1234567890123456 v NX", -1},
    {"SET k \"\" NX", -1},
};

START_TEST(set_is_read)
{
    char error[FRONT_ERROR_BYTES] = "";
    struct front_call fc;
    bool want = sets[_i].lease_ms >= 0;

    read_words(sets[_i].line);
    ck_assert_msg(front_read_set(&words, NAME_BYTES_MAX, &fc, error) == want, "%s: %s", sets[_i].line, error);
    ck_assert_msg((error[0] == '\0') == want, "%s: %s", sets[_i].line, error);
    if (want) {
        check_call(&fc, 1, "k", "v", sets[_i].lease_ms);
        ck_assert(fc.event == CORE_LOCK && fc.form == FORM_SET && !fc.adds);
    }
    reader_fini(&reader);
}
END_TEST

/* ---- scripts ---- */

static const struct {
    const char *line;
    enum core_event_type event;
    enum reply_form form;
    unsigned names;
    int64_t lease_ms;
    bool adds, in_turn;
} calls[] = {
    {"c3f8721cbb97f72bc19e972846bd7aaf91901658 1 k v", CORE_UNLOCK, FORM_COUNT, 1, 0, false, false},
    {"a4e8783852e6b949f9ef3a97212805108459a890 1 k v 500 0", CORE_RENEW, FORM_ALL, 1, 500, true, true},
    {"a4e8783852e6b949f9ef3a97212805108459a890 1 k v 500 1", CORE_RENEW, FORM_ALL, 1, 500, false, true},
    {"1cac51482acf5858da00f6d685d68f886cd6b6b2 1 k v 500", CORE_RENEW, FORM_ALL, 1, 500, false, false},
    {"96da70f7716f27d278a5218544df37fd8b0a5e4c 1 k v 500", CORE_LOCK, FORM_ALL, 1, 500, false, false},
    {"96da70f7716f27d278a5218544df37fd8b0a5e4c 3 k b c v 500", CORE_LOCK, FORM_ALL, 3, 500, false, false},
    {"aed6f382e410db8ba7926d4e5e9aab410bf2a78a 2 k b v 500", CORE_RENEW, FORM_ALL, 2, 500, false, false},
    {"e4612211c9f8f51c257e26e056b0a654b3187242 2 k b v", CORE_UNLOCK, FORM_COUNT, 2, 0, false, false},
    {"e5a322e2634ef59a516e8ea150cb085afafee684 2 k b v 500", CORE_LOCK, FORM_ALL, 2, 500, false, false},
    {"ce46f80993d5dac20dd066eb301a4e37994bdbed 1 k v 500", CORE_RENEW, FORM_ALL, 1, 500, false, false},
    {"0F0F23B9048B36752B5BE114F357BA083449F908 2 k b v", CORE_UNLOCK, FORM_COUNT, 2, 0, false, false},
    {"5cc368fb92acd8fee3a986dc8e971d6cf28c3b44 1 k v", CORE_UNLOCK, FORM_COUNT, 1, 0, false, false},
    {"8797e0a1d8a2721e3b17f21ae1236166a81be165 1 k v", CORE_UNLOCK, FORM_COUNT, 1, 0, false, false},
    {"78d3bb55c589f1b2edf66f3527f5017f8dfcd6bb 3 k 500 v", CORE_RENEW, FORM_STATUS, 1, 500, false, false},
};

START_TEST(script_is_read)
{
    char error[FRONT_ERROR_BYTES] = "", line[200];
    const struct front_script *sc;
    struct front_call fc;

    snprintf(line, sizeof(line), "EVALSHA %s", calls[_i].line);
    read_words(line);
    sc = front_by_sha(words.word[1]);
    ck_assert_ptr_nonnull(sc);
    ck_assert_msg(front_read_script(sc, &words, NAME_BYTES_MAX, &fc, error), "%s: %s", line, error);
    check_call(&fc, calls[_i].names, "k", "v", calls[_i].lease_ms);
    ck_assert(fc.event == calls[_i].event && fc.form == calls[_i].form && fc.adds == calls[_i].adds);
    ck_assert_int_eq(front_in_turn(CMD_EVALSHA, &words), calls[_i].in_turn);
    reader_fini(&reader);
}
END_TEST

static const char *const wrong_calls[] = {
    "c3f8721cbb97f72bc19e972846bd7aaf91901658 0 k v",
    "c3f8721cbb97f72bc19e972846bd7aaf91901658 2 k v",
    "c3f8721cbb97f72bc19e972846bd7aaf91901658 1 k",
    "c3f8721cbb97f72bc19e972846bd7aaf91901658 1 k v w",
    "c3f8721cbb97f72bc19e972846bd7aaf91901658 9 k v",
    "c3f8721cbb97f72bc19e972846bd7aaf91901658 99999999999999999999 k v",
    "c3f8721cbb97f72bc19e972846bd7aaf91901658 one k v",
    "c3f8721cbb97f72bc19e972846bd7aaf91901658 1",
    "c3f8721cbb97f72bc19e972846bd7aaf91901658 1 \"\" v",
    "c3f8721cbb97f72bc19e972846bd7aaf91901658 1 k \"\"",
    "1cac51482acf5858da00f6d685d68f886cd6b6b2 1 k v 0",
    "1cac51482acf5858da00f6d685d68f886cd6b6b2 1 k v x",
    "a4e8783852e6b949f9ef3a97212805108459a890 1 k v -500 0",
    "96da70f7716f27d278a5218544df37fd8b0a5e4c 0 v 500",
    "96da70f7716f27d278a5218544df37fd8b0a5e4c 3 k b k v 500",
    "78d3bb55c589f1b2edf66f3527f5017f8dfcd6bb 1 k 500 v",
};

START_TEST(wrong_words_are_refused)
{
    char error[FRONT_ERROR_BYTES] = "", line[200];
    struct front_call fc;

    snprintf(line, sizeof(line), "EVALSHA %s", wrong_calls[_i]);
    read_words(line);
    ck_assert_msg(!front_read_script(front_by_sha(words.word[1]), &words, NAME_BYTES_MAX, &fc, error), "%s", line);
    ck_assert_str_ne(error, "");
    reader_fini(&reader);
}
END_TEST

START_TEST(only_known_scripts)
{
    ck_assert_ptr_null(front_by_sha(SLICE_LIT("")));
    ck_assert_ptr_null(front_by_sha(SLICE_LIT("c3f8721cbb97f72bc19e972846bd7aaf9190165")));
    ck_assert_ptr_null(front_by_sha(SLICE_LIT("c3f8721cbb97f72bc19e972846bd7aaf919016588")));
    ck_assert_ptr_null(front_by_text(SLICE_LIT("return 1")));
    /* the script of warlock, as in its file */
    ck_assert_ptr_eq(front_by_text(SLICE_LIT("--\n-- Delete a key if content is equal\n--\n-- KEYS[1]   - key\n"
                                             "-- ARGV[1]   - content\nlocal key     = KEYS[1]\n"
                                             "local content = ARGV[1]\n\nlocal value = redis.call('get', key)\n\n"
                                             "if value == content then\n  return redis.call('del', key);\nend\n\n"
                                             "return 0\n")),
                     front_by_sha(SLICE_LIT("5cc368fb92acd8fee3a986dc8e971d6cf28c3b44")));
}
END_TEST

/* ---- forms ---- */

static void
written(enum reply_form form, int proto, const struct core_reply *r, const char *want)
{
    struct outbox out;

    outbox_init(&out);
    reply_form_write(engine, &out, proto, form, r);
    buf_add(&out.bytes, "", 1);
    ck_assert_msg(strcmp(out.bytes.p, want) == 0, "form %d, answer %d: \"%s\"", (int)form, (int)r->answer, out.bytes.p);
    outbox_fini(&out);
}

/* Each answer about one name in every form: yes, no, or the error with its prefix. */
START_TEST(each_answer_in_each_form)
{
    static const struct {
        const char *yes, *no;
    } says[REPLY_FORMS] = {
        [FORM_SET] = {"+OK\r\n", "$-1\r\n"},
        [FORM_STATUS] = {"+OK\r\n", ":0\r\n"},
        [FORM_COUNT] = {":1\r\n", ":0\r\n"},
        [FORM_ALL] = {":1\r\n", ":0\r\n"},
    };
    struct core_reply r = {.answer = (enum core_answer)_i, .token = 1187};
    struct outbox native;
    int form;

    outbox_init(&native);
    reply_form_write(engine, &native, 2, FORM_NATIVE, &r);
    buf_add(&native.bytes, "", 1);
    for (form = FORM_NATIVE + 1; form < REPLY_FORMS; form++) {
        switch (r.answer) {
        case CORE_GRANTED:
        case CORE_LEFT:
            written((enum reply_form)form, 2, &r, says[form].yes);
            break;
        case CORE_NOT_GRANTED:
        case CORE_CANCELLED:
        case CORE_NOT_HELD:
        case CORE_STALE:
        case CORE_WAS_LOST:
            written((enum reply_form)form, 2, &r, says[form].no);
            break;
        default:
            ck_assert_int_eq(native.bytes.p[0], '-');
            written((enum reply_form)form, 2, &r, native.bytes.p);
        }
    }
    outbox_fini(&native);
}
END_TEST

START_TEST(null_of_resp3)
{
    written(FORM_SET, 3, &(struct core_reply){.answer = CORE_NOT_GRANTED}, "_\r\n");
}
END_TEST

START_TEST(holds_left_are_not_freed)
{
    written(FORM_COUNT, 2, &(struct core_reply){.answer = CORE_LEFT, .left = 1}, ":0\r\n");
}
END_TEST

START_TEST(several_names)
{
    struct core_reply part[3] = {{.answer = CORE_LEFT}, {.answer = CORE_LEFT}, {.answer = CORE_LEFT}};
    struct core_reply r = {.answer = CORE_LEFT, .part = part, .parts = 3};

    written(FORM_COUNT, 2, &r, ":3\r\n");
    written(FORM_ALL, 2, &r, ":3\r\n");
    part[1].answer = CORE_NOT_HELD;
    written(FORM_COUNT, 2, &r, ":2\r\n");
    written(FORM_ALL, 2, &r, ":0\r\n");
    part[2].answer = CORE_UNAVAILABLE;
    written(FORM_COUNT, 2, &r, "-UNAVAILABLE Redis cannot answer\r\n");
    written(FORM_ALL, 2, &r, "-UNAVAILABLE Redis cannot answer\r\n");
    part[0].answer = part[1].answer = part[2].answer = r.answer = CORE_GRANTED;
    written(FORM_ALL, 2, &r, ":3\r\n");
    r = (struct core_reply){.answer = CORE_NOT_GRANTED, .part = part, .parts = 3};
    written(FORM_ALL, 2, &r, ":0\r\n");
    r = (struct core_reply){.answer = CORE_DRAINING};
    written(FORM_ALL, 2, &r, "-DRAINING the daemon is shutting down\r\n");
}
END_TEST

/* ---- in the house ---- */

/* A SET asks Redis for one acquire, with the lease, for the owner. */
START_TEST(set_asks_for_a_lease)
{
    struct client c = come();

    stop_the_clock(); /* Redis answers late below, but not too late */
    sends(&c, "SET k v NX PX 7000\n");
    turn();
    ck_assert_uint_eq(redis->n, 1);
    ck_assert_int_eq(redis->verb[0], CORE_ACQUIRE);
    ck_assert_int_eq(redis->op[0].lease_us, 7 * US_PER_S);
    expect(&c, "");
    settle();
    expect(&c, "+OK\r\n");
    leave(&c);
}
END_TEST

/* Each reply has its own form, in the order of the requests, though the core answers in another order. */
START_TEST(forms_stay_with_their_requests)
{
    struct client c = come();

    sends(&c, "SET a v NX\nLOCK b\nEVALSHA 96da70f7716f27d278a5218544df37fd8b0a5e4c 1 d w 500\nUNLOCK x\n"
            "EVALSHA c3f8721cbb97f72bc19e972846bd7aaf91901658 1 x v\n");
    settle();
    expect(&c, "+OK\r\n:102\r\n:1\r\n-NOTHELD this owner does not hold the lock\r\n:0\r\n");
    leave(&c);
}
END_TEST

/* A command that reads before it acts runs after the replies before it; a release behind a wait runs at once. */
START_TEST(in_turn)
{
    struct client c = come();

    sends(&c, "SET a v NX\nDEL a\nGET a\n");
    turn();
    ck_assert_uint_eq(redis->n, 1); /* the acquire alone */
    redis->seen.ok = true;
    settle();
    expect(&c, "+OK\r\n:1\r\n$-1\r\n");
    sends(&c, "SET a v NX\n");
    settle();
    sends(&c, "LOCK a WAIT 1h OWNER w\nEVALSHA c3f8721cbb97f72bc19e972846bd7aaf91901658 1 a v\n");
    settle();
    expect(&c, "+OK\r\n:103\r\n:1\r\n");
    leave(&c);
}
END_TEST

START_TEST(get_asks_redis)
{
    struct client c = come();

    sends(&c, "GET a\n");
    settle();
    expect(&c, "-UNAVAILABLE Redis cannot answer\r\n");
    redis->seen = (struct inspected_key){.ok = true, .exists = true, .type = "hash", .owner = "far:7", .holds = 2};
    sends(&c, "LOCK a\nGET a\n");
    settle();
    expect(&c, ":101\r\n$5\r\nfar:7\r\n"); /* the session's own owner has no value */
    sends(&c, "UNLOCK a\nLOCK a OWNER v\nGET a\n");
    settle();
    expect(&c, ":0\r\n:102\r\n$1\r\nv\r\n");
    leave(&c);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {only_known_scripts, null_of_resp3, holds_left_are_not_freed, several_names,
                                  set_asks_for_a_lease, forms_stay_with_their_requests, in_turn, get_asks_redis};
    TCase *tc = house_tcase(tests, sizeof(tests) / sizeof(tests[0]));

    tcase_add_loop_test(tc, set_is_read, 0, (int)(sizeof(sets) / sizeof(sets[0])));
    tcase_add_loop_test(tc, script_is_read, 0, (int)(sizeof(calls) / sizeof(calls[0])));
    tcase_add_loop_test(tc, wrong_words_are_refused, 0, (int)(sizeof(wrong_calls) / sizeof(wrong_calls[0])));
    tcase_add_loop_test(tc, each_answer_in_each_form, 0, CORE_ANSWERS);
    return house_run("front", tc);
}
