/*
 * commands_admin.h -- what an admin does to other sessions.
 */
#ifndef RLOCKD_SERVE_COMMANDS_ADMIN_H
#define RLOCKD_SERVE_COMMANDS_ADMIN_H

struct session;

/* Ends a session; a session that kills itself still gets its reply. */
void command_kill(struct session *victim, struct session *by);

#endif
