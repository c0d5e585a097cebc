/*
 * tables.h -- the tables of the simulator: faults, sights, controls; its counts; the events of its heap.
 */
#ifndef RLOCKD_TESTS_SIM_TABLES_H
#define RLOCKD_TESTS_SIM_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/clock.h"
#include "daemon/base/heap.h"
#include "daemon/base/kinds.h"
#include "daemon/base/list.h"

struct world;

enum { DAEMONS = 4 /* at most, as a seed draws */, DAEMONS_MAX = 4096 };
enum { SERVERS_MAX = 16, SESSIONS = 16, NAMES = 12, ASKED = 12, MANY = 4, SCRIPTS = 128, TOKEN_CLOCKS = 64,
       LEFT_MAX = SESSIONS * NAMES };
enum { LATE_US = 2000, LEASE_MAX_US = 6 * 1000 * 1000 /* at most, as clients request */ };

/* The shape of Redis. */
enum shape { SHAPE_STANDALONE, SHAPE_SENTINEL, SHAPE_QUORUM, SHAPE_CLUSTER, SHAPES };

enum fault {
#define FAULT(id, name, when, rate) FAULT_##id,
#define LOSS(id, name, when, rate) FAULT_##id,
#define OF_SHAPE(id, shape, name, when, rate) FAULT_##id,
#include "tests/sim/faults.def"
#undef FAULT
#undef LOSS
#undef OF_SHAPE
    FAULTS
};

/* Situations that a long run must have seen, and measured counts. */
enum sight {
#define SIGHT(id, name) SIGHT_##id,
#define SIGHT_OF_SHAPE(id, shape, name) SIGHT_##id,
#include "tests/sim/sights.def"
#undef SIGHT
#undef SIGHT_OF_SHAPE
    SIGHTS
};

enum drawn { DRAWN_MESSAGE, DRAWN_PUBLISHED, DRAWN_TICK, DRAWN_START, DRAWN_LOSS, DRAWN_SEED, DRAWN_NEVER };

struct fault_row {
    const char *name;
    enum drawn drawn;
    uint32_t rate;
    bool loss;
    enum shape shape; /* STANDALONE: of all */
};

struct sight_row {
    const char *name;
    enum shape shape;
};

extern const struct fault_row fault_rows[FAULTS];
extern const struct sight_row sight_rows[SIGHTS];
extern const char *const shape_names[SHAPES];

/* Deliberate faults that the invariants must notice. */
enum control {
    CONTROL_NONE,
#define CONTROL(id, name, help) CONTROL_##id,
#define CONTROL_OF_SHAPE(id, shape, name, help) CONTROL_##id,
#include "tests/sim/controls.def"
#undef CONTROL
#undef CONTROL_OF_SHAPE
    CONTROLS
};

struct control_row {
    const char *name, *help;
    enum shape shape; /* STANDALONE: of all */
};

extern const struct control_row control_rows[CONTROLS];

/* The counts of one process; added up over all processes. */
struct totals {
    uint64_t seeds, failed, events, commands, scripts, virtual_us, excused;
    uint64_t faults[FAULTS], sights[SIGHTS], shapes[SHAPES];
};

struct options {
    uint64_t seed, seeds;
    int jobs;
    int64_t virtual_us;
    enum control control;
    bool losses, trace, quiet, self_check, fleet;
    int daemons;   /* the first DAEMONS of them have clients; 0: as the seed draws */
    bool one_shape; /* all worlds are of this shape */
    enum shape shape;
    bool one_kind; /* all names are of this kind */
    enum kind kind;
};

/* ---- events ---- */

enum happening_type { HAPPENS_EVENT, HAPPENS_CONNECT, HAPPENS_THERE, HAPPENS_BACK, HAPPENS_CORE, HAPPENS_ACT,
                      HAPPENS_TICK, HAPPENS_LOSS, HAPPENS_DOOM, HAPPENS_RUSH, HAPPENS_SYNC };

/* An event in the heap of the world. A paused daemon takes it when it goes on. */
struct happening {
    struct heap_node node;
    enum happening_type type;
    struct daemon *daemon; /* the daemon whose event it is; NULL: the world's or Redis's */
};

#endif
