/*
 * link_messages.c -- which replies of a subscriber link end no command: messages, and ends of subscriptions.
 *
 * LM1 A node of a cluster that loses a slot ends each subscription there by a message like the answer to SUNSUBSCRIBE.
 *     If a SUNSUBSCRIBE of the channel is in flight then, its own answer follows, an error. Nothing tells that message
 *     from an answer, so a PING follows each SUNSUBSCRIBE, and the answer to the PING ends both commands.
 */
#include "daemon/backend/call.h"
#include "daemon/backend/link_private.h"

/* The answer to SUBSCRIBE is an array of three, too, with another first text. */
static bool
is_message(const struct reply *r)
{
    return r->type == REPLY_ARRAY && r->count == 3 && r->item[0]->type == REPLY_TEXT &&
           (slice_is(r->item[0]->text, "message") || slice_is(r->item[0]->text, "smessage")) &&
           r->item[1]->type == REPLY_TEXT;
}

static bool
is_end(const struct reply *r)
{
    return r->type == REPLY_ARRAY && r->count == 3 && r->item[0]->type == REPLY_TEXT &&
           slice_is(r->item[0]->text, "sunsubscribe") && r->item[1]->type == REPLY_TEXT;
}

/* An ACL forbids PING. The versions of Redis word this differently, and all quote the name of the command. */
static bool
is_forbidden_ping(struct slice error)
{
    return slice_begins(error, "NOPERM ") && memmem(error.p, error.n, "'ping'", 6) != NULL;
}

/*
 * A transient error may be the answer to the PING, or to both commands, and no answer follows a forbidden PING: the
 * link reconnects, which ends both.
 */
static enum link_reply_type
type_of_error(struct slice error)
{
    bool fails = (text_error_is_transient(error) && !call_is_redirected(error)) || is_forbidden_ping(error);

    return fails ? LINK_REPLY_AMBIGUOUS : LINK_REPLY_PART;
}

enum link_reply_type
link_reply_type_of(const struct redis_link *l, const struct reply *r)
{
    uint64_t leaves = list_empty(&l->sent) ? 0 : container_of(l->sent.next, struct link_command, node)->leaves;

    if (is_message(r)) {
        return LINK_REPLY_MESSAGE;
    }
    if (is_end(r)) {
        return leaves == link_channel_hash(l, r->item[1]->text) ? LINK_REPLY_PART : LINK_REPLY_MESSAGE;
    }
    return leaves != 0 && r->type == REPLY_ERROR ? type_of_error(r->text) : LINK_REPLY_ANSWER;
}
