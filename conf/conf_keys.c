/*
 * conf_keys.c -- the rows of keys.def and the types of their values.
 *
 * Owns what is the same for every key: text to field, field to text, ranges, defaults, equality. A type is a row of
 * `types`; no key is known here by its name, but the sections `locks` and `rules` are, and that the file of a secret is
 * named by the key NAME_file.
 */
#include "conf/conf_keys.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "daemon/base/units.h"

#define MS US_PER_MS
#define SECOND US_PER_S
#define MINUTE (60 * US_PER_S)
#define HOUR (3600 * US_PER_S)
#define KIB INT64_C(1024)
#define MIB (1024 * KIB)

#define SHOWN_BYTES_MAX 48

const struct conf_key conf_keys[] = {
#define AT(field) offsetof(struct conf, field)
#define AT_RULE(field) offsetof(struct conf_rule, field)
#define RESTART CONF_RESTART
#define RELOAD CONF_RELOAD
#define SECRET CONF_SECRET
#define SHORT CONF_SHORT
#define UNSET CONF_UNSET
#define SECTION(name, help) {"", name, CONF_SECTION, 0, NULL, 0, 0, 0, NULL, "", help},
#define RULES(name, example, help) {"", name, CONF_RULES, 0, example, 0, 0, 0, NULL, "", help},
#define KEY(section, name, type, where, fallback, least, most, flags, check, unit, help)                              \
    {section, name, CONF_##type, where, fallback, least, most, flags, check, unit, help},
#include "conf/keys.def"
#undef AT
#undef AT_RULE
#undef RESTART
#undef RELOAD
#undef SECRET
#undef SHORT
#undef UNSET
#undef SECTION
#undef RULES
#undef KEY
};

const size_t conf_keys_n = sizeof(conf_keys) / sizeof(conf_keys[0]);

/* Octal digits, three or four. */
static bool
mode_parse(struct slice s, int64_t *v)
{
    int64_t mode = 0;

    if (s.n < 3 || s.n > 4) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '7') {
            return false;
        }
        mode = mode * 8 + (s.p[i] - '0');
    }
    *v = mode;
    return true;
}

static void
mode_print(int64_t v, char out[24])
{
    snprintf(out, 24, "%04" PRIo64, (uint64_t)v);
}

static void
number_print(int64_t v, char out[24])
{
    snprintf(out, 24, "%" PRId64, v);
}

/* Names of enums: NULL past the end. */
static const char *
bool_name(unsigned i)
{
    static const char *const names[] = {"false", "true", NULL};

    return names[i];
}

static const char *
kind_name(unsigned i)
{
    return i < KINDS ? kind_rows[i].name : NULL;
}

static const char *
value_name(unsigned i)
{
    return i < VALUES ? value_format_name((enum value_format)i) : NULL;
}

static const char *
on_loss_name(unsigned i)
{
    static const char *const names[] = {[CONF_LOSS_NOTIFY] = "notify", [CONF_LOSS_CLOSE] = "close", NULL};

    return names[i];
}

static const char *
foreign_name(unsigned i)
{
    static const char *const names[] = {[CONF_FOREIGN_REFUSE] = "refuse", [CONF_FOREIGN_WAIT] = "wait", NULL};

    return names[i];
}

static const char *
publish_name(unsigned i)
{
    static const char *const names[] = {[CONF_PUBLISH_AUTO] = "auto", [CONF_PUBLISH_BOTH] = "both", NULL};

    return names[i];
}

static const char *
wakes_name(unsigned i)
{
    static const char *const names[] = {
        [WAKES_NONE] = "none", [WAKES_SPRING] = "spring", [WAKES_PYTHON] = "python-redis-lock", [WAKES] = NULL};

    return names[i];
}

static const char *
level_name(unsigned i)
{
    return i < LOG_LEVELS ? log_level_name((enum log_level)i) : NULL;
}

enum stored { STORED_INT64, STORED_ENUM, STORED_BOOL, STORED_TEXT, STORED_LIST, STORED_NOT };

static const struct type_row {
    enum stored stored;
    const char *expects;
    bool (*parse)(struct slice s, int64_t *v); /* NULL: one of the names, a text, or items */
    void (*print)(int64_t v, char out[24]);
    const char *(*name)(unsigned i);
} types[] = {
    [CONF_DURATION] = {STORED_INT64, "a duration such as 250ms, 30s, 2m or 1h", duration_parse, duration_print, NULL},
    [CONF_SIZE] = {STORED_INT64, "a size such as 4096, 16KiB or 1MiB", size_parse, size_print, NULL},
    [CONF_NUMBER] = {STORED_INT64, "a whole number", number_parse, number_print, NULL},
    [CONF_MODE] = {STORED_INT64, "a file mode in octal such as 0660", mode_parse, mode_print, NULL},
    [CONF_BOOL] = {STORED_BOOL, "true or false", NULL, NULL, bool_name},
    [CONF_KIND] = {STORED_ENUM, "a kind of lock", NULL, NULL, kind_name},
    [CONF_VALUE] = {STORED_ENUM, "a format of values", NULL, NULL, value_name},
    [CONF_ON_LOSS] = {STORED_ENUM, "an action", NULL, NULL, on_loss_name},
    [CONF_FOREIGN] = {STORED_ENUM, "an action", NULL, NULL, foreign_name},
    [CONF_WAKES] = {STORED_ENUM, "a library", NULL, NULL, wakes_name},
    [CONF_PUBLISH] = {STORED_ENUM, "auto or both", NULL, NULL, publish_name},
    [CONF_LEVEL] = {STORED_ENUM, "a level", NULL, NULL, level_name},
    [CONF_TEXT] = {STORED_TEXT, "a text", NULL, NULL, NULL},
    [CONF_LIST] = {STORED_LIST, "a list such as [unix:/run/rlockd/rlockd.sock, tcp:127.0.0.1:5625]", NULL, NULL, NULL},
    [CONF_SECTION] = {STORED_NOT, "keys of its own", NULL, NULL, NULL},
    [CONF_RULES] = {STORED_NOT, "a list of rules, each a mapping with `match`", NULL, NULL, NULL},
};

_Static_assert(sizeof(enum kind) == sizeof(unsigned) && sizeof(enum value_format) == sizeof(unsigned) &&
                   sizeof(enum conf_on_loss) == sizeof(unsigned) && sizeof(enum conf_foreign) == sizeof(unsigned) &&
                   sizeof(enum wakes) == sizeof(unsigned) && sizeof(enum conf_publish) == sizeof(unsigned) &&
                   sizeof(enum log_level) == sizeof(unsigned),
               "enums are read and written as unsigned");

const struct conf_key *
conf_key_find(const char *section, struct slice name)
{
    for (size_t i = 0; i < conf_keys_n; i++) {
        if (strcmp(conf_keys[i].section, section) == 0 && slice_eq(name, slice_of(conf_keys[i].name))) {
            return &conf_keys[i];
        }
    }
    return NULL;
}

bool
conf_key_in_conf(const struct conf_key *k)
{
    return types[k->type].stored != STORED_NOT && strcmp(k->section, "rules") != 0 && (k->flags & CONF_SHORT) == 0;
}

const struct conf_key *
conf_key_file_of(const struct conf_key *k)
{
    char name[64];
    const struct conf_key *file;

    if ((k->flags & CONF_SECRET) == 0) {
        return NULL;
    }
    snprintf(name, sizeof(name), "%s_file", k->name);
    file = conf_key_find(k->section, slice_of(name));
    assert(file != NULL);
    return file;
}

bool
conf_key_in_rule(const struct conf_key *k)
{
    return strcmp(k->section, "locks") == 0 || strcmp(k->section, "rules") == 0;
}

bool
conf_key_needs_restart(const struct conf_key *k)
{
    return conf_key_in_conf(k) && !conf_key_in_rule(k) && (k->flags & CONF_RELOAD) == 0;
}

void *
conf_key_field(const struct conf_key *k, const struct conf *cf, const struct conf_rule *rule)
{
    const char *base = (const char *)cf;

    if (rule != NULL) {
        assert(conf_key_in_rule(k));
        base = (const char *)rule;
        if (strcmp(k->section, "locks") == 0) {
            base = (const char *)&rule->locks - offsetof(struct conf, locks);
        }
    }
    return (void *)(uintptr_t)(base + k->offset);
}

/* The value of a field that is neither text nor list. */
static int64_t
number_of(const struct conf_key *k, const void *field)
{
    int64_t v = 0;
    unsigned e;
    bool b;

    switch (types[k->type].stored) {
    case STORED_INT64:
        memcpy(&v, field, sizeof(v));
        return v;
    case STORED_ENUM:
        memcpy(&e, field, sizeof(e));
        return e;
    case STORED_BOOL:
        memcpy(&b, field, sizeof(b));
        return b;
    default:
        assert(!"a number");
        return 0;
    }
}

static void
store_number(const struct conf_key *k, void *field, int64_t v)
{
    unsigned e = (unsigned)v;
    bool b = v != 0;

    switch (types[k->type].stored) {
    case STORED_INT64:
        memcpy(field, &v, sizeof(v));
        break;
    case STORED_ENUM:
        memcpy(field, &e, sizeof(e));
        break;
    case STORED_BOOL:
        memcpy(field, &b, sizeof(b));
        break;
    default:
        assert(!"a number");
    }
}

static const char *
text_of(const void *field)
{
    const char *p;

    memcpy(&p, field, sizeof(p));
    return p != NULL ? p : "";
}

static struct conf_list *
list_of(const void *field)
{
    return (struct conf_list *)(uintptr_t)field;
}

static bool
takes_forever(const struct conf_key *k)
{
    return k->type == CONF_DURATION && k->most == DURATION_FOREVER;
}

void
conf_key_range(const struct conf_key *k, struct buf *out)
{
    const struct type_row *t = &types[k->type];
    char least[24], most[24];

    if (t->name != NULL) {
        buf_adds(out, "one of ");
        for (unsigned i = 0; t->name(i) != NULL; i++) {
            buf_printf(out, "%s%s", i > 0 ? ", " : "", t->name(i));
        }
    } else if (takes_forever(k)) {
        t->print(k->least, least);
        buf_printf(out, "%s to 8760h, or forever", least);
    } else if (t->print != NULL) {
        t->print(k->least, least);
        t->print(k->most, most);
        buf_printf(out, "%s%s%s", least, k->least < k->most ? " to " : "", k->least < k->most ? most : " only");
    } else if (t->stored == STORED_TEXT) {
        buf_printf(out, "text of up to %" PRId64 " bytes", k->most);
    } else if (t->stored == STORED_LIST) {
        buf_adds(out, "list");
    }
    if (t->print != NULL && k->unit[0] != '\0') {
        buf_printf(out, " %s", k->unit);
    }
}

void
conf_key_expects(const struct conf_key *k, struct buf *out)
{
    const struct type_row *t = &types[k->type];

    buf_adds(out, t->expects);
    if (t->name != NULL && k->type != CONF_BOOL) {
        buf_adds(out, ": ");
        conf_key_range(k, out);
    } else if (t->print != NULL) {
        buf_adds(out, " (");
        conf_key_range(k, out);
        buf_adds(out, ")");
    }
}

/* `"…" ` in front of a complaint. */
static void
show(struct slice text, struct buf *why)
{
    bool cut = text.n > SHOWN_BYTES_MAX;

    buf_adds(why, "\"");
    buf_add_escaped(why, (struct slice){text.p, cut ? SHOWN_BYTES_MAX : text.n});
    buf_adds(why, cut ? "...\" " : "\" ");
}

/* Text to the value of a field that is neither text nor list. */
static bool
parse_number(const struct conf_key *k, struct slice text, int64_t *out, struct buf *why)
{
    const struct type_row *t = &types[k->type];
    int64_t v = 0;
    bool known = false;

    if (t->name != NULL) {
        for (unsigned i = 0; t->name(i) != NULL && !known; i++) {
            known = slice_is(text, t->name(i));
            v = i;
        }
    } else if (takes_forever(k) && slice_is(text, "forever")) {
        *out = DURATION_FOREVER;
        return true;
    } else {
        known = t->parse(text, &v);
    }
    if (!known) {
        show(text, why);
        buf_adds(why, "is not ");
        conf_key_expects(k, why);
        return false;
    }
    if (k->check != NULL && !k->check(text, why)) {
        return false;
    }
    if (t->parse != NULL && (v < k->least || v > k->most)) {
        show(text, why);
        buf_adds(why, "is out of range: ");
        conf_key_range(k, why);
        return false;
    }
    *out = v;
    return true;
}

static bool
check_text(const struct conf_key *k, struct slice text, struct buf *why)
{
    if (!conf_check_printable(text, why)) {
        return false;
    }
    if ((int64_t)text.n < k->least) {
        if (text.n == 0) {
            buf_adds(why, "must not be empty");
        } else {
            buf_printf(why, "is shorter than %" PRId64 " bytes", k->least);
        }
        return false;
    }
    if ((int64_t)text.n > k->most) {
        buf_printf(why, "is longer than %" PRId64 " bytes", k->most);
        return false;
    }
    return k->check == NULL || text.n == 0 || k->check(text, why);
}

void
conf_key_clear(const struct conf_key *k, void *field)
{
    enum stored stored = types[k->type].stored;
    char *none = NULL, *text;

    if (stored == STORED_TEXT) {
        memcpy(&text, field, sizeof(text));
        if (text != NULL && (k->flags & CONF_SECRET) != 0) {
            explicit_bzero(text, strlen(text));
        }
        free(text);
        memcpy(field, &none, sizeof(none));
    } else if (stored == STORED_LIST) {
        struct conf_list *list = list_of(field);

        for (size_t i = 0; i < list->n; i++) {
            free(list->item[i]);
        }
        free(list->item);
        *list = (struct conf_list){NULL, 0};
    }
}

/* A text into its field, or behind the items of a list. */
static void
store_text(const struct conf_key *k, void *field, struct slice text)
{
    struct conf_list *list;
    char *copy = NULL;

    if (text.n > 0 || (k->flags & CONF_UNSET) == 0) {
        copy = mem_text(text);
    }
    if (types[k->type].stored == STORED_TEXT) {
        conf_key_clear(k, field);
        memcpy(field, &copy, sizeof(copy));
        return;
    }
    list = list_of(field);
    list->item = mem_array(list->item, list->n + 1, sizeof(*list->item));
    list->item[list->n++] = copy;
}

bool
conf_key_set(const struct conf_key *k, void *field, struct slice text, struct buf *why)
{
    enum stored stored = types[k->type].stored;
    int64_t v;

    assert(stored != STORED_NOT);
    if (stored != STORED_TEXT && stored != STORED_LIST) {
        if (!parse_number(k, text, &v, why)) {
            return false;
        }
        store_number(k, field, v);
        return true;
    }
    if (!check_text(k, text, why)) {
        return false;
    }
    store_text(k, field, text);
    return true;
}

void
conf_key_reset(const struct conf_key *k, void *field)
{
    struct slice left = slice_of(k->fallback);
    enum stored stored = types[k->type].stored;

    conf_key_clear(k, field);
    if (stored == STORED_TEXT) {
        store_text(k, field, left);
        return;
    }
    if (stored != STORED_LIST) {
        struct buf why;
        bool ok;

        buf_init(&why, 0);
        ok = conf_key_set(k, field, left, &why);
        assert(ok); /* every default is a good value */
        (void)ok;
        buf_fini(&why);
        return;
    }
    while (left.n > 0) {
        const char *comma = memmem(left.p, left.n, ", ", 2);
        size_t n = comma != NULL ? (size_t)(comma - left.p) : left.n;
        size_t used = comma != NULL ? n + 2 : n;

        store_text(k, field, (struct slice){left.p, n});
        left = (struct slice){left.p + used, left.n - used};
    }
}

void
conf_key_copy(const struct conf_key *k, void *field, const void *from)
{
    if (types[k->type].stored == STORED_TEXT) {
        store_text(k, field, slice_of(text_of(from)));
    } else if (types[k->type].stored == STORED_LIST) {
        conf_key_clear(k, field);
        for (size_t i = 0; i < list_of(from)->n; i++) {
            store_text(k, field, slice_of(list_of(from)->item[i]));
        }
    } else {
        store_number(k, field, number_of(k, from));
    }
}

bool
conf_key_equal(const struct conf_key *k, const void *a, const void *b)
{
    const struct conf_list *la, *lb;

    switch (types[k->type].stored) {
    case STORED_NOT:
        return true;
    case STORED_TEXT:
        return strcmp(text_of(a), text_of(b)) == 0;
    case STORED_LIST:
        la = list_of(a);
        lb = list_of(b);
        for (size_t i = 0; i < la->n && i < lb->n; i++) {
            if (strcmp(la->item[i], lb->item[i]) != 0) {
                return false;
            }
        }
        return la->n == lb->n;
    default:
        return number_of(k, a) == number_of(k, b);
    }
}

void
conf_key_text(const struct conf_key *k, const void *field, struct buf *out)
{
    const struct type_row *t = &types[k->type];
    struct slice text, secret;
    char digits[24];

    if (t->stored == STORED_LIST) {
        const struct conf_list *list = list_of(field);

        for (size_t i = 0; i < list->n; i++) {
            buf_printf(out, "%s%s", i > 0 ? ", " : "", list->item[i]);
        }
    } else if (t->stored == STORED_TEXT) {
        text = slice_of(text_of(field));
        secret = (struct slice){NULL, 0};
        if ((k->flags & CONF_SECRET) != 0) {
            secret = text;
        } else if (k->check == conf_check_url) {
            secret = conf_url_password(text);
        }
        if (secret.n == 0) {
            buf_add_slice(out, text);
        } else {
            buf_add(out, text.p, (size_t)(secret.p - text.p));
            buf_adds(out, "***");
            buf_adds(out, secret.p + secret.n);
        }
    } else if (t->name != NULL) {
        buf_adds(out, t->name((unsigned)number_of(k, field)));
    } else {
        t->print(number_of(k, field), digits);
        buf_adds(out, digits);
    }
}
