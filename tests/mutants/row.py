"""row.py -- the form of a mutant, and the rooms that many mutants are in."""
import collections

Mutant = collections.namedtuple("Mutant", "id story file where old new catch also", defaults=((),))
CORE = "daemon/core/"
BACKEND = "daemon/backend/"
SERVE = "daemon/serve/"
