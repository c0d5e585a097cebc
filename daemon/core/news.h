/*
 * news.h -- the events of a claim for the sessions that subscribe to them; private to daemon/core.
 */
#ifndef RLOCKD_CORE_NEWS_H
#define RLOCKD_CORE_NEWS_H

#include "daemon/core/claim.h"
#include "daemon/core/core.h"

struct core;

/* news.c */
void news_publish(struct core *c, const struct claim *cl, enum core_news news, const char *reason);

#endif
