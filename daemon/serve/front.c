/*
 * front.c -- translates the commands of lock libraries made for Redis into the core's terms.
 *
 * Owns the table of scripts, by the SHA-1 of their texts, and what each layout of their arguments means. A call is
 * whole only when a function here has returned true; then its names and its owner are of allowed lengths, and the names
 * differ.
 */
#include "daemon/serve/front.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "daemon/backend/sha1.h"
#include "daemon/base/clock.h"
#include "daemon/base/units.h"
#include "proto/options.h"

#define LEASE_MS_LEAST 10 /* as of LOCK */
#define TIME_BOUNDS "10 ms to 2^63-1 ms"
#define SHOWN_BYTES 32 /* of a wrong word */
#define NONE (-1)

static bool __attribute__((format(printf, 2, 3)))
fail(char error[FRONT_ERROR_BYTES], const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(error, FRONT_ERROR_BYTES, fmt, args);
    va_end(args);
    return false;
}

static int
shown_n(struct slice word)
{
    return word.n < SHOWN_BYTES ? (int)word.n : SHOWN_BYTES;
}

/* ---- words ---- */

/* A whole number of units, 10 ms at least. More than 365 days, which Redis accepts, are accepted as 365 days. */
static bool
read_time(struct slice word, int64_t unit_ms, int64_t *us)
{
    const int64_t most = FRONT_LEASE_US_MAX / US_PER_MS / unit_ms;
    int64_t n;

    if (!number_parse(word, &n) || n < 1 || n > INT64_MAX / unit_ms || n * unit_ms < LEASE_MS_LEAST) {
        return false;
    }
    *us = (n < most ? n : most) * unit_ms * US_PER_MS;
    return true;
}

static bool
check_names(const struct front_call *fc, size_t bytes_max, char error[FRONT_ERROR_BYTES])
{
    unsigned i, k;

    for (i = 0; i < fc->names; i++) {
        if (fc->name[i].n == 0 || fc->name[i].n > bytes_max) {
            return fail(error, "a name has 1 to %zu bytes", bytes_max);
        }
        for (k = 0; k < i; k++) {
            if (slice_eq(fc->name[i], fc->name[k])) {
                return fail(error, "the name '%.*s' is given twice", shown_n(fc->name[i]), fc->name[i].p);
            }
        }
    }
    return true;
}

static bool
check_owner(struct slice owner, char error[FRONT_ERROR_BYTES])
{
    if (owner.n >= 1 && owner.n <= OPTIONS_OWNER_BYTES_MAX) {
        return true;
    }
    return fail(error, "the value names the owner of the lock: 1 to %d bytes", OPTIONS_OWNER_BYTES_MAX);
}

/* ---- SET ---- */

static const struct set_option {
    const char *word;
    int64_t unit_ms; /* 0 = no number follows */
    const char *unit;
} set_options[] = {{"NX", 0, NULL}, {"PX", 1, "milliseconds"}, {"EX", 1000, "seconds"}};

static const struct set_option *
find_set_option(struct slice word)
{
    size_t i;

    for (i = 0; i < sizeof(set_options) / sizeof(set_options[0]); i++) {
        if (slice_is(word, set_options[i].word)) {
            return &set_options[i];
        }
    }
    return NULL;
}

static bool
refuse_set(char error[FRONT_ERROR_BYTES], const char *why, struct slice word)
{
    return fail(error, "SET takes a lock here, and nothing else: SET %s; %s%.*s", command_rows[CMD_SET].usage, why,
                shown_n(word), word.p == NULL ? "" : word.p);
}

bool
front_read_set(const struct words *w, size_t name_bytes_max, struct front_call *out, char error[FRONT_ERROR_BYTES])
{
    bool nx = false;
    unsigned i;

    *out = (struct front_call){
        .event = CORE_LOCK, .form = FORM_SET, .name = &w->word[1], .names = 1, .owner = w->word[2]};
    for (i = 3; i < w->n; i++) {
        const struct set_option *o = find_set_option(w->word[i]);

        if (o == NULL) {
            return refuse_set(error, "it has no option ", w->word[i]);
        }
        if (o->unit_ms == 0 ? nx : out->lease_us != 0) {
            return refuse_set(error, "given twice: ", w->word[i]);
        }
        if (o->unit_ms == 0) {
            nx = true;
        } else if (++i == w->n || !read_time(w->word[i], o->unit_ms, &out->lease_us)) {
            return fail(error, "invalid expire time in 'set' command: %s takes a whole number of %s, " TIME_BOUNDS,
                        o->word, o->unit);
        }
    }
    if (!nx) {
        return refuse_set(error, "NX is missing", (struct slice){NULL, 0});
    }
    return check_names(out, name_bytes_max, error) && check_owner(out->owner, error);
}

/* ---- scripts ---- */

/* What scripts do to locks, and where their words are. Libraries share layouts. */
enum layout_id { PY_RELEASE, PY_EXTEND, PY_REACQUIRE, MANY_ACQUIRE, MANY_EXTEND, MANY_RELEASE, WL_RELOCK };

static const struct layout {
    const char *what;
    enum core_event_type event;
    enum reply_form form;
    unsigned keys_min, keys_max, args; /* words, as the client counts them */
    unsigned names;                    /* the number of keys that are names of locks; 0 = all */
    int owner, lease_ms, replaces;     /* which of the words behind the names; NONE = there is none */
} layouts[] = {
    [PY_RELEASE] = {"release", CORE_UNLOCK, FORM_COUNT, 1, 1, 1, 0, 0, NONE, NONE},
    [PY_EXTEND] = {"extend", CORE_RENEW, FORM_ALL, 1, 1, 3, 0, 0, 1, 2},
    [PY_REACQUIRE] = {"reacquire", CORE_RENEW, FORM_ALL, 1, 1, 2, 0, 0, 1, NONE},
    [MANY_ACQUIRE] = {"acquire", CORE_LOCK, FORM_ALL, 1, CORE_MULTILOCK_MAX, 2, 0, 0, 1, NONE},
    [MANY_EXTEND] = {"extend", CORE_RENEW, FORM_ALL, 1, CORE_MULTILOCK_MAX, 2, 0, 0, 1, NONE},
    [MANY_RELEASE] = {"release", CORE_UNLOCK, FORM_COUNT, 1, CORE_MULTILOCK_MAX, 1, 0, 0, NONE, NONE},
    /* The author of warlock's script passes value and time as keys. */
    [WL_RELOCK] = {"touch", CORE_RENEW, FORM_STATUS, 3, 3, 0, 1, 1, 0, NONE},
};

struct front_script {
    const char *sha;     /* of the text, as the library sends it */
    enum layout_id layout;
    const char *library;
};

static const struct front_script scripts[] = {
    {"c3f8721cbb97f72bc19e972846bd7aaf91901658", PY_RELEASE, "redis-py"},
    {"a4e8783852e6b949f9ef3a97212805108459a890", PY_EXTEND, "redis-py"},
    {"1cac51482acf5858da00f6d685d68f886cd6b6b2", PY_REACQUIRE, "redis-py"},
    {"96da70f7716f27d278a5218544df37fd8b0a5e4c", MANY_ACQUIRE, "redlock 5"},
    {"aed6f382e410db8ba7926d4e5e9aab410bf2a78a", MANY_EXTEND, "redlock 5"},
    {"e4612211c9f8f51c257e26e056b0a654b3187242", MANY_RELEASE, "redlock 5"},
    {"e5a322e2634ef59a516e8ea150cb085afafee684", MANY_ACQUIRE, "redlock 4.2"},
    {"ce46f80993d5dac20dd066eb301a4e37994bdbed", MANY_EXTEND, "redlock 4.2"},
    {"0f0f23b9048b36752b5be114f357ba083449f908", MANY_RELEASE, "redlock 4.2"},
    {"5cc368fb92acd8fee3a986dc8e971d6cf28c3b44", PY_RELEASE, "node-redis-warlock 1.0.2"},
    {"8797e0a1d8a2721e3b17f21ae1236166a81be165", PY_RELEASE, "node-redis-warlock 1.0.0"},
    {"78d3bb55c589f1b2edf66f3527f5017f8dfcd6bb", WL_RELOCK, "node-redis-warlock 1.0.2"},
};

const struct front_script *
front_by_sha(struct slice sha)
{
    size_t i;

    for (i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        if (slice_is(sha, scripts[i].sha)) {
            return &scripts[i];
        }
    }
    return NULL;
}

const struct front_script *
front_by_text(struct slice text)
{
    char sha[SHA1_HEX_BYTES + 1];

    sha1_hex(text, sha);
    return front_by_sha(slice_of(sha));
}

/* Behind the script: the number of keys, the keys, the arguments. */
static bool
count_words(const struct front_script *sc, const struct words *w, unsigned *keys, char error[FRONT_ERROR_BYTES])
{
    const struct layout *lo = &layouts[sc->layout];
    int64_t n;

    if (!number_parse(w->word[2], &n)) {
        return fail(error, "value is not an integer or out of range");
    }
    if (n > (int64_t)w->n - 3) {
        return fail(error, "Number of keys can't be greater than number of args");
    }
    *keys = (unsigned)n;
    if (*keys < lo->keys_min || *keys > lo->keys_max || w->n - 3 - *keys != lo->args) {
        return fail(error, "the script to %s of %s takes %u%s and %u more, not %u and %u", lo->what, sc->library,
                    lo->keys_min, lo->keys_max > lo->keys_min ? " or more keys" : " key(s)", lo->args, *keys,
                    w->n - 3 - *keys);
    }
    return true;
}

bool
front_read_script(const struct front_script *sc, const struct words *w, size_t name_bytes_max, struct front_call *out,
                  char error[FRONT_ERROR_BYTES])
{
    const struct layout *lo = &layouts[sc->layout];
    const struct slice *rest;
    unsigned keys = 0;

    if (!count_words(sc, w, &keys, error)) {
        return false;
    }
    *out = (struct front_call){.event = lo->event, .form = lo->form, .name = &w->word[3]};
    out->names = lo->names != 0 ? lo->names : keys;
    rest = out->name + out->names;
    out->owner = rest[lo->owner];
    if (lo->lease_ms != NONE && !read_time(rest[lo->lease_ms], 1, &out->lease_us)) {
        return fail(error, "the time must be a whole number of milliseconds, " TIME_BOUNDS ", not '%.*s'",
                    shown_n(rest[lo->lease_ms]), rest[lo->lease_ms].p);
    }
    out->adds = lo->replaces != NONE && slice_eq(rest[lo->replaces], SLICE_LIT("0"));
    return check_names(out, name_bytes_max, error) && check_owner(out->owner, error);
}

/* ---- order ---- */

bool
front_in_turn(enum command_id id, const struct words *w)
{
    const struct front_script *sc = NULL;

    if (id == CMD_EVAL) {
        sc = front_by_text(w->word[1]);
    } else if (id == CMD_EVALSHA) {
        sc = front_by_sha(w->word[1]);
    }
    return id == CMD_DEL || (sc != NULL && layouts[sc->layout].replaces != NONE);
}
