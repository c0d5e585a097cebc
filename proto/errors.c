/*
 * errors.c -- the errors of the wire, from errors.def. Owns the table and nothing else.
 */
#include "proto/errors.h"

const struct error_row error_rows[ERRORS] = {
#define ERROR(id, prefix, text, meaning) [ERR_##id] = {prefix, text, meaning},
#include "proto/errors.def"
#undef ERROR
};
