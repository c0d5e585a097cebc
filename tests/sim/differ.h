/*
 * differ.h -- declarations that the parts of the differential test share: a real redis-server with the test's clock,
 * and random commands.
 */
#ifndef RLOCKD_TESTS_SIM_DIFFER_H
#define RLOCKD_TESTS_SIM_DIFFER_H

#include <hiredis/hiredis.h>
#include <sys/types.h>

#include "daemon/backend/call.h"
#include "daemon/backend/epoch.h"
#include "daemon/backend/link.h"
#include "daemon/backend/sha1.h"
#include "tests/sim/redis.h"
#include "tests/unit/rng.h"

/* ---- differ_server.c ---- */

struct server {
    char dir[64], sock[96], clock[96];
    pid_t pid;
    volatile int64_t *now_us; /* its time of day */
    redisContext *to;         /* its replies are struct reply */
    redisContext *subscriber;      /* PSUBSCRIBE * */
};

/* preload: the path of clock.so. Exits with a message if the server cannot be started. */
void server_start(struct server *s, const char *preload, int64_t now_us);
void server_stop(struct server *s);

/* One command and its answer, freed by the caller. Exits when the server has ended. */
struct reply *server_ask(redisContext *c, int words, const struct slice *word);
struct reply *server_read(redisContext *c);
void server_append(redisContext *c, int words, const struct slice *word);

/* ---- differ_words.c ---- */

enum { NAMES = 6, OWNERS = 4, UUIDS = 3 };

/* A command of the test; its words point into `text`, to literals, or into `call`. */
struct line {
    struct buf text;
    struct slice word[LINK_WORDS_MAX];
    int words;
    /* while the line is made: the end of each word in `text`; 0 = it is a literal or a key */
    size_t end[LINK_WORDS_MAX];
    struct call call;           /* of a shipped script; n = 0: another command */
    bool inspect;               /* the script of LOCKINFO */
    struct epoch *membership;     /* of the daemon, if the script is membership.lua */
    struct members *members;      /* ... and its knowledge of the others */
    /* its state when the words were made: they point into it, and answers change the other one */
    struct epoch then;
    int name;                   /* of the first lock of the call */
};

/* The chances of a phase. */
struct phase {
    unsigned raw, scripted, shipped; /* parts of 100; the rest is housekeeping */
    unsigned names, owners, uuids;   /* 1 to as many as there are */
    enum value_format value;
    bool last_failure;                    /* Redis loses its data, daemons come and go */
    unsigned foreign;                /* parts of 100: a raw command takes the key of a lock, a script another kind */
    enum kind kind[NAMES];
};

struct words {
    struct rng rng;
    struct phase phase;
    int64_t now_us;
    int64_t expiry_ms[NAMES];            /* the last expiry that the script of the name returned */
    char sha[VERBS][KINDS][SHA1_HEX_BYTES + 1];
    char inspect_sha[SHA1_HEX_BYTES + 1];
    struct epoch daemon[UUIDS];      /* each daemon's knowledge of Redis's epoch */
    struct members members[UUIDS];   /* ... and of the other daemons */
    char uuids[UUIDS * MEMBERS_UUID_BYTES + 1];
};

void words_init(struct words *g, uint64_t seed);
void words_fini(struct words *g);
void words_phase(struct words *g);

/* Takes the simulated Redis's answer to the line, on which later lines depend. */
void words_answer(struct words *g, const struct line *l, const struct reply *r);

/* A daemon registers. */
void words_membership(struct words *g, struct line *l, int daemon);

/* The next command. The caller ends it by line_fini. */
void words_next(struct words *g, struct line *l);

/* NAME WORD WORD ...: literals and borrowed words. */
void line_of(struct line *l, int words, const struct slice *word);
void line_fini(struct line *l);

/* NULL, or a command of the table that no test tries. */
const char *words_missing(void);

/* Names and owners that all commands share. */
extern const struct slice lock_names[NAMES];
extern const char *const uuids[UUIDS];

void line_init(struct line *l);
void add_word(struct line *l, struct slice word); /* borrowed */
void end_word(struct line *l);                    /* ends a word: the text that was appended since the word before */
void line_done(struct line *l);                   /* the text does not move any more */

/* ---- differ_raw.c ---- */

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

bool one_in(struct words *g, unsigned n);
void put_key(struct words *g, struct line *l);

/* Appends a command of the table to the line; returns the number of its words. */
int put_raw(struct words *g, struct line *l);

/* ---- differ_lua.c ---- */

/* The scripts that every run tries once; NULL after the last. */
const char *lua_odd(size_t i);

#endif
