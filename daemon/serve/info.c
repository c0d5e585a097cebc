/*
 * info.c -- INFO: state and counters for people, and what client libraries look for.
 *
 * Owns the sections. Those of key:value lines are printed by `INFO` alone;
 * the tables and the tree only when they are asked for, because every
 * redis-cli prints INFO raw and so shows aligned columns. Lines end in CRLF.
 */
#include "daemon/serve/commands_private.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/units.h"
#include "daemon/version.h"

#define ROWS_MAX 1000 /* of a table; LOCKS, WAITERS and SESSIONS give all. Also looked at for a mean */

struct info {
    struct engine *engine;
    struct buf out;
    int64_t now_us;
    struct slice glob; /* n == 0: all */
};

static void __attribute__((format(printf, 2, 3)))
line(struct info *in, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    buf_vprintf(&in->out, fmt, args);
    va_end(args);
    buf_adds(&in->out, "\r\n");
}

/* ---- sections of key:value ---- */

/* Of the first TCP address that we were told to listen on; 0 = none. */
static int64_t
tcp_port(const struct conf *cf)
{
    size_t i;
    int64_t port;

    for (i = 0; i < cf->listen.n; i++) {
        const char *colon = strrchr(cf->listen.item[i], ':');

        if (strncmp(cf->listen.item[i], "tcp:", 4) == 0 && number_parse(slice_of(colon + 1), &port)) {
            return port;
        }
    }
    return 0;
}

static void
info_server(struct info *in)
{
    const struct engine *e = in->engine;

    line(in, "redis_version:%s", REDIS_VERSION_SPOKEN);
    line(in, "rlockd_version:%s", RLOCKD_VERSION);
    line(in, "redis_mode:standalone");
    line(in, "process_id:%ld", (long)getpid());
    line(in, "run_id:%s", e->uuid);
    line(in, "tcp_port:%" PRId64, tcp_port(e->conf));
    line(in, "uptime_in_seconds:%" PRId64, (in->now_us - e->started_us) / US_PER_S);
    line(in, "draining:%d", e->draining);
}

static void
info_clients(struct info *in)
{
    struct core_totals t = core_totals(in->engine->core);

    line(in, "connected_clients:%" PRIu32, in->engine->sessions_n);
    line(in, "maxclients:%" PRId64, in->engine->conf->limit_sessions);
    line(in, "blocked_clients:%" PRIu64, t.waiters);
    line(in, "owners:%" PRIu64, t.owners);
}

static void
info_memory(struct info *in)
{
    struct mallinfo2 m = mallinfo2();

    line(in, "used_memory:%zu", m.uordblks + m.hblkhd);
}

static void
info_persistence(struct info *in)
{
    const struct keeper *k = &in->engine->keeper;
    struct held_counts c;

    line(in, "loading:0");
    if (k->held == NULL) {
        return;
    }
    c = held_count(k->held);
    line(in, "state_kept:%" PRIu64, c.kept);
    line(in, "state_not_kept:%" PRIu64, c.unkept);
    line(in, "state_adopted:%zu", k->adopted);
    line(in, "state_freed:%zu", k->freed);
    line(in, "state_lost:%zu", k->lost);
}

static size_t
block(void *p)
{
    return p != NULL ? malloc_usable_size(p) + sizeof(size_t) : 0;
}

/* All that is there because of it while it is idle; see PROTOCOL.md. */
static size_t
weigh_session(struct engine *e, struct session *s)
{
    return block(s) + block(s->read_ev) + block(s->write_ev) + block(s->reader.in.p) + block(s->out.p) +
           block(s->name) + block(s->lib_name) + block(s->lib_ver) +
           s->hh.tbl->num_buckets * sizeof(UT_hash_bucket) / s->hh.tbl->num_items +
           e->due.room * sizeof(struct heap_slot) / e->sessions_n + core_weigh_session(e->core, s->id);
}

static size_t
idle_session_bytes(struct engine *e)
{
    size_t bytes = 0, n = 0, looked = 0;
    struct list *node, *next;

    list_each(node, next, &e->sessions) {
        struct session *s = container_of(node, struct session, node);

        if (looked++ == ROWS_MAX) {
            break;
        }
        if (s->slots_n == 0) {
            bytes += weigh_session(e, s);
            n++;
        }
    }
    return n > 0 ? bytes / n : 0;
}

static size_t
held_lock_bytes(const struct engine *e)
{
    struct core_weight w = core_weigh_locks(e->core, ROWS_MAX);

    return w.n > 0 ? w.bytes / w.n : 0;
}

static void
info_stats(struct info *in)
{
    const struct metrics *m = &in->engine->metrics;

    line(in, "total_connections_received:%" PRIu64, m->connections);
    line(in, "total_commands_processed:%" PRIu64, m->requests);
#define METRIC(id, help) line(in, #id ":%" PRIu64, m->id);
#include "daemon/base/metrics.def"
#undef METRIC
    line(in, "session_bytes:%zu", idle_session_bytes(in->engine));
    line(in, "lock_bytes:%zu", held_lock_bytes(in->engine));
}

static void
info_replication(struct info *in)
{
    line(in, "role:master");
    line(in, "connected_slaves:0");
}

static void
info_redis(struct info *in)
{
    struct backend_status st = {.up = false};

    backend_status(in->engine->backend, &st);
    line(in, "redis_state:%s", st.up ? "up" : "down");
    line(in, "redis_address:%s", st.address);
    line(in, "redis_server_version:%s", st.version);
    line(in, "redis_run_id:%s", st.run_id);
    line(in, "redis_role:%s", st.role);
    line(in, "redis_maxmemory_policy:%s", st.maxmemory_policy);
    line(in, "redis_clock_offset_us:%" PRId64, st.offset_us);
    line(in, "redis_rtt_us:%" PRId64, st.rtt_us);
    line(in, "redis_links:%u", st.links);
    line(in, "redis_links_up:%u", st.links_up);
    line(in, "redis_in_flight:%" PRIu64, st.in_flight);
    line(in, "redis_queued:%" PRIu64, st.queued);
    line(in, "redis_watched:%" PRIu64, st.watched);
    line(in, "redis_epoch:%" PRIu64, st.epoch);
    line(in, "redis_grace:%d", st.grace);
    line(in, "redis_other_daemons:%zu", st.daemons);
    line(in, "redis_last_error:%s", st.last_error);
}

static void
info_keyspace(struct info *in)
{
    struct core_totals t = core_totals(in->engine->core);

    line(in, "db0:keys=%" PRIu64 ",expires=%" PRIu64 ",avg_ttl=0", t.held, t.held);
    line(in, "locks_known:%" PRIu64, t.locks);
    line(in, "locks_held:%" PRIu64, t.held);
    line(in, "locks_freeing:%" PRIu64, t.freeing);
}

static void
config_line(void *ctx, const char *path, const char *value, bool reloadable)
{
    (void)reloadable;
    line(ctx, "%s:%s", path, value);
}

static void
info_config(struct info *in)
{
    conf_each(in->engine->conf, config_line, in);
}

/* ---- tables ---- */

struct tabling {
    const struct info *in;
    struct table table;
};

static void
lock_row(void *ctx, const struct core_lock_view *v)
{
    struct tabling *t = ctx;
    struct look_text text;
    struct fields f = {.n = 0};

    look_lock(t->in->engine, v, t->in->now_us, &text, &f);
    table_add(&t->table, &f);
}

static void
waiter_row(void *ctx, const struct core_waiter_view *v)
{
    struct tabling *t = ctx;
    struct look_text text;
    struct fields f = {.n = 0};

    look_waiter(t->in->engine, v, t->in->now_us, &text, &f);
    table_add(&t->table, &f);
}

static void
holder_row(void *ctx, const struct core_holder_view *v)
{
    struct tabling *t = ctx;
    struct look_text text;
    struct fields f = {.n = 0};

    look_holder(t->in->engine, v, t->in->now_us, &text, &f);
    table_add(&t->table, &f);
}

static struct tabling
begin_table(const struct info *in)
{
    struct tabling t = {.in = in};

    table_init(&t.table, ROWS_MAX);
    return t;
}

/* `empty` NULL: a table without rows is not there at all. */
static void
end_table(struct info *in, struct tabling *t, const char *empty)
{
    if (empty != NULL || t->table.rows > 0) {
        table_print(&t->table, empty, &in->out);
    }
    table_fini(&t->table);
}

static void
info_locks(struct info *in)
{
    struct tabling t = begin_table(in);

    core_each_lock(in->engine->core, in->now_us, in->glob, lock_row, &t);
    end_table(in, &t, "no locks");
}

static void
info_waiters(struct info *in)
{
    struct tabling t = begin_table(in);

    core_each_waiter(in->engine->core, in->now_us, in->glob, waiter_row, &t);
    end_table(in, &t, "nobody waits");
}

static void
info_sessions(struct info *in)
{
    struct tabling t = begin_table(in);
    struct list *node, *next;

    list_each(node, next, &in->engine->sessions) {
        struct look_text text;
        struct fields f = {.n = 0};

        /* Past the cap they are only counted, so nothing is asked about them. */
        if (t.table.rows < ROWS_MAX) {
            look_session(container_of(node, struct session, node), in->now_us, &text, &f);
        }
        table_add(&t.table, &f);
    }
    end_table(in, &t, "no sessions");
}

/* Waiters of one name only, whatever a glob would make of it. */
static void
waiter_row_of(void *ctx, const struct core_waiter_view *v)
{
    struct tabling *t = ctx;

    if (slice_eq(v->name, t->in->glob)) {
        waiter_row(ctx, v);
    }
}

/* INFO lock NAME: the one row, who holds it, and who waits for it, in queue order. */
static void
info_lock(struct info *in)
{
    struct tabling locks = begin_table(in), holders = begin_table(in), waiters = begin_table(in);
    struct core_lock_view v = {.waiters = 0};

    if (core_lock_info(in->engine->core, in->now_us, in->glob, &v)) {
        lock_row(&locks, &v);
        core_each_holder(in->engine->core, in->now_us, in->glob, holder_row, &holders);
    }
    end_table(in, &locks, "nothing is known of it here (LOCKINFO asks Redis as well)");
    if (holders.table.rows > 0) {
        line(in, "\r\n# Holders");
    }
    end_table(in, &holders, NULL);
    if (v.waiters > 0) {
        line(in, "\r\n# Waiters");
        core_each_waiter(in->engine->core, in->now_us, SLICE_LIT(""), waiter_row_of, &waiters);
    }
    end_table(in, &waiters, NULL);
}

static void
info_tree(struct info *in)
{
    tree_print(in->engine, in->now_us, in->glob, ROWS_MAX, &in->out);
}

/* ---- the table of sections ---- */

static const struct {
    const char *name, *title;
    bool always; /* part of INFO without a section */
    void (*print)(struct info *in);
} sections[] = {
    {"server", "Server", true, info_server},
    {"clients", "Clients", true, info_clients},
    {"memory", "Memory", true, info_memory},
    {"persistence", "Persistence", true, info_persistence},
    {"stats", "Stats", true, info_stats},
    {"replication", "Replication", true, info_replication},
    {"redis", "Redis", true, info_redis},
    {"config", "Config", true, info_config},
    {"keyspace", "Keyspace", true, info_keyspace},
    {"lock", "Lock", false, info_lock},
    {"locks", "Locks", false, info_locks},
    {"waiters", "Waiters", false, info_waiters},
    {"sessions", "Sessions", false, info_sessions},
    {"tree", "Tree", false, info_tree},
};

/* Words with which Redis clients ask for all of it. */
static bool
means_all(struct slice section)
{
    return slice_is(section, "all") || slice_is(section, "default") || slice_is(section, "everything");
}

static void
print_section(struct info *in, size_t i)
{
    if (in->out.n > 0) {
        buf_adds(&in->out, "\r\n");
    }
    line(in, "# %s", sections[i].title);
    sections[i].print(in);
}

enum cmd_result
cmd_info(struct cmd *c)
{
    struct info in = {.engine = c->session->engine, .now_us = clock_now_us()};
    struct slice section = c->words->n > 1 ? c->words->word[1] : SLICE_LIT("all");
    size_t i;

    if (c->words->n > 2) {
        in.glob = c->words->word[2];
    }
    if (slice_is(section, "lock") && c->words->n < 3) {
        writer_error(c->out, ERR_SYNTAX, "usage: INFO lock NAME");
        return CMD_DONE;
    }
    buf_init(&in.out, command_answer_bytes_max(c));
    for (i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        if (means_all(section) ? sections[i].always : slice_is(section, sections[i].name)) {
            print_section(&in, i);
        }
    }
    text_send(&in.out, c->out);
    return CMD_DONE;
}
