/*
 * test_protocol_md.c -- PROTOCOL.md and the tables agree, and its examples are sound.
 *
 * Run from the top of the tree. Other tests run the examples against the daemon; this one checks what needs none:
 * requests are whole and name known commands, replies are RESP and their lengths are right, errors have a known prefix,
 * stand-ins are received before they are sent.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/buf.h"
#include "daemon/base/kinds.h"
#include "proto/commands.h"
#include "proto/errors.h"
#include "proto/options.h"
#include "proto/reader.h"

#define DOCUMENT "proto/PROTOCOL.md"
#define CONNECTIONS 2

static char *text; /* the document, NUL-terminated */

static void
load(void)
{
    FILE *f = fopen(DOCUMENT, "rb");
    struct buf b;
    char chunk[4096];
    size_t n;

    ck_assert_msg(f != NULL, "no %s: run this from the top of the tree", DOCUMENT);
    buf_init(&b, 0);
    while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0) {
        buf_add(&b, chunk, n);
    }
    buf_add(&b, "", 1);
    fclose(f);
    ck_assert(!b.failed && strlen(b.p) + 1 == b.n);
    text = b.p;
}

static void
unload(void)
{
    free(text);
}

/* The line after this one; NULL at the end. */
static const char *
next_line(const char *line)
{
    const char *lf = strchr(line, '\n');

    return lf == NULL || lf[1] == '\0' ? NULL : lf + 1;
}

static struct slice
line_at(const char *line)
{
    return (struct slice){line, strcspn(line, "\n")};
}

static bool
starts(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

/* A command's section: from its heading to the next heading of its depth or above. */
static struct slice
section_of(const char *name)
{
    const char *line, *from = NULL;
    char heading[80];

    snprintf(heading, sizeof(heading), "### %s", name);
    for (line = text; line != NULL; line = next_line(line)) {
        if (from != NULL && (starts(line, "## ") || starts(line, "### "))) {
            return (struct slice){from, (size_t)(line - from)};
        }
        if (slice_eq(line_at(line), slice_of(heading))) {
            ck_assert_msg(from == NULL, "two headings %s", heading);
            from = line;
        }
    }
    ck_assert_msg(from != NULL, "no heading '%s'", heading);
    return (struct slice){from, strlen(from)};
}

/* Whether `what` is a whole line of the section. */
static bool
has_line(struct slice section, const char *what)
{
    const char *line;

    for (line = section.p; line != NULL && line < section.p + section.n; line = next_line(line)) {
        if (slice_eq(line_at(line), slice_of(what))) {
            return true;
        }
    }
    return false;
}

/* Whether `what` is in the section, with each run of blanks and line ends as one blank. */
static bool
has_words(struct slice section, const char *what)
{
    size_t from, i, k;

    for (from = 0; from < section.n; from++) {
        for (i = from, k = 0; i < section.n && what[k] != '\0'; k++) {
            if (what[k] == ' ' && (section.p[i] == ' ' || section.p[i] == '\n')) {
                while (i < section.n && (section.p[i] == ' ' || section.p[i] == '\n')) {
                    i++;
                }
            } else if (what[k] != section.p[i++]) {
                break;
            }
        }
        if (what[k] == '\0') {
            return true;
        }
    }
    return false;
}

/* --- the tables ----------------------------------------------------------------------------------- */

START_TEST(each_command_is_described)
{
    const struct command_row *row = &command_rows[_i];
    struct slice section;
    char usage[300];

#ifdef RLOCKD_TEST_CLOCK
    if (_i == CMD_DEBUG) {
        return; /* it is not in the production daemon */
    }
#endif
    section = section_of(row->name);
    snprintf(usage, sizeof(usage), "`%s%s%s`", row->name, row->usage[0] != '\0' ? " " : "", row->usage);
    ck_assert_msg(has_line(section, usage), "%s: no line %s", row->name, usage);
    ck_assert_msg(has_words(section, row->summary), "%s: the summary is missing: %s", row->name, row->summary);
    ck_assert_msg(row->role != ROLE_ADMIN || strstr(text, "\n## Administration\n") < section.p,
                  "%s: needs the admin role, and does not stand under Administration", row->name);
}
END_TEST

START_TEST(no_other_command_is)
{
    const char *line;
    unsigned n = 0;

    for (line = text; line != NULL; line = next_line(line)) {
        if (starts(line, "### ")) {
            struct slice name = line_at(line + 4);
            int id = command_find(name);

            ck_assert_msg(id >= 0 && slice_eq(name, slice_of(command_rows[id].name)), "no such command: %.*s",
                          (int)name.n, name.p);
            n++;
        }
    }
#ifdef RLOCKD_TEST_CLOCK
    n++;
#endif
    ck_assert_uint_eq(n, COMMANDS);
}
END_TEST

START_TEST(each_error_is_described)
{
    char row[300];

    snprintf(row, sizeof(row), "| `-%s %s` | %s |", error_rows[_i].prefix, error_rows[_i].text,
             error_rows[_i].meaning);
    ck_assert_msg(has_line(slice_of(text), row), "no line %s", row);
}
END_TEST

static bool
is_prefix(const char *p, size_t n)
{
    for (int i = 0; i < ERRORS; i++) {
        if (slice_eq(slice_of(error_rows[i].prefix), (struct slice){p, n})) {
            return true;
        }
    }
    return false;
}

/* `-WORD anywhere, in a table, in a sentence or in an example, is a prefix that exists. */
START_TEST(no_other_error_is)
{
    const char *p;
    unsigned n = 0;

    for (p = strstr(text, "`-"); p != NULL; p = strstr(p + 1, "`-")) {
        size_t word = strspn(p + 2, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

        if (word > 1) {
            n++;
            ck_assert_msg(is_prefix(p + 2, word), "no such error: %.*s", (int)word + 2, p);
        }
    }
    ck_assert_uint_ge(n, ERRORS);
}
END_TEST

START_TEST(each_kind_is_described)
{
    char row[300];

    snprintf(row, sizeof(row), "| `%s` | %s |", kind_rows[_i].name, kind_rows[_i].help);
    ck_assert_msg(strstr(text, row) != NULL, "no row %s", row);
}
END_TEST

/* The limits of the code that the document has as numbers. */
START_TEST(limits_are_described)
{
    char row[100];

    snprintf(row, sizeof(row), "\n| `OWNER` id | 1 to %d bytes |", OPTIONS_OWNER_BYTES_MAX);
    ck_assert_ptr_nonnull(strstr(text, row));
    snprintf(row, sizeof(row), "\n| words of a request | %d |", READER_WORDS_MAX);
    ck_assert_ptr_nonnull(strstr(text, row));
}
END_TEST

/* Links inside the document lead to a heading: its words in lower case, joined by dashes. */
START_TEST(links_lead_somewhere)
{
    const char *p, *line;

    for (p = strstr(text, "](#"); p != NULL; p = strstr(p + 1, "](#")) {
        struct slice target = {p + 3, strcspn(p + 3, ")")};
        bool found = false;

        for (line = text; line != NULL && !found; line = next_line(line)) {
            char anchor[100] = "";
            size_t skip = strspn(line, "#"), n = 0;
            struct slice title = line_at(line + skip);

            for (size_t i = 1; skip > 0 && i < title.n && n + 1 < sizeof(anchor); i++) {
                char c = title.p[i];

                anchor[n++] = (char)(c == ' ' ? '-' : c >= 'A' && c <= 'Z' ? c | 0x20 : c);
            }
            found = n > 0 && slice_eq(target, (struct slice){anchor, n});
        }
        ck_assert_msg(found, "a link to nothing: %.*s", (int)target.n, target.p);
    }
}
END_TEST

/* --- the examples ---------------------------------------------------------------------------------- */

struct example {
    struct reader reader[CONNECTIONS];  /* what each connection sends ... */
    struct buf received[CONNECTIONS];   /* ... and receives */
    bool closed[CONNECTIONS];
    struct buf seen; /* every stand-in received so far, each followed by a blank */
    unsigned requests, values;
};

/* The length of the stand-in at p (`<word>`); 0 = none. */
static size_t
stand_in(const char *p, const char *end)
{
    size_t n = 1;

    if (*p != '<') {
        return 0;
    }
    while (p + n < end && ((p[n] >= 'a' && p[n] <= 'z') || (n > 1 && p[n] >= '0' && p[n] <= '9'))) {
        n++;
    }
    return n > 1 && p + n < end && p[n] == '>' ? n + 1 : 0;
}

static bool
is_seen(const struct example *ex, const char *p, size_t n)
{
    size_t at;

    for (at = 0; at + n < ex->seen.n; at++) {
        if (memcmp(ex->seen.p + at, p, n) == 0 && ex->seen.p[at + n] == ' ') {
            return true;
        }
    }
    return false;
}

static void
receives(struct example *ex, int c, struct slice line)
{
    const char *p;

    ck_assert_msg(!ex->closed[c], "after [closed]: %.*s", (int)line.n, line.p);
    if (slice_eq(line, SLICE_LIT("[closed]"))) {
        ex->closed[c] = true;
        return;
    }
    for (p = line.p; p < line.p + line.n; p++) {
        size_t n = stand_in(p, line.p + line.n);

        buf_add(&ex->seen, p, n);
        buf_adds(&ex->seen, n > 0 ? " " : "");
    }
    buf_add_slice(&ex->received[c], line);
    buf_adds(&ex->received[c], "\r\n");
}

static void
sends(struct example *ex, int c, struct slice line)
{
    const char *p;
    struct words w;
    enum reader_result res;

    for (p = line.p; p < line.p + line.n; p++) {
        size_t n = stand_in(p, line.p + line.n);

        ck_assert_msg(n == 0 || is_seen(ex, p, n), "sent before it was received: %.*s", (int)line.n, line.p);
    }
    reader_feed(&ex->reader[c], line.p, line.n);
    reader_feed(&ex->reader[c], "\r\n", 2);
    while ((res = reader_next(&ex->reader[c], &w)) == READER_READY) {
        ck_assert_msg(command_find(w.word[0]) >= 0, "unknown command: %.*s", (int)line.n, line.p);
        ex->requests++;
    }
    ck_assert_msg(res == READER_MORE, "%s: %.*s", ex->reader[c].error, (int)line.n, line.p);
}

/* Takes the head line of a value off p: its type is *p, its number goes to *n (-2: a stand-in). Returns the rest. */
static const char *
take_head(const char *p, long *n)
{
    const char *crlf = strstr(p, "\r\n");
    char *end;

    ck_assert_msg(crlf != NULL, "cut off: %s", p);
    if (stand_in(p + 1, crlf) == (size_t)(crlf - p - 1)) {
        *n = -2;
        return crlf + 2;
    }
    *n = strtol(p + 1, &end, 10);
    ck_assert_msg(end == crlf && end > p + 1, "not a number: %.*s", (int)(crlf - p), p);
    return crlf + 2;
}

/* Takes one RESP value off p, which has to be whole. */
static const char *
take_value(struct example *ex, const char *p)
{
    const char *crlf = strstr(p, "\r\n"), *body;
    long n;

    ex->values++;
    ck_assert_msg(crlf != NULL && *p != '\0' && strchr("+-:$*_%~>=", *p) != NULL, "not a RESP value: %s", p);
    switch (*p) {
    case '-':
        ck_assert_msg(is_prefix(p + 1, strcspn(p + 1, " \r")), "no such error: %.*s", (int)(crlf - p), p);
        return crlf + 2;
    case '+':
        return crlf + 2;
    case '_':
        ck_assert_ptr_eq(crlf, p + 1);
        return crlf + 2;
    case ':':
        return take_head(p, &n);
    case '$':
    case '=':
        body = take_head(p, &n);
        if (n == -2) {
            return strstr(body, "\r\n") + 2;
        }
        ck_assert_msg(n == -1 || (strlen(body) >= (size_t)n + 2 && strncmp(body + n, "\r\n", 2) == 0),
                      "not %ld bytes: %.*s", n, (int)strcspn(body, "\r"), body);
        return n == -1 ? body : body + n + 2;
    default: /* of values, or of pairs */
        body = take_head(p, &n);
        for (n *= *p == '%' ? 2 : 1; n > 0; n--) {
            body = take_value(ex, body);
        }
        return body;
    }
}

static void
begin_example(struct example *ex)
{
    static const struct reader_limits limits = {.line_bytes = 16384, .word_bytes = 16384, .words = 64};

    *ex = (struct example){.requests = 0};
    buf_init(&ex->seen, 0);
    for (int c = 0; c < CONNECTIONS; c++) {
        reader_init(&ex->reader[c], &limits);
        buf_init(&ex->received[c], 0);
    }
}

static void
end_example(struct example *ex, const char *where)
{
    for (int c = 0; c < CONNECTIONS; c++) {
        const char *p;

        ck_assert_msg(reader_pending(&ex->reader[c]) == 0, "half a request: %.300s", where);
        buf_add(&ex->received[c], "", 1);
        for (p = ex->received[c].p; *p != '\0';) {
            p = take_value(ex, p);
        }
        reader_fini(&ex->reader[c]);
        buf_fini(&ex->received[c]);
    }
    ck_assert_msg(ex->requests > 0 && ex->values >= ex->requests, "fewer replies than requests: %.300s", where);
    buf_fini(&ex->seen);
}

/* One line inside an example. */
static void
take_line(struct example *ex, const char *line)
{
    int c = *line == '2' ? 1 : 0;
    const char *arrow = line + c;
    struct slice rest;

    ck_assert_msg((*arrow == '>' || *arrow == '<') && (arrow[1] == ' ' || arrow[1] == '\n'),
                  "not a line of an example: %.80s", line);
    rest = line_at(arrow[1] == ' ' ? arrow + 2 : arrow + 1);
    if (*arrow == '>') {
        sends(ex, c, rest);
    } else {
        receives(ex, c, rest);
    }
}

START_TEST(examples_are_sound)
{
    struct example ex;
    const char *line, *from = NULL;
    unsigned n = 0;

    for (line = text; line != NULL; line = next_line(line)) {
        if (from == NULL && slice_eq(line_at(line), SLICE_LIT("```wire"))) {
            begin_example(&ex);
            from = line;
        } else if (from != NULL && starts(line, "```")) {
            end_example(&ex, from);
            from = NULL;
            n++;
        } else if (from != NULL) {
            take_line(&ex, line);
        }
    }
    ck_assert_ptr_null(from);
    ck_assert_uint_ge(n, 20);
}
END_TEST

int
main(void)
{
    Suite *s = suite_create("protocol_md");
    TCase *tc = tcase_create("all");
    SRunner *sr;
    int failed;

    tcase_add_checked_fixture(tc, load, unload);
    tcase_add_loop_test(tc, each_command_is_described, 0, COMMANDS);
    tcase_add_test(tc, no_other_command_is);
    tcase_add_loop_test(tc, each_error_is_described, 0, ERRORS);
    tcase_add_test(tc, no_other_error_is);
    tcase_add_loop_test(tc, each_kind_is_described, 0, KINDS);
    tcase_add_test(tc, limits_are_described);
    tcase_add_test(tc, links_lead_somewhere);
    tcase_add_test(tc, examples_are_sound);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? 0 : 1;
}
