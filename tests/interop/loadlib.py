"""loadlib.py -- shared by the load_*.py. Each prints one line at its end; status 0 = ok, 1 = failed, 77 = skipped."""
import sys
import threading
import traceback

import install
import libraries
from world import Refused, Skip, World


def redisson_driver(world, kind):
    """A driver of the newest Redisson; Skip when it is not installed."""
    why = install.everything({"redisson-new"}).get("redisson-new")
    if why:
        raise Skip("Redisson: %s" % why)
    return world.driver(libraries.java("redisson-new", str(world.redis.port), kind))


def together(workers, deadline):
    """Runs each function in a thread of its own until all have ended; raises the first failure."""
    failures = []

    def run(work):
        try:
            work()
        except Exception as e:
            failures.append(e)
    threads = [threading.Thread(target=run, args=(w,), daemon=True) for w in workers]
    for t in threads:
        t.start()
    for t in threads:
        t.join(deadline)
    if failures:
        raise failures[0]
    left = sum(t.is_alive() for t in threads)
    if left:
        raise AssertionError("%d of %d did not end in %d s: a grant was lost" % (left, len(threads), deadline))


def main(test, extra=""):
    """Runs one test in a world of its own."""
    try:
        with World(extra) as world:
            print(test(world))
        return 0
    except Skip as e:
        print(e)
        return 77
    except (AssertionError, Refused, OSError) as e:
        print("%s" % e)
    except Exception:
        traceback.print_exc()
    return 1


def run(test, extra=""):
    status = main(test, extra)
    sys.stdout.flush()
    sys.exit(status)
