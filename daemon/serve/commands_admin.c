/*
 * commands_admin.c -- KILL and DRAIN: what an admin does to sessions and the daemon; DEBUG, for tests. BREAK is a
 * request about a lock: commands_lock.c.
 */
#include "daemon/base/clock.h"
#include "daemon/base/units.h"
#include "daemon/serve/cmd.h"
#include "daemon/serve/commands.h"
#include "daemon/serve/drain.h"
#include "daemon/serve/session_out.h"
#include "daemon/serve/session_record.h"
#include "daemon/serve/sessions.h"
#include "daemon/serve/step.h"

enum cmd_result
cmd_kill(struct cmd *c)
{
    struct session *victim = NULL;
    int64_t id;

    if (number_parse(c->words->word[1], &id)) {
        victim = session_find(c->session->engine, (uint64_t)id);
    }
    if (victim == NULL) {
        writer_error(c->out, ERR_SYNTAX, "no such session");
        return CMD_DONE;
    }
    writer_simple(c->out, "OK");
    session_kill(victim, c->session);
    return CMD_DONE;
}

enum cmd_result
cmd_drain(struct cmd *c)
{
    writer_simple(c->out, "OK");
    drain_start(c->session->engine, 0);
    return CMD_DONE;
}

#ifdef RLOCKD_TEST_CLOCK
/* Blocks the loop as a long step would: tests/hostile proves by it that it notices such a step. */
static void
stall(int64_t us)
{
    int64_t end_us = clock_now_us() + us;

    while (clock_now_us() < end_us) {
    }
}

enum cmd_result
cmd_debug(struct cmd *c)
{
    struct core_event ev = {.type = CORE_TIME};
    struct slice what = c->words->word[1];
    int64_t us;

    if (!(slice_is(what, "ADVANCE") || slice_is(what, "STALL")) || !duration_parse(c->words->word[2], &us)) {
        writer_error(c->out, ERR_SYNTAX, "usage: DEBUG ADVANCE|STALL duration");
        return CMD_DONE;
    }
    if (slice_is(what, "STALL")) {
        stall(us);
    } else {
        clock_advance_us(us);
    }
    engine_step(c->session->engine, &ev);
    writer_simple(c->out, "OK");
    return CMD_DONE;
}
#endif
