/*
 * cluster.pml -- leases that depend on registrations, and the end of a grace period, over three anchors.
 *
 * Daemon D holds a lock in a shard. The shard loses its master, and the promoted one lacks the lock; D may be cut off
 * from all servers but the old master, which goes on. A generation begins at a majority of the anchors. It ends, and E
 * takes the lock, when each member that a majority of the anchors knows has reported, or has been silent for a lease.
 * One anchor may lose its data. Time passes in ticks, as slowly as the search likes: a paused process takes no step.
 */
#define ANCHORS 3
#define LEASE 2
#define LAST 6
#define EMPTIED 2 /* the index makes no difference */

byte now = 1;

/*
 * What is proved:
 *   R2  no deadline lies beyond the last registration that a majority answered, plus a lease; the answer names open
 *       generations
 *   R5  a member reports when it has reclaimed its lock; a silent member is waited for, for a lease from its last
 *       registration by the anchor's clock
 *   R7  an anchor that lost its data does not vote until all members that the others know have registered, or their
 *       leases are over
 *   P1  E never has the lock while D holds it
 *
 * Variants, each with one rule broken: NO_HANGING, REPORTED_TOO_SOON, SILENT_FORGOTTEN, EMPTIED_VOTES. HAPPENS breaks
 * no rule: it asserts that E does not take the lock after the lease of a silent member, which is false. Not modelled:
 * when generations begin (R4).
 */

/* The anchors. */
bool member[ANCHORS];       /* D is registered */
byte seen[ANCHORS];         /* ... since; by the anchor's clock, which all processes share here */
bool generation[ANCHORS];   /* the anchor knows of it */
bool votes[ANCHORS] = true;

/* D. */
byte registered;            /* when the last registration that a majority answered was sent */
byte deadline;              /* D holds the lock until then */
bool knows;                 /* D knows of the generation */
bool reclaimed, reported;
bool cut;                   /* D is cut off from the anchors, and from the promoted master */
#define HOLDS (now < deadline)

/* The shard. */
bool failed_over, open = true, taken_by_e;
bool at_promoted;           /* the promoted master has D's lock */

inline register_at(a)
{
    atomic {
        if
        :: !cut ->
            member[a] = true;
            seen[a] = now;
            got = got + votes[a];
            got_it = got_it || generation[a];
#ifdef REPORTED_TOO_SOON
            reported = reported || knows;
#else
            reported = reported || reclaimed; /* each registration has it */
#endif
        :: true; /* the registration does not arrive */
        fi;
    }
}

proctype Holder()
{
    byte sent = 0, got = 0;
    bool got_it = false;

    do
    :: now < LAST ->
        atomic { sent = now; got = 0; got_it = false; }
        register_at(0);
        register_at(1);
        register_at(2);
        atomic {
            if
            :: got >= 2 ->
                registered = sent;
                knows = knows || got_it;
            :: else -> skip;
            fi;
            sent = 0; got = 0; got_it = false;
        }
    :: atomic { HOLDS && (!knows || reclaimed) ->     /* a renewal, at the old master or at the promoted one */
            if
            :: !reclaimed || !cut ->
#ifdef NO_HANGING
                deadline = now + LEASE;
#else
                deadline = (registered + LEASE > deadline -> registered + LEASE : deadline);
#endif
            :: else -> skip;
            fi;
        }
    :: atomic { HOLDS && knows && !reclaimed && failed_over && open && !cut ->
            at_promoted = true;
            reclaimed = true;
        }
    :: now >= LAST -> break;
    od
}

proctype Clock()
{
    do
    :: now < LAST -> now++;
    :: else -> break;
    od
}

/* The conditions for which a majority of anchors waits; this anchor's part. */
#ifdef SILENT_FORGOTTEN
#define HAS_REPORTED(a) true
#else
#define HAS_REPORTED(a) (!member[a] || reported || now >= seen[a] + LEASE)
#endif
#define IS_DONE(a) (votes[a] && generation[a] && HAS_REPORTED(a))

proctype Shard()
{
    atomic { true -> failed_over = true; }
    if
    :: true;
    :: cut = true;
    fi;
    /* The generation begins at a majority; an anchor without a vote learns of it as well. */
    atomic { votes[0] && votes[1] -> generation[0] = true; generation[1] = true; };
    if
    :: true;
    :: generation[2] = true;
    fi;
    atomic { IS_DONE(0) + IS_DONE(1) + IS_DONE(2) >= 2 -> open = false; }
    atomic { !at_promoted ->
        taken_by_e = true;
#ifdef HAPPENS
        assert(now < 4); /* false: E takes the lock when the lease of the silent member is over */
#endif
    }
}

proctype Loss()
{
    if
    :: atomic { true ->
            member[EMPTIED] = false;
            seen[EMPTIED] = 0;
            generation[EMPTIED] = false;
#ifndef EMPTIED_VOTES
            votes[EMPTIED] = false;
#endif
        }
#ifndef EMPTIED_VOTES
        atomic { /* R7; and the anchor takes over the open generations */
            (!member[0] || member[EMPTIED] || now >= seen[0] + LEASE) &&
            (!member[1] || member[EMPTIED] || now >= seen[1] + LEASE) ->
            generation[EMPTIED] = generation[0] || generation[1];
            votes[EMPTIED] = true;
        }
#else
        atomic { generation[0] -> generation[EMPTIED] = true; }
#endif
    :: true;
    fi
}

/* At any time. */
active proctype Promise()
{
    atomic { HOLDS && taken_by_e -> assert(false); }  /* P1 */
}

init {
    atomic {
        if /* D was registered at two of the three, or all */
        :: member[0] = true; member[1] = true;
        :: member[0] = true; member[2] = true;
        :: member[0] = true; member[1] = true; member[2] = true;
        fi;
        seen[0] = member[0]; seen[1] = member[1]; seen[2] = member[2];
        registered = 1;
        deadline = 1 + LEASE;
        run Holder();
        run Clock();
        run Shard();
        run Loss();
    }
}
