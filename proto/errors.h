/*
 * errors.h -- the errors of the wire as a table (errors.def).
 */
#ifndef RLOCKD_PROTO_ERRORS_H
#define RLOCKD_PROTO_ERRORS_H

enum error_code {
#define ERROR(id, prefix, text, meaning) ERR_##id,
#include "proto/errors.def"
#undef ERROR
    ERRORS
};

struct error_row {
    const char *prefix, *text, *meaning;
};

extern const struct error_row error_rows[ERRORS];

#endif
