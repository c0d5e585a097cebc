/*
 * fuzz_sentinel.c -- the answers of one sentinel: accepted hosts, ports and ids are in bounds, and no question is asked
 * twice at a time. The links are in this file, so the input bytes answer the commands of sentinel_link.c.
 *
 * Input: a byte for the number of steps, the steps (a letter of step()), then replies as RESP.
 */
#include <hiredis.h>

#include "daemon/backend/address.h"
#include "daemon/backend/backend_status.h"
#include "daemon/backend/sentinel_link.h"
#include "tests/fuzz/fuzz.h"

enum { QUESTIONS_MAX = 64, STEPS_MAX = 48 };

struct redis_link {
    struct link_callbacks callbacks;
    bool up, open;
    struct {
        link_reply_fn *fn;
        void *arg;
        bool master; /* it asks for the master */
    } question[QUESTIONS_MAX];
    size_t questions_n;
};

static struct redis_link links[2];
static const char *failed;

/* ---- link.h, as far as sentinel_link.c needs it ---- */

struct redis_link *
link_open(const struct link_address *address, const struct backend_conf *conf, const struct backend_env *env,
          struct resolver *resolver, bool subscriber, struct link_callbacks callbacks)
{
    (void)address;
    (void)conf;
    (void)env;
    (void)resolver;
    links[subscriber] = (struct redis_link){.callbacks = callbacks, .open = true};
    return &links[subscriber];
}

void
link_close(struct redis_link **l, void (*forget)(link_reply_fn *fn, void *arg))
{
    (void)forget;
    (*l)->open = false;
    *l = NULL;
}

bool
link_send(struct redis_link *l, int words, const struct slice *word, link_reply_fn *fn, void *arg)
{
    CHECK(l->open && words >= 2 && words <= 3);
    if (!l->up) {
        return false;
    }
    CHECK(l->questions_n < QUESTIONS_MAX, "questions without a bound");
    l->question[l->questions_n].fn = fn;
    l->question[l->questions_n].arg = arg;
    l->question[l->questions_n++].master = slice_eq(word[1], SLICE_LIT("GET-MASTER-ADDR-BY-NAME"));
    return true;
}

bool
link_up(const struct redis_link *l)
{
    return l->up;
}

const char *
link_last_error(const struct redis_link *l)
{
    (void)l;
    return failed != NULL ? failed : "";
}

int64_t
link_rtt_us(const struct redis_link *l)
{
    (void)l;
    return 1;
}

void
link_fail(struct redis_link *l, const char *reason)
{
    CHECK(l == &links[0]);
    failed = reason;
}

/* ---- events ---- */

static void
check_host(const char *host)
{
    size_t n = strnlen(host, HOST_ROOM);

    CHECK(n > 0 && n < HOST_ROOM && strspn(host, "0123456789abcdefghijklmnopqrstuvwxyz"
                                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._:%") == n, "%s", host);
}

static void
on_changed(void *ctx)
{
    (void)ctx;
}

static void
on_discovered(void *ctx, struct slice id, const char *host, int port)
{
    (void)ctx;
    CHECK(id.p != NULL && port >= 1 && port <= 65535);
    check_host(host);
}

static void
answer(struct redis_link *l, enum link_result result, const struct reply *r)
{
    link_reply_fn *fn = l->question[0].fn;
    void *arg = l->question[0].arg;

    l->questions_n--;
    memmove(l->question, l->question + 1, l->questions_n * sizeof(l->question[0]));
    fn(arg, result, r, clock_now_us());
}

/* All open questions end as UNKNOWN; then the owner of the link is informed. */
static void
lose(struct redis_link *l)
{
    l->up = false;
    while (l->questions_n > 0) {
        answer(l, LINK_UNKNOWN, NULL);
    }
    failed = NULL;
    l->callbacks.state(l->callbacks.ctx, l, false);
}

static void
greet(struct redis_link *l)
{
    if (!l->up) {
        l->up = true;
        l->callbacks.greet(l->callbacks.ctx, l);
    }
}

static void
step(struct sentinel *s, struct redisReader *reader, unsigned what)
{
    struct redis_link *l = &links[what & 1];
    void *reply = NULL;

    switch (what >> 1 & 7) {
    case 0:
        greet(l);
        break;
    case 1:
        l->callbacks.state(l->callbacks.ctx, l, l->up);
        break;
    case 2:
        lose(l);
        break;
    case 3:
        if (l->up && l->callbacks.message != NULL) {
            l->callbacks.message(l->callbacks.ctx, SLICE_LIT("+switch-master"), NULL);
        }
        break;
    case 4:
        clock_advance_us(3 * US_PER_S);
        sentinel_ask(s, false);
        break;
    default:
        if (l->questions_n > 0 && redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
            answer(l, LINK_ANSWERED, reply);
            reply_free(reply);
        }
    }
    if (failed != NULL) { /* the loop's next turn */
        lose(&links[0]);
    }
}

static void
check(const struct sentinel *s)
{
    const struct sentinel_answer *answer = sentinel_answer(s), *each[2] = {answer, answer};
    const struct sentinel_replica *replica;
    size_t n = sentinel_replicas(s, &replica), asked = 0;
    struct sentinel_verdict verdict;
    struct backend_node node;

    CHECK(memchr(answer->id, '\0', sizeof(answer->id)) != NULL && is_printable_line(slice_of(answer->id)));
    if (answer->host[0] != '\0') {
        CHECK(answer->port >= 1 && answer->port <= 65535 && answer->asked_us != 0);
        check_host(answer->host);
    }
    CHECK(n <= SENTINEL_REPLICAS_MAX && answer->others <= REPLY_ITEMS_MAX && sentinel_down_after_ms(s) >= 0);
    for (size_t i = 0; i < n; i++) {
        CHECK(replica[i].port >= 1 && replica[i].port <= 65535);
        check_host(replica[i].host);
    }
    for (size_t i = 0; i < links[0].questions_n; i++) {
        asked += links[0].question[i].master;
    }
    CHECK(asked <= 1, "%zu questions for the master at a time", asked);
    sentinel_node(s, &node);
    CHECK(strcmp(node.address, "sentinel") == 0 && node.state[0] != '\0');
    sentinel_answers_count(each, 2, 1, clock_now_us(), &verdict);
    CHECK(verdict.answering_n <= 1 && verdict.known_n >= 1, "two addresses of one sentinel count once");
    CHECK((verdict.master != NULL) == (verdict.until_us != 0) && (verdict.master == NULL || answer->others == 0));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct choices c = {data, size};
    struct slice steps = take_bytes(&c, STEPS_MAX), in = take_rest(&c);
    struct sentinel_events events = {on_changed, on_discovered, NULL};
    struct link_address *address = calloc(1, sizeof(*address));
    struct log log;
    struct backend_env env = {.log = &log};
    struct backend_conf conf = {0};
    struct redisReader *reader = reply_reader_new(NULL);
    struct sentinel *s;

    CHECK(address != NULL && reader != NULL);
    snprintf(address->shown, sizeof(address->shown), "sentinel");
    log_init(&log);
    log.level = LOG_ERROR;
    clock_stop(true);
    failed = NULL;
    s = sentinel_open(address, "m", &conf, &env, NULL, events);
    if (redisReaderFeed(reader, in.p, in.n) == REDIS_OK) {
        for (size_t i = 0; i < steps.n; i++) {
            step(s, reader, (uint8_t)steps.p[i]);
            check(s);
        }
    }
    sentinel_close(&s);
    CHECK(s == NULL && !links[0].open && !links[1].open);
    redisReaderFree(reader);
    return 0;
}
