/*
 * inspect.c -- the answer of scripts/look.lua, for people.
 */
#include "daemon/backend/inspect.h"

#include <stdlib.h>

#include "daemon/backend/call.h"
#include "daemon/backend/text.h"

struct inspect {
    const struct backend_env *env;
    uint64_t id;
};

static void
on_seen(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct inspect *lk = arg;
    struct backend_seen seen = {.pttl_ms = -1};

    (void)sent_us;
    if (result == LINK_ANSWERED && r->type == REPLY_ARRAY && r->count == 5 && r->item[1]->type >= REPLY_TEXT &&
        r->item[2]->type == REPLY_TEXT && r->item[3]->type == REPLY_INT && r->item[4]->type == REPLY_INT) {
        seen.ok = true;
        seen.exists = !slice_is(r->item[1]->text, "none");
        text_print(seen.type, sizeof(seen.type), r->item[1]->text);
        text_print(seen.owner, sizeof(seen.owner), r->item[2]->text);
        seen.holds = r->item[3]->n;
        seen.pttl_ms = r->item[4]->n < 0 ? -1 : r->item[4]->n;
    }
    lk->env->seen(lk->env->ctx, lk->id, &seen);
    free(lk);
}

bool
inspect_send(const struct backend_env *env, struct redis_link *l, uint64_t id, struct slice key)
{
    struct slice word[4] = {SLICE_LIT("EVAL"), slice_of(call_other_text(OTHER_LOOK)), SLICE_LIT("1"), key};
    struct inspect *lk = link_up(l) ? malloc(sizeof(*lk)) : NULL;

    if (lk == NULL) {
        return false;
    }
    *lk = (struct inspect){env, id};
    if (!link_send(l, 4, word, on_seen, lk)) {
        free(lk);
        return false;
    }
    return true;
}

void
inspect_forget(link_reply_fn *fn, void *arg)
{
    if (fn == on_seen) {
        free(arg);
    }
}
