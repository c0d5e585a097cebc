/*
 * rights.c -- the test of the user's rights: one EXISTS of a key that no name is mapped to.
 */
#include "daemon/backend/rights.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/backend/call.h"
#include "daemon/base/memory.h"

void
rights_init(struct rights *r, const struct backend_conf *conf, const struct backend_env *env,
            const struct link_address *address)
{
    *r = (struct rights){.env = env, .address = address};
    if (conf->unmapped_key == NULL) {
        return;
    }
    r->unmapped_key = mem_text(slice_of(conf->unmapped_key));
    r->patterns = mem_text(slice_of(conf->patterns));
}

void
rights_fini(struct rights *r)
{
    free(r->unmapped_key);
    free(r->patterns);
}

static const char *
user_of(const struct rights *r)
{
    return r->address->user != NULL ? r->address->user : "default";
}

void
rights_advice(const struct rights *r, struct buf *out)
{
    buf_printf(out, "ACL SETUSER %s resetkeys %s", user_of(r), r->patterns);
}

static void
log_advice(const struct rights *r)
{
    struct buf advice;

    buf_init(&advice, 0);
    rights_advice(r, &advice);
    log_event(r->env->log, LOG_WARN, "redis", "rights reach beyond the keys of the rules", "address",
              LOG_S(r->address->shown), "user", LOG_S(user_of(r)), "enough", LOG_B(buf_slice(&advice)), NULL);
    buf_fini(&advice);
}

/*
 * An integer shows that the user may use the key, as does a redirect: a node of a cluster tests the rights first. Any
 * other error, such as NOPERM, shows no surplus right.
 */
static void
on_exists(void *arg, enum link_result result, const struct reply *reply, int64_t sent_us)
{
    struct rights *r = arg;

    (void)sent_us;
    r->asked = result == LINK_ANSWERED;
    r->allows_unmapped = result == LINK_ANSWERED &&
               (reply->type == REPLY_INT || (reply->type == REPLY_ERROR && call_is_redirected(reply->text)));
    if (r->allows_unmapped) {
        log_advice(r);
    }
}

void
rights_ask(struct rights *r, struct redis_link *l)
{
    struct slice word[2] = {SLICE_LIT("EXISTS")};

    if (r->unmapped_key != NULL && !r->asked) {
        word[1] = slice_of(r->unmapped_key);
        r->asked = link_send(l, 2, word, on_exists, r);
    }
}
