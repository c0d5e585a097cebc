/*
 * rlock_descendants.h -- the descendants of a command, also those that have left its process group.
 */
#ifndef RLOCKD_RLOCK_DESCENDANTS_H
#define RLOCKD_RLOCK_DESCENDANTS_H

#include <stdbool.h>

/* Makes this process a subreaper: orphaned descendants become its children (or those of a nearer subreaper). */
void descendants_adopt(void);

/* Sends KILL to every child of this process; their children become its own, see descendants_adopt(). */
void descendants_signal_kill(void);

/* Reaps the children that have ended. True: none is left. */
bool descendants_reap(void);

/* KILL until no child is left, 5 s at most. False: some are left; rlock may not kill a process of another user. */
bool descendants_kill(void);

#endif
