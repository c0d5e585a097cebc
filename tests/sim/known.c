/*
 * known.c -- the shipped scripts by text and by digest, so that their kilobytes are not hashed for each of a million
 * connections.
 */
#include "daemon/backend/call.h"
#include "daemon/backend/script_variants.h"
#include "daemon/backend/sha1.h"
#include "tests/sim/sim.h"

/*
 * Scripts of a verb and a kind come first; then the other scripts; then the first ones' variants: for a cluster, for a
 * quorum.
 */
enum {
    CALLS = VERBS * KINDS,
    VARIANTS = CALLS + OTHERS,
    OF_QUORUM = VARIANTS + 2 * CALLS,
    SCRIPTS_N = OF_QUORUM + CALLS,
};

static struct {
    struct slice text;
    char sha[SHA1_HEX_BYTES + 1];
} rows[SCRIPTS_N];
static bool made;

/* NULL: the kind has no such form. */
static const char *
text_of(const struct script_variants *variants, int i)
{
    int call = i < VARIANTS ? i : (i - VARIANTS) % CALLS;

    if (i >= CALLS && i < VARIANTS) {
        return call_other_text((enum other_script)(i - CALLS));
    }
    variants = i < VARIANTS ? NULL : i < OF_QUORUM ? variants : &script_variants_of_quorum;
    return script_variants_text(variants, (enum call_verb)(call / KINDS), (enum kind)(call % KINDS),
                                i >= VARIANTS + CALLS && i < OF_QUORUM);
}

static void
make(void)
{
    static struct script_variants variants; /* its texts live as long as the rows */

    _Static_assert((int)SCRIPTS_N <= (int)SCRIPTS, "server.loaded has a place for each");
    script_variants_init(&variants, true, false);
    for (int i = 0; i < SCRIPTS_N; i++) {
        const char *text = text_of(&variants, i);

        rows[i].text = slice_of(text != NULL ? text : "");
        sha1_hex(rows[i].text, rows[i].sha);
    }
    made = true;
}

int
scripts_find(struct slice text)
{
    if (!made) {
        make();
    }
    for (int i = 0; i < SCRIPTS_N; i++) {
        if (slice_eq(text, rows[i].text)) {
            return i;
        }
    }
    return -1;
}

int
scripts_by_sha(struct slice sha)
{
    if (!made) {
        make();
    }
    for (int i = 0; i < SCRIPTS_N; i++) {
        if (sha.n == 40 && memcmp(sha.p, rows[i].sha, 40) == 0) {
            return i;
        }
    }
    return -1;
}

const char *
scripts_sha(int script)
{
    return rows[script].sha;
}

bool
scripts_is_beat(int script)
{
    return script == CALLS + OTHER_MEMBERSHIP || script == CALLS + OTHER_ANCHOR || script == CALLS + OTHER_NODE;
}

bool
scripts_is_node(int script)
{
    return script == CALLS + OTHER_NODE;
}

bool
scripts_is_record(int script)
{
    return script == CALLS + OTHER_RECORD;
}

bool
scripts_is_call(int script)
{
    return (script >= 0 && script < CALLS) || script >= VARIANTS;
}

int
scripts_verb(int script)
{
    return (script < VARIANTS ? script : (script - VARIANTS) % CALLS) / KINDS;
}

enum kind
scripts_kind(int script)
{
    return (enum kind)((script < VARIANTS ? script : (script - VARIANTS) % CALLS) % KINDS);
}
