/*
 * rlock_tree.h -- the descendants of a command, also those that have left its process group.
 */
#ifndef RLOCKD_RLOCK_TREE_H
#define RLOCKD_RLOCK_TREE_H

#include <stdbool.h>

/* Makes this process a subreaper: orphaned descendants become its children (or those of a nearer subreaper). */
void tree_adopt(void);

/* Sends KILL to every child of this process; their children become its own, see tree_adopt(). */
void tree_signal_kill(void);

/* Reaps the children that have ended. True: none is left. */
bool tree_reap(void);

/* KILL until no child is left, 5 s at most. False: some are left; rlock may not kill a process of another user. */
bool tree_kill(void);

#endif
