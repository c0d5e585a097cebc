/*
 * generation_marks.h -- slots that a node reports open although another node owns them; for the files of
 * generations_private.h.
 */
#ifndef RLOCKD_BACKEND_GENERATION_MARKS_H
#define RLOCKD_BACKEND_GENERATION_MARKS_H

#include <stdint.h>

#include "daemon/backend/generations.h"

struct generations;

void generation_marks_take(struct generations *g, uint16_t node, const struct node_answer *a, bool same_origin);
void generation_marks_drop(struct generations *g, uint16_t node); /* the node is no master any more, or has left */
void generation_marks_check(struct generations *g, uint16_t slot); /* opens or closes the slot by its marks */
void generation_marks_check_all(struct generations *g);

#endif
