/*
 * known.c -- our scripts by text and by digest, so that their kilobytes need not be hashed for each of a million
 * connections.
 */
#include "daemon/backend/call.h"
#include "daemon/backend/sha1.h"
#include "tests/sim/sim.h"

/* Those of a verb and a kind first. */
enum { CALLS = VERBS * KINDS, SCRIPTS_N = CALLS + OTHERS };

static struct {
    struct slice text;
    char sha[SHA1_HEX_BYTES + 1];
} rows[SCRIPTS_N];
static bool made;

static void
make(void)
{
    for (int i = 0; i < SCRIPTS_N; i++) {
        rows[i].text = slice_of(i < CALLS ? call_script_text((enum call_verb)(i / KINDS), (enum kind)(i % KINDS))
                                          : call_other_text((enum other_script)(i - CALLS)));
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
    return script == CALLS + OTHER_PRESENCE;
}

bool
scripts_is_call(int script)
{
    return script >= 0 && script < CALLS;
}

int
scripts_verb(int script)
{
    return script / KINDS;
}

enum kind
scripts_kind(int script)
{
    return (enum kind)(script % KINDS);
}
