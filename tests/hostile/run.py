#!/usr/bin/env python3
"""run.py [SCENE...] -- runs the scenes of this directory (all, or those named); `N passed, N failed` at the end."""
import glob
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True


def load(name, path=None):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def main():
    # tests/redis has a harness.py as well: this one has another name.
    sys.path.insert(0, HERE)
    hostile = load("hostile", os.path.join(HERE, "harness.py"))
    for path in sorted(glob.glob(os.path.join(HERE, "scenes_*.py"))):
        load(os.path.basename(path)[:-3], path)
    scenes = sorted(hostile.Scene.__subclasses__(), key=lambda s: (s.__module__ != "scenes_control", s.__module__))
    unknown = set(sys.argv[1:]) - {s.__name__ for s in scenes}
    if unknown:
        sys.exit("no such scene: %s; there are: %s" % (" ".join(unknown), " ".join(s.__name__ for s in scenes)))
    results = [hostile.run_scene(s) for s in scenes if not sys.argv[1:] or s.__name__ in sys.argv[1:]]
    print("%d passed, %d failed" % (sum(results), len(results) - sum(results)))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
