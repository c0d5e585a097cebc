"""page.py -- the page by which a test orders the faults of the shim (shim.c), and a daemon that runs with the shim."""
import ctypes
import mmap
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(TOP, "tests", "redis"))
import harness  # noqa: E402

FAMILIES = ["nothing", "alloc", "read", "write", "accept", "connect", "epoll_ctl", "epoll_wait", "socket", "setsockopt",
            "getrandom", "open", "eventfd"]
FRAMES, CALLS_MAX = 16, 1 << 16
FOREVER = 1 << 40
ADDR_NO_RANDOMIZE = 0x0040000


class Layout(ctypes.Structure):
    """struct page of shim.h."""
    _fields_ = [("family", ctypes.c_uint64), ("first", ctypes.c_uint64), ("length", ctypes.c_uint64),
                ("error", ctypes.c_uint64), ("injected", ctypes.c_uint64), ("alive", ctypes.c_int64),
                ("record", ctypes.c_uint64), ("frames_n", ctypes.c_uint64),
                ("frame", ctypes.c_uint64 * FRAMES), ("calls", ctypes.c_uint64 * len(FAMILIES)),
                ("stack", ctypes.c_uint32 * CALLS_MAX), ("site", ctypes.c_uint32 * CALLS_MAX)]


class Page:
    """The calls that are to fail, and the calls that were made since the mark."""

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as f:
            f.truncate(ctypes.sizeof(Layout))
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 0)
        self.at = Layout.from_buffer(self.map)

    def mark(self):
        """Counts from here on; nothing fails."""
        self.at.family = 0
        ctypes.memset(ctypes.addressof(self.at.calls), 0, ctypes.sizeof(self.at.calls))
        self.at.injected = self.at.frames_n = 0

    def arm(self, family, first, length, error=0):
        self.mark()
        self.at.first, self.at.length, self.at.error = first, length, error
        self.at.family = FAMILIES.index(family)

    def disarm(self):
        """Ends all faults; returns how often a call failed."""
        self.at.family = 0
        return self.at.injected

    def record(self, family):
        self.mark()
        self.at.record = FAMILIES.index(family)

    def recorded(self, family):
        """The callers, in order: (hash of the stack, innermost address of the program)."""
        self.at.record = 0
        n = min(self.at.calls[FAMILIES.index(family)], CALLS_MAX - 1)
        return [(self.at.stack[i], self.at.site[i]) for i in range(1, n + 1)]

    def where(self, binary):
        """The program's own part of the stack of the first call that failed, innermost first."""
        at = [self.at.frame[i] for i in range(min(self.at.frames_n, FRAMES)) if self.at.frame[i]][:6]
        if not at:
            return "(not called by the program itself)"
        out = subprocess.run(["addr2line", "-f", "-s", "-e", binary, *[hex(a - 1) for a in at]], capture_output=True,
                             text=True, stdin=subprocess.DEVNULL, check=False).stdout.split("\n")
        return " < ".join("%s %s" % (f, l.split(" ")[0]) for f, l in zip(out[::2], out[1::2]))


def preload(page, build):
    """Environment and preparation for a daemon of this build with the shim in front of its libraries."""
    asan = "asan" in build
    env = {"LD_PRELOAD": os.path.join(TOP, "build", "faults", "shim-asan.so" if asan else "shim.so"),
           "RLOCKD_FAULTS": page.path}
    if asan:
        env["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=1:allocator_may_return_null=1"
        env["UBSAN_OPTIONS"] = "print_stacktrace=1"
    return env


_die_with_us = harness.die_with_us


def prepare():
    """In the child: addresses are the same in every run, so that a stack can be recognized."""
    harness._libc.personality(ADDR_NO_RANDOMIZE)
    _die_with_us()


harness.die_with_us = prepare  # for children of this process alone
