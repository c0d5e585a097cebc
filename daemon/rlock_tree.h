/*
 * rlock_tree.h -- all processes that a command has started, also those that have left its process group.
 */
#ifndef RLOCKD_RLOCK_TREE_H
#define RLOCKD_RLOCK_TREE_H

#include <stdbool.h>
#include <stdint.h>

/* From now on descendants whose parent has ended become children of this process (or of a descendant that does so). */
void tree_adopt(void);

/* KILL to every child; theirs become ours, see tree_adopt(). */
void tree_signal_kill(void);

/* Reaps, and waits until there is no child any more. False: some are left at the deadline. */
bool tree_wait(int64_t deadline_us);

/* KILL until nothing is left, for some seconds at most: what may not be killed (it runs as somebody else) stays. */
bool tree_kill(void);

#endif
