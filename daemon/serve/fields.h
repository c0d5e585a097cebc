/*
 * fields.h -- one record for two readers: a map for programs, a row of an aligned table for people.
 *
 * Each kind of record is described once, as a short array of fields; fields_write_map() and fields_add_row() print it.
 */
#ifndef RLOCKD_SERVE_FIELDS_H
#define RLOCKD_SERVE_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/buf.h"
#include "proto/writer.h"

#define FIELDS_MAX 24
#define FIELD_NAME_SHOWN 64 /* bytes of a name in a table */

enum field_type { FIELD_NONE, FIELD_TEXT, FIELD_NUMBER, FIELD_MS };

struct field {
    const char *key; /* in the map; in capitals and without "_ms" the head of the column */
    enum field_type type;
    struct slice text; /* borrowed */
    int64_t number;
    bool map_only;     /* too wide for a table */
    const char *brief; /* what a table shows instead; NULL = the value */
};

/* Where a value was written, in the bytes of the writer. */
struct fields_range {
    size_t from, to;
};

/* An integer was just written; the range of its digits: behind its ":", before its CRLF. */
static inline struct fields_range
fields_integer_range(size_t before, size_t after)
{
    return (struct fields_range){before + 1, after - 2};
}

struct fields {
    struct field field[FIELDS_MAX];
    unsigned n;
    unsigned range_field;     /* number of the field, from 1 on, whose value's range is to be noted ... */
    struct fields_range *range; /* ... here; NULL: none is to be */
};

void fields_text(struct fields *f, const char *key, struct slice text);
void fields_number(struct fields *f, const char *key, int64_t n);
void fields_ms(struct fields *f, const char *key, int64_t us); /* whole ms; below zero: -1, "-" */
void fields_none(struct fields *f, const char *key);
/* The next three are about the field that was added last. This one: tables leave the field out. */
void fields_map_only(struct fields *f);
/* Notes where its value is in the bytes of the map. */
void fields_note_range(struct fields *f, struct fields_range *range);
/* Tables show this static text instead of its value. */
void fields_brief(struct fields *f, const char *text);

void fields_write_map(const struct fields *f, struct writer *w);

/* Values whose number is known only at the end: they are written here, then sent behind their header. */
struct rows {
    struct buf buf;  /* owned */
    struct writer w; /* into buf */
    size_t n;        /* counted by the caller */
};

/*
 * The longest reply, as a multiple of limits.output_bytes: one reply of a session may pass that limit, and the session
 * runs no request while its output is past the limit. A longer reply is replaced by -LIMIT, so that no client makes
 * rlockd hold memory without a bound.
 */
#define REPLY_TIMES_OUTPUT 64

void fields_rows_init(struct rows *r, const struct writer *out);

/* Sends them as an array of n values, or as a map of n pairs, and frees. */
void fields_rows_send(struct rows *r, struct writer *out, bool map);

/* Refuses a reply that is too long: see REPLY_TIMES_OUTPUT. */
void fields_refuse_length(struct writer *out);

/* Sends text for people, verbatim in RESP3, and frees it. */
void fields_send_text(struct buf *text, struct writer *out);

/* Rows are gathered, then printed with every column as wide as its widest cell. */
struct table {
    struct buf cells; /* owned: each cell NUL-terminated, row after row, the heads first */
    size_t width[FIELDS_MAX];
    unsigned columns;
    size_t rows, left_out;
    size_t rows_max;
};

void fields_table_init(struct table *t, size_t rows_max);
void fields_table_fini(struct table *t);

/* The first row gives the columns. Past rows_max it is only counted. */
void fields_add_row(struct table *t, const struct fields *f);

/* CRLF lines; nothing but `empty` when there is no row. */
void fields_print_table(const struct table *t, const char *empty, struct buf *out);

/* "850ms", "21.4s", "12m34s", "5h12m", "6d04h"; "-" below zero. */
void fields_print_duration(int64_t ms, char out[24]);

/* Escaped, cut after FIELD_NAME_SHOWN bytes (then with "..."). */
void fields_print_name(struct slice name, struct buf *out);

/* The same between double quotes. */
void fields_quote_name(struct slice name, struct buf *out);

#endif
