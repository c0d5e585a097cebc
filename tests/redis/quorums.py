"""quorums.py -- independent masters for a quorum, all private to the test that starts them."""
import signal

import harness
from harness import Closed


class Master(harness.Redis):
    """A redis-server without replicas. It may be started again, without data. at: the URL that daemons have of it."""

    def __init__(self, directory, name, args=(), at=None, under=()):
        self.name, self.place = name, {"args": args, "at": at, "under": under}
        super().__init__(directory, name, args=args, under=under)

    @property
    def url(self):
        return self.place["at"] or super().url

    def again(self):
        return Master(self.directory, self.name, **self.place)


class Masters:
    """N of them. `case` keeps what is started (harness.Case, or a shape); place(i): what a Master is made with."""

    def __init__(self, case, n=3, place=lambda i: {}):
        self.case = case
        self.nodes = [case._keep(Master(case.dir, "node%d" % i, **place(i))) for i in range(n)]

    def url(self):
        return "quorum:" + ",".join(node.url for node in self.nodes)

    def cmd(self, *words):
        """What each of them answers; None: it does not."""
        return [self.of(node, *words) for node in self.nodes]

    @staticmethod
    def of(node, *words):
        try:
            return node.cmd(*words) if node.running() else None
        except (OSError, Closed):
            return None

    def again(self, i):
        """Starts one anew, empty, behind a kill."""
        self.nodes[i] = self.case._keep(self.nodes[i].again())

    def pause(self, *which):
        for i in which:
            self.nodes[i].signal(signal.SIGSTOP)

    def resume(self, *which):
        for i in which:
            self.nodes[i].signal(signal.SIGCONT)
