/*
 * redis.c -- one simulated Redis: its clock, its identity, its faults, and the entry of commands.
 */
#include "tests/sim/redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/backend/sha1.h"
#include "daemon/base/buf.h"
#include "tests/sim/inside.h"

static void
name_it(char to[ID_BYTES + 1], const char *from)
{
    snprintf(to, ID_BYTES + 1, "%s", from);
}

struct sim_redis *
sim_redis_new(const char *run_id, const char *replid)
{
    struct sim_redis *r = data_alloc(NULL, sizeof(*r));

    memset(r, 0, sizeof(*r));
    r->born_us = -1;
    name_it(r->run_id, run_id);
    name_it(r->replid, replid);
    memset(r->replid2, '0', ID_BYTES);
    return r;
}

void
sim_redis_free(struct sim_redis **r)
{
    if (*r != NULL) {
        data_clear(&(*r)->data);
        out_fini(&(*r)->out);
        free((*r)->refuse);
        free((*r)->script);
        free(*r);
        *r = NULL;
    }
}

void
sim_redis_on_publish(struct sim_redis *r, sim_publish_fn *fn, void *ctx)
{
    r->publish = fn;
    r->publish_ctx = ctx;
}

void
sim_redis_started(struct sim_redis *r, int64_t wall_us)
{
    r->born_us = wall_us;
}

/* ---- faults ---- */

struct sim_redis *
sim_redis_copy(const struct sim_redis *r)
{
    char run_id[SHA1_HEX_BYTES + 1];
    struct sim_redis *copy;

    sha1_hex(slice_of(r->run_id), run_id);
    copy = sim_redis_new(run_id, r->replid);
    memcpy(copy->replid2, r->replid2, sizeof(copy->replid2));
    copy->replica = true;
    data_copy(&copy->data, &r->data);
    return copy;
}

void
sim_redis_restart(struct sim_redis *r, const struct sim_redis *data, const char *run_id, const char *replid)
{
    if (data != r) {
        data_clear(&r->data);
        if (data != NULL) {
            data_copy(&r->data, &data->data);
        }
    }
    name_it(r->run_id, run_id);
    name_it(r->replid, replid);
    memset(r->replid2, '0', ID_BYTES);
    r->replica = r->flushed = false;
    r->born_us = -1;
    script_forget(r);
}

/* The id of the replication until now becomes the second id, as in PSYNC2. */
void
sim_redis_promote(struct sim_redis *r, const char *replid)
{
    memcpy(r->replid2, r->replid, sizeof(r->replid2));
    name_it(r->replid, replid);
    r->replica = false;
}

void
sim_redis_flush(struct sim_redis *r)
{
    data_clear(&r->data);
    r->flushed = true;
}

void
sim_redis_script_flush(struct sim_redis *r)
{
    script_forget(r);
}

void
sim_redis_full(struct sim_redis *r, bool full)
{
    r->full = full;
}

void
sim_redis_alone(struct sim_redis *r, bool alone)
{
    r->alone = alone;
}

void
sim_redis_follow(struct sim_redis *r, const struct sim_redis *master)
{
    data_clear(&r->data);
    data_copy(&r->data, &master->data);
    memcpy(r->replid, master->replid, sizeof(r->replid));
    memcpy(r->replid2, master->replid2, sizeof(r->replid2));
    r->replica = true;
    r->alone = false;
}

void
sim_redis_refuse(struct sim_redis *r, const char *error)
{
    free(r->refuse);
    r->refuse = error == NULL ? NULL : strdup(error);
    if (error != NULL && r->refuse == NULL) {
        abort();
    }
}

void
sim_redis_keys(struct sim_redis *r, int64_t wall_us, void (*fn)(void *ctx, struct slice key), void *ctx)
{
    size_t n;
    struct key **all = data_sorted(&r->data, &n);

    for (size_t i = 0; i < n; i++) {
        if (all[i]->expire_ms < 0 || wall_us / 1000 <= all[i]->expire_ms) {
            fn(ctx, key_name(all[i]));
        }
    }
    free(all);
}

bool
sim_redis_ordered(const struct sim_redis *r, struct slice key)
{
    const struct key *k = data_find(&r->data, key);

    return k == NULL || (k->type != TYPE_SET && !(k->type == TYPE_HASH && k->large));
}

/* ---- INFO ---- */

static void
info_server(const struct sim_redis *r, struct buf *b)
{
    int64_t up = (r->wall_us - r->born_us) / 1000000;

    buf_printf(b, "# Server\r\nredis_version:7.0.15\r\nredis_mode:%s\r\nos:simulated\r\narch_bits:64\r\n"
                  "process_id:1\r\nrun_id:%s\r\ntcp_port:6379\r\nserver_time_usec:%" PRId64 "\r\n"
                  "uptime_in_seconds:%" PRId64 "\r\nuptime_in_days:%" PRId64 "\r\n",
               r->slots != NULL ? "cluster" : "standalone", r->run_id, r->wall_us, up, up / 86400);
}

static void
info_memory(const struct sim_redis *r, struct buf *b)
{
    buf_printf(b, "# Memory\r\nused_memory:1000000\r\nmaxmemory:%d\r\nmaxmemory_policy:noeviction\r\n",
               r->full ? 1 : 0);
}

static void
info_replication(const struct sim_redis *r, struct buf *b)
{
    buf_printf(b, "# Replication\r\nrole:%s\r\n", r->replica ? "slave" : "master");
    if (r->replica) {
        buf_adds(b, "master_host:127.0.0.1\r\nmaster_port:6379\r\nmaster_link_status:up\r\nslave_read_only:1\r\n");
    }
    buf_printf(b, "connected_slaves:0\r\nmaster_failover_state:no-failover\r\nmaster_replid:%s\r\nmaster_replid2:%s\r\n"
                  "master_repl_offset:0\r\nsecond_repl_offset:-1\r\n",
               r->replid, r->replid2);
}

static void
info_keyspace(const struct sim_redis *r, struct buf *b)
{
    buf_adds(b, "# Keyspace\r\n");
    if (r->data.keys != NULL) {
        buf_printf(b, "db0:keys=%u\r\n", HASH_COUNT(r->data.keys));
    }
}

/* The commands that daemons ask for, of all commands that ever ran. */
static void
info_commandstats(const struct sim_redis *r, struct buf *b)
{
    buf_adds(b, "# Commandstats\r\n");
    if (r->flushed) {
        buf_adds(b, "cmdstat_flushall:calls=1,usec=9,usec_per_call=9.00,rejected_calls=0,failed_calls=0\r\n");
    }
}

static const struct {
    const char *name;
    void (*print)(const struct sim_redis *r, struct buf *b);
    bool usual; /* also in an INFO without sections */
} info_sections[] = {
    {"server", info_server, true},
    {"memory", info_memory, true},
    {"replication", info_replication, true},
    {"commandstats", info_commandstats, false},
    {"keyspace", info_keyspace, true},
};

/* Only the fields that this Redis has. */
const struct reply *
cmd_info(struct sim_redis *r, int n, const struct slice *w)
{
    struct reply *reply;
    struct buf b;

    buf_init(&b, 0);
    for (size_t s = 0; s < sizeof(info_sections) / sizeof(info_sections[0]); s++) {
        bool usual = info_sections[s].usual, wanted = n == 1 && usual;

        for (int i = 1; i < n; i++) {
            wanted = wanted || slice_is(w[i], info_sections[s].name) || slice_is(w[i], "all") ||
                     (slice_is(w[i], "default") && usual) || slice_is(w[i], "everything");
        }
        if (wanted) {
            buf_adds(&b, b.n > 0 ? "\r\n" : "");
            info_sections[s].print(r, &b);
        }
    }
    if (b.failed) {
        abort();
    }
    reply = out_text(&r->out, buf_slice(&b));
    buf_fini(&b);
    return reply;
}

/* ---- commands ---- */

static const struct reply *
unknown(struct sim_redis *r, int n, const struct slice *w)
{
    struct reply *reply;
    struct buf args;

    buf_init(&args, 0);
    for (int i = 1; i < n && args.n < 128; i++) {
        int most = 128 - (int)args.n;

        buf_printf(&args, "'%.*s' ", (int)w[i].n < most ? (int)w[i].n : most, w[i].p);
    }
    reply = out_error(&r->out, "ERR unknown command '%.*s', with args beginning with: %.*s",
                      (int)(w[0].n < 128 ? w[0].n : 128), w[0].p, (int)args.n, args.n > 0 ? args.p : "");
    buf_fini(&args);
    return reply;
}

uint64_t
sim_redis_calls(const struct sim_redis *r)
{
    return r->calls;
}

const struct reply *
sim_redis_command(struct sim_redis *r, int64_t wall_us, int words, const struct slice *word)
{
    const struct command *c;

    out_reset(&r->out);
    r->wall_us = wall_us;
    r->now_ms = wall_us / 1000;
    if (r->born_us < 0) {
        r->born_us = wall_us;
    }
    if (r->refuse != NULL) {
        return out_error(&r->out, "%s", r->refuse);
    }
    c = command_find(word[0]);
    if (c == NULL) {
        return unknown(r, words, word);
    }
    if (!command_arity_ok(c, words)) {
        return arity_error(r, c->name);
    }
    if ((c->flags & CMD_OOM) && r->full) {
        return out_error(&r->out, "OOM command not allowed when used memory > 'maxmemory'.");
    }
    if ((c->flags & CMD_WRITE) && r->alone) {
        return out_error(&r->out, "NOREPLICAS Not enough good replicas to write.");
    }
    if ((c->flags & CMD_WRITE) && r->replica) {
        return out_error(&r->out, "READONLY You can't write against a read only replica.");
    }
    return c->run(r, words, word);
}
