/*
 * test_conf_keymap.c -- which changes of the rules leave every name its key, which do not, and which keys are none of a
 * lock's.
 */
#include "tests/unit/conf_fixture.h"

static struct conf *
conf_of(const char *rules)
{
    char whole[1024];
    struct conf *cf;

    snprintf(whole, sizeof(whole), "%s%s\n", strstr(rules, "locks:") == rules ? "" : "rules: ", rules);
    cf = load(whole);
    ck_assert_msg(cf != NULL, "%s: %s", whole, str(&errors));
    return cf;
}

static bool
same_keys(const char *was, const char *now)
{
    struct conf *a = conf_of(was), *b = conf_of(now);
    bool same;

    buf_clear(&errors, SIZE_MAX);
    same = conf_same_keys(a, b, &errors);
    ck_assert(same == (errors.n == 0));
    ck_assert(same || conf_keys_fingerprint(a) != conf_keys_fingerprint(b));
    conf_free(&a);
    conf_free(&b);
    return same;
}

START_TEST(settings_that_change_a_key)
{
    static const struct {
        const char *was, *now;
        bool same;
    } rows[] = {
        {"[]", "[]", true},
        {"[]", "[{match: 'a*', lease: 5s}]", true},
        {"[]", "[{match: 'a*', kind: rw}, {match: '*b', limit: 3}]", true}, /* the key is the same */
        {"[]", "[{match: 'a*', prefix: 'p:'}]", false},
        {"[]", "[{match: 'a', key: '{name}:lock'}]", false},
        {"[{match: 'a*', prefix: 'p:'}]", "[]", false},
        {"[{match: 'a*', prefix: 'p:'}]", "[{match: 'a*', key: 'p:{name}', wait: 0}]", true}, /* the same */
        {"[{match: 'a*', prefix: 'p:'}]", "[{match: 'a*', prefix: 'q:'}]", false},
        {"[{match: 'a*', prefix: 'p:'}]", "[{match: 'ab*', prefix: 'p:'}]", false},
        {"[{match: 'ab*', prefix: 'p:'}]", "[{match: 'a*', prefix: 'p:'}]", false},
        {"[{match: 'ab*', prefix: 'p:'}, {match: 'a*', prefix: 'p:'}]", "[{match: 'a*', prefix: 'p:'}]", true},
        {"[{match: 'a*', prefix: 'p:'}]", "[{match: 'b*', wait: 0}, {match: 'a*', prefix: 'p:'}]", true},
        {"[{match: 'a*', prefix: 'p:'}]", "[{match: 'b', wait: 0}, {match: 'a*', prefix: 'p:'}]", true},
        {"[{match: 'a*', prefix: 'p:'}]", "[{match: 'ab', wait: 0}, {match: 'a*', prefix: 'p:'}]", false},
        {"[{match: 'a*', prefix: 'p:'}]", "[{match: '*b', wait: 0}, {match: 'a*', prefix: 'p:'}]", false},
        {"[{match: 'a*', prefix: 'p:'}]", "[{match: 'a*', prefix: 'p:'}, {match: '*b', wait: 0}]", true}, /* below it */
        {"[{match: 'a*', prefix: 'p:'}]",
         "[{match: 'a*', prefix: 'p:'}, {match: 'ab*', key: 'x{name}'}]", true}, /* never first */
        {"[{match: 'a*', prefix: 'p:'}, {match: 'b*', prefix: 'q:'}]",
         "[{match: 'b*', prefix: 'q:'}, {match: 'a*', prefix: 'p:'}]", true}, /* they do not meet */
        {"[{match: 'a*', prefix: 'p:'}, {match: 'ab*', prefix: 'q:'}]",
         "[{match: 'ab*', prefix: 'q:'}, {match: 'a*', prefix: 'p:'}]", false},
        {"[{match: '[ab]*', prefix: 'p:'}]", "[{match: 'a*', prefix: 'p:'}]", false},
        {"[{match: '\\*', prefix: 'p:'}]", "[{match: '\\**', prefix: 'p:'}]", false},
        {"[{match: '*a', prefix: 'p:'}, {match: '*b', prefix: 'q:'}]",
         "[{match: '*a', prefix: 'p:'}, {match: '*b', prefix: 'q:', wait: 0}]", true},
        {"[{match: '*a', prefix: 'p:'}, {match: '*b', prefix: 'q:'}]",
         "[{match: 'x', prefix: 'p:'}, {match: '*a', prefix: 'p:'}, {match: '*b', prefix: 'q:'}]", false},
        {"locks: {prefix: 'p:'}", "locks: {prefix: 'q:'}", false},
        {"locks: {prefix: 'p:'}", "locks: {key: 'p:{name}'}", true},
        {"locks: {prefix: 'p:'}", "[]", false},
        {"[{match: '*', prefix: 'p:'}]", "locks: {prefix: 'p:'}", true},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        ck_assert_msg(same_keys(rows[i].was, rows[i].now) == rows[i].same, "%s -> %s", rows[i].was, rows[i].now);
        ck_assert_msg(same_keys(rows[i].now, rows[i].was) == rows[i].same, "%s <- %s", rows[i].was, rows[i].now);
    }
}
END_TEST

/* Where a print is the same, so are all keys; and rules that are about something else do not change it. */
START_TEST(prints)
{
    static const struct {
        const char *was, *now;
        bool same;
    } rows[] = {
        {"[]", "[{match: 'a*', lease: 5s}, {match: 'b', kind: rw}]", true},
        {"[{match: 'a*', prefix: 'p:'}]", "[{match: 'a*', prefix: 'p:', limit: 7}, {match: 'b*', wait: 0}]", true},
        {"[{match: 'a*', prefix: 'p:'}]", "[{match: 'a*', key: 'p:{name}'}]", true},
        {"[{match: 'a*', prefix: 'p:'}]", "[{match: 'a*', prefix: 'q:'}]", false},
        {"[{match: 'a*', prefix: 'p:'}]", "[]", false},
        {"locks: {prefix: 'p:'}", "locks: {prefix: 'q:'}", false},
        {"[{match: '*', prefix: 'p:'}]", "locks: {prefix: 'p:'}", false}, /* another, though all keys are the same */
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct conf *a = conf_of(rows[i].was), *b = conf_of(rows[i].now);

        ck_assert_uint_ne(conf_keys_fingerprint(a), 0);
        ck_assert_msg((conf_keys_fingerprint(a) == conf_keys_fingerprint(b)) == rows[i].same, "%s -> %s", rows[i].was,
                      rows[i].now);
        conf_free(&a);
        conf_free(&b);
    }
}
END_TEST

START_TEST(the_rule_with_another_key_is_named)
{
    ck_assert(!same_keys("[{match: 'a*', prefix: 'p:'}]", "[{match: 'x*'}, {match: 'a*', key: '{name}:lock'}]"));
    ck_assert_str_eq(str(&errors), "rules.1 (match 'a*'): names would have the key '{name}:lock' in Redis, and have "
                                   "'p:{name}' by rules.0 (match 'a*'); while both are in use one name has two "
                                   "holders: stop all daemons on this Redis, then start them\n");
}
END_TEST

static unsigned
draw(uint64_t *dice, unsigned below)
{
    *dice = *dice * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*dice >> 33) % below;
}

/* By chance: rules over two letters, and all names of up to four. Whoever says "the same" is right for each. */
static char *
some_rules(uint64_t *dice, char out[512])
{
    static const char *const globs[] = {"a*", "b*", "ab*", "*", "a", "*a", "?b", "[ab]a*", "ab", "aa*b", "b?*"};
    static const char *const prefixes[] = {"", "p:", "q:"};
    size_t n = (size_t)snprintf(out, 512, "[");

    for (unsigned i = draw(dice, 4); i > 0; i--) {
        n += (size_t)snprintf(out + n, 512 - n, "{match: '%s', prefix: '%s'}%s", globs[draw(dice, ROWS(globs))],
                              prefixes[draw(dice, 3)], i > 1 ? ", " : "");
    }
    snprintf(out + n, 512 - n, "]");
    return out;
}

static bool
key_differs(const struct conf *a, const struct conf *b, struct slice name)
{
    struct buf x, y;
    bool differs;

    buf_init(&x, 0);
    buf_init(&y, 0);
    conf_key_of(conf_locks_for(a, name), name, &x);
    conf_key_of(conf_locks_for(b, name), name, &y);
    differs = !slice_eq(buf_slice(&x), buf_slice(&y));
    buf_fini(&x);
    buf_fini(&y);
    return differs;
}

START_TEST(never_the_same_where_a_name_differs)
{
    char was[512], now[512];
    uint64_t dice = 7;
    unsigned same_n = 0, differ_n = 0;

    for (int round = 0; round < 1500; round++) {
        struct conf *a = conf_of(some_rules(&dice, was)), *b = conf_of(some_rules(&dice, now));
        bool same = conf_same_keys(a, b, &errors), differs = false;

        for (unsigned n = 1; n <= 4; n++) {
            for (unsigned bits = 0; bits < 1u << n; bits++) {
                char name[4];

                for (unsigned i = 0; i < n; i++) {
                    name[i] = bits >> i & 1 ? 'a' : 'b';
                }
                differs = differs || key_differs(a, b, (struct slice){name, n});
            }
        }
        ck_assert_msg(!(same && differs), "%s -> %s", was, now);
        ck_assert_msg(!differs || conf_keys_fingerprint(a) != conf_keys_fingerprint(b), "%s -> %s", was, now);
        same_n += same;
        differ_n += differs;
        conf_free(&a);
        conf_free(&b);
    }
    ck_assert_uint_gt(same_n, 100); /* and some pairs are reported as the same */
    ck_assert_uint_gt(differ_n, 100);
}
END_TEST

/* As many rules as there may be, all of them compared: it takes no longer than a loop may stand still. */
START_TEST(many_rules)
{
    enum { RULES = 1000 };
    struct buf b;
    struct conf *was, *now, *more;

    buf_init(&b, 0);
    buf_adds(&b, "rules:\n");
    for (int i = 0; i < RULES; i++) {
        buf_printf(&b, "- { match: '*%03d', prefix: 'p%d:' }\n", i, i % 7);
    }
    was = load(str(&b));
    now = load(str(&b));
    memcpy(strstr(b.p, "*000"), "*00?", 4);
    more = load(str(&b));
    ck_assert(conf_same_keys(was, now, &errors));
    ck_assert(!conf_same_keys(was, more, &errors));
    ck_assert(!conf_same_keys(more, was, &errors));
    conf_free(&more);
    conf_free(&now);
    conf_free(&was);
    buf_fini(&b);
}
END_TEST

/*
 * Globs that cost what they can, against names that they nearly match. Where one rule in front takes all names there is
 * nothing to compare; else there is more of it than a reload has time for.
 */
START_TEST(many_slow_globs)
{
    for (int in_front = 0; in_front < 2; in_front++) {
        struct conf *cf[2];

        for (int n = 0; n < 2; n++) {
            struct buf b;

            buf_init(&b, 0);
            buf_printf(&b, "locks: { prefix: 'p0:' }\nrules:\n- { match: '%c' }\n%s", "ab"[n],
                       in_front ? "- { match: '*' }\n" : "");
            for (int i = 0; i < 900; i++) {
                buf_adds(&b, "- { match: '");
                for (int k = 0; k < 30; k++) {
                    buf_adds(&b, i % 2 == 0 ? "*[0-9]" : "000000");
                }
                buf_printf(&b, "%.*s%d', prefix: 'p%d:' }\n", i % 2 == 0, &"xy"[n], i, i % 2 * i);
            }
            cf[n] = load(str(&b));
            ck_assert_msg(cf[n] != NULL, "%s", str(&errors));
            buf_fini(&b);
        }
        buf_clear(&errors, SIZE_MAX);
        ck_assert(conf_same_keys(cf[0], cf[1], &errors) == (in_front == 1));
        ck_assert(in_front == 1 || strstr(str(&errors), "too many to decide") != NULL);
        conf_free(&cf[0]);
        conf_free(&cf[1]);
    }
}
END_TEST

START_TEST(rules_that_give_two_names_one_key)
{
    static const struct {
        const char *rules, *says; /* NULL: nothing */
    } rows[] = {
        {"[{match: 'app:*', prefix: ''}]\nlocks: {prefix: 'app:'}",
         "rules.0 (match 'app:*') and locks: two names have one key, such as 'app:x' and 'x': while one is in use the "
         "other is refused\n"},
        {"[{match: 'app:job', prefix: ''}]\nlocks: {prefix: 'app:'}",
         "rules.0 (match 'app:job') and locks: two names have one key, such as 'app:job' and 'job': while one is in "
         "use the other is refused\n"},
        {"[{match: 'b/*', prefix: 'a/'}, {match: 'a/b/*'}]",
         "rules.1 (match 'a/b/*') and rules.0 (match 'b/*'): two names have one key, such as 'a/b/x' and 'b/x': while "
         "one is in use the other is refused\n"},
        {"[{match: 'app:*', prefix: ''}]", NULL},
        {"[{match: 'app:*', prefix: 'app:'}]", NULL},
        {"[{match: 'spring/*', key: 'registry:{name}'}, {match: 'wl/*', key: '{name}:lock'}]", NULL},
        {"[{match: 'p:*', prefix: 'z'}, {match: 'app:*', prefix: ''}, {match: '*', prefix: 'ap'}]", NULL},
        {"[{match: 'x', key: 'y{name}'}, {match: 'app:*', prefix: ''}]\nlocks: {prefix: 'app:'}", NULL},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct conf *cf = conf_of(rows[i].rules);

        buf_clear(&text, SIZE_MAX);
        conf_print_collisions(cf, &text);
        ck_assert_str_eq(str(&text), rows[i].says != NULL ? rows[i].says : "");
        conf_free(&cf);
    }
}
END_TEST

START_TEST(kind_semaphore_for_keys_of_any_name)
{
    static const struct {
        const char *text;
        bool warned;
    } rows[] = {
        {"locks: {kind: semaphore}", true},
        {"rules: [{match: '*', kind: semaphore}]", true},
        {"locks: {kind: simple}\nrules: [{match: 'a:*', kind: simple}, {match: '**', kind: semaphore}]", true},
        {"locks: {kind: semaphore}\nrules: [{match: 'a:*', prefix: 'p:'}]", true},
        {"locks: {prefix: 'p:'}\nrules: [{match: '*', kind: semaphore, prefix: ''}]", true},
        {"locks: {kind: semaphore, prefix: 'p:'}", false},
        {"locks: {kind: semaphore, key: 'p:{name}'}", false},
        {"locks: {kind: semaphore}\nrules: [{match: '*', kind: reentrant}]", false},
        {"locks: {kind: semaphore}\nrules: [{match: '*', prefix: 'p:'}]", false},
        {"rules: [{match: 'pool/*', kind: semaphore}]", false},
        {"locks: {kind: counter}", false},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct conf *cf = load(rows[i].text);

        ck_assert_msg((conf_warn_of_semaphores(cf) != NULL) == rows[i].warned, "%s", rows[i].text);
        conf_free(&cf);
    }
}
END_TEST

START_TEST(the_sample_gives_each_name_its_key)
{
    struct conf *cf;

    uncommented(&text, true);
    cf = load(str(&text));
    buf_clear(&text, SIZE_MAX);
    conf_print_collisions(cf, &text);
    ck_assert_str_eq(str(&text), "");
    conf_free(&cf);
}
END_TEST

START_TEST(keys_that_are_no_locks)
{
    static const struct {
        const char *key, *what; /* NULL: it may be one */
    } rows[] = {
        {"rlock:clock", "rlockd itself"},
        {"rlock:clock:63", "rlockd itself"},
        {"rlock:", "rlockd itself"},
        {"redisson_lock_queue:{f}", "queue"},
        {"redisson_lock_queue::a{b}c", "queue"},
        {"redisson_lock_timeout:{f}", "times of a queue"},
        {"redisson_lock_token:{f}", "token"},
        {"redisson_unlock_latch:{f}:0123", "unlocking"},
        {"{pool}:timeout", "permits"},
        {"a{b}:timeout", "permits"},
        {"{pool}:rlockd", "mark"},
        {"{d}:u:1:rwlock_timeout:1", "reader"},
        {"{d}:u:1:rwlock_timeout:256", "reader"},
        {"redisson_lock_queue:f", NULL},
        {"redisson_lock__channel:{f}", NULL}, /* not a key */
        {"x:redisson_lock_queue:{f}", NULL},
        {"pool:timeout", NULL},
        {"{pool}:timeouts", NULL},
        {"{d}:rwlock_timeout:x", NULL},
        {"{d}", NULL},
        {"rlock", NULL},
        {"", NULL},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        const char *what = conf_key_refusal(slice_of(rows[i].key));

        ck_assert_msg((what != NULL) == (rows[i].what != NULL), "%s", rows[i].key);
        ck_assert_msg(what == NULL || strstr(what, rows[i].what) != NULL, "%s %s", rows[i].key, what);
    }
}
END_TEST

/* What a user at Redis needs no more than. */
START_TEST(rights)
{
    static const struct {
        const char *rules, *patterns; /* NULL: any key may be a name's */
        char unmapped_key;
    } rows[] = {
        {"[]", NULL, 0},
        {"[{match: 'a*', prefix: 'p:'}]", NULL, 0},
        {"locks: {prefix: 'p:'}", " ~p:* ~{p:* ~redisson_lock_*p:*", 'a'},
        {"locks: {key: 'abc/{name}:lock'}", " ~abc/* ~{abc/* ~redisson_lock_*abc/*", 'b'},
        {"locks: {key: '{name}:lock'}", NULL, 0},
        {"locks: {prefix: 'b[*?\\'}", " ~b\\[\\*\\?\\\\* ~{b\\[\\*\\?\\\\* ~redisson_lock_*b\\[\\*\\?\\\\*", 'a'},
        {"locks: {prefix: 'p:'}\nrules: [{match: 'wl/*', key: '{name}:lock'}]", " ~p:* ~{p:* ~redisson_lock_*p:*", 'a'},
        {"locks: {prefix: 'p:'}\nrules: [{match: 'a/*', prefix: ''}]",
         " ~a/* ~{a/* ~redisson_lock_*a/* ~p:* ~{p:* ~redisson_lock_*p:*", 'b'},
        {"locks: {prefix: 'p:'}\nrules: [{match: '*x', prefix: ''}]", NULL, 0},
        {"locks: {prefix: 'p:'}\nrules: [{match: l, kind: simple, key: 'lock:{name}', wakes: python-redis-lock}]",
         " ~lock:p:l* ~{lock:p:l* ~redisson_lock_*lock:p:l* ~lock-signal:p:l* ~p:* ~{p:* ~redisson_lock_*p:*", 'a'},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct conf *cf = conf_of(rows[i].rules);
        char unmapped_key[CONF_UNMAPPED_KEY_BYTES];
        struct buf patterns;

        buf_init(&patterns, 0);
        ck_assert_msg(conf_key_rights(cf, &patterns, unmapped_key) == (rows[i].patterns != NULL), "%s",
                      rows[i].rules);
        if (rows[i].patterns != NULL) {
            ck_assert_str_eq(str(&patterns) + strlen("~rlock:*"), rows[i].patterns);
            ck_assert_int_eq(unmapped_key[0], rows[i].unmapped_key);
        }
        buf_fini(&patterns);
        conf_free(&cf);
    }
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {settings_that_change_a_key, prints, the_rule_with_another_key_is_named,
                                  never_the_same_where_a_name_differs, many_rules, many_slow_globs,
                                  keys_that_are_no_locks, rights, kind_semaphore_for_keys_of_any_name,
                                  rules_that_give_two_names_one_key, the_sample_gives_each_name_its_key};

    return suite_main_with("conf, keys of names", tests, sizeof(tests) / sizeof(tests[0]), begin, end);
}
