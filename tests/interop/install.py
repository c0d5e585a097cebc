"""install.py -- installs each library, at a pinned version, by its registry's own client into build/interop.

A library that cannot be installed is no failure here: why() returns the reason, and every row that needs it is skipped.
Registries are those that the machine's clients are configured for; no host is named.
"""
import concurrent.futures
import fcntl
import glob
import hashlib
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
ROOT = os.path.join(TOP, "build", "interop")
DRIVERS = os.path.join(HERE, "drivers")
TIMEOUT = 180  # seconds for one installation

# Maven: folder -> artifacts. Each folder is a class path of its own, since their dependencies differ.
JARS = {
    "redisson-new": ["org.redisson:redisson:4.7.0"],
    "redisson-old": ["org.redisson:redisson:3.23.5"],
    "redisson-plain": ["org.redisson:redisson:3.21.3"],
    "jedis": ["redis.clients:jedis:8.0.2"],
    "lettuce": ["io.lettuce:lettuce-core:7.7.0.RELEASE"],
    "spring": ["org.springframework.integration:spring-integration-redis:7.1.0",
               "io.lettuce:lettuce-core:7.7.0.RELEASE"],
}
JAVA = {"redisson-new": "RedissonLocks", "redisson-old": "RedissonLocks", "redisson-plain": "RedissonLocks",
        "jedis": "JedisClient", "lettuce": "LettuceClient", "spring": "SpringLocks"}
NPM = ["redlock@5.0.0-beta.2", "ioredis@6.0.0", "node-redis-warlock@1.0.2", "redis@6.3.1"]
PYPI = {"redis-new": "redis==8.1.0", "redis-4": "redis==4.6.0", "python-redis-lock": "python-redis-lock==4.0.1"}
GO = ["github.com/redis/go-redis/v9@v9.23.0", "github.com/go-redsync/redsync/v4@v4.18.1",
      "github.com/bsm/redislock@v0.9.4", "github.com/redis/rueidis@v1.0.79"]
C = {"hiredis_sync": ["hiredis"], "hiredis_async": ["hiredis", "libevent"]}

_why = {}  # package -> the reason why it is missing


class Missing(Exception):
    """The reason why an installation failed."""


def why(package):
    """None when the package is there, else the reason."""
    return _why.get(package, "not asked for")


def path(*parts):
    return os.path.join(ROOT, *parts)


def needs(*tools):
    for t in tools:
        if not shutil.which(t):
            raise Missing("no %s on this machine" % t)


def run(words, cwd=None, env=None, log="install"):
    """Runs one command to its end; Missing with its last line when it fails."""
    needs(words[0])
    full = dict(os.environ, **(env or {}))
    with open(path(log + ".log"), "ab") as out:
        try:
            code = subprocess.run(words, cwd=cwd, env=full, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                  timeout=TIMEOUT).returncode
        except subprocess.TimeoutExpired:
            raise Missing("%s did not end in %d s" % (words[0], TIMEOUT))
    if code:
        raise Missing("%s ended with %d (build/interop/%s.log)" % (words[0], code, log))


def stamp_of(*what):
    return hashlib.sha256(repr(what).encode()).hexdigest()


def stamped(name, stamp):
    """True when the package is there with this version."""
    try:
        with open(path(name + ".stamp")) as f:
            return f.read() == stamp
    except FileNotFoundError:
        return False


def set_stamp(name, stamp):
    with open(path(name + ".stamp"), "w") as f:
        f.write(stamp)


def read(*parts):
    with open(os.path.join(DRIVERS, *parts)) as f:
        return f.read()


POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>rlockd</groupId><artifactId>%s</artifactId><version>1</version><dependencies>%s</dependencies></project>
"""
DEPENDENCY = "<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>"


def maven(folder):
    """The jars of one folder and the driver compiled against them."""
    needs("java", "javac")
    target = path(folder)
    main = JAVA[folder]
    stamp = stamp_of(JARS[folder], read("java", "Lines.java"), read("java", main + ".java"))
    if stamped(folder, stamp):
        return
    shutil.rmtree(target, True)
    os.makedirs(target)
    with open(os.path.join(target, "pom.xml"), "w") as f:
        f.write(POM % (folder, "".join(DEPENDENCY % tuple(a.split(":")) for a in JARS[folder])))
    run(["mvn", "-B", "-q", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies",
         "-DoutputDirectory=jars", "-DincludeScope=runtime"], cwd=target, log=folder)
    run(["javac", "-nowarn", "-cp", "jars/*", "-d", "classes", os.path.join(DRIVERS, "java", "Lines.java"),
         os.path.join(DRIVERS, "java", main + ".java")], cwd=target, log=folder)
    set_stamp(folder, stamp)


def npm():
    needs("node", "npm")
    stamp = stamp_of(NPM)
    if stamped("npm", stamp):
        return
    os.makedirs(path("npm"), exist_ok=True)
    options = ["--no-save", "--no-audit", "--no-fund", "--silent"]
    run(["npm", "install", "--prefix", path("npm"), *options, *NPM], log="npm")
    set_stamp("npm", stamp)


def python():
    """An interpreter with pip; pip installs what fits that interpreter."""
    for p in ("/usr/bin/python3", "python3"):
        if shutil.which(p) and subprocess.run([p, "-m", "pip", "--version"], stdout=subprocess.DEVNULL,
                                              stderr=subprocess.DEVNULL).returncode == 0:
            return p
    raise Missing("no python3 with pip on this machine")


def pypi(folder):
    p = python()
    stamp = stamp_of(PYPI[folder], p)
    if stamped(folder, stamp):
        return
    shutil.rmtree(path(folder), True)
    run([p, "-m", "pip", "install", "--quiet", "--no-input", "--target", path(folder), PYPI[folder]], log=folder)
    set_stamp(folder, stamp)


def go():
    """One module with all programs."""
    target = path("go")
    sources = [os.path.relpath(f, os.path.join(DRIVERS, "go"))
               for f in sorted(glob.glob(os.path.join(DRIVERS, "go", "*", "*.go")))]
    stamp = stamp_of(GO, [read("go", s) for s in sources])
    if stamped("go", stamp):
        return
    shutil.rmtree(target, True)
    for s in sources:
        os.makedirs(os.path.dirname(os.path.join(target, s)), exist_ok=True)
        shutil.copy(os.path.join(DRIVERS, "go", s), os.path.join(target, s))
    env = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    run(["go", "mod", "init", "interop"], cwd=target, env=env, log="go")
    run(["go", "get", *GO], cwd=target, env=env, log="go")
    for program in ("locks", "clients", "rueidis"):
        run(["go", "build", "-o", os.path.join("bin", program), "./" + program], cwd=target, env=env, log="go")
    set_stamp("go", stamp)


def compile_c(program):
    needs("gcc", "pkg-config")
    stamp = stamp_of(read(program + ".c"))
    if stamped(program, stamp):
        return
    os.makedirs(path("c"), exist_ok=True)
    flags = []
    for p in C[program]:
        found = subprocess.run(["pkg-config", "--cflags", "--libs", p], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
        if found.returncode:
            raise Missing("no development files of %s here" % p)
        flags += found.stdout.decode().split()
    run(["gcc", "-O1", "-Wall", "-o", path("c", program), os.path.join(DRIVERS, program + ".c"), *flags], log=program)
    set_stamp(program, stamp)


def debian(words, package):
    """A program of Debian that can load the library."""
    if not shutil.which(words[0]):
        raise Missing("no %s on this machine (Debian: %s)" % (words[0], package))
    if subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        raise Missing("%s is not installed" % package)


def steps():
    """(package, function, arguments) of all packages."""
    out = [(f, maven, (f,)) for f in JARS] + [("npm", npm, ()), ("go", go, ())]
    out += [(f, pypi, (f,)) for f in PYPI] + [(p, compile_c, (p,)) for p in C]
    ruby = 'require "redis"; exit(Redis.new.respond_to?(:_client) ? 0 : 1)'
    out += [("redis-cli", debian, (["redis-cli", "--version"], "redis-tools")),
            ("php", debian, (["php", "-r", 'exit(extension_loaded("redis") ? 0 : 1);'], "php-redis")),
            ("ruby", debian, (["ruby", "-e", ruby], "ruby-redis")),
            ("perl", debian, (["/usr/bin/perl", "-MRedis", "-e", "1"], "libredis-perl"))]
    return out


def _one(step):
    package, function, arguments = step
    try:
        function(*arguments)
        return package, None
    except Missing as e:
        return package, str(e)
    except OSError as e:
        return package, "%s: %s" % (type(e).__name__, e)


def _mavens(chosen):
    """One after the other, since Maven's local repository allows one writer; none after one that hung."""
    done, hung = [], None
    for s in chosen:
        done.append((s[0], hung) if hung else _one(s))
        if done[-1][1] and "did not end" in done[-1][1]:
            hung = done[-1][1]
    return done


def everything(wanted=None):
    """Installs missing packages, several at a time; two runs of this exclude each other. Returns {package: reason}."""
    os.makedirs(ROOT, exist_ok=True)
    chosen = [s for s in steps() if wanted is None or s[0] in wanted]
    with open(path(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mavens = [s for s in chosen if s[1] is maven]
        others = [s for s in chosen if s[1] is not maven]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            java = pool.submit(_mavens, mavens)
            _why.update(pool.map(_one, others))
            _why.update(java.result())
    return {p: reason for p, reason in _why.items() if reason}

