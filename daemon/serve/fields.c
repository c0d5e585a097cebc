/*
 * fields.c -- one record for two readers: a map for programs, a row of an aligned table for people.
 *
 * Owns the cells of a table until it is printed. No byte of a client moves a column: texts that clients chose are
 * escaped and cut. A buf that has passed its `max` is `failed`; its owner checks that once, before it sends.
 */
#include "daemon/serve/fields.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/clock.h"

static struct field *
add(struct fields *f, const char *key, enum field_type type)
{
    struct field *fd = &f->field[f->n++];

    assert(f->n <= FIELDS_MAX);
    *fd = (struct field){.key = key, .type = type};
    return fd;
}

void
fields_text(struct fields *f, const char *key, struct slice text)
{
    add(f, key, FIELD_TEXT)->text = text;
}

void
fields_number(struct fields *f, const char *key, int64_t n)
{
    add(f, key, FIELD_NUMBER)->number = n;
}

void
fields_ms(struct fields *f, const char *key, int64_t us)
{
    add(f, key, FIELD_MS)->number = us < 0 ? -1 : us / US_PER_MS;
}

void
fields_none(struct fields *f, const char *key)
{
    add(f, key, FIELD_NONE);
}

void
fields_map_only(struct fields *f)
{
    assert(f->n > 0);
    f->field[f->n - 1].map_only = true;
}

void
fields_brief(struct fields *f, const char *text)
{
    assert(f->n > 0);
    f->field[f->n - 1].brief = text;
}

void
fields_note_range(struct fields *f, struct fields_range *range)
{
    f->range_field = f->n;
    f->range = range;
}

/* Notes where a text or number was just written. */
static void
set_range(const struct field *fd, size_t before, size_t after, struct fields_range *range)
{
    *range = fields_integer_range(before, after);
    if (fd->type == FIELD_TEXT) { /* its length stands in front of it */
        range->from = range->to - fd->text.n;
    }
}

void
fields_write_map(const struct fields *f, struct writer *w)
{
    unsigned i;

    writer_map(w, f->n);
    for (i = 0; i < f->n; i++) {
        const struct field *fd = &f->field[i];
        size_t before;

        writer_text(w, fd->key);
        before = w->out->n;
        switch (fd->type) {
        case FIELD_NONE:
            writer_null(w);
            break;
        case FIELD_TEXT:
            writer_bulk(w, fd->text);
            break;
        case FIELD_NUMBER:
        case FIELD_MS:
            writer_int(w, fd->number);
            break;
        }
        if (f->range != NULL && i + 1 == f->range_field) {
            set_range(fd, before, w->out->n, f->range);
        }
    }
}

void
fields_rows_init(struct rows *r, const struct writer *out)
{
    *r = (struct rows){.w = {.proto = out->proto}};
    buf_init(&r->buf, 0);
    r->w.out = &r->buf;
}

void
fields_refuse_length(struct writer *out)
{
    writer_error(out, ERR_LIMIT, "the reply is too long: narrow it down with a glob");
}

void
fields_send_text(struct buf *text, struct writer *out)
{
    if (text->failed) {
        fields_refuse_length(out);
    } else {
        writer_verbatim(out, buf_slice(text));
    }
    buf_fini(text);
}

void
fields_rows_send(struct rows *r, struct writer *out, bool map)
{
    if (map) {
        writer_map(out, r->n);
    } else {
        writer_array(out, r->n);
    }
    buf_add_slice(out->out, buf_slice(&r->buf));
    buf_fini(&r->buf);
}

void
fields_print_duration(int64_t ms, char out[24])
{
    int64_t s = ms / 1000;

    if (ms < 0) {
        snprintf(out, 24, "-");
    } else if (ms < 1000) {
        snprintf(out, 24, "%" PRId64 "ms", ms);
    } else if (s < 100) {
        snprintf(out, 24, "%" PRId64 ".%" PRId64 "s", s, ms % 1000 / 100);
    } else if (s < 6000) {
        snprintf(out, 24, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    } else if (s < 100 * 3600) {
        snprintf(out, 24, "%" PRId64 "h%02" PRId64 "m", s / 3600, s % 3600 / 60);
    } else {
        snprintf(out, 24, "%" PRId64 "d%02" PRId64 "h", s / 86400, s % 86400 / 3600);
    }
}

void
fields_print_name(struct slice name, struct buf *out)
{
    bool cut = name.n > FIELD_NAME_SHOWN;

    buf_add_escaped(out, (struct slice){name.p, cut ? FIELD_NAME_SHOWN : name.n});
    if (cut) {
        buf_adds(out, "...");
    }
}

void
fields_quote_name(struct slice name, struct buf *out)
{
    buf_adds(out, "\"");
    fields_print_name(name, out);
    buf_adds(out, "\"");
}

void
fields_table_init(struct table *t, size_t rows_max)
{
    *t = (struct table){.rows_max = rows_max};
    buf_init(&t->cells, 0);
}

void
fields_table_fini(struct table *t)
{
    buf_fini(&t->cells);
}

static void
end_cell(struct table *t, unsigned column, size_t from)
{
    size_t n = t->cells.n - from;

    if (n > t->width[column]) {
        t->width[column] = n;
    }
    buf_add(&t->cells, "", 1);
}

/* "oldest_wait_ms" -> "OLDEST_WAIT" */
static void
add_head(struct table *t, unsigned column, const char *key)
{
    size_t from = t->cells.n, n = strlen(key), i;

    if (n > 3 && strcmp(key + n - 3, "_ms") == 0) {
        n -= 3;
    }
    for (i = 0; i < n; i++) {
        char c = (char)toupper((unsigned char)key[i]);

        buf_add(&t->cells, &c, 1);
    }
    end_cell(t, column, from);
}

static void
add_cell(struct table *t, unsigned column, const struct field *fd)
{
    size_t from = t->cells.n;
    char span[24];

    if (fd->brief != NULL) {
        buf_adds(&t->cells, fd->brief);
        end_cell(t, column, from);
        return;
    }
    switch (fd->type) {
    case FIELD_NONE:
        break; /* "-" below, as for an empty text */
    case FIELD_TEXT:
        fields_print_name(fd->text, &t->cells);
        break;
    case FIELD_NUMBER:
        buf_printf(&t->cells, "%" PRId64, fd->number);
        break;
    case FIELD_MS:
        fields_print_duration(fd->number, span);
        buf_adds(&t->cells, span);
        break;
    }
    if (t->cells.n == from) {
        buf_adds(&t->cells, "-");
    }
    end_cell(t, column, from);
}

void
fields_add_row(struct table *t, const struct fields *f)
{
    unsigned i, column = 0;

    if (t->rows >= t->rows_max) {
        t->left_out++;
        return;
    }
    if (t->columns == 0) {
        for (i = 0; i < f->n; i++) {
            if (!f->field[i].map_only) {
                add_head(t, t->columns++, f->field[i].key);
            }
        }
    }
    for (i = 0; i < f->n; i++) {
        if (!f->field[i].map_only) {
            add_cell(t, column++, &f->field[i]);
        }
    }
    assert(column == t->columns);
    t->rows++;
}

void
fields_print_table(const struct table *t, const char *empty, struct buf *out)
{
    const char *cell = t->cells.p;
    size_t row;
    unsigned i;

    if (t->rows == 0) {
        buf_printf(out, "%s\r\n", empty);
        return;
    }
    for (row = 0; row <= t->rows; row++) {
        for (i = 0; i < t->columns; i++) {
            bool last = i + 1 == t->columns;

            buf_printf(out, "%-*s%s", last ? 0 : (int)t->width[i], cell, last ? "\r\n" : "  ");
            cell += strlen(cell) + 1;
        }
    }
    if (t->left_out > 0) {
        buf_printf(out, "... and %zu more, not shown\r\n", t->left_out);
    }
}
