"""row.py -- what a mutant is, and the rooms that many of them are in."""
import collections

Mutant = collections.namedtuple("Mutant", "id story file where old new catch also", defaults=((),))
CORE = "daemon/core/"
BACKEND = "daemon/backend/"
SERVE = "daemon/serve/"
