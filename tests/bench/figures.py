"""figures.py -- medians with their spread, ratios between them, and whether a goal is met."""
import operator
import statistics


class Figure:
    """Values of the rounds: their median, smallest and largest."""

    def __init__(self, values):
        self.values = sorted(values)
        self.median = statistics.median(self.values)
        self.low, self.high = self.values[0], self.values[-1]

    def as_json(self):
        return {"median": self.median, "min": self.low, "max": self.high, "n": len(self.values)}


def ratio(ours, theirs):
    """Of each round's two values, which were measured one soon after the other; then as any figure."""
    return Figure([a / b for a, b in zip(ours, theirs) if b])


SIGNS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


class Goal:
    """">= 1.3" or "< 1"."""

    def __init__(self, text):
        self.text = text
        sign, bound = text.split()
        self.holds, self.bound = SIGNS[sign], float(bound)

    def met(self, value):
        return self.holds(value, self.bound)


def short(x):
    """A number in a form for people."""
    if x is None:
        return "-"
    if x == 0:
        return "0"
    if abs(x) >= 1000000:
        return "%.2f M" % (x / 1e6)
    if abs(x) >= 100000:
        return "%.0f k" % (x / 1e3)
    if abs(x) >= 10000:
        return "%.1f k" % (x / 1e3)
    if abs(x) >= 1000:
        return "%.2f k" % (x / 1e3)
    if abs(x) >= 100:
        return "%.0f" % x
    if abs(x) >= 10:
        return "%.1f" % x
    if abs(x) >= 0.1:
        return "%.2f" % x
    return "%.4f" % x


def spread(figure):
    """The median, and the distance of the rounds when there was more than one."""
    if len(figure.values) == 1:
        return short(figure.median)
    return "%s (%s..%s)" % (short(figure.median), short(figure.low), short(figure.high))
