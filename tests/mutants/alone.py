"""Runs one test, and ends all processes that the test has left: also those with a session of their own.

  alone.py SECONDS WORD...

Every process whose parent has died becomes a child of this one (PR_SET_CHILD_SUBREAPER), whatever group it is in; so
none is left when this process has no child any more. The status is the test's, 128+n when signal n ended it, and 124
when it ran for longer than SECONDS.
"""
import contextlib
import ctypes
import os
import signal
import subprocess
import sys

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def children():
    with open("/proc/self/task/%d/children" % os.getpid()) as f:
        return [int(pid) for pid in f.read().split()]


def end_rest():
    """Makes the children of a killed process children of this one."""
    while True:
        for pid in children():
            os.kill(pid, signal.SIGKILL)  # at the worst a zombie: no other process waits for it
        try:
            os.wait()
        except ChildProcessError:
            return


def main(seconds, words):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 or libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM)) != 0:
        sys.exit("prctl: " + os.strerror(ctypes.get_errno()))
    test, late = subprocess.Popen(words), []

    def end_test(*_):
        late.append(True)
        with contextlib.suppress(ProcessLookupError):
            os.kill(test.pid, signal.SIGKILL)
    signal.signal(signal.SIGALRM, end_test)  # the time is over
    signal.signal(signal.SIGTERM, end_test)  # the runner has died
    signal.alarm(seconds)
    pid = status = None
    while pid != test.pid:
        pid, status = os.wait()
    signal.alarm(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_rest()
    code = os.waitstatus_to_exitcode(status)
    os._exit(124 if late else 128 - code if code < 0 else code)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
