/*
 * test_cluster_map.c -- hash slots, redirections, and maps of a cluster.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/call.h"
#include "daemon/backend/cluster_map.h"
#include "daemon/backend/redirect.h"
#include "daemon/backend/slot.h"
#include "rng.h"
#include "suite.h"

#define ID_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define ID_C "cccccccccccccccccccccccccccccccccccccccc"

/* ---- slots ---- */

START_TEST(slots_are_those_of_redis)
{
    ck_assert_uint_eq(slot_of(SLICE_LIT("123456789")), 12739); /* the example of the specification */
    ck_assert_uint_eq(slot_of(SLICE_LIT("foo")), 12182);
    ck_assert_uint_eq(slot_of(SLICE_LIT("")), 0);
    ck_assert_uint_eq(slot_of(SLICE_LIT("{user1000}.following")), slot_of(SLICE_LIT("user1000")));
    ck_assert_uint_eq(slot_of(SLICE_LIT("foo{{bar}}zap")), slot_of(SLICE_LIT("{bar")));
    ck_assert_uint_eq(slot_of(SLICE_LIT("foo{bar}{zap}")), slot_of(SLICE_LIT("bar")));
    ck_assert_uint_eq(slot_of(SLICE_LIT("foo{}{bar}")), 8363); /* the whole key: the tag is empty */
    ck_assert_uint_eq(slot_of(SLICE_LIT("a}{b}")), slot_of(SLICE_LIT("b")));
}
END_TEST

START_TEST(each_slot_has_a_tag)
{
    struct slot_tags *t = malloc(sizeof(*t));
    char key[32];

    slot_tags_fill(t);
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        snprintf(key, sizeof(key), "rlock:{%s}:epoch", t->tag[slot]);
        ck_assert_uint_eq(slot_of(slice_of(key)), slot);
    }
    /* Daemons of all versions must have the same tags. */
    ck_assert_str_eq(t->tag[0], "06S");
    ck_assert_str_eq(t->tag[8191], "6xN");
    ck_assert_str_eq(t->tag[16383], "6ZJ");
    free(t);
}
END_TEST

/*
 * Whether the keys and channels that layouts make of a name are in its slot: prefixed() and suffixed() of common.lua,
 * call_channel().
 */
static bool
stays_in_its_slot(struct slice key)
{
    bool braces = memchr(key.p, '{', key.n) == NULL;
    struct buf b;
    bool same = true;

    for (int i = 0; i < 4; i++) {
        buf_init(&b, 0);
        if (i < 2) {
            call_channel(i == 0 ? KIND_REENTRANT : KIND_RW, key, &b);
        } else {
            buf_printf(&b, "%s%s%.*s%s%s", i == 2 ? "redisson_lock_queue:" : "", braces ? "{" : "", (int)key.n, key.p,
                       braces ? "}" : "", i == 3 ? ":timeout" : "");
        }
        same = same && slot_of(buf_slice(&b)) == slot_of(key);
        buf_fini(&b);
    }
    return same;
}

START_TEST(a_key_suits_when_its_channel_is_in_its_slot)
{
    static const char letters[] = "{}{}ab:";
    struct rng r = rng_of(1);
    unsigned suits = 0, refused = 0;

    ck_assert(slot_suits(SLICE_LIT("orders:42")));
    ck_assert(slot_suits(SLICE_LIT("{a}:b")));
    ck_assert(slot_suits(SLICE_LIT("a{b}c}d")));
    ck_assert(!slot_suits(SLICE_LIT("{}x")));
    ck_assert(!slot_suits(SLICE_LIT("foo{")));
    ck_assert(!slot_suits(SLICE_LIT("a}b")));
    ck_assert(!slot_suits(SLICE_LIT("a}b{")));
    for (int i = 0; i < 20000; i++) {
        char text[9];
        struct slice key = {text, 1 + rng_below(&r, (unsigned)sizeof(text) - 1)};

        for (size_t c = 0; c < key.n; c++) {
            text[c] = letters[rng_below(&r, (unsigned)sizeof(letters) - 1)];
        }
        text[key.n] = '\0';
        if (slot_suits(key)) {
            ck_assert_msg(stays_in_its_slot(key), "%.*s", (int)key.n, key.p);
            suits++;
        } else {
            refused += !stays_in_its_slot(key);
        }
    }
    ck_assert_uint_gt(suits, 1000);
    ck_assert_uint_gt(refused, 1000); /* no key is refused without need */
}
END_TEST

/* ---- redirections ---- */

START_TEST(redirections)
{
    struct redirect r;

    ck_assert(redirect_parse(SLICE_LIT("MOVED 3999 127.0.0.1:6381"), "h", &r));
    ck_assert(!r.ask);
    ck_assert_uint_eq(r.slot, 3999);
    ck_assert_str_eq(r.host, "127.0.0.1");
    ck_assert_int_eq(r.port, 6381);
    ck_assert(redirect_parse(SLICE_LIT("ASK 0 fe80::1:6381"), "h", &r));
    ck_assert(r.ask);
    ck_assert_str_eq(r.host, "fe80::1");
    ck_assert(redirect_parse(SLICE_LIT("MOVED 16383 :1"), "asked", &r));
    ck_assert_str_eq(r.host, "asked");
    ck_assert(redirect_parse(SLICE_LIT("MOVED 16383 ?:1"), "asked", &r));
    ck_assert_str_eq(r.host, "asked");
}
END_TEST

START_TEST(malformed_redirections_are_refused)
{
    static const char *const bad[] = {
        "",          "MOVED",      "MOVED 1",         "MOVED 16384 a:1", "MOVED -1 a:1",
        "ASK 1 a",   "ASK 1 a:0",  "ASK 1 a:65536",   "ASK x a:1",       "ASK 1:2 a",
        "MOVED  a:1", "ERR MOVED 1 a:1", "MOVED 1 a b:1", "MOVED 1 a\r\nb:1", "ASK 1 a:",
    };
    struct redirect r;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!redirect_parse(slice_of(bad[i]), "h", &r), "%s", bad[i]);
    }
}
END_TEST

/* ---- maps ---- */

static struct cluster_map map;
static struct cluster_news news;

static void
begin(void)
{
    cluster_map_init(&map);
}

static void
end(void)
{
    cluster_map_fini(&map);
}

static char error[160];

static bool
take_of(const char *text, bool secure, bool replaces)
{
    error[0] = '\0';
    return cluster_map_take(&map, slice_of(text), &(struct cluster_asked){"asked", secure, replaces}, &news, error);
}

static bool
take(const char *text)
{
    return take_of(text, false, false);
}

static const struct cluster_node *
owner_node(uint16_t slot)
{
    ck_assert_uint_lt(map.owner[slot], map.nodes_n);
    return &map.node[map.owner[slot]];
}

static const char *
owner(uint16_t slot)
{
    return map.owner[slot] != CLUSTER_NO_OWNER ? owner_node(slot)->id : "";
}

static const struct cluster_node *
node_of(const char *id)
{
    size_t i = 0;

    while (i < map.nodes_n && strcmp(map.node[i].id, id) != 0) {
        i++;
    }
    ck_assert_uint_lt(i, map.nodes_n);
    return &map.node[i];
}

START_TEST(an_answer_becomes_a_map)
{
    const struct cluster_node *n;

    ck_assert(take(ID_A " 127.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-5460 [93->-" ID_B "] [94-<-" ID_C "]\n"
                   ID_B " ::1:7002@17002,b.example master - 0 16 2 connected 5461-10922 16383\n"
                   ID_C " :7003@17003 slave " ID_A " 0 16 1 connected\n"));
    ck_assert_uint_eq(map.nodes_n, 3);
    ck_assert_str_eq(owner(0), ID_A);
    ck_assert_str_eq(owner(5460), ID_A);
    ck_assert_str_eq(owner(5461), ID_B);
    ck_assert_str_eq(owner(16383), ID_B);
    ck_assert_str_eq(owner(10923), "");
    ck_assert_uint_eq(news.moved_n, 10924);
    ck_assert(slot_set_has(&news.moved, 5461) && !slot_set_has(&news.moved, 10923));
    ck_assert_str_eq(news.myself, ID_A);
    n = owner_node(5461);
    ck_assert_str_eq(n->host, "::1");
    ck_assert_int_eq(n->port, 7002);
    ck_assert_uint_eq(n->slots_n, 5463);
    n = node_of(ID_C);
    ck_assert(!n->master);
    ck_assert_str_eq(n->host, "asked");
    ck_assert_str_eq(owner_node(0)->host, "127.0.0.1");
    ck_assert_int_eq(owner_node(0)->port, 7001);
    ck_assert(take(ID_A " 127.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-5460\n"
                   ID_B " ::1:7002@17002 master,fail - 0 16 2 connected 5461-10922 16383\n"));
    ck_assert_uint_eq(news.moved_n, 0);
    ck_assert(owner_node(5461)->failed);
}
END_TEST

START_TEST(by_tls_the_name_counts)
{
    ck_assert(take_of(ID_A " 10.0.0.1:1@2,a.example,shard-id=x master - 0 0 1 connected 1\n"
                      ID_B " 10.0.0.2:1@2,,shard-id=x master - 0 0 1 connected 2\n"
                      ID_C " 10.0.0.3:1@2,shard-id=x master - 0 0 1 connected 3\n", true, false));
    ck_assert_str_eq(owner_node(1)->host, "a.example");
    ck_assert_str_eq(owner_node(2)->host, "10.0.0.2");
    ck_assert_str_eq(owner_node(3)->host, "10.0.0.3");
}
END_TEST

START_TEST(never_to_a_lower_config_epoch)
{
    static const char old[] = ID_A " a:1@2 myself,master - 0 0 5 connected 0-99\n" ID_B " b:1@2 slave " ID_A
                                   " 0 0 5 connected\n";

    ck_assert(take(old));
    ck_assert(take(ID_A " a:1@2 master,fail - 0 0 5 connected\n" ID_B " b:1@2 myself,master - 0 0 7 connected 0-99\n"));
    ck_assert_str_eq(owner(7), ID_B);
    ck_assert_uint_eq(news.moved_n, 100);
    ck_assert(take(old)); /* the answer of the old master, which has not learned of the change */
    ck_assert_str_eq(owner(7), ID_B);
    ck_assert_uint_eq(map.epoch[7], 7);
    ck_assert_uint_eq(news.moved_n, 0);
    /* An older answer of the owner itself; then the old master owns them again. */
    ck_assert(take(ID_B " b:1@2 myself,master - 0 0 6 connected 0-99\n"));
    ck_assert_uint_eq(map.epoch[7], 7);
    ck_assert(take(ID_A " a:1@2 myself,master - 0 0 8 connected 0-99\n" ID_B " b:1@2 master - 0 0 6 connected\n"));
    ck_assert_str_eq(owner(7), ID_A);
}
END_TEST

START_TEST(a_slot_without_an_owner_stays)
{
    ck_assert(take(ID_A " a:1@2 myself,master - 0 0 1 connected 0-9\n" ID_B " b:1@2 master - 0 0 2 connected 10-19\n"));
    ck_assert(take(ID_A " a:1@2 myself,master - 0 0 1 connected 0-8\n"));
    ck_assert_str_eq(owner(9), ID_A);
    ck_assert_str_eq(owner(15), ID_B); /* though node B is forgotten */
    ck_assert_uint_eq(map.nodes_n, 2);
    ck_assert_uint_eq(map.node[1].slots_n, 10);
    ck_assert_uint_eq(news.moved_n, 0);
    ck_assert(take(ID_A " a:1@2 myself,master - 0 0 3 connected 0-19\n"));
    ck_assert_str_eq(owner(15), ID_A);
    ck_assert_uint_eq(map.nodes_n, 1);
}
END_TEST

/* A master was lost and forgotten, and its slots were given by hand to an empty node. */
START_TEST(a_slot_that_a_node_has_below_the_known_config_epoch)
{
    static const char mine[] = ID_A " a:1@2 myself,master - 0 0 1 connected 0-9\n";
    char text[400];

    snprintf(text, sizeof(text), "%s%s", mine, ID_B " b:1@2 master - 0 0 2 connected 10-19\n");
    ck_assert(take(text));
    ck_assert_uint_eq(map.claimants_n, 0);
    snprintf(text, sizeof(text), "%s%s", mine, ID_C " c:1@2 master - 0 0 0 connected 10-15\n");
    for (int i = 0; i < 2; i++) {
        ck_assert(take(text));
        ck_assert_str_eq(owner(15), ID_B);
        ck_assert_uint_eq(map.claimants_n, 6);
        ck_assert_str_eq(map.node[map.claimant[15]].id, ID_C);
        ck_assert_uint_eq(map.claimant[9], CLUSTER_NO_OWNER);
        ck_assert_uint_eq(map.claimant[16], CLUSTER_NO_OWNER);
    }
    /* No claim counts in an answer that does not name the owner as master, nor of a node that is out of reach. */
    ck_assert(take(ID_C " c:1@2 myself,master - 0 0 0 connected 10-19\n" ID_B " b:1@2 slave " ID_C
                        " 0 0 0 connected\n"));
    ck_assert_uint_eq(map.claimants_n, 0);
    snprintf(text, sizeof(text), "%s%s", mine, ID_C " c:1@2 master,fail - 0 0 0 connected 10-15\n");
    ck_assert(take(text));
    ck_assert_uint_eq(map.claimants_n, 0);
    snprintf(text, sizeof(text), "%s%s", mine, ID_C " c:1@2 master - 0 0 3 connected 10-15\n");
    ck_assert(take(text));
    ck_assert_str_eq(owner(15), ID_C);
    ck_assert_uint_eq(map.claimants_n, 0);
}
END_TEST

START_TEST(another_cluster_replaces_the_map_where_it_may)
{
    const char *other = ID_B " a:1@2 myself,master - 0 0 1 connected 0-9\n";

    ck_assert(take(ID_A " a:1@2 myself,master - 0 0 9 connected 0-19\n"));
    ck_assert(!news.other_cluster);
    ck_assert(!take(other));
    ck_assert_str_eq(error, "the node is in another cluster: it names none of the nodes that are known");
    ck_assert_str_eq(owner(0), ID_A);
    ck_assert(take_of(other, false, true));
    ck_assert(news.other_cluster);
    ck_assert_str_eq(owner(0), ID_B);
    ck_assert_str_eq(owner(10), "");
}
END_TEST

/* The node was taken out of the cluster (CLUSTER RESET), or has not joined it yet. */
START_TEST(a_node_without_a_cluster_has_no_map)
{
    const char *alone = ID_B " b:1@2 myself,master - 0 0 9 connected\n";

    ck_assert(!take_of(alone, false, true));
    ck_assert_str_eq(error, "the node is in no cluster: it knows of no slot that a node has");
    ck_assert_uint_eq(map.nodes_n, 0);
    ck_assert(take(ID_A " a:1@2 myself,master - 0 0 1 connected 0-19\n"));
    ck_assert(!take_of(alone, false, true));
    ck_assert_str_eq(owner(0), ID_A);
}
END_TEST

/* CLUSTER DELSLOTS and ADDSLOTS: the epoch of the new owner may be the lower one. */
START_TEST(an_owner_may_give_a_slot_to_a_lower_epoch)
{
    ck_assert(take(ID_A " a:1@2 myself,master - 0 0 9 connected 0-9\n" ID_B " b:1@2 master - 0 0 2 connected 10-19\n"));
    ck_assert(take(ID_A " a:1@2 master - 0 0 9 connected 1-9\n"
                   ID_B " b:1@2 myself,master - 0 0 2 connected 0 10-19\n"));
    ck_assert_str_eq(owner(0), ID_A);
    ck_assert(take(ID_A " a:1@2 myself,master - 0 0 9 connected 1-9\n"
                   ID_B " b:1@2 master - 0 0 2 connected 0 10-19\n"));
    ck_assert_str_eq(owner(0), ID_B);
    ck_assert_uint_eq(news.moved_n, 1);
}
END_TEST

/* The answers of the nodes when slot 0 has gone from node A, of config epoch 9, to node B, of config epoch `e`. */
#define IS_AT_A(e, me_a, me_c)                                                                                         \
    ID_A " a:1@2 " me_a "master - 0 0 9 connected 0-9\n" ID_B " b:1@2 master - 0 0 " e " connected 10-19\n"           \
    ID_C " c:1@2 " me_c "master - 0 0 1 connected\n"
#define IS_AT_B(e, me_a, me_b)                                                                                         \
    ID_A " a:1@2 " me_a "master - 0 0 9 connected 1-9\n"                                                               \
    ID_B " b:1@2 " me_b "master - 0 0 " e " connected 0 10-19\n" ID_C " c:1@2 master - 0 0 1 connected\n"
#define ME "myself,"
#define AT_A_ALONE(e) IS_AT_A(e, "", ME)
#define IN_TURN(e)                                                                                                     \
    {                                                                                                                  \
        AT_A_ALONE(e), IS_AT_B(e, ME, ""), AT_A_ALONE(e), IS_AT_B(e, "", ME), AT_A_ALONE(e), IS_AT_B(e, ME, ""),       \
            AT_A_ALONE(e)                                                                                              \
    }

static void
gift(const char *const maps[7], const char *taken_back, const char *owner_then)
{
    unsigned moved = 0;

    for (size_t i = 0; i < 7; i++) {
        ck_assert(take(maps[i]));
        moved += slot_set_has(&news.moved, 0);
        ck_assert_str_eq(owner(0), i == 0 ? ID_A : ID_B);
        ck_assert_uint_eq(map.epoch[0], 9);
    }
    ck_assert_uint_eq(moved, 2); /* one of them with the first answer */
    ck_assert(take(taken_back));
    ck_assert_str_eq(owner(0), owner_then);
    ck_assert(take(ID_A " a:1@2 master - 0 0 9 connected 0-9\n" ID_B " b:1@2 myself,master - 0 0 9 connected\n"));
    ck_assert_str_eq(owner(0), ID_A); /* its owner gives it back */
    ck_assert(take(ID_A " a:1@2 master - 0 0 9 connected\n" ID_B " b:1@2 myself,master - 0 0 10 connected 0-19\n"));
    ck_assert_str_eq(owner(0), ID_B); /* a failover */
}

/* ... and DELSLOTS and ADDSLOTS ran on some nodes only: the third one still names the giver. */
START_TEST(a_given_slot_does_not_come_back)
{
    static const char *const lower[7] = IN_TURN("2"), *const same[7] = IN_TURN("9");

    gift(lower, IS_AT_A("2", ME, ""), ID_A);
    end();
    begin();
    gift(same, IS_AT_A("9", ME, ""), ID_B);
}
END_TEST

/* Two nodes have one config epoch, as in a cluster that is being made: the first owner keeps what both claim. */
START_TEST(of_one_config_epoch_the_owner_stays)
{
    ck_assert(take(ID_A " a:1@2 myself,master - 0 0 3 connected 0-9\n" ID_B " b:1@2 master - 0 0 3 connected 10-19\n"));
    for (int i = 0; i < 2; i++) {
        ck_assert(take(ID_A " a:1@2 master - 0 0 3 connected\n" ID_B " b:1@2 myself,master - 0 0 3 connected 0-19\n"));
        ck_assert_str_eq(owner(0), ID_A);
        ck_assert_uint_eq(news.moved_n, 0);
        ck_assert(take(ID_A " a:1@2 myself,master - 0 0 3 connected 0-9\n" ID_B " b:1@2 master - 0 0 3 connected\n"));
        ck_assert_uint_eq(news.moved_n, 0);
    }
    ck_assert(take(ID_A " a:1@2 master - 0 0 3 connected\n" ID_B " b:1@2 myself,master - 0 0 4 connected 0-19\n"));
    ck_assert_str_eq(owner(0), ID_B);
}
END_TEST

/* A node that is cut off from another one still reports an old address of it. */
START_TEST(an_address_is_that_of_a_node_that_reaches_it)
{
    ck_assert(take(ID_A " a:1@2 myself,master - 0 0 1 connected 0-9\n" ID_B " b:1@2 master - 0 0 2 connected 10-19\n"));
    ck_assert(take(ID_A " a:1@2 myself,master - 0 0 1 connected 0-9\n"
                   ID_B " old:3@4 master,fail - 0 0 2 connected 10-19\n"));
    ck_assert_str_eq(node_of(ID_B)->host, "b");
    ck_assert(take(ID_A " a:1@2 myself,master - 0 0 1 connected 0-9\n"
                   ID_B " old:3@4 master - 0 0 2 disconnected 10-19\n"));
    ck_assert_str_eq(node_of(ID_B)->host, "b");
    ck_assert_int_eq(node_of(ID_B)->port, 1);
    ck_assert(take(ID_A " a:1@2 myself,master - 0 0 1 connected 0-9\n"
                   ID_B " new:5@6 master - 0 0 2 connected 10-19\n"));
    ck_assert_str_eq(node_of(ID_B)->host, "new");
    ck_assert(take(ID_A " a:1@2 master,fail? - 0 0 1 disconnected 0-9\n"
                   ID_B " newest:7@8 myself,master - 0 0 2 connected 10-19\n"));
    ck_assert_str_eq(node_of(ID_B)->host, "newest");
}
END_TEST

START_TEST(the_node_that_a_redirection_means)
{
    ck_assert(take(ID_A " 10.0.0.1:1@2,a.example myself,master - 0 0 1 connected 0-19\n"
                   ID_B " 10.0.0.2:1@2,b.example master - 0 0 2 connected\n"
                   ID_C " 10.0.0.3:3@4,c.example master - 0 0 3 connected\n"));
    ck_assert_str_eq(cluster_map_at(&map, "10.0.0.2", 1)->id, ID_B);
    ck_assert_str_eq(cluster_map_at(&map, "b.example", 1)->id, ID_B);
    ck_assert_ptr_null(cluster_map_at(&map, "elsewhere", 1)); /* two nodes have this port */
    ck_assert_str_eq(cluster_map_at(&map, "10.0.0.1", 3)->id, ID_C);
    ck_assert_ptr_null(cluster_map_at(&map, "10.0.0.1", 2));
}
END_TEST

START_TEST(a_malformed_map_changes_nothing)
{
    static const char *const bad[] = {
        "", "\n", "x\n", ID_A "\n", ID_A " a:1@2 master - 0 0 1\n", ID_A " a master - 0 0 1 connected\n",
        ID_A " a:x@2 master - 0 0 1 connected\n", ID_A " a:65536@2 master - 0 0 1 connected\n",
        ID_A " a:1@2 master - 0 0 x connected\n", ID_A " a:1@2 master - 0 0 -1 connected\n",
        ID_A " a:1@2 master - 0 0 1 connected 16384\n", ID_A " a:1@2 master - 0 0 1 connected 5-4\n",
        ID_A " a:1@2 master - 0 0 1 connected 0-x\n", ID_A " a:1@2 master - 0 0 1 connected [16384->-x]\n",
        ID_A " a b:1@2 master - 0 0 1 connected 0\n", "a" ID_A " a:1@2 master - 0 0 1 connected 0\n",
    };
    struct buf many;

    ck_assert(take(ID_B " b:1@2 myself,master - 0 0 1 connected 0-9\n"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!take(bad[i]), "%s", bad[i]);
        ck_assert_str_eq(owner(0), ID_B);
    }
    buf_init(&many, 0);
    for (int i = 0; i <= CLUSTER_NODES_MAX; i++) {
        buf_printf(&many, "%040d a:1@2 master - 0 0 1 connected\n", i);
    }
    buf_add(&many, "", 1);
    ck_assert(!take(many.p));
    buf_fini(&many);
}
END_TEST

/* Nodes that own a slot and never appear again: the number of nodes that the map keeps is bounded. */
START_TEST(nodes_that_come_and_go_are_bounded)
{
    enum { NEW = CLUSTER_NODES_MAX / 2 };
    struct buf many;
    unsigned taken = 0;

    buf_init(&many, 0);
    for (unsigned answer = 0; answer < 8; answer++) {
        many.n = 0;
        buf_printf(&many, ID_A " a:1@2 master - 0 0 1 connected\n");
        for (unsigned i = answer * NEW; i < (answer + 1) * NEW; i++) {
            buf_printf(&many, "%040u b:1@2 master - 0 0 1 connected %u\n", i, i);
        }
        buf_add(&many, "", 1);
        taken += take(many.p);
    }
    ck_assert_uint_gt(taken * NEW, CLUSTER_NODES_MAX);
    ck_assert_uint_lt(taken, 8);
    ck_assert_uint_le(map.nodes_n, 2 * CLUSTER_NODES_MAX);
    buf_fini(&many);
}
END_TEST

int
main(void)
{
    const TTest *const tests[] = {slots_are_those_of_redis, each_slot_has_a_tag,
                                  a_key_suits_when_its_channel_is_in_its_slot, redirections,
                                  malformed_redirections_are_refused, an_answer_becomes_a_map, by_tls_the_name_counts,
                                  never_to_a_lower_config_epoch, a_slot_without_an_owner_stays,
                                  a_slot_that_a_node_has_below_the_known_config_epoch,
                                  another_cluster_replaces_the_map_where_it_may, a_node_without_a_cluster_has_no_map,
                                  an_owner_may_give_a_slot_to_a_lower_epoch, a_given_slot_does_not_come_back,
                                  of_one_config_epoch_the_owner_stays, an_address_is_that_of_a_node_that_reaches_it,
                                  the_node_that_a_redirection_means, a_malformed_map_changes_nothing,
                                  nodes_that_come_and_go_are_bounded};

    return suite_main_with("cluster_map", tests, sizeof(tests) / sizeof(tests[0]), begin, end);
}
