/*
 * fuzz_map.c -- answers to CLUSTER NODES, one after the other: a refused one changes nothing; the map of the accepted
 * ones keeps CM1 to CM4 of cluster_map.h, and all its values are in bounds.
 *
 * Input: answers, each after a byte of bits (1: may replace the map, 2: by TLS) and up to a NUL.
 */
#include "daemon/backend/cluster_map.h"
#include "tests/fuzz/fuzz.h"

enum { NODES_MAX = 2 * CLUSTER_NODES_MAX, ANSWERS_MAX = 16 };

static void
check_host(const char *host, size_t least)
{
    size_t n = strnlen(host, HOST_ROOM);

    CHECK(n >= least && n < HOST_ROOM);
    CHECK(strspn(host, "?0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._:%") == n, "%s", host);
}

static void
check_map(const struct cluster_map *m)
{
    static unsigned slots_n[NODES_MAX];

    CHECK(m->nodes_n <= NODES_MAX);
    memset(slots_n, 0, sizeof(slots_n));
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        CHECK(m->owner[slot] == CLUSTER_NO_OWNER || m->owner[slot] < m->nodes_n);
        if (m->owner[slot] != CLUSTER_NO_OWNER) {
            slots_n[m->owner[slot]]++;
        }
    }
    for (size_t i = 0; i < m->nodes_n; i++) {
        const struct cluster_node *n = &m->node[i];

        CHECK(strnlen(n->id, CLUSTER_ID_ROOM) < CLUSTER_ID_ROOM && n->slots_n == slots_n[i]);
        CHECK(n->port >= 0 && n->port <= 65535 && n->epoch <= INT64_MAX);
        check_host(n->host, 1);
        check_host(n->name, 0);
        CHECK(cluster_map_at(m, n->host, n->port) != NULL && cluster_map_at(m, n->host, n->port)->port == n->port);
    }
}

/* A copy for comparison. */
static struct cluster_map *
copy_of(const struct cluster_map *m)
{
    struct cluster_map *copy = malloc(sizeof(*copy));

    CHECK(copy != NULL);
    *copy = *m;
    copy->node = malloc((m->nodes_n + 1) * sizeof(*m->node));
    CHECK(copy->node != NULL);
    if (m->nodes_n > 0) {
        memcpy(copy->node, m->node, m->nodes_n * sizeof(*m->node));
    }
    return copy;
}

static const char *
owner(const struct cluster_map *m, unsigned slot)
{
    return m->owner[slot] == CLUSTER_NO_OWNER ? "" : m->node[m->owner[slot]].id;
}

static void
check_slots(const struct cluster_map *was, const struct cluster_map *is, const struct cluster_news *news)
{
    unsigned moved = 0;

    for (unsigned slot = 0; slot < SLOTS; slot++) {
        const char *before = owner(was, slot), *now = owner(is, slot);
        bool same = strcmp(before, now) == 0;

        moved += slot_set_has(&news->moved, (uint16_t)slot);
        if (news->other_cluster) {
            continue;
        }
        CHECK(slot_set_has(&news->moved, (uint16_t)slot) == (!same && *now != '\0'), "slot %u", slot);
        CHECK(*before == '\0' || *now != '\0', "CM2: slot %u", slot);
        if (*before != '\0' && (same || strcmp(before, news->myself) != 0)) {
            CHECK(is->epoch[slot] >= was->epoch[slot], "CM1: slot %u", slot);
        }
    }
    CHECK(moved == news->moved_n);
}

static bool
named_twice(const struct cluster_map *m, const char *id)
{
    unsigned n = 0;

    for (size_t i = 0; i < m->nodes_n; i++) {
        n += strcmp(m->node[i].id, id) == 0;
    }
    return n > 1;
}

static void
check_addresses(const struct cluster_map *was, const struct cluster_map *is)
{
    for (size_t i = 0; i < is->nodes_n; i++) {
        const struct cluster_node *now = &is->node[i];

        for (size_t k = 0; k < was->nodes_n && !now->reached; k++) {
            const struct cluster_node *before = &was->node[k];

            if (strcmp(before->id, now->id) == 0 && before->port != 0 && !named_twice(was, now->id)) {
                CHECK(before->port == now->port && strcmp(before->host, now->host) == 0, "CM4");
            }
        }
    }
}

static void
take(struct cluster_map *m, struct slice text, unsigned how)
{
    struct cluster_asked asked = {"10.0.0.1", (how & 2) != 0, (how & 1) != 0};
    struct cluster_map *was = copy_of(m);
    struct cluster_news news;
    char error[160] = "";

    if (cluster_map_take(m, text, &asked, &news, error)) {
        CHECK(!news.other_cluster || asked.replaces, "CM3");
        check_slots(was, m, &news);
        if (!news.other_cluster) {
            check_addresses(was, m);
        }
        check_map(m);
        CHECK(!cluster_map_take(m, text, &asked, &news, error) || news.moved_n == 0, "the same again moves nothing");
        check_map(m);
    } else {
        CHECK(*error != '\0' && is_printable_line(slice_of(error)));
        CHECK(m->nodes_n == was->nodes_n && memcmp(m->owner, was->owner, sizeof(m->owner)) == 0);
        CHECK(memcmp(m->epoch, was->epoch, sizeof(m->epoch)) == 0);
        CHECK(m->nodes_n == 0 || memcmp(m->node, was->node, m->nodes_n * sizeof(*m->node)) == 0, "refused: changed");
    }
    cluster_map_fini(was);
    free(was);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cluster_map m;
    struct choices c = {data, size};

    cluster_map_init(&m);
    for (int i = 0; i < ANSWERS_MAX && c.n > 0; i++) {
        unsigned how = take_byte(&c);
        size_t n = strnlen((const char *)c.p, c.n);
        char *text = exact_copy((struct slice){(const char *)c.p, n}, false);

        take(&m, (struct slice){text, n}, how);
        free(text);
        c.p += n;
        c.n -= n;
        (void)take_byte(&c); /* the NUL */
    }
    cluster_map_fini(&m);
    return 0;
}
