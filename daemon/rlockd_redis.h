/*
 * rlockd_redis.h -- the Redis that rlockd starts for itself (`--redis embedded`), and keeps running.
 */
#ifndef RLOCKD_REDIS_H
#define RLOCKD_REDIS_H

#include <stdbool.h>

#include "conf/conf.h"
#include "daemon/backend/embedded.h"
#include "daemon/base/log.h"

/*
 * Starts the Redis if the configuration asks for it, and puts its address into the configuration; else *e stays NULL.
 * False with a message in `error`; *e is NULL then.
 */
bool own_redis_start(struct embedded **e, struct conf *cf, const struct log *log, char error[160]);

/* The backend takes real addresses only: replaces "embedded" in the configuration by the address of this Redis. */
void own_redis_put_url(const struct embedded *e, struct conf *cf);

/* Restarts the Redis if it has ended. False: it has ended again too soon, or cannot be started. */
bool own_redis_restart(struct embedded *e, const struct log *log);

#endif
