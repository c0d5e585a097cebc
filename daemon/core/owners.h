/*
 * owners.h -- owners, the order in which their requests begin, and what a user may have; private to daemon/core.
 */
#ifndef RLOCKD_CORE_OWNERS_H
#define RLOCKD_CORE_OWNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/core/core.h"
#include "daemon/core/owner.h"

struct core;
struct lock;
struct request;

/* owners.c */
struct core_session *core_session_find(const struct core *c, uint64_t id);
enum core_answer owner_get(struct core *c, struct core_session *s, struct slice name, bool create, struct owner **out);
void owner_used(struct core *c, const struct core_request *rq); /* its session uses the owner */
struct owner *owner_restore(struct core *c, struct slice name); /* n == 0: one that has ended */
/* raises the owner's grace to that of the lock, and to what its request asks for */
bool owner_raise_grace(struct owner *o, const struct lock *l, int64_t asked_us); /* true: it is longer now */
struct owner *owner_find(const struct core *c, struct slice name); /* NULL: there is no such named owner */
/* no session uses the owner: it ends at owner_grace_until_us */
void owner_begin_grace(struct core *c, struct owner *o, int64_t owner_grace_until_us);
struct owner *owner_new(struct core *c, uint64_t id);
void owner_free(struct core *c, struct owner *o);
void session_owner_free(struct core *c, struct session_owner *so); /* the last one of an owner begins its grace */

/* order.c */
/* the request that may begin now; NULL: none may */
struct request *order_next(const struct core *c, const struct owner *o);
void order_check(const struct core *c, const struct owner *o); /* asserts I9 */

/* users.c */
void user_enter(struct core *c, struct core_session *s, uint64_t key);
void user_leave(struct core *c, struct core_session *s);
void user_add_owner(struct owner *o, struct user *u);          /* an owner without a user counts for u, from now on */
void user_remove_owner(struct core *c, struct owner *o);
uint64_t user_claims(const struct owner *o); /* of all owners of its user */
void user_count_claim(const struct owner *o, int by);
void user_count_blocking(const struct core_session *s, int by);
void user_count_session_owner(struct core_session *s, int by); /* for the session, too */
uint64_t user_session_owners(const struct core_session *s); /* of all sessions of its user */
/*
 * True if a user that has `mine` of a limit for all (0 = no limit) may have one more, when all have `used`. A refusal
 * is counted if other users have room.
 */
bool user_has_room(struct core *c, const struct user *u, uint64_t limit, uint64_t used, uint64_t mine);

#endif
