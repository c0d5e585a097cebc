/*
 * conf_yaml.c -- YAML against the table of keys; the only file that uses libyaml.
 *
 * The text is parsed twice: as events, to refuse what a document no longer shows (aliases, anchors, tags, a second
 * document), then as a document, whose nodes know their line and column. The walk goes as deep as the table, however
 * deep the text. Rules are read last, wherever they are in the file: they begin as copies of `locks`.
 */
#include "conf/conf_loader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

#include "conf/conf_keys.h"
#include "daemon/base/memory.h"

#define RULES_MAX 1000
#define SHOWN_BYTES_MAX 48
#define GUESS_BYTES_MAX 32
#define GUESS_EDITS_MAX 2

/* A mapping whose keys are looked up in the table: the top, a section or a rule. */
struct scope {
    struct loader *ld;
    yaml_document_t *doc;
    const char *section;
    struct conf_rule *rule; /* NULL = not a rule */
    size_t rule_index;
    struct line_col *seen;  /* by row */
};

static struct line_col
line_col_of(yaml_mark_t mark)
{
    return (struct line_col){mark.line + 1, mark.column + 1};
}

static struct slice
text_of(const yaml_node_t *scalar)
{
    assert(scalar->type == YAML_SCALAR_NODE);
    return (struct slice){(const char *)scalar->data.scalar.value, scalar->data.scalar.length};
}

/*
 * The line and column of the byte at `offset`, or of the first byte that is not before `until`, whichever comes first;
 * *reached: its index.
 */
static struct line_col
walk_text(const char *p, size_t n, size_t offset, struct line_col until, size_t *reached)
{
    struct line_col at = {1, 1};
    size_t i = 0;

    for (; i < n && i < offset && (at.line < until.line || (at.line == until.line && at.col < until.col)); i++) {
        if (p[i] == '\n') {
            at = (struct line_col){at.line + 1, 1};
        } else if (((unsigned char)p[i] & 0xc0) != 0x80) {
            at.col++;
        }
    }
    *reached = i;
    return at;
}

static void
complain_of_syntax(struct loader *ld, const yaml_parser_t *parser, const char *p, size_t n)
{
    const char *problem = parser->problem;
    struct line_col at = line_col_of(parser->problem_mark);
    const struct line_col end = {SIZE_MAX, 0};
    size_t begin = ld->texts.n, index;

    if (parser->error == YAML_MEMORY_ERROR || problem == NULL) { /* libyaml does not always set the error */
        mem_exhausted(0); /* of an unknown size */
    }
    if (parser->error == YAML_READER_ERROR) {
        at = walk_text(p, n, parser->problem_offset, end, &index);
        loader_complain(ld, at, "%s: the file must be UTF-8 text", problem);
        return;
    }
    walk_text(p, n, n, at, &index);
    buf_adds(&ld->texts, problem);
    if (parser->context != NULL) {
        struct line_col from = line_col_of(parser->context_mark);

        buf_printf(&ld->texts, " (%s", parser->context);
        if (from.line != at.line || from.col != at.col) {
            buf_printf(&ld->texts, " that begins at %zu:%zu", from.line, from.col);
        }
        buf_adds(&ld->texts, ")");
    }
    if (index < n && p[index] == '\t') {
        buf_adds(&ld->texts, ": there is a tab; YAML is indented with blanks");
    }
    loader_complain_since(ld, at, begin);
}

static void
parser_begin(yaml_parser_t *parser, const char *p, size_t n)
{
    yaml_parser_set_input_string(parser, (const unsigned char *)p, n);
    yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
}

/* Complains of an alias, an anchor, a tag, or a second document. */
static void
check_event(struct loader *ld, const yaml_event_t *ev, unsigned *documents)
{
    struct line_col at = line_col_of(ev->start_mark);
    const yaml_char_t *anchor = NULL, *tag = NULL;

    switch (ev->type) {
    case YAML_ALIAS_EVENT:
        loader_complain(ld, at, "an alias: not supported, write the value itself");
        break;
    case YAML_SCALAR_EVENT:
        anchor = ev->data.scalar.anchor;
        tag = ev->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = ev->data.sequence_start.anchor;
        tag = ev->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = ev->data.mapping_start.anchor;
        tag = ev->data.mapping_start.tag;
        break;
    case YAML_DOCUMENT_START_EVENT:
        if (++*documents == 2) {
            loader_complain(ld, at, "a second document: a configuration has only one");
        }
        break;
    default:
        break;
    }
    if (anchor != NULL) {
        loader_complain(ld, at, "an anchor: not supported, nor are aliases that would refer to it");
    }
    if (tag != NULL) {
        loader_complain(ld, at, "a tag: not supported, the key says the type of its value");
    }
}

/* False when it is no YAML at all. */
static bool
check_events(struct loader *ld, const char *p, size_t n)
{
    yaml_parser_t parser;
    unsigned documents = 0;
    bool ok = true, end = false;

    if (yaml_parser_initialize(&parser) == 0) {
        mem_exhausted(sizeof(parser));
    }
    parser_begin(&parser, p, n);
    while (ok && !end) {
        yaml_event_t ev;

        if (yaml_parser_parse(&parser, &ev) == 0) {
            complain_of_syntax(ld, &parser, p, n);
            ok = false;
        } else {
            check_event(ld, &ev, &documents);
            end = ev.type == YAML_STREAM_END_EVENT;
            yaml_event_delete(&ev);
        }
    }
    yaml_parser_delete(&parser);
    return ok;
}

/* `locks.lease: `, in front of a complaint. */
static void
name_key(const struct scope *sc, const struct conf_key *k)
{
    if (sc->rule != NULL) {
        buf_printf(&sc->ld->texts, "rules.%zu.%s: ", sc->rule_index, k->name);
    } else {
        buf_printf(&sc->ld->texts, "%s%s%s: ", k->section, k->section[0] != '\0' ? "." : "", k->name);
    }
}

static bool
belongs(const struct scope *sc, const struct conf_key *k)
{
    return sc->rule != NULL ? conf_key_in_rule(k) : strcmp(k->section, sc->section) == 0;
}

static const struct conf_key *
find_in_scope(const struct scope *sc, struct slice name)
{
    for (size_t i = 0; i < conf_keys_n; i++) {
        if (belongs(sc, &conf_keys[i]) && slice_eq(name, slice_of(conf_keys[i].name))) {
            return &conf_keys[i];
        }
    }
    return NULL;
}

static size_t
least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Insertions, deletions and substitutions that make one word of the other; both at most GUESS_BYTES_MAX long. */
static size_t
edits(struct slice a, struct slice b)
{
    size_t row[GUESS_BYTES_MAX + 1];

    assert(a.n <= GUESS_BYTES_MAX && b.n <= GUESS_BYTES_MAX);
    for (size_t j = 0; j <= b.n; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a.n; i++) {
        size_t corner = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            size_t other = corner + (a.p[i - 1] != b.p[j - 1]);

            corner = row[j];
            row[j] = least_of(other, least_of(row[j], row[j - 1]) + 1);
        }
    }
    return row[b.n];
}

static void
complain_of_unknown(const struct scope *sc, struct slice name, struct line_col at)
{
    const struct conf_key *near = NULL, *elsewhere = NULL;
    size_t begin = sc->ld->texts.n, best = GUESS_EDITS_MAX + 1, elsewhere_n = 0;

    for (size_t i = 0; i < conf_keys_n && name.n <= GUESS_BYTES_MAX; i++) {
        struct slice known = slice_of(conf_keys[i].name);
        size_t d = edits(name, known);

        if (belongs(sc, &conf_keys[i]) && d < best && 2 * d < known.n) {
            best = d;
            near = &conf_keys[i];
        }
        if (d == 0 && (conf_keys[i].flags & CONF_SHORT) == 0) {
            elsewhere = &conf_keys[i];
            elsewhere_n++;
        }
    }
    buf_adds(&sc->ld->texts, "unknown key \"");
    buf_add_escaped(&sc->ld->texts, (struct slice){name.p, least_of(name.n, SHOWN_BYTES_MAX)});
    buf_adds(&sc->ld->texts, name.n > SHOWN_BYTES_MAX ? "...\"" : "\"");
    if (sc->rule != NULL) {
        buf_adds(&sc->ld->texts, " in a rule");
    } else if (sc->section[0] != '\0') {
        buf_printf(&sc->ld->texts, " in \"%s\"", sc->section);
    }
    if (near != NULL) {
        buf_printf(&sc->ld->texts, "; did you mean \"%s\"?", near->name);
    } else if (elsewhere_n == 1) {
        buf_printf(&sc->ld->texts, "; did you mean \"%s\" %s%s?", elsewhere->name,
                   elsewhere->section[0] != '\0' ? "in " : "at the top", elsewhere->section);
    }
    loader_complain_since(sc->ld, at, begin);
}

/* Notes where a key was set; false, with a complaint, when it was set before, by its own or its short name. */
static bool
note_seen(const struct scope *sc, const struct conf_key *k, struct line_col at)
{
    for (size_t i = 0; i < conf_keys_n; i++) {
        const struct conf_key *other = &conf_keys[i];
        bool same = other == k || (((k->flags | other->flags) & CONF_SHORT) != 0 && k->offset == other->offset);

        if (same && sc->seen[i].line != 0) {
            loader_complain(sc->ld, at, "duplicate key \"%s\": it is set at %zu:%zu already", k->name, sc->seen[i].line,
                     sc->seen[i].col);
            return false;
        }
    }
    sc->seen[k - conf_keys] = at;
    return true;
}

/* Nothing, `~` or `null`, not in quotes. */
static bool
is_null(const yaml_node_t *node)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    struct slice text;

    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) {
        return false;
    }
    text = text_of(node);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (slice_eq(text, slice_of(words[i]))) {
            return true;
        }
    }
    return false;
}

static void
complain_of_type(const struct scope *sc, const struct conf_key *k, const yaml_node_t *node)
{
    size_t begin = sc->ld->texts.n;

    name_key(sc, k);
    buf_adds(&sc->ld->texts, is_null(node) ? "has no value; it takes " : "takes ");
    conf_key_expects(k, &sc->ld->texts);
    loader_complain_since(sc->ld, line_col_of(node->start_mark), begin);
}

static void
set_key(const struct scope *sc, const struct conf_key *k, const yaml_node_t *node)
{
    struct slice text = text_of(node);
    size_t begin = sc->ld->texts.n;
    bool secret = text.n > 0 && ((k->flags & CONF_SECRET) != 0 ||
                                 (k->check == conf_check_url && conf_url_password(text).n > 0));

    name_key(sc, k);
    if (!conf_key_set(k, conf_key_field(k, sc->ld->cf, sc->rule), text, &sc->ld->texts)) {
        loader_complain_since(sc->ld, line_col_of(node->start_mark), begin);
    } else if (secret && (sc->ld->file_mode & S_IROTH) != 0) {
        buf_printf(&sc->ld->texts, "a password in a file that everyone may read (mode %04o): chmod o-r %s",
                   (unsigned)sc->ld->file_mode & 07777, sc->ld->path);
        loader_complain_since(sc->ld, line_col_of(node->start_mark), begin);
    } else {
        sc->ld->texts.n = begin;
    }
}

static void
set_list(const struct scope *sc, const struct conf_key *k, const yaml_node_t *node)
{
    yaml_node_item_t *item = node->data.sequence.items.start;

    conf_key_clear(k, conf_key_field(k, sc->ld->cf, sc->rule));
    for (; item < node->data.sequence.items.top; item++) {
        const yaml_node_t *one = yaml_document_get_node(sc->doc, *item);

        if (one->type != YAML_SCALAR_NODE || is_null(one)) {
            complain_of_type(sc, k, one);
        } else {
            set_key(sc, k, one);
        }
    }
}

static void read_mapping(const struct scope *sc, const yaml_node_t *node);

static void
read_value(const struct scope *sc, const struct conf_key *k, const yaml_node_t *node)
{
    struct scope section = {sc->ld, sc->doc, k->name, NULL, 0, sc->seen};

    if (k->type == CONF_RULES) {
        if (node->type != YAML_SEQUENCE_NODE && !is_null(node)) {
            complain_of_type(sc, k, node);
        }
    } else if (k->type == CONF_SECTION) {
        if (node->type == YAML_MAPPING_NODE) {
            read_mapping(&section, node);
        } else if (!is_null(node)) {
            complain_of_type(sc, k, node);
        }
    } else if (k->type == CONF_LIST && node->type == YAML_SEQUENCE_NODE) {
        set_list(sc, k, node);
    } else if (k->type == CONF_LIST || node->type != YAML_SCALAR_NODE || is_null(node)) {
        complain_of_type(sc, k, node);
    } else {
        set_key(sc, k, node);
    }
}

/* Every pair of a mapping. Goes down once, from the top into a section, however deep the file is. */
static void
read_mapping(const struct scope *sc, const yaml_node_t *node)
{
    yaml_node_pair_t *pair = node->data.mapping.pairs.start;

    for (; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(sc->doc, pair->key);
        const yaml_node_t *value = yaml_document_get_node(sc->doc, pair->value);
        struct line_col at = line_col_of(key->start_mark);
        const struct conf_key *k;
        struct slice name;

        if (key->type != YAML_SCALAR_NODE) {
            loader_complain(sc->ld, at, "a key must be a word");
            continue;
        }
        name = text_of(key);
        k = find_in_scope(sc, name);
        if (k == NULL) {
            complain_of_unknown(sc, name, at);
        } else if (note_seen(sc, k, at)) {
            read_value(sc, k, value);
        }
    }
}

/* One rule, on top of a copy of `locks`. `seen` has room for the line and column of each key. */
static void
read_rule(const struct scope *top, struct line_col *seen, size_t index, const yaml_node_t *node)
{
    struct loader *ld = top->ld;
    struct conf_rule *rule = &ld->cf->rules[index];
    struct scope sc = {ld, top->doc, "rules", rule, index, seen};
    const struct conf_key *match = conf_key_find("rules", SLICE_LIT("match"));
    struct line_col at = line_col_of(node->start_mark);

    for (size_t i = 0; i < conf_keys_n; i++) {
        const struct conf_key *k = &conf_keys[i];

        if (k == match) {
            conf_key_reset(k, conf_key_field(k, NULL, rule));
        } else if (conf_key_in_rule(k)) {
            conf_key_copy(k, conf_key_field(k, NULL, rule), conf_key_field(k, ld->cf, NULL));
        }
        seen[i] = (struct line_col){0, 0};
    }
    if (node->type != YAML_MAPPING_NODE) {
        loader_complain(ld, at, "rules.%zu: a rule is a mapping: { match: \"...\", ... }", index);
        return;
    }
    read_mapping(&sc, node);
    if (seen[match - conf_keys].line == 0) {
        loader_complain(ld, at, "rules.%zu: a rule needs \"match\", the names it is for", index);
    }
}

/* The value of the first `rules` at the top; NULL when there is none, or no list. */
static const yaml_node_t *
find_rules(const struct scope *top, const yaml_node_t *root)
{
    yaml_node_pair_t *pair = root->data.mapping.pairs.start;

    for (; pair < root->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(top->doc, pair->key);

        if (key->type == YAML_SCALAR_NODE && slice_eq(SLICE_LIT("rules"), text_of(key))) {
            const yaml_node_t *rules = yaml_document_get_node(top->doc, pair->value);

            return rules->type == YAML_SEQUENCE_NODE ? rules : NULL;
        }
    }
    return NULL;
}

static void
read_rules(const struct scope *top, const yaml_node_t *rules)
{
    struct loader *ld = top->ld;
    size_t n = (size_t)(rules->data.sequence.items.top - rules->data.sequence.items.start);
    struct line_col *seen = mem_alloc(conf_keys_n * sizeof(*seen));

    if (n > RULES_MAX) {
        loader_complain(ld, line_col_of(rules->start_mark), "rules: there are %zu, at most %d are allowed", n,
                        RULES_MAX);
        n = 0;
    }
    ld->cf->rules = mem_zalloc(n * sizeof(*ld->cf->rules));
    for (size_t i = 0; i < n; i++) {
        ld->cf->rules_n = i + 1;
        read_rule(top, seen, i, yaml_document_get_node(top->doc, rules->data.sequence.items.start[i]));
    }
    free(seen);
}

static void
read_document(struct loader *ld, yaml_document_t *doc)
{
    struct scope top = {ld, doc, "", NULL, 0, ld->seen};
    const yaml_node_t *root = yaml_document_get_root_node(doc), *rules;

    if (root == NULL || is_null(root)) {
        return; /* an empty file: the defaults */
    }
    if (root->type != YAML_MAPPING_NODE) {
        loader_complain(ld, line_col_of(root->start_mark), "a configuration is a mapping of keys to values");
        return;
    }
    read_mapping(&top, root);
    rules = find_rules(&top, root);
    if (rules != NULL) {
        read_rules(&top, rules);
    }
}

/* Wipes all values, because freed memory must not contain the passwords among them. */
static void
wipe(yaml_document_t *doc)
{
    for (yaml_node_t *node = doc->nodes.start; node < doc->nodes.top; node++) {
        if (node->type == YAML_SCALAR_NODE) {
            explicit_bzero(node->data.scalar.value, node->data.scalar.length);
        }
    }
}

void
loader_read_yaml(struct loader *ld, const char *p, size_t n)
{
    yaml_parser_t parser;
    yaml_document_t doc;
    bool made;

    if (!check_events(ld, p, n)) {
        return;
    }
    if (yaml_parser_initialize(&parser) == 0) {
        mem_exhausted(sizeof(parser));
    }
    parser_begin(&parser, p, n);
    made = yaml_parser_load(&parser, &doc) != 0;
    if (!made && ld->complaints_n == 0) {
        complain_of_syntax(ld, &parser, p, n);
    }
    if (made) {
        read_document(ld, &doc);
        wipe(&doc);
        yaml_document_delete(&doc);
    }
    yaml_parser_delete(&parser);
}
