/*
 * conf_keys.h -- the table of keys, and what can be done with one key of one conf.
 *
 * Private to conf/, but for conf_address_is_local() and conf_url_password(), which rlockd calls, too.
 *
 * The rows know their field, so everything else here is written once: reading a value, printing it, comparing it,
 * freeing it.
 */
#ifndef RLOCKD_CONF_CONF_KEYS_H
#define RLOCKD_CONF_CONF_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/conf.h"
#include "daemon/base/buf.h"
#include "daemon/base/slice.h"

enum conf_type {
    CONF_DURATION, /* int64_t, microseconds */
    CONF_SIZE,     /* int64_t, bytes */
    CONF_NUMBER,   /* int64_t */
    CONF_MODE,     /* int64_t, written in octal */
    CONF_BOOL,     /* bool */
    CONF_KIND,     /* enum kind */
    CONF_VALUE,    /* enum value_format */
    CONF_ON_LOSS,  /* enum conf_on_loss */
    CONF_FOREIGN,  /* enum conf_foreign */
    CONF_WAKES,    /* enum wakes */
    CONF_PUBLISH,  /* enum conf_publish */
    CONF_LEVEL,    /* enum log_level */
    CONF_TEXT,     /* char *, owned by the conf */
    CONF_LIST,     /* struct conf_list */
    CONF_SECTION,  /* no field: begins a section */
    CONF_RULES,    /* no field: the list of rules, and its section */
};

enum {
    CONF_RESTART = 0,      /* a reload leaves it as it is */
    CONF_RELOAD = 1 << 0,  /* a reload takes it */
    CONF_SECRET = 1 << 1,  /* printed as "***" */
    CONF_SHORT = 1 << 2,   /* another way to write a key that has its own row: read, never printed */
    CONF_UNSET = 1 << 3,   /* an empty text is kept as NULL */
};

/* What a text must be; false: `why` got a sentence. Never repeats the text: it may hold a password. */
typedef bool conf_check_fn(struct slice text, struct buf *why);

conf_check_fn conf_check_printable; /* UTF-8 without control characters: every text */
bool conf_address_is_local(const char *address); /* a Unix socket, or TCP that only this host reaches */
conf_check_fn conf_check_address; /* unix:PATH or tcp:HOST:PORT; `least` of the row decides whether "" is allowed */
conf_check_fn conf_check_url;     /* of Redis, in a form that rlockd supports */
conf_check_fn conf_check_key;     /* {name} once and no other brace */

/* The password in a URL; n == 0: it has none. */
struct slice conf_url_password(struct slice url);

struct conf_key {
    const char *section; /* "" at the top */
    const char *name;
    enum conf_type type;
    size_t offset;        /* in struct conf; `match`: in struct conf_rule */
    const char *fallback; /* the default as in the file; RULES: an example */
    int64_t least, most;
    unsigned flags;
    conf_check_fn *check; /* or NULL */
    const char *unit;
    const char *help;
};

extern const struct conf_key conf_keys[];
extern const size_t conf_keys_n;

/* The row, or NULL. */
const struct conf_key *conf_key_find(const char *section, struct slice name);

/* Does the key own a field of struct conf? Sections, `match`, and a key that is SHORT for another do not. */
bool conf_key_in_conf(const struct conf_key *k);

/* The key that names a file with the value of this secret; NULL for all other keys. */
const struct conf_key *conf_key_file_of(const struct conf_key *k);

/* Is this one of the keys that a rule may set? */
bool conf_key_in_rule(const struct conf_key *k);

/* Whether a reload leaves the key as it is. False for what a rule may set: conf_same_keys() compares keys in Redis. */
bool conf_key_needs_restart(const struct conf_key *k);

/* The field of a key: in the conf, or in one of its rules (rule != NULL). */
void *conf_key_field(const struct conf_key *k, const struct conf *cf, const struct conf_rule *rule);

/*
 * Reads text into the field; a LIST takes it as one more item. False: the field is as it was, and `why` got a sentence,
 * which never repeats a secret.
 */
bool conf_key_set(const struct conf_key *k, void *field, struct slice text, struct buf *why);

/* "a duration such as 30s (1s to 24h)" */
void conf_key_expects(const struct conf_key *k, struct buf *out);

/* Only the range: "1s to 24h", "one of ...", "text of up to 128 bytes", "list"; of sections and rules nothing. */
void conf_key_range(const struct conf_key *k, struct buf *out);

/* Sets the default. */
void conf_key_reset(const struct conf_key *k, void *field);

/* Sets what another field of the same key has. */
void conf_key_copy(const struct conf_key *k, void *field, const void *from);

/* Frees and, for secrets, wipes what the field owns. */
void conf_key_clear(const struct conf_key *k, void *field);

bool conf_key_equal(const struct conf_key *k, const void *a, const void *b);

/* The value as plain text; secrets as "***", also those within a URL. */
void conf_key_text(const struct conf_key *k, const void *field, struct buf *out);

/* Every key at its default, no rules. */
struct conf *conf_new(void);

#endif
