"""tried.py -- goals that were missed: the reasons, and the attempts. Printed for rows that miss them, beside the
profiles.

A row's id begins with one of the keys; the longest one counts. Figures are of the machine that the commits with these
texts describe: a VM of two cores, where waking a process costs 40 us and more.
"""
TRIED = {
    "own-64":
        "The load, rlockd and Redis share two cores, so what counts is what a pair costs all of them. Of rlockd's "
        "share the system calls are the most: two reads and two writes for each pair of a client, which a direct "
        "client does not pay a second time. Redis's share is half of the classic scripts' (`deep-cpu`). Tried: "
        "calls that gather while another is in flight; words of a request found in one pass (1240 -> 790 "
        "instructions per pair), digits by two, malloc instead of calloc: 12.2 k -> 11.6 k instructions per pair; "
        "records that go round instead of malloc (base/spares.c): 7.6 -> 0.1 allocations for a pair, and all that is "
        "done for it, libevent and libc included, 23.1 k -> 21.0 k instructions. "
        "Optimised at the link (`-flto`, on since): own64 21.0 k -> 19.4 k instructions, and 3 to 6 % less processor "
        "time, which only 60 rounds by turns could tell from noise. Another nice value brought nothing. Of rlockd's "
        "processor time per pair send() is a quarter, "
        "recv() as much, epoll_wait() (thirty events in each) a tenth, its own code a third, malloc and memcpy (before "
        "that) a tenth, libevent 2 %, the clock 1 %; the link to Redis makes 2 % of the system calls, its FIONREAD 1 "
        "%, so a link without a bufferevent was not built. Also tried: SCHED_BATCH for rlockd (x0.85; for Redis, too, "
        "x0.89), slices of 0.1 and 10 ms (x0.8, x0.75); one more look at the sockets before a call leaves, where "
        "answers were just handed out (0.14 -> 0.10 calls per pair, and no more pairs; in `procs-16` 0.48 -> 0.26 "
        "calls and 27 -> 21 us of Redis, but x0.84 the pairs, for Redis stands still meanwhile); `-O3 -fno-plt` and a "
        "larger cache of malloc's (each 6 % fewer instructions, and no less time).",
    "procs-":
        "As `own-64`, and each client is one more process that has to be woken, with rlockd between two more "
        "times. Who takes a request out of a Unix socket wakes its sender, who sleeps in recv() and sleeps again: for "
        "who has one connection it is done behind the answer (serve/unread.c; x1.07 (0.96..1.52) in `procs-16`, x1.15 "
        "(1.02..1.42) in `procs-64`, old and new by turns in eight rounds; its first form, which could block a sender, "
        "measured x1.3 in another hour). By SO_PEEK_OFF it was no better. "
        "Each send() wakes a process that then comes before rlockd on its core, 1.3 times for each pair; a longer "
        "slice for rlockd changed nothing.",
    "deep-":
        "No wake-up is paid for here, so what counts is processor time: Redis's is half of the classic scripts' "
        "(`deep-cpu`), and the load, rlockd and Redis have two cores together. It was 1.84 (1.75..1.89) in a run "
        "of a few rows on a quiet machine. Tried: what own-64 names, and fewer words and answers per name in a "
        "call (29 k -> 23 k instructions of Redis for a name that is taken, 23 k -> 19 k for one that is given back).",
    "one-owner-":
        "As `deep-`. A pair takes about the sum of the processor times of all three, 3.4 us of Redis, 2.8 of rlockd "
        "and 0.7 of the load, and a direct one the 8 us of Redis alone (medians of five turns on a busy machine). "
        "Redis had 4.0 us before wide calls took and freed names by loops of their own, with one EXISTS in place of a "
        "PTTL for each (37.8 k -> 30.9 k instructions), and rlockd 2.9 (18.6 k -> 17.4 k). Tried: calls that leave "
        "inside a turn, as soon as 64 or 128 requests were read (no more pairs, and up to 8 % more of Redis's time); "
        "32 or 128 names a call (no difference). With a core each, Redis would be the bound, but only where calls "
        "leave before the turn ends; not measured.",
    "peer-":
        "One client, or few: the second hop costs two wake-ups more for each request, see `one-p50`. Where a rule says "
        "`linger`, one who asks for the same name again pays no second hop: `peer-*-own-1-linger`.",
    "one-p50":
        "A request through rlockd wakes four sleeping processes, a direct one two, so what waking costs decides: in "
        "most hours the pair took what the direct one and the echo floor take together, or more (2.5 and 4.4 times the "
        "direct one), in a good one less than that (1.42: 184 us, beside 130 and 126). `spin: 30us` takes rlockd's "
        "wake-ups away where a core is free for that; on two it made little difference (`spin-one`). Two of 14 system "
        "calls per pair are libevent's FIONREAD.",
    "hot-":
        "The floor does nothing but wake the next one, so what rlockd does for a hand-over is seen in full: 4 k "
        "instructions of the core, as many for reading and answering, and the kernel's for two writes and a read. "
        "Tried: the grant leaves before the answer to the UNLOCK that brought it (17.6 k -> 20.7 k hand-offs/s of "
        "64 clients), one poll() instead of a recv() per waiter (6.3 -> 5.3 system calls, the floor has 5), "
        "malloc instead of calloc (8 % of the instructions); a nice value of -5 made it worse, "
        "SCHED_BATCH and other slices made no difference that could be seen. With a process per client, a waiter is "
        "no longer woken when its request is read (see `procs-`): rlockd 46 -> 39 and the clients 46 -> 29 us for each "
        "hand-over. What a trip to Redis adds (`hot-*-trip`) is mostly waking it: 2.2 times in an hour in which that "
        "cost more; 1.55 where rlockd itself was at 0.9 of the floor, and 1.7 would have been 0.96 of it.",
    "cluster-":
        "A call names keys of one slot, and most names have a slot of their own: two commands a pair, 28.6 us of Redis "
        "where one server with wide calls needed 4.2 (16 x 16, load 12). Bundles (scripts/bundle.lua): 9.4 us beside "
        "4.0 (load 3). What is left is seven commands a pair where a wide call has four: the record and the token "
        "clock of each slot (GET, GETSET) and whether the name is free (EXISTS) are asked for each name; and in a "
        "cluster a command of a script costs about a tenth more, for its slot and node are looked up each time (perf: "
        "flat, getNodeByQuery 4.5 %). Tried: the whole script of a verb in a function for each name (17 to 20 us: its "
        "closures cost more than its commands). An experiment shows the least that a bundle costs: one that checks "
        "nothing (no record of the slot, no token clock, no EXISTS; unsafe), 2026-11-26, a quiet machine, three runs "
        "by turns, Redis's processor time per pair against one server: `cluster-64` 1.29, 1.80, 1.60 (the real one in "
        "the same runs 2.78, 2.58, 2.04), `cluster-deep` 1.35, 2.55, 2.00 (2.37, 2.06, 1.97). So 1.25 is out of reach "
        "while each name is a command of its own slot. Not done: record and clock in one key, which would save one "
        "command of seven.",
    "quorum-":
        "A pair is six commands, one trip to three nodes and back for each of both, no second round. Instructions "
        "of rlockd 78.7 k -> 69.5 k a pair since links with nothing gathered are not walked (one node alone: 31 k). "
        "Three nodes, rlockd and the load share two cores, so the second fastest node waits for a core. With a trip "
        "of 0.5 ms to each node, each way, the trips decide (`quorum-one-p50-far`): 1.08 (0.95..1.15) of one node, "
        "1.18 (1.06..1.21) of a direct client; with trips of 0.4, 0.5 and 2 ms 1.09 (0.97..1.25) and 1.20 "
        "(1.06..1.29) of the node at 0.5, although the load of the machine was 26. With 0.4, 2 and 2 ms it is 3.8. "
        "With a core for each process and no trip: not measured.",
    "mem-lock":
        "A claim has 264 bytes, a lock 136 and its name, tables 40, and malloc makes 272 and 176 of them. Tried: "
        "the queue as a record that is there only while a request waits or is asked about elsewhere, states and "
        "flags in bits, fields of some states in one place, one time for all that went unanswered, a timer whose "
        "time is in the heap only, the rule's words in the lock alone: 1005 -> 505 bytes. 170,000 holes of 80 "
        "bytes, left of records of a burst that malloc split for locks, were 13 bytes a lock: base/freelist.h. A "
        "renewal that waits for its turn takes 24 more, where Redis falls behind. Not done: walking the table of names "
        "instead of a list of locks (16), which loses their order; timers that are due together "
        "without an order (8), which lets renewals overtake each other.",
    "renew-":
        "A renewal is HEXISTS and PEXPIREAT in a script, on keys that are in no cache when there are a million of "
        "them. Redis: PEXPIRE GT instead of PTTL (25.3 k -> 20.2 k instructions per name), terms sent once per call "
        "(-> 18.9 k), answers in rows and fewer shared variables (-> 16.6 k), a short loop in Lua for names that are "
        "as they were (-11 to -14 %; 8 to 9 % of the time). What is left are two commands (about 0.6 us each before "
        "they do anything; with what they look up 70 % of the time), and what a call brings with it, 0.8 us per name. "
        "No better: the owner's number alone, to which Lua adds the daemon's id (4 % more); call instead of pcall. "
        "rlockd waits for memory: ids side by side in their table, not each by chance (-23 %); what is left are the "
        "heap of timers, the claims, and waking up. Fetching the claims of an answer into the cache before they are "
        "looked at brought 13 % in place of the table (beside it: not measured); huge pages, and the heap's next "
        "level ahead of time: no more than chance. "
        "Two calls on their way instead of one: -17 % in rlockd, -8 % in Redis, as neither sleeps between; calls of "
        "128 names (`redis.batch`, RENEW_EARLY_MAX) bring as much, in place of it. That a LOCK was slow behind calls "
        "of 128 was not their size: the more calls were on their way, the longer took their answers, and the more "
        "were sent. Calls of 16 took more time, and no LOCK was faster.",
    "hot-64-recipe":
        "The recipe makes 60 requests for each hand-over; but where waking a process costs 40 us and more, what "
        "rlockd itself makes of a name is less than elsewhere, too: see `hot-64-floor`.",
    "hot-procs-64-recipe":
        "As `hot-64-recipe`.",
    "linger":
        "Nothing goes to Redis; what is left are the system calls of a client, as with the echo floor.",
    "remote":
        "The one that waits elsewhere must be awake in time for its turn; on a busy machine it is not always.",
}


def of(row_id):
    """The attempts for it; None: nothing is written down."""
    fits = [key for key in TRIED if row_id.startswith(key)]
    return TRIED[max(fits, key=len)] if fits else None


def markdown(lines):
    """The lines that missed their goal, each text once."""
    missed = {}
    for line in lines:
        if line.get("met") is False:
            missed.setdefault(of(line["id"]) or "Nothing is written down about it yet.", []).append(line["id"])
    for text, ids in missed.items():
        yield "* %s: %s" % (", ".join("`%s`" % i for i in ids), text)
