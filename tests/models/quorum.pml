/*
 * quorum.pml -- votes and tokens over N nodes: the rules of the quorum, and a failure for each rule that is left out.
 *
 * Every daemon asks once for the same name: it votes on all nodes, covers a token, reports it, and releases on all
 * nodes. A link carries the commands of one daemon to one node in order, with any delay; an answer may be lost. One
 * node may lose all of its data once. No lease ends: the proof does not depend on a clock.
 */
#define N 3
#define Q 2
#define DAEMONS 2
#define NO_DAEMON 0

#define COUNTER_MAX 12
#define Z 2 /* the node that may lose its data: the index makes no difference */

/*
 * What is proved:
 *   I1  a token that is reported is covered by q nodes: each answered at most the token, and its counter reached the
 *       token while the daemon's key was there
 *   I2  tokens rise in the order in which they are reported
 *   I3  one holder at a time
 *   I6  a reported token is at most some counter of any q established nodes
 *   I7  when a daemon has released, no key of it is left
 *
 * Variants, each with one rule broken: WRITE_BACK_ANYWHERE, READ_EARLY, NO_QUARANTINE, RELEASE_BELIEVED. HAPPENS breaks
 * no rule: it asserts that two daemons never report a token while an emptied node has no vote, which is false.
 */

byte counter[N];
byte key[N];                  /* the holder of the key: daemon + 1 */
bool votes[N] = true;         /* an established node; not in quarantine */

typedef Link {
    bool asked, voted;        /* the vote was sent; it has run */
    bool came, taken;         /* the daemon has the answer; the answer is a refusal */
    bool unanswered;          /* the answer is lost, or comes too late */
    byte answer;              /* 0: the node did not vote */
    byte write_back;          /* a token to raise the counter to; 0 = none */
    bool covers;              /* the daemon knows that the node covers the token */
    bool releases, released;
}
Link link[DAEMONS * N];
#define L(d, i) link[(d) * N + (i)]

bool began[DAEMONS], ended[DAEMONS], holds[DAEMONS];
byte token[DAEMONS];
byte reported_max = 0;

/* ---- commands of one daemon to one node ---- */

#define UNANSWERED(d) (L(d, 0).unanswered + L(d, 1).unanswered + L(d, 2).unanswered)

/* Clears the answers of a link whose daemon has given up: they do not count any more, and this saves states. */
inline forget(d, i)
{
    L(d, i).came = false;
    L(d, i).unanswered = false;
    L(d, i).taken = false;
    L(d, i).answer = 0;
    L(d, i).write_back = 0;
    L(d, i).covers = false;
}

proctype To(byte d; byte i)
{
    atomic { L(d, i).asked ->
        if
        :: votes[i] && key[i] == NO_DAEMON ->
            counter[i] = (counter[i] + 1 > token[d] -> counter[i] + 1 : token[d]);
            assert(counter[i] < COUNTER_MAX);
            key[i] = d + 1;
            L(d, i).answer = (L(d, i).releases -> 0 : counter[i]);
        :: else -> L(d, i).taken = !L(d, i).releases;
        fi;
        if
        :: L(d, i).releases;
        :: !L(d, i).releases -> L(d, i).came = true;
        :: !L(d, i).releases && UNANSWERED(d) == 0 -> L(d, i).unanswered = true; /* two lost: as if it gave up */
        fi;
        L(d, i).voted = true;
    }
    do
    :: atomic { L(d, i).write_back != 0 ->
            if
#ifdef WRITE_BACK_ANYWHERE
            :: true ->
#else
            :: key[i] == d + 1 ->
#endif
                counter[i] = (counter[i] > L(d, i).write_back -> counter[i] : L(d, i).write_back);
                L(d, i).covers = true;
            :: else -> skip; /* the key has gone: the node covers nothing */
            fi;
            L(d, i).write_back = 0;
        }
    :: atomic { L(d, i).releases ->
            if
            :: key[i] == d + 1 -> key[i] = NO_DAEMON;
            :: else -> skip;
            fi;
            L(d, i).released = true;
            break;
        }
    od
}

/* ---- one daemon ---- */

#define VOTER(d, i) (L(d, i).came && L(d, i).answer != 0)
#define YES(d) (VOTER(d, 0) + VOTER(d, 1) + VOTER(d, 2))
#define NO(d) ((L(d, 0).came && L(d, 0).taken) + (L(d, 1).came && L(d, 1).taken) + (L(d, 2).came && L(d, 2).taken))
#define AT_MOST(d, i, t) (VOTER(d, i) && L(d, i).answer <= t)
#define COVERED(d) (L(d, 0).covers + L(d, 1).covers + L(d, 2).covers)
#define LOW(i) (votes[i] && counter[i] < reported_max)
#define I6 (LOW(0) + LOW(1) + LOW(2) < Q)

inline release(d)
{
    for (i : 0 .. N - 1) {
#ifdef RELEASE_BELIEVED
        L(d, i).releases = VOTER(d, i);
        L(d, i).released = !VOTER(d, i);
#else
        L(d, i).releases = true;
#endif
        forget(d, i);
    }
    i = 0;
}

proctype Daemon(byte d)
{
    byte i, m = 0;

    atomic {
        began[d] = true;
        for (i : 0 .. N - 1) {
            L(d, i).asked = true;
        }
        i = 0;
    }
    if
    :: atomic { YES(d) >= Q -> /* the smallest m with q answers of at most m; lower ones are raised */
            do
            :: AT_MOST(d, 0, m) + AT_MOST(d, 1, m) + AT_MOST(d, 2, m) >= Q -> break;
            :: else -> m++;
            od;
            for (i : 0 .. N - 1) {
                if
                :: VOTER(d, i) && L(d, i).answer == m -> L(d, i).covers = true;
                :: VOTER(d, i) && L(d, i).answer < m -> L(d, i).write_back = m;
#ifdef WRITE_BACK_ANYWHERE
                :: !VOTER(d, i) -> L(d, i).write_back = m;
#endif
                :: else -> skip;
                fi;
            }
            i = 0;
        }
    :: NO(d) > N - Q;
    :: true; /* the daemon gives up */
    fi;
    if
    :: atomic { m != 0 && COVERED(d) >= Q ->            /* I1 */
            for (i : 0 .. DAEMONS - 1) {
                assert(!holds[i]);                      /* I3 */
            }
            i = 0;
            assert(m > reported_max);                       /* I2 */
#ifdef HAPPENS
            assert(reported_max == 0 || began[d] == votes[Z]); /* false: see HAPPENS */
#endif
            reported_max = m;
            assert(I6);
            holds[d] = true;
        }
        atomic {
            holds[d] = false;
            release(d);
        }
    :: atomic { true -> release(d); }
    fi;
    atomic {
        m = 0;
        L(d, 0).released && L(d, 1).released && L(d, 2).released;
        assert(key[0] != d + 1 && key[1] != d + 1 && key[2] != d + 1); /* I7 */
        for (i : 0 .. N - 1) {
            L(d, i).asked = false;
            L(d, i).voted = false;
            L(d, i).releases = false;
            L(d, i).released = false;
        }
        i = 0;
        token[d] = 0;
        ended[d] = true;
    }
}

/* ---- a node that loses its data, and comes back ---- */

proctype Loss()
{
    byte most = 0;
    bool before[DAEMONS];

    if
    :: atomic { true ->
            counter[Z] = 0;
            key[Z] = NO_DAEMON;
#ifndef NO_QUARANTINE
            votes[Z] = false;
#endif
            before[0] = began[0];
            before[1] = began[1];
#ifdef READ_EARLY
            most = (counter[0] > counter[1] -> counter[0] : counter[1]);
#endif
            assert(I6);
        }
#ifndef NO_QUARANTINE
        atomic { /* a lease is over: attempts from before the loss have ended */
            (!before[0] || ended[0]) && (!before[1] || ended[1]);
#ifndef READ_EARLY
            most = (counter[0] > counter[1] -> counter[0] : counter[1]);
#endif
            counter[Z] = (counter[Z] > most -> counter[Z] : most);
            most = 0;
            votes[Z] = true;
            assert(I6);
        }
#endif
    :: true; /* nothing is lost */
    fi
}

init {
    byte d, i;

    atomic {
        /* Other names have moved some of the counters, and a daemon's estimate of the time may be too low. */
        if
        :: true;
        :: counter[1] = 4;
        :: counter[Z] = 4;
        :: counter[1] = 4; counter[Z] = 4;
        fi;
        if
        :: token[0] = 2; token[1] = 2;
        :: token[0] = 2; token[1] = 4;
        :: token[0] = 4; token[1] = 4;
        fi;
        for (d : 0 .. DAEMONS - 1) {
            run Daemon(d);
            for (i : 0 .. N - 1) {
                run To(d, i);
            }
        }
        run Loss();
    }
}
