/*
 * info.c -- INFO: state and counters for people, and the fields that client libraries look for.
 *
 * Owns the sections. `INFO` alone prints those of key:value lines; the tables and the tree (info_tables.c) have to be
 * asked for. They are sections of INFO because every redis-cli prints INFO raw, and so shows aligned columns. Lines end
 * in CRLF.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "daemon/base/units.h"
#include "daemon/serve/cmd.h"
#include "daemon/serve/commands.h"
#include "daemon/serve/commands_check.h"
#include "daemon/serve/drain.h"
#include "daemon/serve/fields.h"
#include "daemon/serve/listing.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/show.h"
#include "daemon/version.h"

#define ROWS_MAX 1000 /* of a table; LOCKS, WAITERS and SESSIONS give all */
#define SAMPLE 100    /* sessions, locks: looked at for a mean */

struct info {
    struct engine *engine;
    struct buf out;
    struct outbox *box; /* of the reply: notes the grants that it relies on */
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

/* Of the first TCP address in `listen`; 0 = none. */
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
    line(in, "uptime_in_days:%" PRId64, (in->now_us - e->started_us) / US_PER_S / (24 * 3600));
    line(in, "arch_bits:%zu", 8 * sizeof(void *));
    line(in, "draining:%d", e->draining);
    line(in, "drain_held:%" PRIu64, drain_held(e));
    buf_adds(&in->out, "drain_locks:");
    drain_print(e, &in->out, in->box);
    buf_adds(&in->out, "\r\n");
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
    line(in, "maxmemory:0");
    line(in, "maxmemory_policy:noeviction");
}

static void
info_persistence(struct info *in)
{
    const struct state_store *store = &in->engine->state_store;
    struct state_file_counts c;

    line(in, "loading:0");
    if (store->file == NULL) {
        return;
    }
    c = state_file_count(store->file);
    line(in, "state_kept:%" PRIu64, c.checkpoints);
    line(in, "state_owners:%" PRIu64, c.owners);
    line(in, "state_bytes:%" PRIu64, c.bytes);
    line(in, "state_not_kept:%" PRIu64, c.not_written);
    line(in, "state_adopted:%zu", store->restored);
    line(in, "state_freed:%zu", store->released);
    line(in, "state_lost:%zu", store->lost);
}

static size_t
block(void *p)
{
    return p != NULL ? malloc_usable_size(p) + sizeof(size_t) : 0;
}

/* The bytes of all records of an idle session; see PROTOCOL.md. */
static size_t
memory_of_session(struct engine *e, struct session *s)
{
    return block(s) + block(s->read_ev) + block(s->write_ev) + block(buf_block(&s->reader.in)) +
           block(buf_block(&s->out.bytes)) + block(s->name) + block(s->lib_name) + block(s->lib_ver) +
           e->by_id.room * sizeof(struct map_node *) / e->by_id.count +
           e->due.room * sizeof(struct heap_slot) / e->sessions_n + core_memory_of_session(e->core, s->id);
}

static size_t
idle_session_bytes(struct engine *e)
{
    size_t bytes = 0, n = 0, looked = 0;
    struct list *node, *next;

    list_for_each_safe(node, next, &e->sessions) {
        struct session *s = container_of(node, struct session, node);

        if (looked++ == SAMPLE) {
            break;
        }
        if (s->slots_n == 0) {
            bytes += memory_of_session(e, s);
            n++;
        }
    }
    return n > 0 ? bytes / n : 0;
}

static size_t
held_lock_bytes(const struct engine *e)
{
    struct core_memory w = core_memory_of_locks(e->core, SAMPLE);

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
info_cluster(struct info *in)
{
    line(in, "cluster_enabled:0");
}

/* A time of the wall clock as RFC 3339 has it; empty for 0. */
static void
line_time(struct info *in, const char *field, int64_t s)
{
    time_t at = (time_t)s;
    char text[24] = "";
    struct tm tm;

    if (s != 0 && gmtime_r(&at, &tm) != NULL) {
        (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    }
    line(in, "%s:%s", field, text);
}

static void
info_redis(struct info *in)
{
    struct backend_status st = {.up = false};
    struct backend_node node[BACKEND_NODES_MAX];
    size_t nodes;

    backend_status(in->engine->backend, &st);
    line(in, "redis_state:%s", st.up ? "up" : "down");
    line(in, "redis_address:%s", st.address);
    line(in, "redis_server_version:%s", st.version);
    line(in, "redis_run_id:%s", st.run_id);
    line(in, "redis_role:%s", st.role);
    line(in, "redis_tls_version:%s", st.tls_version);
    line(in, "redis_tls_cipher:%s", st.tls_cipher);
    line_time(in, "redis_tls_peer_expires", st.tls_peer_expires_s);
    line_time(in, "redis_tls_own_expires", st.tls_own_expires_s);
    line(in, "redis_maxmemory_policy:%s", st.maxmemory_policy);
    line(in, "redis_clock_offset_us:%" PRId64, st.offset_us);
    line(in, "redis_rtt_us:%" PRId64, st.rtt_us);
    line(in, "redis_links:%u", st.links);
    line(in, "redis_links_up:%u", st.links_up);
    line(in, "redis_links_away:%s", st.links_away);
    line(in, "redis_in_flight:%" PRIu64, st.in_flight);
    line(in, "redis_queued:%" PRIu64, st.queued);
    line(in, "redis_watched:%" PRIu64, st.watched);
    line(in, "redis_epoch:%" PRIu64, st.epoch);
    line(in, "redis_grace:%d", st.grace);
    line(in, "redis_other_daemons:%zu", st.other_daemons);
    line(in, "redis_last_error:%s", st.last_error);
    line(in, "redis_refusal:%s", st.refusal);
    nodes = backend_nodes(in->engine->backend, node);
    line(in, "redis_nodes:%zu", nodes);
    for (size_t i = 0; i < nodes; i++) {
        line(in, "redis_node%zu:role=%s,address=%s,state=%s,rtt_us=%" PRId64 ",epoch=%" PRIu64 "%s", i,
             node[i].role, node[i].address, node[i].state, node[i].rtt_us, node[i].epoch, node[i].more);
    }
}

static void
info_keyspace(struct info *in)
{
    struct core_totals t = core_totals(in->engine->core);

    line(in, "db0:keys=%" PRIu64 ",expires=%" PRIu64 ",avg_ttl=0", t.held_claims, t.held_claims);
    line(in, "locks_known:%" PRIu64, t.locks);
    line(in, "locks_held:%" PRIu64, t.held_claims);
    line(in, "locks_freeing:%" PRIu64, t.releasing_claims);
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

/* ---- one lock ---- */

struct info_rows {
    const struct info *in;
    struct table table;
};

/* The row that was added last, if there was room for it, relies on this grant. */
static void
rely(const struct info_rows *t, uint64_t claim, uint64_t token, int64_t deadline_us)
{
    struct core_grant g = {.claim = claim, .token = token, .deadline_us = deadline_us};

    if (t->table.left_out == 0) {
        outbox_rely(t->in->box, &g, t->in->engine->metrics.lost);
    }
}

static void
waiter_row(void *ctx, const struct core_waiter_view *v)
{
    struct info_rows *t = ctx;
    struct show_text text;
    struct fields f = {.n = 0};

    show_waiter(t->in->engine, v, t->in->now_us, &text, &f);
    fields_add_row(&t->table, &f);
}

static void
holder_row(void *ctx, const struct core_holder_view *v)
{
    struct info_rows *t = ctx;
    struct show_text text;
    struct fields f = {.n = 0};

    show_holder(t->in->engine, v, t->in->now_us, &text, &f);
    fields_add_row(&t->table, &f);
    rely(t, v->claim, v->token, v->deadline_us);
}

static struct info_rows
begin_table(const struct info *in)
{
    struct info_rows t = {.in = in};

    fields_table_init(&t.table, ROWS_MAX);
    return t;
}

/* `all`: rows that there are, shown or not. */
static void
end_table(struct info *in, struct info_rows *t, size_t all, const char *empty)
{
    t->table.left_out = all > t->table.rows ? all - t->table.rows : 0;
    if (empty != NULL || t->table.rows > 0) {
        fields_print_table(&t->table, empty, &in->out);
    }
    fields_table_fini(&t->table);
}

static void
lock_row(struct info_rows *t, const struct core_lock_view *v)
{
    struct show_text text;
    struct fields f = {.n = 0};

    show_lock(t->in->engine, v, t->in->now_us, &text, &f, NULL);
    fields_add_row(&t->table, &f);
    rely(t, v->claim, v->token, v->deadline_us);
}

/* INFO lock NAME: the row of the lock, its first holders, and its first waiters, in queue order. */
static void
info_lock(struct info *in)
{
    struct info_rows locks = begin_table(in), holders = begin_table(in), waiters = begin_table(in);
    struct core_lock_view v = {.waiters = 0};

    if (core_lock_info(in->engine->core, in->now_us, in->glob, &v)) {
        lock_row(&locks, &v);
        core_holders_of(in->engine->core, in->now_us, in->glob, ROWS_MAX, holder_row, &holders);
        core_waiters_of(in->engine->core, in->now_us, in->glob, ROWS_MAX, waiter_row, &waiters);
    }
    end_table(in, &locks, 1, "nothing is known of it here (LOCKINFO asks Redis as well)");
    if (holders.table.rows > 0) {
        line(in, "\r\n# Holders");
    }
    end_table(in, &holders, v.holders, NULL);
    if (waiters.table.rows > 0) {
        line(in, "\r\n# Waiters");
    }
    end_table(in, &waiters, v.waiters, NULL);
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
    {"cluster", "Cluster", true, info_cluster},
    {"redis", "Redis", true, info_redis},
    {"config", "Config", true, info_config},
    {"keyspace", "Keyspace", true, info_keyspace},
    {"lock", "Lock", false, info_lock},
};

/* Words with which Redis clients ask for all sections. */
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

/* INFO by one advance() of a listing: many INFOs take no more time of a turn than all listings may. */
struct info_work {
    struct listing_work work;
    struct info in;
    struct outbox aside; /* owned; the grants that it relies on */
    bool all;
    size_t section;
    char glob[];
};

/* Prints a comment line, which parsers of INFO skip. */
static void
print_no_section(struct info *in)
{
    buf_adds(&in->out, "# there is no such section; there are: all");
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        buf_printf(&in->out, " %s", sections[i].name);
    }
    buf_adds(&in->out, " locks waiters sessions tree\r\n");
}

static bool
advance(struct listing_work *lw, struct engine *e)
{
    struct info_work *w = container_of(lw, struct info_work, work);

    (void)e;
    w->in.now_us = clock_now_us();
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        if (w->all ? sections[i].always : i == w->section) {
            print_section(&w->in, i);
        }
    }
    if (!w->all && w->section == sizeof(sections) / sizeof(sections[0])) {
        print_no_section(&w->in);
    }
    return false;
}

static void
finish(struct listing_work *lw, struct engine *e, struct outbox *box, struct writer *out)
{
    struct info_work *w = container_of(lw, struct info_work, work);
    struct outbox_group group = outbox_begin(box);

    (void)e;
    fields_send_text(&w->in.out, out);
    outbox_take_marks(box, &w->aside, 0);
    outbox_end(box, group, OUTBOX_STALE, FORM_NATIVE, out->proto);
}

static void
drop(struct listing_work *lw, struct engine *e)
{
    struct info_work *w = container_of(lw, struct info_work, work);

    (void)e;
    buf_fini(&w->in.out);
    outbox_fini(&w->aside);
    free(w);
}

static size_t
find_section(struct slice name)
{
    size_t i = 0;

    while (i < sizeof(sections) / sizeof(sections[0]) && !slice_is(name, sections[i].name)) {
        i++;
    }
    return i;
}

enum cmd_result
cmd_info(struct cmd *c)
{
    struct slice section = c->words->n > 1 ? c->words->word[1] : SLICE_LIT("all");
    struct slice glob = c->words->n > 2 ? c->words->word[2] : SLICE_LIT("");
    struct info_work *w;

    if (slice_is(section, "lock") && c->words->n < 3) {
        writer_error(c->out, ERR_SYNTAX, "usage: INFO lock NAME");
        return CMD_DONE;
    }
    if (info_is_table(section)) {
        return info_table(c, section, glob, ROWS_MAX);
    }
    w = mem_zalloc(sizeof(*w) + glob.n);
    memcpy(w->glob, glob.n > 0 ? glob.p : "", glob.n);
    w->work = (struct listing_work){advance, finish, drop, NULL};
    outbox_init(&w->aside);
    w->in = (struct info){.engine = c->session->engine, .box = &w->aside, .glob = {w->glob, glob.n}};
    w->all = means_all(section);
    w->section = find_section(section);
    buf_init(&w->in.out, command_reply_bytes_max(c));
    return listing_run(c, &w->work);
}
