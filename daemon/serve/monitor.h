/*
 * monitor.h -- every command, as MONITOR shows it.
 */
#ifndef RLOCKD_SERVE_MONITOR_H
#define RLOCKD_SERVE_MONITOR_H

struct cmd;

/* Sends the command to every MONITOR session, before it runs. */
void monitor_feed(const struct cmd *c);

#endif
