/*
 * tree.h -- the tree of owners that wait for each other.
 */
#ifndef RLOCKD_SERVE_TREE_H
#define RLOCKD_SERVE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/buf.h"
#include "daemon/base/slice.h"

struct engine;
struct outbox;

/*
 * Which owner waits for which: the names that match the glob, and the names above them in the tree, in at most rows_max
 * lines. tree_advance() takes some tens of microseconds; when it returns false, the tree can be printed.
 */
struct tree;
struct tree *tree_new(struct engine *e, struct slice glob, size_t rows_max);
bool tree_advance(struct tree *t, int64_t now_us);
void tree_print(struct tree *t, struct buf *out, struct outbox *box); /* box: notes the grants relied on */
void tree_free(struct tree *t);

#endif
