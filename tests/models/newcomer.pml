/*
 * newcomer.pml -- the members that a grace period (membership.lua) waits for after a newcomer that others may not know.
 *
 * Daemon A is a member, and subscribed. Daemon N comes at any time, and takes the lock. Redis may lose its data twice,
 * by a flush, or by a restart, in which all connections end. The daemon that comes first begins an epoch. A takes the
 * lock when Redis grants it. Time does not pass: no grace period ends by time, and no lease ends.
 */
#define NONE 0
#define BY_N 1
#define BY_A 2

/*
 * What is proved:
 *   F1  a daemon that learns of the end of a grace period knows all members only after it has received them; and an
 *       answer from before a newcomer came does not remove the newcomer
 *   F2  the list of a daemon that is back arrives, in a part of its own, before the grace period may end
 *   F3  the name of a newcomer is published before it is answered; a published message arrives before A acts on the
 *       next answer of Redis, and before A finds its connections ended
 *   P1  A does not take the lock while N holds it
 *
 * Variants, each with one rule broken: NOT_ANNOUNCED; TRIP: a message is lost with the connection; LIST_LATE: the grace
 * period may end before the list arrives; OVER_UNREPORTED: a daemon that learns of its end takes its list for whole;
 * NO_LASTS: a daemon that has not learned of its end says that it knows all members; SWEPT: an old answer removes a
 * newcomer; NONE_COUNTED: the number of subscribers is not used. HAPPENS breaks no rule: it asserts that A does not
 * take the lock after two losses, which is false. Not modelled: a daemon that is cut off while a newcomer comes
 * (membership_lost() in membership.c), since N comes while A is subscribed, or in a grace period.
 */

/* Redis. */
byte epoch = 1, next = 2, lock = NONE, wanted = 0, losses = 2;
bool grace, unknown, known_all;
bool member_a = true, member_n, awaited_a, awaited_n, back_a, back_n;
bool pending_a;                /* A's list is still to come */
bool message;                  /* the message that N has come is on its way to A */

/* The daemons. */
byte a_epoch = 1, n_epoch = 0;
bool a_up = true, n_up = true, a_listens = true, n_listens;
bool a_in_grace, a_all = true; /* A knows all members */
bool a_knows_n, n_holds, n_reclaimed, a_was_here, n_was_here;
bool an_answer, old_answer_n;  /* an answer of Redis to A is under way: whether N was a member then */
byte answer_epoch;

#ifdef LIST_LATE
#define REPORT_CAME true
#else
#define REPORT_CAME (!pending_a)
#endif

inline begin()
{
    epoch = next;
    next++;
    wanted = a_listens + n_listens;
#ifdef NONE_COUNTED
    wanted = 0;
#endif
    grace = true;
    unknown = false; known_all = false;
    awaited_a = false; awaited_n = false; back_a = false; back_n = false;
    pending_a = false; a_was_here = false; n_was_here = false;
}

inline end_if_over()
{
    if
    :: grace && !awaited_a && !awaited_n && !(unknown && !known_all) && back_a + back_n >= wanted && REPORT_CAME ->
        grace = false;
    :: else -> skip;
    fi;
}

active proctype A()
{
    do
    :: atomic { message -> message = false; a_knows_n = true; }
    :: atomic { !a_up && !message -> a_up = true; }           /* connects again */
#ifdef TRIP
    :: atomic { !a_up && message -> message = false; a_up = true; }
#endif
    :: atomic { a_up && !a_listens && a_epoch == epoch -> a_listens = true; a_all = a_all && !member_n || a_knows_n; }
    :: atomic { a_up && !message ->                            /* registers */
            if
            :: epoch == 0 -> begin();
            :: else -> skip;
            fi;
            member_a = true;
            if
            :: grace && a_epoch != epoch && !a_was_here ->
                a_was_here = true;
                awaited_a = true;
                if
#ifdef NO_LASTS
                :: a_all -> known_all = true;
#else
                :: a_all && !a_in_grace -> known_all = true;
#endif
                :: else -> unknown = true;
                fi;
                pending_a = a_knows_n;
                a_all = a_all && !a_in_grace;
                a_epoch = epoch;
                a_in_grace = true;
            :: grace && a_epoch == epoch && REPORT_CAME ->           /* the registration has its report */
                awaited_a = false;
                back_a = true;
            :: !grace && (a_in_grace || a_epoch != epoch) ->
                a_epoch = epoch;
                a_in_grace = false;
#ifdef OVER_UNREPORTED
                a_all = true;
#else
                a_all = false;                                 /* the members come in a page of their own */
#endif
            :: else -> skip;
            fi;
            end_if_over();
        }
    :: atomic { a_up && pending_a && grace && a_epoch == epoch ->
            awaited_n = awaited_n || !back_n;
            pending_a = false;
        }
    :: atomic { a_up && !grace && epoch != 0 && a_epoch == epoch && !a_in_grace && !an_answer -> /* asks for members */
            an_answer = true;
            old_answer_n = member_n;
            answer_epoch = epoch;
        }
    :: atomic { an_answer ->
            an_answer = false;
            if
            :: a_up && a_epoch == answer_epoch && !a_in_grace ->
#ifdef SWEPT
                a_knows_n = old_answer_n;
#else
                a_knows_n = a_knows_n || old_answer_n;         /* the message has the later version */
#endif
                a_all = true;
            :: else -> skip;
            fi;
            old_answer_n = false;
            answer_epoch = 0;
        }
    :: atomic { a_up && !grace && epoch != 0 && a_epoch == epoch && lock == NONE && losses == 0 ->
            lock = BY_A;
#ifdef HAPPENS
            assert(epoch < 3);
#endif
            assert(!n_holds); /* P1 */
        }
    od
}

active proctype N()
{
    do
    :: atomic { !n_up -> n_up = true; }
    :: atomic { n_up && !n_listens && n_epoch == epoch && epoch != 0 -> n_listens = true; }
    :: atomic { n_up && (a_listens || grace || n_epoch != 0 || member_n) ->
            if
            :: epoch == 0 -> begin();
            :: !grace && !member_n && epoch != 0 ->
#ifndef NOT_ANNOUNCED
                message = message || a_listens;
#endif
                skip;
            :: else -> skip;
            fi;
            member_n = true;
            if
            :: grace && n_epoch != 0 && n_epoch != epoch && !n_was_here ->
                n_was_here = true;
                awaited_n = true;
                awaited_a = awaited_a || !back_a;
                n_reclaimed = false;
            :: grace && n_epoch == epoch && n_reclaimed && (n_was_here || awaited_n) ->
                awaited_n = false;
                back_n = true;
            :: !grace && n_epoch != epoch -> n_holds = n_holds && lock == BY_N;
            :: else -> skip;
            fi;
            n_reclaimed = n_reclaimed || n_epoch == 0;
            n_epoch = epoch;
            end_if_over();
        }
    :: atomic { n_up && grace && n_epoch == epoch && !n_reclaimed ->
            if
            :: n_holds && lock == NONE -> lock = BY_N;
            :: n_holds && lock != NONE && lock != BY_N -> n_holds = false;
            :: else -> skip;
            fi;
            n_reclaimed = true;
        }
    :: atomic { n_up && !grace && epoch != 0 && n_epoch == epoch && member_n && lock == NONE && !n_holds ->
            lock = BY_N;
            n_holds = true;
        }
    od
}

active proctype Loss()
{
    do
    :: atomic { losses > 0 && epoch != 0 ->
            losses--;
            epoch = 0; lock = NONE; grace = false;
            member_a = false; member_n = false;
            if
            :: true;                                           /* a flush */
            :: a_up = false; n_up = false; a_listens = false; n_listens = false;
            fi;
        }
    :: atomic { losses > 0 -> losses--; }                      /* fewer losses */
    :: losses == 0 -> break;
    od
}
