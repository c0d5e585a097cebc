/*
 * test_docs.c -- the usage lines as parsed, and the shapes of COMMAND and HELP that redis-cli requires.
 */
#pragma GCC diagnostic ignored "-Wunused-function" /* of house.h */
#include "tests/unit/house.h"
#include "tests/unit/resp.h"

#include <ctype.h>

#include "daemon/serve/usage.h"

/* ---- the grammar ---- */

static void print_siblings(const struct usage *u, int first, const char *between, struct buf *out);

static void
print_arg(const struct usage *u, int i, struct buf *out)
{
    const struct usage_arg *a = &u->arg[i];

    if (a->optional) {
        buf_adds(out, "[");
    }
    if (a->token.n > 0) {
        buf_add_slice(out, a->token);
        buf_adds(out, a->type == USAGE_TOKEN ? "" : " ");
    }
    if (a->type == USAGE_VALUE) {
        buf_add_slice(out, a->name);
        buf_adds(out, a->multiple ? " ..." : "");
    }
    if (a->child >= 0) {
        print_siblings(u, a->child, a->type == USAGE_ONEOF ? "|" : " ", out);
    }
    if (a->optional) {
        buf_adds(out, "]");
    }
}

static void
print_siblings(const struct usage *u, int first, const char *between, struct buf *out)
{
    int i;

    for (i = first; i >= 0; i = u->arg[i].next) {
        if (i != first) {
            buf_adds(out, between);
        }
        print_arg(u, i, out);
    }
}

/* A usage line that was parsed, and is printed again, is the same line. */
START_TEST(every_usage_line_is_understood)
{
    struct usage u;
    struct buf out;

    ck_assert_msg(usage_parse(command_rows[_i].usage, &u), "%s", command_rows[_i].name);
    buf_init(&out, 0);
    print_siblings(&u, u.first, " ", &out);
    buf_add(&out, "", 1);
    ck_assert_str_eq(out.p, command_rows[_i].usage);
    buf_fini(&out);
}
END_TEST

START_TEST(broken_usage_lines_are_not)
{
    static const char *const broken[] = {"[a", "a]", "[]", "[a|]", "a|", "|a", "[a]]", "...", "[..."};
    struct usage u;

    ck_assert_msg(!usage_parse(broken[_i], &u), "%s", broken[_i]);
}
END_TEST

START_TEST(lock_is_understood)
{
    struct usage u;
    const struct usage_arg *a;

    ck_assert(usage_parse("name [WAIT duration|NOWAIT] [AUTH user password] channel ...", &u));
    ck_assert_uint_eq(usage_count(&u, u.first), 4);
    a = &u.arg[u.first];
    ck_assert(a->type == USAGE_VALUE && !a->optional && a->token.n == 0 && slice_is(a->name, "name"));
    a = &u.arg[a->next];
    ck_assert(a->type == USAGE_ONEOF && a->optional);
    ck_assert_uint_eq(usage_count(&u, a->child), 2);
    ck_assert(u.arg[a->child].type == USAGE_VALUE && slice_is(u.arg[a->child].token, "WAIT"));
    ck_assert(u.arg[u.arg[a->child].next].type == USAGE_TOKEN);
    a = &u.arg[a->next];
    ck_assert(a->type == USAGE_BLOCK && a->optional && slice_is(a->token, "AUTH"));
    ck_assert_uint_eq(usage_count(&u, a->child), 2);
    a = &u.arg[a->next];
    ck_assert(a->type == USAGE_VALUE && a->multiple && !a->optional && a->next == -1);
}
END_TEST

/* ---- COMMAND ---- */

static void
check_bulk(const struct resp *map, const char *key)
{
    const struct resp *v = resp_get(map, key);

    ck_assert_msg(v != NULL, "no %s", key);
    ck_assert_int_eq(v->type, '$');
    ck_assert_ptr_nonnull(v->text);
}

/* The rules of clients.md 1.4: a wrong type ends the user's redis-cli. */
static void
check_arguments(const struct resp *list, char map, char set)
{
    static const char *const types[] = {"string", "integer", "double", "key", "pattern",
                                        "unix-time", "pure-token", "oneof", "block"};
    size_t i, j;

    ck_assert_int_eq(list->type, '*');
    ck_assert_uint_gt(list->n, 0);
    for (i = 0; i < list->n; i++) {
        const struct resp *arg = &list->child[i], *flags, *sub;
        bool known = false;

        ck_assert_int_eq(arg->type, map);
        check_bulk(arg, "name");
        check_bulk(arg, "type");
        for (j = 0; j < sizeof(types) / sizeof(types[0]); j++) {
            known = known || strcmp(resp_get(arg, "type")->text, types[j]) == 0;
        }
        ck_assert(known);
        if (resp_get(arg, "token") != NULL) {
            check_bulk(arg, "token");
        }
        flags = resp_get(arg, "flags");
        for (j = 0; flags != NULL && j < flags->n; j++) {
            ck_assert_int_eq(flags->type, set);
            ck_assert_int_eq(flags->child[j].type, '+');
        }
        sub = resp_get(arg, "arguments");
        ck_assert_int_eq(sub != NULL, strcmp(resp_get(arg, "type")->text, "oneof") == 0 ||
                                          strcmp(resp_get(arg, "type")->text, "block") == 0);
        if (sub != NULL) {
            check_arguments(sub, map, set);
        }
    }
}

START_TEST(docs_have_the_shape_redis_cli_wants)
{
    struct client c = come();
    bool three = _i == 3;
    struct resp docs;
    size_t i;

    if (three) {
        struct resp hello = ask(&c, "HELLO 3\n");

        resp_fini(&hello);
    }
    docs = ask(&c, "COMMAND DOCS\n");
    ck_assert_int_eq(docs.type, three ? '%' : '*');
    ck_assert_uint_eq(docs.n, 2 * COMMANDS);
    for (i = 0; i < docs.n; i += 2) {
        const struct resp *spec = &docs.child[i + 1], *arguments = resp_get(spec, "arguments");

        ck_assert_int_eq(docs.child[i].type, '$');
        ck_assert_str_eq(resp_get(spec, "summary")->text, command_rows[i / 2].summary);
        ck_assert_str_eq(resp_get(spec, "group")->text, command_rows[i / 2].group);
        check_bulk(spec, "since");
        ck_assert_int_eq(strcasecmp(docs.child[i].text, command_rows[i / 2].name), 0);
        ck_assert(islower((unsigned char)docs.child[i].text[0]));
        ck_assert_int_eq(arguments != NULL, command_rows[i / 2].usage[0] != '\0');
        if (arguments != NULL) {
            check_arguments(arguments, three ? '%' : '*', three ? '~' : '*');
        }
    }
    resp_fini(&docs);
    leave(&c);
}
END_TEST

START_TEST(docs_of_named_commands)
{
    struct client c = come();
    struct resp docs = ask(&c, "command docs Lock nosuch PING\n");

    ck_assert_uint_eq(docs.n, 4);
    ck_assert_str_eq(docs.child[0].text, "lock");
    ck_assert_str_eq(docs.child[2].text, "ping");
    resp_fini(&docs);
    leave(&c);
}
END_TEST

START_TEST(docs_of_many_names)
{
    struct client c = come();
    struct resp docs = ask(&c, "COMMAND DOCS mlock\n");
    const struct resp *arguments = resp_get(&docs.child[1], "arguments"), *names = &arguments->child[1];

    ck_assert_str_eq(resp_get(&arguments->child[0], "name")->text, "n");
    ck_assert_str_eq(resp_get(&arguments->child[0], "type")->text, "integer");
    ck_assert_str_eq(resp_get(names, "name")->text, "name");
    ck_assert_str_eq(resp_get(names, "type")->text, "key");
    ck_assert_str_eq(resp_get(names, "flags")->child[0].text, "multiple");
    resp_fini(&docs);
    leave(&c);
}
END_TEST

/* Where a client library finds the keys; of a list behind its number they are movable. */
START_TEST(keys_of_commands)
{
    static const struct {
        const char *name, *first, *last, *step;
        bool movable;
    } rows[] = {
        {"lock", "1", "1", "1", false},  {"get", "1", "1", "1", false},    {"del", "1", "-1", "1", false},
        {"mlock", "0", "0", "0", true},  {"munlock", "0", "0", "0", true}, {"eval", "0", "0", "0", true},
        {"evalsha", "0", "0", "0", true}, {"info", "0", "0", "0", false},  {"subscribe", "0", "0", "0", false},
    };
    struct client c = come();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char line[64];
        struct resp all, *one, *flags;
        bool movable = false;

        snprintf(line, sizeof(line), "COMMAND INFO %s\n", rows[i].name);
        all = ask(&c, line);
        one = &all.child[0];
        ck_assert_str_eq(one->child[0].text, rows[i].name);
        ck_assert_str_eq(one->child[3].text, rows[i].first);
        ck_assert_str_eq(one->child[4].text, rows[i].last);
        ck_assert_str_eq(one->child[5].text, rows[i].step);
        flags = &one->child[2];
        for (size_t k = 0; k < flags->n; k++) {
            movable = movable || strcmp(flags->child[k].text, "movablekeys") == 0;
        }
        ck_assert_msg(movable == rows[i].movable, "%s", rows[i].name);
        resp_fini(&all);
    }
    leave(&c);
}
END_TEST

START_TEST(command_lists_all)
{
    struct client c = come();
    struct resp all = ask(&c, "COMMAND\n"), some = ask(&c, "COMMAND INFO lock nosuch reset mlock\n");
    struct resp count = ask(&c, "COMMAND COUNT\n");
    size_t i;

    ck_assert_uint_eq(all.n, COMMANDS);
    ck_assert_int_eq(atoi(count.text), COMMANDS);
    for (i = 0; i < all.n; i++) {
        ck_assert_uint_eq(all.child[i].n, 10);
        ck_assert_int_eq(all.child[i].child[0].type, '$');
        ck_assert_int_eq(all.child[i].child[1].type, ':');
    }
    ck_assert_uint_eq(some.n, 4);
    ck_assert_str_eq(some.child[0].child[0].text, "lock");
    ck_assert_str_eq(some.child[0].child[1].text, "-2"); /* at least two words */
    ck_assert_str_eq(some.child[0].child[3].text, "1");  /* the first one is the key */
    ck_assert_ptr_null(some.child[1].text);
    ck_assert_str_eq(some.child[2].child[1].text, "1");
    ck_assert_str_eq(some.child[2].child[3].text, "0");
    ck_assert_str_eq(some.child[3].child[3].text, "0"); /* its keys follow their number */
    ck_assert_uint_eq(some.child[3].child[2].n, 3);
    ck_assert_str_eq(some.child[3].child[2].child[1].text, "blocking");
    ck_assert_str_eq(some.child[3].child[2].child[2].text, "movablekeys");
    resp_fini(&all);
    resp_fini(&some);
    resp_fini(&count);
    sends(&c, "COMMAND FROB\n");
    settle();
    expect(&c, "-ERR unknown subcommand 'FROB'. Try COMMAND HELP.\r\n");
    leave(&c);
}
END_TEST

/* ---- HELP ---- */

START_TEST(help_lists_each_usage)
{
    struct client c = come();
    struct resp help = ask(&c, "HELP\n");
    int id;

    for (id = 0; id < COMMANDS; id++) {
        char usage[300];
        size_t i;

        snprintf(usage, sizeof(usage), "%s%s%s", command_rows[id].name, command_rows[id].usage[0] != '\0' ? " " : "",
                 command_rows[id].usage);
        for (i = 0; i < help.n && strcmp(help.child[i].text, usage) != 0; i++) {
            ck_assert_int_eq(help.child[i].type, '+');
        }
        ck_assert_msg(i + 1 < help.n, "no help for %s", usage);
        ck_assert_str_eq(help.child[i + 1].text + 4, command_rows[id].summary);
    }
    resp_fini(&help);
    leave(&c);
}
END_TEST

START_TEST(help_for_one)
{
    struct client c = come();
    struct resp help = ask(&c, "HELP unlock\n");

    ck_assert_uint_gt(help.n, 3);
    ck_assert_ptr_nonnull(strstr(help.child[2].text, "-NOTHELD "));
    resp_fini(&help);
    sends(&c, "HELP frob\nHELP quit\n");
    settle();
    expect(&c, "-ERR no help for 'frob'; HELP lists the commands\r\n"
               "*2\r\n+QUIT\r\n+    Answer OK, then close the connection.\r\n");
    leave(&c);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("docs");
    TCase *grammar = tcase_create("grammar"), *shapes = tcase_create("shapes");
    SRunner *run;
    int failed;

    tcase_add_loop_test(grammar, every_usage_line_is_understood, 0, COMMANDS);
    tcase_add_loop_test(grammar, broken_usage_lines_are_not, 0, 9);
    tcase_add_test(grammar, lock_is_understood);
    tcase_add_checked_fixture(shapes, build, take_down);
    tcase_add_loop_test(shapes, docs_have_the_shape_redis_cli_wants, 2, 4);
    tcase_add_test(shapes, docs_of_named_commands);
    tcase_add_test(shapes, docs_of_many_names);
    tcase_add_test(shapes, keys_of_commands);
    tcase_add_test(shapes, command_lists_all);
    tcase_add_test(shapes, help_lists_each_usage);
    tcase_add_test(shapes, help_for_one);
    suite_add_tcase(s, grammar);
    suite_add_tcase(s, shapes);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
