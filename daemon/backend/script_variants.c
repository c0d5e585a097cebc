/*
 * script_variants.c -- other variants of the scripts, made from their plain texts: what differs is a word or two.
 */
#include "daemon/backend/script_variants.h"

#include <assert.h>
#include <stdlib.h>

/* Copies the text, and replaces each `from` by `to`; returns their number. */
static unsigned
replace(struct buf *out, const char *text, const char *from, const char *to)
{
    const char *at;
    unsigned n = 0;

    for (; (at = strstr(text, from)) != NULL; text = at + strlen(from), n++) {
        buf_add(out, text, (size_t)(at - text));
        buf_adds(out, to);
    }
    buf_adds(out, text);
    buf_add(out, "", 1);
    return n;
}

static char *
sharded_variant(const char *text)
{
    struct buf out;

    buf_init(&out, 0);
    (void)replace(&out, text, "'PUBLISH'", "'SPUBLISH'");
    return out.p;
}

/* Publishes by PUBLISH as well; the number of subscribers is that of both channels at this node. */
static char *
both_variant(const char *text)
{
    struct buf out;
    unsigned n;

    buf_init(&out, 0);
    n = replace(&out, text, "local receivers = pcall('PUBLISH', channel, number)\n",
                "local receivers, plain = pcall('SPUBLISH', channel, number), pcall('PUBLISH', channel, number)\n"
                "receivers = (tonumber(receivers) or 0) + (tonumber(plain) or 0)\n");
    assert(n == (strstr(text, "PUBLISH") != NULL));
    return out.p;
}

static char *
both_bundle(void)
{
    struct buf out;
    unsigned n;

    buf_init(&out, 0);
    n = replace(&out, call_other_text(OTHER_BUNDLE), "and pcall('SPUBLISH', ARGV[i + 2], '0')\n",
                "and (tonumber(pcall('SPUBLISH', ARGV[i + 2], '0')) or 0) + "
                "(tonumber(pcall('PUBLISH', ARGV[i + 2], '0')) or 0)\n");
    assert(n == 1);
    return out.p;
}

/* Replaces the names of rlock:clock and rlock:epoch by '', and presets an epoch that no call expects. */
static char *
one_key_variant(const char *text)
{
    struct buf keys, out;
    unsigned n;

    buf_init(&keys, 0);
    buf_init(&out, 0);
    n = replace(&keys, text, "redis.pcall, KEYS, ARGV", "redis.pcall, {'', '', KEYS[1]}, ARGV");
    assert(n == 1);
    n = replace(&out, keys.p, "local failed, last, clock, epoch, reserve_denied\n",
                "local failed, last, clock, epoch, reserve_denied\nepoch = false\n");
    assert(n == 1);
    buf_fini(&keys);
    return out.p;
}

/* Whether renew and release of the kind use no key but the name's. KIND_F_ONE_KEY is narrower: see kinds.h. */
static bool
uses_one_key(enum kind kind)
{
    return kind == KIND_REENTRANT || kind == KIND_SIMPLE || kind == KIND_COUNTER;
}

const struct script_variants script_variants_of_quorum = {.of_quorum = true};

void
script_variants_init(struct script_variants *f, bool sharded, bool both)
{
    *f = (struct script_variants){.sharded = sharded, .publishes_both = sharded && both};
    f->bundle = f->publishes_both ? both_bundle() : NULL;
    for (int verb = 0; verb < VERBS; verb++) {
        for (int kind = 0; kind < KINDS; kind++) {
            const char *text = call_script_text((enum call_verb)verb, (enum kind)kind);

            if (sharded) {
                text = f->text[verb][kind] = both ? both_variant(text) : sharded_variant(text);
            }
            if ((verb == VERB_RENEW || verb == VERB_RELEASE) && uses_one_key((enum kind)kind)) {
                f->one_key[verb][kind] = one_key_variant(text);
            }
        }
    }
}

void
script_variants_fini(struct script_variants *f)
{
    for (int verb = 0; verb < VERBS; verb++) {
        for (int kind = 0; kind < KINDS; kind++) {
            free(f->text[verb][kind]);
            free(f->one_key[verb][kind]);
        }
    }
    free(f->bundle);
    *f = (struct script_variants){.sharded = false};
}

const char *
script_variants_text(const struct script_variants *f, enum call_verb verb, enum kind kind, bool one_key)
{
    if (one_key) {
        return f != NULL ? f->one_key[verb][kind] : NULL;
    }
    if (f != NULL && f->of_quorum && call_quorum_text(verb, kind) != NULL) {
        return call_quorum_text(verb, kind);
    }
    return f != NULL && f->text[verb][kind] != NULL ? f->text[verb][kind] : call_script_text(verb, kind);
}

const char *
script_variants_bundle(const struct script_variants *f)
{
    return f != NULL && f->bundle != NULL ? f->bundle : call_other_text(OTHER_BUNDLE);
}
