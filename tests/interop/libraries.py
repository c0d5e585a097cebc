"""libraries.py -- the rows of both matrices: how each driver is started and the features of its library."""
import os

import install

NODE_ENV = {"NODE_PATH": install.path("npm", "node_modules"), "NODE_NO_WARNINGS": "1"}


def java(folder, *arguments):
    cp = ":".join([install.path(folder, "classes"), install.path(folder, "jars", "*")])
    # Small, and quick to start: a matrix starts many of them.
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", cp,
            install.JAVA[folder], *arguments]


def python(folder, script):
    return ([install.python() if not install.why(folder) else "python3", os.path.join(install.DRIVERS, script)],
            {"PYTHONPATH": "%s:%s" % (install.path(folder), install.DRIVERS), "PYTHONDONTWRITEBYTECODE": "1"})


class Library:
    """
    A row of the lock matrix.

    package    of install.py
    prefix     of names: the rule of world.py for this library
    port       "redis", or "rlockd" for the drop-in
\tnotified\t its unlock publishes a message, and its waiters subscribe: a wake-up takes milliseconds
    verbs      the verbs of its driver besides lock, trylock, unlock
    limit      how many may hold it at a time
    family     its special features: cells_special.py
    reentrant  the same thread may lock it again
    sleeps_on  its waiter does not notice the end of a TTL, among its own clients neither
    fills      its extend takes nodes that lack its key
    """

    def __init__(self, name, package, command, prefix, notified=False, verbs=(), port="redis", limit=1, family="simple",
                 reentrant=False, sleeps_on=False, fills=False):
        self.name, self.package, self.command, self.prefix = name, package, command, prefix
        self.notified, self.verbs, self.port, self.limit = notified, verbs, port, limit
        self.family, self.reentrant, self.sleeps_on, self.fills = family, reentrant, sleeps_on, fills

    def why(self):
        return install.why(self.package)

    def start(self, world, daemon=None):
        words, env = self.command(world.place if self.port == "redis" else str((daemon or world.a).port))
        return world.driver(words, env)

    def names(self, serial):
        """(our name of a new lock, the name for its driver, the key in Redis)."""
        if self.family == "spring":
            return ("%s/r:%s" % (self.prefix, serial), serial, "%s/r:%s" % (self.prefix, serial))
        name = "%s/%s" % (self.prefix, serial)
        if self.prefix == "warlock":  # our rule makes the key
            return name, name, name + ":lock"
        if self.prefix == "prl":
            return name, name, "lock:" + name
        if self.prefix == "front/warlock":  # the request has the key
            return name + ":lock", name, name + ":lock"
        return name, name, name


def _redisson(folder, title, kind, prefix, notified=True, **more):
    def command(port):
        return java(folder, port, kind), None
    return Library("Redisson %s" % title, folder, command, prefix, notified=notified, **more)


def redisson(folder):
    hash_verbs = ("holds", "ttl", "locked", "force")
    return [
        _redisson(folder, "RLock", "rlock", "rlock", verbs=hash_verbs, reentrant=True, family="hash"),
        _redisson(folder, "FairLock", "fair", "fair", verbs=hash_verbs, reentrant=True, family="fair",
                  sleeps_on=folder == "redisson-old"),  # it sleeps until the deadline of its own place, 5 min away
        _redisson(folder, "ReadWriteLock.write", "write", "rw", verbs=hash_verbs, reentrant=True, family="rw"),
        _redisson(folder, "ReadWriteLock.read", "read", "rw", verbs=hash_verbs, reentrant=True, family="rw-read"),
        _redisson(folder, "PermitExpirableSemaphore", "permit", "sem", verbs=("available",), limit=2,
                  family="semaphore"),
        _redisson(folder, "FencedLock", "fenced", "fenced", verbs=hash_verbs, reentrant=True, family="fenced"),
    ]


def _node(program, library, prefix, name, **more):
    def command(port):
        return ["node", os.path.join(install.DRIVERS, program), library, port], NODE_ENV
    return Library(name, "npm", command, prefix, **more)


def _redis_py(folder, name, prefix, script="locks.py", **more):
    def command(port):
        words, env = python(folder, script)
        return words + [port], env
    return Library(name, folder, command, prefix, **more)


def _go(library, name, prefix=None, **more):
    return Library(name, "go", lambda port: ([install.path("go", "bin", "locks"), library, port], None),
                   prefix or library, verbs=("extend",), **more)


def _spring(how, prefix, **more):
    # The registry's key is `<registry key>:<name>`; our names begin with the registry key, and the driver gets the
    # rest.
    return Library("Spring RedisLockRegistry (%s)" % how, "spring",
                   lambda port: (java("spring", port, prefix + "/r", str(2000), how), None), prefix, **more)


def locks():
    """All rows of matrix 1."""
    py = ("extend", "reacquire", "owned", "locked")
    rows = redisson("redisson-new") + redisson("redisson-old")
    rows += [
        _redisson("redisson-new", "SpinLock", "spin", "spin", notified=False, verbs=("holds", "ttl", "locked", "force"),
                  reentrant=True, family="hash"),
        _redis_py("python-redis-lock", "python-redis-lock", "prl", script="prl.py", verbs=("extend",),
                  family="python-redis-lock", sleeps_on=True),
        _redis_py("redis-new", "redis-py Lock", "redis-py", verbs=py),
        _redis_py("redis-4", "redis-py Lock", "redis-py", verbs=py),
        _node("locks.js", "redlock", "redlock", "npm redlock", verbs=("extend",)),
        _node("locks.js", "warlock", "warlock", "node-redis-warlock", verbs=("extend",)),
        _go("redsync", "redsync"), _go("redislock", "bsm/redislock"),
        _spring("spin", "spring", family="spring"), _spring("pubsub", "spring-ps", family="spring"),
        _redis_py("redis-new", "redis-py Lock at rlockd", "front/redis-py", verbs=py, port="rlockd", family="front"),
        _redis_py("redis-4", "redis-py Lock at rlockd", "front/redis-py", verbs=py, port="rlockd", family="front"),
        _node("locks.js", "redlock", "front/redlock", "npm redlock at rlockd", verbs=("extend",), port="rlockd",
              family="front"),
        _node("locks.js", "warlock", "front/warlock", "node-redis-warlock at rlockd", verbs=("extend",), port="rlockd",
              family="front"),
    ]
    return rows


def watched():
    """Rows of the matrix with sentinels: the same drivers, with the addresses of sentinels."""
    return [lib for folder in ("redisson-new", "redisson-old") for lib in redisson(folder)
            if lib.prefix in ("rlock", "sem")]


def clustered():
    """Rows of the matrix over a cluster: the locks of Redisson with different layouts in Redis."""
    return [lib for folder in ("redisson-new", "redisson-old") for lib in redisson(folder)
            if lib.family in ("hash", "fair", "rw", "semaphore")]


def plain():
    """Rows of the matrix over a cluster in which a library uses PUBLISH and SUBSCRIBE."""
    return [lib for lib in redisson("redisson-plain") if lib.family in ("hash", "fair", "rw", "semaphore")]


def quorum():
    """All rows of the matrix over three masters. Neither side receives the unlock messages of the other."""
    return [
        _node("locks.js", "redlock", "redlock", "npm redlock", verbs=("extend",)),
        _go("redsync", "redsync"),
        _go("redsync-fills", "redsync WithSetNXOnExtend", "redsync", fills=True),
        _redisson("redisson-new", "RedLock", "redlock", "rlock", notified=False),
        _redisson("redisson-old", "RedLock", "redlock", "rlock", notified=False),
    ]


class Client:
    """
    A row of the client matrix.

    default_s  its read timeout by default (None: it has none)
    resp3      it requests RESP3
    caches     it requests client-side caching when it connects
    info       its driver returns the whole text of INFO
    """

    def __init__(self, name, package, command, default_s=None, resp3=False, caches=False, info=False):
        self.name, self.package, self.command = name, package, command
        self.default_s, self.resp3, self.caches, self.info = default_s, resp3, caches, info

    def why(self):
        return install.why(self.package)

    def start(self, world, daemon=None):
        words, env = self.command(str((daemon or world.a).port))
        return world.driver(words, env)


def _py_client(folder, name, **more):
    def command(port):
        words, env = python(folder, "clients.py")
        return words + [port], env
    return Client(name, folder, command, **more)


def _node_client(library, **more):
    def command(port):
        return ["node", os.path.join(install.DRIVERS, "clients.js"), library, port], NODE_ENV
    return Client(library, "npm", command, **more)


def _script(name, package, interpreter, script, **more):
    def command(port):
        return [*interpreter, os.path.join(install.DRIVERS, script), port], {"PYTHONPATH": install.DRIVERS}
    return Client(name, package, command, **more)


def clients():
    """All rows of matrix 2, with the defaults that PROTOCOL.md names."""
    return [
        _script("redis-cli", "redis-cli", ["python3"], "redis_cli.py"),
        Client("hiredis (sync)", "hiredis_sync", lambda port: ([install.path("c", "hiredis_sync"), port], None)),
        Client("hiredis (async)", "hiredis_async", lambda port: ([install.path("c", "hiredis_async"), port], None)),
        _py_client("redis-4", "redis-py", info=True),
        _py_client("redis-new", "redis-py", default_s=5, resp3=True, info=True),
        _node_client("ioredis", resp3=True),
        _node_client("node-redis", resp3=True),
        Client("Jedis", "jedis", lambda port: (java("jedis", port), None), default_s=2),
        Client("Lettuce", "lettuce", lambda port: (java("lettuce", port), None), default_s=60, resp3=True),
        Client("go-redis", "go", lambda port: ([install.path("go", "bin", "clients"), port], None), default_s=5,
               resp3=True),
        Client("rueidis", "go", lambda port: ([install.path("go", "bin", "rueidis"), port], None), default_s=10,
               resp3=True, caches=True, info=True),
        _script("phpredis", "php", ["php"], "client.php", default_s=60),
        _script("ruby-redis", "ruby", ["ruby"], "client.rb", default_s=5),
        _script("libredis-perl", "perl", ["/usr/bin/perl"], "client.pl"),
    ]
