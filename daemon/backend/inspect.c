/*
 * inspect.c -- the answer of scripts/look.lua, for people.
 */
#include "daemon/backend/inspect.h"

#include <stdlib.h>

#include "daemon/backend/call.h"
#include "daemon/backend/text.h"

static void
on_seen(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct inspect *q = arg;
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
    q->env->seen(q->env->ctx, q->id, &seen);
    free(q);
}

struct inspect *
inspect_new(const struct backend_env *env, uint64_t id)
{
    struct inspect *q = malloc(sizeof(*q));

    if (q != NULL) {
        *q = (struct inspect){.env = env, .id = id};
        list_init(&q->node);
    }
    return q;
}

bool
inspect_send(struct inspect *q, struct redis_link *l, struct slice key)
{
    struct slice word[4] = {SLICE_LIT("EVAL"), slice_of(call_other_text(OTHER_LOOK)), SLICE_LIT("1"), key};

    return link_up(l) && link_send(l, 4, word, on_seen, q);
}

void
inspect_unseen(struct inspect *q)
{
    q->env->seen(q->env->ctx, q->id, &(struct backend_seen){.ok = false});
    free(q);
}

void
inspect_forget(link_reply_fn *fn, void *arg)
{
    if (fn == on_seen) {
        free(arg);
    }
}
