/*
 * inside.h -- declarations that only the files of the simulated Redis share.
 */
#ifndef RLOCKD_TESTS_SIM_INSIDE_H
#define RLOCKD_TESTS_SIM_INSIDE_H

#include "tests/sim/data.h"
#include "tests/sim/out.h"
#include "tests/sim/redis.h"

enum { ID_BYTES = 40 };

struct sim_redis {
    struct data data;
    struct out out;
    int64_t wall_us, now_ms; /* of the present command */
    int64_t born_us;         /* -1 = with its first command */
    uint64_t calls;          /* commands of scripts */
    bool full;
    bool alone;              /* has too few replicas to take a write */
    bool replica;
    bool flushed;            /* since it was started, as its statistics of commands show */
    bool dirty;              /* the script has run a writing command: its further writes are not checked */
    char *refuse;            /* or NULL */
    char run_id[ID_BYTES + 1], replid[ID_BYTES + 1], replid2[ID_BYTES + 1];
    uint64_t *script;        /* bits of the scripts that it has, by script.id */
    size_t script_words;
    sim_publish_fn *publish;
    void *publish_ctx;
    const struct sim_slots *slots; /* borrowed; NULL: it is no node of a cluster */
    bool asking;                   /* the present command comes after ASKING */
};

/* ---- the table of commands ---- */

enum {
    CMD_WRITE = 1 << 0,
    CMD_OOM = 1 << 1,       /* refused by a full Redis */
    CMD_NO_SCRIPT = 1 << 2,
    CMD_NO_KEY = 1 << 3,    /* it names no key; other commands have one as the second word */
    CMD_KEYS = 1 << 4,      /* all its words are keys */
    CMD_EVAL = 1 << 5,      /* its third word is the number of keys that follow */
    CMD_CHANNEL = 1 << 6,   /* its second word is a channel, which has a slot */
};

struct command {
    const char *name; /* lower case */
    size_t name_n;
    int arity;        /* with the name; -n: at least n */
    unsigned flags;
    const struct reply *(*run)(struct sim_redis *r, int n, const struct slice *w);
};

#define COMMAND(name, arity, flags) const struct reply *cmd_##name(struct sim_redis *r, int n, const struct slice *w);
#include "tests/sim/commands.def"
#undef COMMAND

const struct command *command_find(struct slice name); /* NULL: none */
bool command_arity_ok(const struct command *c, int n);

/* The commands of the table, for a test of all of them. */
const struct command *command_at(size_t i); /* NULL behind the last */

/* ---- common parts of commands ---- */

/* The key as a command sees it: an expired key is deleted first (on a replica it is only hidden). */
struct key *key_seen(struct sim_redis *r, struct slice name);

/* The same, of this type. False: *error is the answer of the command. *k NULL: no key. */
bool key_of(struct sim_redis *r, struct slice name, enum type type, struct key **k, const struct reply **error);
struct key *key_make(struct sim_redis *r, struct slice name, enum type type, struct key *k);

/* Deletes a key that has no entries. */
void key_trim(struct sim_redis *r, struct key *k);

const struct reply *key_length(struct sim_redis *r, struct slice name, enum type type);

/* Makes from..to indices of `all` entries, with negative ones counted from the end; false: an empty range. */
bool range_of(int64_t all, int64_t *from, int64_t *to);

bool int_of(struct slice s, int64_t *n);    /* as Redis reads it: no blanks, no +, no leading zeros */
bool double_of(struct slice s, double *d);
const struct reply *not_int(struct sim_redis *r);
const struct reply *syntax_error(struct sim_redis *r);
const struct reply *arity_error(struct sim_redis *r, const char *command);

/* ---- clusters (slots.c) ---- */

/* The reason why a script may not run the command, without "-" and "ERR"; NULL: it may. */
const char *slots_refuse(struct sim_redis *r, const struct command *c, int n, const struct slice *w);

/* ---- scripts (scripts.c) ---- */

/* EVAL and EVALSHA: w[1] is the text or the digest. */
const struct reply *script_eval(struct sim_redis *r, int n, const struct slice *w, bool by_sha);
const struct reply *script_load(struct sim_redis *r, struct slice text);
bool script_is_loaded(const struct sim_redis *r, struct slice sha);
void script_forget(struct sim_redis *r);

#endif
