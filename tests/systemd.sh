#!/bin/bash
# systemd.sh -- the units as `make install` lays them out: verified, scored, and their user and directory made.
#
# Stages into a private directory (make install DESTDIR=...; B names the build tree). Prints an ok or FAIL line
# per check and a line that counts them; exit 0 when none failed.
set -u
cd "$(dirname "$0")/.."
build=${B:-build}
limit=1.4
root=$(mktemp -d /tmp/rlockd-test-systemd-XXXXXX)
pid=
passed=0 failed=0 skipped=0

clean_up() {
    [ -n "$pid" ] && kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    rm -rf "$root" "$root.broken"
}
trap clean_up EXIT

# check TITLE COMMAND...: the command's output is shown only when it fails.
check() {
    local title=$1 out
    shift
    if out=$("$@" 2>&1); then
        echo "ok $title"
        passed=$((passed + 1))
    else
        echo "FAIL $title"
        printf '%s\n' "$out" | sed 's/^/    /'
        failed=$((failed + 1))
    fi
}

skip() {
    echo "skip $1"
    skipped=$((skipped + 1))
}

finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed = 0 ]
    exit
}

fails() { ! "$@"; }

# Warnings of `verify` (unknown keys, among others) leave its exit code 0: clean means not one word.
verify() {
    local out
    out=$(systemd-analyze verify --man=no --root="$1" rlockd.service rlockd.socket 2>&1) && [ -z "$out" ] || {
        echo "$out"
        return 1
    }
}

score() {
    systemd-analyze security --offline=true --threshold="$1" "$2"
}

has_files() {
    local f
    for f in usr/bin/rlock usr/sbin/rlockd etc/rlockd/rlockd.yaml usr/lib/systemd/system/rlockd.service \
        usr/lib/systemd/system/rlockd.socket usr/lib/sysusers.d/rlockd.conf usr/lib/tmpfiles.d/rlockd.conf; do
        test -s "$root/$f" || { echo "$f is missing"; return 1; }
    done
}

# A copy of the stage whose service has one line changed.
broken() {
    rm -rf "$root.broken"
    cp -a "$root" "$root.broken"
    sed -i "$1" "$root.broken/usr/lib/systemd/system/rlockd.service"
}

unit_value() { sed -n "s/^$1=//p" "$root/usr/lib/systemd/system/$2"; }

sample_loads() { "$root/usr/sbin/rlockd" -t -c "$root/etc/rlockd/rlockd.yaml"; }

same_addresses() {
    local listen sockets
    listen=$("$root/usr/sbin/rlockd" -T | sed -n 's/^listen: \[\([^]]*\)\].*/\1/p' | sed 's/unix://; s/tcp://; s/, / /')
    sockets=$(unit_value ListenStream rlockd.socket | tr '\n' ' ')
    [ -n "$listen" ] && [ "$listen" = "${sockets% }" ] || { echo "$listen / $sockets"; return 1; }
}

stops_after_drain() {
    local drain stop
    drain=$("$root/usr/sbin/rlockd" -T | sed -n 's/^drain_timeout: \([0-9]*\)s .*/\1/p')
    stop=$(unit_value TimeoutStopSec rlockd.service)
    [ -n "$drain" ] && [ "$stop" -gt "$drain" ] || { echo "stop $stop, drain $drain"; return 1; }
}

# Whether rlockd finds the id of the boot in /proc as the unit of the stage mounts it.
knows_its_boot() {
    local unit="$1/usr/lib/systemd/system/rlockd.service" boot options=hidepid state
    options+=$(sed -n 's/^ProtectProc=/=/p' "$unit")$(sed -n 's/^ProcSubset=/,subset=/p' "$unit")
    boot=$(cat /proc/sys/kernel/random/boot_id)
    state=$(mktemp -d "$root/state-XXXXXX")
    printf 'run_dir: "%s"\nstate_dir: "%s"\nlisten: ["unix:%s"]\nredis: { url: "unix:%s" }\n' "$root" "$state" \
        "$root/boot.sock" "$root/none.sock" >"$root/boot.yaml"
    unshare --mount sh -c "mount -t proc -o $options proc /proc && exec \"\$@\"" sh \
        "$root/usr/sbin/rlockd" -c "$root/boot.yaml" >"$root/boot.log" 2>&1 &
    pid=$!
    for _ in $(seq 1000); do
        [ -s "$state/lock" ] && break
        sleep 0.01
    done
    kill "$pid"
    wait "$pid"
    pid=
    grep -q " $boot\$" "$state/lock" || { cat "$state/lock" "$root/boot.log"; return 1; }
}

makes_user() {
    systemd-sysusers --root="$root" rlockd.conf || return 1
    grep -q '^rlockd:' "$root/etc/passwd" && grep -q '^rlockd:' "$root/etc/group"
}

makes_directory() {
    local want got
    systemd-tmpfiles --root="$root" --create rlockd.conf || return 1
    want="750 $(sed -n 's/^rlockd:[^:]*:\([0-9]*\):\([0-9]*\):.*/\1 \2/p' "$root/etc/passwd")"
    got=$(stat -c '%a %u %g' "$root/run/rlockd")
    [ "$got" = "$want" ] || { echo "is $got, should be $want"; return 1; }
}

# The socket unit's way in, without a systemd: the fd is open before the daemon is.
passed_socket_serves() {
    local sock="$root/activated.sock" answer
    printf 'redis: { url: "unix:%s" }\n' "$root/none.sock" >"$root/activated.yaml"
    systemd-socket-activate --fdname=client -l "$sock" "$root/usr/sbin/rlockd" -c "$root/activated.yaml" \
        >"$root/activated.log" 2>&1 &
    pid=$!
    for _ in $(seq 500); do # it is there before it listens
        answer=$(printf 'PING\n' | timeout 10 nc -N -U "$sock" 2>"$root/nc.log") && break
        sleep 0.01
    done
    kill "$pid"
    wait "$pid" 2>/dev/null
    pid=
    [ "$answer" = $'+PONG\r' ] || { echo "answer: $answer"; cat "$root/activated.log"; return 1; }
}

if ! command -v systemd-analyze >/dev/null; then
    skip "everything: there is no systemd-analyze here"
    finish
fi
check "make install" make --no-print-directory install B="$build" DESTDIR="$root" PREFIX=/usr
check "the files are where they belong" has_files

# Units that ours lean on, and the one foreign command.
cp -rn /usr/lib/systemd/system/. "$root/usr/lib/systemd/system/"
mkdir -p "$root/bin" && cp /bin/kill "$root/bin/"

check "systemd-analyze verify is clean" verify "$root"
broken 's/^Restart=/Restrat=/'
check "... and would see an unknown key" fails verify "$root.broken"
broken 's,^ExecStart=.*,ExecStart=/usr/sbin/rlokd,'
check "... and would see a missing command" fails verify "$root.broken"
service=usr/lib/systemd/system/rlockd.service
check "systemd-analyze security is at most $limit" score "${limit/./}" "$root/$service"
broken '/^CapabilityBoundingSet=/d; /^SystemCallFilter=/d'
check "... and would see a weaker unit" fails score "${limit/./}" "$root.broken/$service"
check "the installed configuration is good" sample_loads
check "the socket listens where rlockd would" same_addresses
check "TimeoutStopSec is more than drain_timeout" stops_after_drain
check "a passed socket serves" passed_socket_serves
if [ "$(id -u)" = 0 ]; then
    check "sysusers makes the user and the group" makes_user
    check "tmpfiles makes the directory" makes_directory
    check "rlockd knows the boot of the host" knows_its_boot "$root"
    broken '/^ProtectProc=/aProcSubset=pid'
    check "... and would not know it without all of /proc" fails knows_its_boot "$root.broken"
else
    skip "sysusers, tmpfiles and /proc: they need root"
fi
finish
