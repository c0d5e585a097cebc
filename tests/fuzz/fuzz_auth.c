/*
 * fuzz_auth.c -- a connection before AUTH, on a daemon with a password: none of its bytes reach the core, it can
 * neither send more than a few bytes nor stay for long, and only a client that has sent the password is admitted.
 *
 * Input: the set of passwords, then a script as in talk.h.
 */
#include "tests/fuzz/talk.h"

#define PASSWORD "sesame"
#define ADMIN_PASSWORD "open it"

static bool sent_password[TALKERS], sent_admin[TALKERS];
static struct talk *running;

static void
note_secrets(struct talker *t, const struct words *w)
{
    size_t at = (size_t)(t - running->t);

    for (unsigned i = 1; i < w->n; i++) {
        sent_password[at] |= slice_eq(w->word[i], SLICE_LIT(PASSWORD));
        sent_admin[at] |= slice_eq(w->word[i], SLICE_LIT(ADMIN_PASSWORD));
    }
    /*
     * The reader of an admitted session has other limits than the model: then the test checks only the form of replies.
     */
    t->loose |= sent_password[at] || sent_admin[at];
}

static void
check_sessions(const struct talk *k)
{
    bool known = false;

    for (int i = 0; i < TALKERS; i++) {
        const struct talker *t = &k->t[i];
        const struct session *s = t->open ? session_find(engine, t->c.id) : NULL;

        known |= sent_password[i] || sent_admin[i];
        if (s == NULL) {
            continue;
        }
        CHECK(!s->authed || sent_password[i] || sent_admin[i], "in without a password");
        CHECK(!s->admin || sent_admin[i] || (s->authed && conf->auth_admin_password == NULL));
        CHECK(s->authed || s->unauthed_bytes <= (size_t)conf->auth_bytes || s->framing_lost);
        /* Framing of 64 words and one request may be buffered; and no more, after all input was read. */
        CHECK(s->authed || s->reader.in.n <= (size_t)conf->auth_bytes + 64 * 32 || s->buffered || s->readable);
        CHECK(s->authed || (s->subscriptions == NULL && !list_linked(&s->monitor_node)));
    }
    CHECK(known || (redis->acquires == 0 && redis->releases == 0 && core_totals(engine->core).locks == 0),
          "a client before AUTH reached the core");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct choices c = {data, size};
    struct talk k = {.on_words = note_secrets, .spare = 1}; /* for "too much before AUTH" */
    unsigned how = take_byte(&c);

    memset(sent_password, 0, sizeof(sent_password));
    memset(sent_admin, 0, sizeof(sent_admin));
    running = &k;
    build();
    conf->auth_unix = true;
    conf->auth_password = strdup(PASSWORD);
    conf->auth_admin_password = how & 1 ? strdup(ADMIN_PASSWORD) : NULL;
    engine->redis_up = true;
    talk(&k, &c);
    talk_settle(&k);
    check_sessions(&k);
    virtual_us += conf->auth_timeout_us + 1;
    turn();
    for (int i = 0; i < TALKERS; i++) {
        const struct session *s = k.t[i].open ? session_find(engine, k.t[i].c.id) : NULL;

        CHECK(s == NULL || s->authed, "a session stays without AUTH");
    }
    k.killed = true; /* sessions without a password were closed before they had their answers */
    talk_end(&k);
    take_down();
    return 0;
}
