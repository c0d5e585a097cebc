/*
 * multilock_record.h -- the requests of one MLOCK, MUNLOCK or MRENEW, which has one answer; private to daemon/core.
 */
#ifndef RLOCKD_CORE_MULTILOCK_RECORD_H
#define RLOCKD_CORE_MULTILOCK_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/core/core.h"

struct request;

struct multilock {
    enum core_event_type verb;
    uint64_t session, id;
    struct request *member[CORE_MULTILOCK_MAX]; /* in the order they were asked for */
    struct core_reply part[CORE_MULTILOCK_MAX]; /* their answers; names are copied behind the struct */
    size_t names_n;                        /* that were asked for: of member[] and part[] */
    size_t alive_n;                        /* members that are not NULL */
    size_t answered_n;                     /* parts that have their answer */
    bool full;
    bool failed;                           /* MLOCK: it has failed, and was answered */
    struct list dirty_node;                /* core.dirty_multilocks: all is granted, or what was granted goes back */
};

#endif
