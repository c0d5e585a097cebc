/*
 * generations.pml -- when a generation begins: a slot that moves key by key between two masters, and losses of data.
 *
 * D holds a lock in the slot, whose record says that it grants. An operator opens the slot, moves the lock and the
 * record one by one, in any order, and closes it at the target, or leaves it where it was. Meanwhile a master is
 * replaced by a replica that lacks the lock, or is flushed. E takes a lock that it finds free, by its knowledge, which
 * may be old. Time is left out: no lease ends (cluster.pml); each opening lasts for a beat, so D or E sees it; and so
 * does each stay of the slot at a node, so a daemon that comes back there has asked anew for the identity of its data.
 */
#define A 1
#define B 2
#define NUMBERS 3  /* generations at most */
#define OPENINGS 2

/*
 * What is proved:
 *   R3  the identity of a node's data is known for one connection only: another process has another connection
 *   R4  a generation begins when the slot's origin is another one, or when the slot was open since; an anchor takes it
 *       only from a daemon that knows of the generation before
 *   R6  the record of a generation is created once, by a daemon that finds its bit clear; a record that is missing
 *       although the bit is set means that data was lost
 *   R8  nothing is taken or reclaimed in an open slot; a daemon that sees the slot open spoils its record. The slot is
 *       also open while a former owner reports it; an older key of the lock, which has ended, comes from there only
 *       when both daemons know of that report
 *   P1  E never takes the lock while D holds it
 *
 * Variants, each with one rule broken: NO_ORIGIN, NO_SPOIL, NO_MARK (the report of the former owner is ignored),
 * MISSING_IS_NEW, TOO_SOON (over before D has reclaimed). HAPPENS breaks no rule: it asserts that E never takes the
 * lock, which is false.
 */

/* The masters, and the slot. */
byte origin[3];
byte origins = 2;
byte owner = A;
bool open;
byte opened;             /* how often it has been opened */
byte seen;               /* the daemons that have seen the present opening: a bit each */
bool marked;             /* the former owner is back with an older lock, and reports the slot open */
byte lock_at = A;        /* 0: at no master */
byte record_at = A, record = 1;
bool grants = true, spoiled;

/* The anchors. */
byte number = 1, its_origin = 1, its_since;
bool created = true, over = true;

bool d_holds = true, e_has;
byte d_reclaimed = 1;    /* the generation in which D has reclaimed */

/* A daemon's knowledge: of its connection to the owner, and of the anchors. */
typedef daemon {
    byte owner, origin, since; /* since: `opened` when the daemon last saw the slot closed */
    byte saw;                  /* ... when it last saw the slot open */
    bool open;
    byte number, its_origin, its_since;
    bool over;
    bool lost;                 /* the record is lost, in the generation that it knows */
}
daemon d[2];
#define D 0
#define E 1

inline poll(x) /* node.lua; the first command after a lost connection */
{
    atomic {
        d[x].owner = owner;
        d[x].origin = origin[owner];
#ifdef NO_MARK
        d[x].open = open;
#else
        d[x].open = open || marked;
#endif
        seen = seen | (1 << x);
        if
        :: d[x].open ->
            d[x].saw = opened;
#ifndef NO_SPOIL
            if
            :: record_at == owner -> spoiled = true;
            :: record_at != owner || !open -> skip; /* the record of a marked slot is spoiled later */
            fi
#endif
        :: else -> d[x].since = opened;
        fi
    }
}

inline receive(x)
{
    atomic {
        if
        :: d[x].number != number -> d[x].lost = false;
        :: else -> skip;
        fi;
        d[x].number = number;
        d[x].its_origin = its_origin;
        d[x].its_since = its_since;
        d[x].over = over;
    }
}

#define CONNECTED(x) (d[x].owner == owner && d[x].origin == origin[owner])
#ifdef NO_ORIGIN
#define IS_SOUND(x) (d[x].its_since >= d[x].saw && !d[x].lost)
#else
#define IS_SOUND(x) (d[x].its_origin == d[x].origin && d[x].its_since >= d[x].saw && !d[x].lost)
#endif

inline begin(x)
{
    atomic {
        d[x].owner != 0 && !d[x].open && d[x].since >= d[x].saw && !IS_SOUND(x) && d[x].number == number &&
        number < NUMBERS ->
            number++;
            its_origin = d[x].origin;
            its_since = d[x].since;
            created = false;
            over = false;
    }
}

/* The record, at the owner: it is created, or found to be lost, or made to grant. */
#define HAS_RECORD(x) (record_at == owner && record == d[x].number && !spoiled)
inline read_record(x)
{
    atomic {
        CONNECTED(x) && !open && !d[x].open && IS_SOUND(x) && d[x].number == number ->
            if
            :: !created || (HAS_RECORD(x) && !grants && d[x].over) ->
                record_at = owner;
                record = number;
                spoiled = false;
                grants = d[x].over;
                created = true;
            :: created && !HAS_RECORD(x) ->
#ifdef MISSING_IS_NEW
                record_at = owner;
                record = number;
                spoiled = false;
                grants = d[x].over;
#else
                d[x].lost = true;
#endif
            :: else -> skip;
            fi
    }
}

active proctype Holder()
{
    do
    :: poll(D);
    :: receive(D);
    :: begin(D);
    :: read_record(D);
    :: atomic { /* a reclaim */
            CONNECTED(D) && !open && !d[D].open && IS_SOUND(D) && HAS_RECORD(D) && d_reclaimed < d[D].number ->
            if
            :: d_holds && lock_at != owner && !e_has -> lock_at = owner;
            :: else -> skip;
            fi;
            d_reclaimed = d[D].number;
        }
#ifdef HAPPENS
    :: atomic { d_holds && lock_at == owner && !open -> d_holds = false; lock_at = 0; }
#endif
    od
}

active proctype Taker()
{
    do
    :: poll(E);
    :: receive(E);
    :: begin(E);
    :: read_record(E);
    :: atomic {
            CONNECTED(E) && !open && !d[E].open && IS_SOUND(E) && d[E].over && HAS_RECORD(E) && grants &&
            lock_at != owner && !e_has ->
            e_has = true;
#ifdef HAPPENS
            assert(false);
#endif
        }
    od
}

active proctype Members()
{
    do
#ifdef TOO_SOON
    :: atomic { !over -> over = true; }
#else
    :: atomic { !over && d_reclaimed >= number -> over = true; }
#endif
    od
}

active proctype Operator()
{
    byte to, losses = 0;

    origin[A] = 1;
    origin[B] = 2;
    do
    :: atomic { !open && !marked && opened < OPENINGS -> open = true; opened++; seen = 0; to = 3 - owner; }
    :: atomic { !open && !marked && opened < OPENINGS && opened > 0 -> marked = true; opened++; seen = 0; }
    :: atomic { marked && seen == 3 -> lock_at = (lock_at == owner -> 0 : lock_at); } /* the older lock has ended */
    :: atomic { marked && seen != 0 -> marked = false; }
    :: atomic { open && lock_at == owner -> lock_at = to; }
    :: atomic { open && record_at == owner -> record_at = to; }
    :: atomic { open && seen != 0 -> /* moved keys are gone: the target does not have the slot */
            open = false;
            lock_at = (lock_at == owner -> owner : 0);
            record_at = (record_at == owner -> owner : 0);
        }
    :: atomic { open && lock_at != owner && record_at != owner && origins < 6 -> /* the target's config epoch rises */
            open = false;
            owner = to;
            origins++;
            origin[owner] = origins;
        }
    :: atomic { losses < 1 && origins < 6 -> /* a replica that lacks the lock is promoted */
            losses++;
            origins++;
            if
            :: origin[owner] = origins; lock_at = (lock_at == owner -> 0 : lock_at); open = false;
            :: origin[3 - owner] = origins; lock_at = (lock_at == 3 - owner -> 0 : lock_at);
            fi
        }
    :: atomic { losses < 1 -> /* a flush */
            losses++;
            if
            :: lock_at = (lock_at == owner -> 0 : lock_at); record_at = (record_at == owner -> 0 : record_at);
            :: lock_at = (lock_at == 3 - owner -> 0 : lock_at);
               record_at = (record_at == 3 - owner -> 0 : record_at);
            fi
        }
    od
}

active proctype Promise()
{
    atomic { e_has && d_holds -> assert(false); } /* P1 */
}
