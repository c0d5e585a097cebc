/*
 * fuzz_text.c -- texts of Redis and numbers of operators: INFO's fields, errors for operators, durations, sizes, globs,
 * channel names.
 *
 * Input: the sort of text, then its bytes.
 */
#include "daemon/backend/call.h"
#include "daemon/backend/text.h"
#include "daemon/base/glob.h"
#include "daemon/base/units.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/plain_glob.h"

/* A field is cut to its room, as one printable line, and is found only if a line of the text begins with its name. */
static void
info(struct choices *c)
{
    static const char *const keys[] = {"redis_version", "run_id", "role", "maxmemory_policy", "r", ""};
    const char *key = keys[take_below(c, sizeof(keys) / sizeof(keys[0]))];
    size_t room = 1 + take_below(c, 40);
    struct slice in = take_rest(c);
    char *text = exact_copy(in, true), *out = malloc(room), begins[32];

    out[0] = '\0';
    text_info_field((struct slice){text, in.n}, key, out, room);
    CHECK(memchr(out, '\0', room) != NULL && is_printable_line(slice_of(out)));
    snprintf(begins, sizeof(begins), "%s:", key);
    CHECK(out[0] == '\0' || memmem(text, in.n, begins, strlen(begins)) != NULL);
    free(text);
    free(out);
}

static void
error(struct choices *c)
{
    struct slice in = take_rest(c);
    char *text = exact_copy(in, false), *out = malloc(20);
    bool passes, drop;

    text_print(out, 20, (struct slice){text, in.n});
    CHECK(memchr(out, '\0', 20) != NULL && is_printable_line(slice_of(out)));
    passes = text_error_is_transient((struct slice){text, in.n});
    CHECK(passes == (call_error((struct slice){text, in.n}, &drop) == CORE_DOWN));
    free(text);
    free(out);
}

/* A printed value is read back as it was; a value that is read is in bounds. */
static void
units(struct choices *c)
{
    struct slice in = take_rest(c);
    char *text = exact_copy(in, false), printed[24];
    struct slice s = {text, in.n};
    int64_t v = -1, again = -1;

    if (duration_parse(s, &v)) {
        CHECK(v >= 0 && v <= INT64_C(365) * 24 * 3600 * 1000000);
        duration_print(v, printed);
        CHECK(duration_parse(slice_of(printed), &again) && again == v, "%s", printed);
    }
    if (size_parse(s, &v)) {
        CHECK(v >= 0);
        size_print(v, printed);
        CHECK(size_parse(slice_of(printed), &again) && again == v, "%s", printed);
    }
    if (number_parse(s, &v)) {
        CHECK(v >= 0);
        CHECK(size_parse(s, &again) && again == v);
    }
    free(text);
}

static void
glob(struct choices *c)
{
    struct slice pattern = take_bytes(c, 40), name = take_rest(c);
    char *p = exact_copy(pattern, false), *n;
    bool match;

    name.n = name.n < 200 ? name.n : 200;
    n = exact_copy(name, false);
    match = glob_match((struct slice){p, pattern.n}, (struct slice){n, name.n});
    CHECK(match == plain_match((struct slice){p, pattern.n}, (struct slice){n, name.n}));
    free(p);
    free(n);
}

static void
channel(struct choices *c)
{
    enum kind kind = (enum kind)take_below(c, KINDS);
    struct slice key = take_rest(c);
    struct buf out;

    buf_init(&out, 0);
    call_channel(kind, key, &out);
    CHECK(!out.failed && out.n > key.n && (key.n == 0 || memmem(out.p, out.n, key.p, key.n) != NULL));
    buf_fini(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const of[])(struct choices *c) = {info, error, units, glob, channel};
    struct choices c = {data, size};

    if (size > 0) {
        of[take_below(&c, sizeof(of) / sizeof(of[0]))](&c);
    }
    return 0;
}
