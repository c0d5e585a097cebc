/*
 * conf_print.c -- a conf as text: -T, conf/rlockd.yaml, CONFIG GET, and what a reload cannot take.
 *
 * Everything comes from the rows of keys.def. Passwords leave as "***", also the one inside a URL. Not by libyaml: its
 * emitter writes no comments.
 */
#include "conf/conf.h"

#include <stdio.h>
#include <string.h>

#include "conf/conf_keys.h"

#define COMMENT_COLUMN 44
#define HELP_COLUMNS 112

/* Words that YAML reads as null unless they are in quotes. */
static bool
is_word_of_yaml(struct slice text)
{
    return slice_is(text, "null") || slice_is(text, "~");
}

/* The text needs no quotes in YAML, not even in a flow list. */
static bool
is_plain(struct slice text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/';

        if (!letter && (i == 0 || strchr("._-+=", c) == NULL) && (c != ':' || i == 0 || i + 1 == text.n)) {
            return false;
        }
    }
    return text.n > 0 && !is_word_of_yaml(text);
}

static void
add_scalar(struct buf *out, struct slice text)
{
    if (is_plain(text)) {
        buf_add_slice(out, text);
        return;
    }
    buf_adds(out, "\"");
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '"' || text.p[i] == '\\') {
            buf_adds(out, "\\");
        }
        buf_add(out, &text.p[i], 1);
    }
    buf_adds(out, "\"");
}

/* The value of a field as YAML. A secret that came from a file is left empty: the file is named beside it. */
static void
add_value(struct buf *out, const struct conf_key *k, const void *field, bool from_file)
{
    struct buf text;

    if (k->type == CONF_LIST) {
        const struct conf_list *list = field;

        buf_adds(out, "[");
        for (size_t i = 0; i < list->n; i++) {
            buf_adds(out, i > 0 ? ", " : "");
            add_scalar(out, slice_of(list->item[i]));
        }
        buf_adds(out, "]");
        return;
    }
    buf_init(&text, 0);
    if (!from_file) {
        conf_key_text(k, field, &text);
    }
    add_scalar(out, buf_slice(&text));
    buf_fini(&text);
}

/* `name: value`, and the comment `# label VALUE` with the value of `otherwise`; no comment if that is NULL. */
static void
add_line(struct buf *out, const char *indent, const struct conf_key *k, const void *field, bool from_file,
         const char *label, const void *otherwise)
{
    size_t begin = out->n, columns;

    buf_printf(out, "%s%s: ", indent, k->name);
    add_value(out, k, field, from_file);
    if (otherwise != NULL) {
        columns = out->n - begin;
        buf_printf(out, "%*s# %s ", columns + 2 < COMMENT_COLUMN ? (int)(COMMENT_COLUMN - columns) : 2, "", label);
        add_value(out, k, otherwise, false);
    }
    buf_adds(out, "\n");
}

static void
add_rules(struct buf *out, const struct conf *cf)
{
    const struct conf_key *match = conf_key_find("rules", SLICE_LIT("match"));

    buf_adds(out, cf->rules_n > 0 ? "rules:\n" : "rules: []\n");
    for (size_t r = 0; r < cf->rules_n; r++) {
        const struct conf_rule *rule = &cf->rules[r];

        add_line(out, "  - ", match, conf_key_field(match, cf, rule), false, "", NULL);
        for (size_t i = 0; i < conf_keys_n; i++) {
            const struct conf_key *k = &conf_keys[i];

            if (k != match && conf_key_in_rule(k)) {
                add_line(out, "    ", k, conf_key_field(k, cf, rule), false, "locks:", conf_key_field(k, cf, NULL));
            }
        }
    }
}

void
conf_print(const struct conf *cf, struct buf *out)
{
    struct conf *defaults = conf_new();

    buf_adds(out, "# The configuration in force. Passwords are shown as \"***\".\n");
    for (size_t i = 0; i < conf_keys_n; i++) {
        const struct conf_key *k = &conf_keys[i], *file = conf_key_file_of(k);
        struct buf path;

        if (k->type == CONF_SECTION) {
            buf_printf(out, "%s:\n", k->name);
        } else if (k->type == CONF_RULES) {
            add_rules(out, cf);
        } else if (conf_key_in_conf(k)) {
            buf_init(&path, 0);
            if (file != NULL) {
                conf_key_text(file, conf_key_field(file, cf, NULL), &path);
            }
            add_line(out, k->section[0] != '\0' ? "  " : "", k, conf_key_field(k, cf, NULL), path.n > 0, "default",
                     conf_key_field(k, defaults, NULL));
            buf_fini(&path);
        }
    }
    conf_free(&defaults);
}

/* A comment of whole words, wrapped. */
static void
add_comment(struct buf *out, const char *indent, const char *text)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t n = strcspn(text, " ");

        if (column > 0 && column + 1 + n > HELP_COLUMNS) {
            buf_adds(out, "\n");
            column = 0;
        }
        if (column == 0) {
            buf_printf(out, "%s#", indent);
            column = strlen(indent) + 1;
        }
        buf_adds(out, " ");
        buf_add(out, text, n);
        column += n + 1;
        text += n;
        text += strspn(text, " ");
    }
    buf_adds(out, "\n");
}

static void
add_sample_key(struct buf *out, const struct conf_key *k, const struct conf *defaults)
{
    const char *indent = k->section[0] != '\0' ? "  " : "";
    size_t begin;

    buf_adds(out, k->section[0] != '\0' ? "" : "\n");
    add_comment(out, indent, k->help);
    buf_printf(out, "%s# ", indent);
    begin = out->n;
    conf_key_range(k, out);
    buf_printf(out, "%s%s\n", out->n > begin ? "; " : "", (k->flags & CONF_RELOAD) != 0 ? "reload" : "restart");
    buf_printf(out, "%s#%s: ", indent, k->name);
    add_value(out, k, conf_key_field(k, defaults, NULL), false);
    buf_adds(out, "\n");
}

/* Rules for the libraries that people run, each commented out; a line that is a comment already stays one. */
static void
add_sample_rules(struct buf *out, const struct conf_key *k)
{
    const struct conf_key *match = conf_key_find(k->name, SLICE_LIT("match"));
    const char *line = k->fallback;

    add_comment(out, "  ", match->help);
    while (*line != '\0') {
        size_t n = strcspn(line, "\n");

        buf_adds(out, line[0] == '#' ? "  " : "  #");
        buf_add(out, line, n);
        buf_adds(out, "\n");
        line += n + (line[n] == '\n');
    }
}

void
conf_print_sample(struct buf *out)
{
    static const char head[] =
        "# rlockd.yaml -- the configuration of rlockd. Every key stands here, commented out, with its default.\n"
        "#\n"
        "# Durations: 1500 (milliseconds), 30us, 250ms, 5s, 2m, 1h. Sizes: 4096 (bytes), 16KiB, 1MiB, 1GiB.\n"
        "# `reload`: a new value is taken by `systemctl reload rlockd` (HUP); `restart`: it needs a restart.\n"
        "# `rlockd -t -c FILE` checks a file, `rlockd -T -c FILE` prints the configuration in force.\n"
        "# This file is printed from conf/keys.def; a file with passwords must not be readable by everyone.\n";
    struct conf *defaults = conf_new();

    buf_adds(out, head);
    for (size_t i = 0; i < conf_keys_n; i++) {
        const struct conf_key *k = &conf_keys[i];

        if (k->type == CONF_SECTION || k->type == CONF_RULES) {
            buf_adds(out, "\n");
            add_comment(out, "", k->help);
            buf_printf(out, "%s:\n", k->name);
        }
        if (k->type == CONF_RULES) {
            add_sample_rules(out, k);
        } else if (conf_key_in_conf(k)) {
            add_sample_key(out, k, defaults);
        }
    }
    conf_free(&defaults);
}

/* Calls fn with one key. */
static void
pass_key(const struct conf_key *k, const void *field, const char *path, conf_key_fn *fn, void *ctx)
{
    struct buf text;

    buf_init(&text, 0);
    conf_key_text(k, field, &text);
    buf_add(&text, "", 1);
    fn(ctx, path, text.p, (k->flags & CONF_RELOAD) != 0);
    buf_fini(&text);
}

static void
pass_conf_key(const struct conf_key *k, const struct conf *cf, conf_key_fn *fn, void *ctx)
{
    char path[64];

    snprintf(path, sizeof(path), "%s%s%s", k->section, k->section[0] != '\0' ? "." : "", k->name);
    pass_key(k, conf_key_field(k, cf, NULL), path, fn, ctx);
}

void
conf_each(const struct conf *cf, conf_key_fn *fn, void *ctx)
{
    char path[64];

    for (size_t i = 0; i < conf_keys_n; i++) {
        if (conf_key_in_conf(&conf_keys[i])) {
            pass_conf_key(&conf_keys[i], cf, fn, ctx);
        }
    }
    for (size_t r = 0; r < cf->rules_n; r++) {
        for (size_t i = 0; i < conf_keys_n; i++) {
            const struct conf_key *k = &conf_keys[i];

            if (conf_key_in_rule(k)) {
                snprintf(path, sizeof(path), "rules.%zu.%s", r, k->name);
                pass_key(k, conf_key_field(k, cf, &cf->rules[r]), path, fn, ctx);
            }
        }
    }
}

void
conf_each_restart(const struct conf *was, const struct conf *now, conf_key_fn *fn, void *ctx)
{
    for (size_t i = 0; i < conf_keys_n; i++) {
        const struct conf_key *k = &conf_keys[i];

        if (conf_key_needs_restart(k) &&
            !conf_key_equal(k, conf_key_field(k, was, NULL), conf_key_field(k, now, NULL))) {
            pass_conf_key(k, now, fn, ctx);
        }
    }
}
