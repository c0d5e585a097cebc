/*
 * news.h -- what those who listen to a lock or a session are told of a claim; private to daemon/core.
 */
#ifndef RLOCKD_CORE_NEWS_H
#define RLOCKD_CORE_NEWS_H

#include "daemon/core/claim.h"
#include "daemon/core/core.h"

struct core;

/* news.c */
void lock_news(struct core *c, const struct claim *cl, enum core_news news, const char *reason);

#endif
