/*
 * reply_form.h -- how a reply of the core is written: natively, or as Redis would answer the client's command.
 *
 * The form is the request's, kept in its slot; the core does not get it. Whatever the form, an answer that is neither
 * yes nor no (UNAVAILABLE, DRAINING, KIND, LIMIT ...) is written as the error it is.
 */
#ifndef RLOCKD_SERVE_REPLY_FORM_H
#define RLOCKD_SERVE_REPLY_FORM_H

#include "daemon/core/core.h"
#include "proto/writer.h"

struct engine;

enum reply_form {
    FORM_NATIVE, /* the reply of LOCK and other native commands in PROTOCOL.md */
    FORM_SET,    /* +OK, or null */
    FORM_STATUS, /* +OK, or :0 */
    FORM_COUNT,  /* the number of names of which the owner holds nothing any more */
    FORM_ALL,    /* how many names there are; :0 when the answer for one of them is no */
    REPLY_FORMS
};

struct outbox;
struct outbox_mark;

/* Writes one whole value into the box, in RESP 2 or 3, with the grants that it relies on. */
void reply_form_write(struct engine *e, struct outbox *box, int proto, enum reply_form form,
                      const struct core_reply *r);

/* outbox_env.rewrite: the reply in place of one that is not valid any more. */
void reply_form_rewrite(struct engine *e, const struct outbox_mark *m, struct buf *out);

#endif
