# rlockd -- build, test, run, install. Rooms are listed in the order of their arrows. `make help` lists the targets.
# No built-in rule is used, and make takes six times as long when it looks for one that could make each header.
MAKEFLAGS += --no-builtin-rules
ifeq ($(origin CC),default)
CC      := gcc
endif
B       ?= build
V       ?=
# What users get is optimised over all files at the link: 7 % fewer instructions for a pair. Tests link often: not they.
LTO     := $(if $(TEST_CLOCK),,$(if $(findstring gcc,$(CC)),-flto=auto -ffat-lto-objects))
CFLAGS  ?= -O2 -g -fstack-protector-strong -D_FORTIFY_SOURCE=2 $(LTO)
PREFIX  ?= /usr
SYSCONF ?= /etc
PKGS    := libevent_core libevent_extra hiredis yaml-0.1 libsystemd libssl libcrypto
WARN    := -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
           -Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef -Wvla -Wformat=2 -Wimplicit-fallthrough
CPPFLAGS += -I. -I$(B)
ifneq ($(TEST_CLOCK),)
CPPFLAGS += -DRLOCKD_TEST_CLOCK
endif
PKGCF   = $(eval PKGCF := $$(shell pkg-config --cflags $(PKGS)))$(PKGCF)
LIBS    = $(eval LIBS := $$(shell pkg-config --libs $(PKGS)))$(LIBS)
CHECKCF = $(eval CHECKCF := $$(shell pkg-config --cflags check))$(CHECKCF)
# Tests link often: with gold, where it is there, in a third of the time.
GOLD    = $(eval GOLD := $$(shell ld.gold --version >/dev/null 2>&1 && echo -fuse-ld=gold))$(GOLD)
ifneq ($(and $(TEST_CLOCK),$(findstring gcc,$(CC))),)
LDFLAGS += $(GOLD)
endif
CHECKLIBS = $(eval CHECKLIBS := $$(shell pkg-config --libs check))$(CHECKLIBS)

ROOMS   := daemon/base proto conf daemon/core daemon/backend daemon/serve
SRC     := $(foreach r,$(ROOMS),$(wildcard $(r)/*.c))
OBJ     := $(SRC:%.c=$(B)/%.o)
HDR     := $(foreach r,daemon $(ROOMS),$(wildcard $(r)/*.h))
RLOCKD  := $(patsubst %.c,$(B)/%.o,$(wildcard daemon/rlockd.c daemon/rlockd_*.c))
RLOCK   := $(patsubst %.c,$(B)/%.o,$(wildcard daemon/rlock.c daemon/rlock_*.c))
RLOCK_SEES := $(filter $(B)/daemon/base/% $(B)/proto/%,$(OBJ))
UNIT    := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(wildcard tests/unit/test_*.c))

# One tree each: what users get, the same with a clock that tests can move, and the two with other eyes on it.
# Tests are compiled five times, and have little to do by themselves.
QUICKLY := -O0 -U_FORTIFY_SOURCE -include tests/unit/points.h
SAN     := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
IN_TEST  = $(MAKE) $(ALL_CPUS) B=build/test TEST_CLOCK=1 WERROR=-Werror
IN_ASAN  = $(MAKE) $(ALL_CPUS) B=build/asan TEST_CLOCK=1 CFLAGS="$(SAN)"
IN_CLANG = $(MAKE) $(ALL_CPUS) B=build/clang CC=clang WERROR=-Werror CFLAGS="-O0 -g"
# For a build on the way: as many jobs as processors, unless the caller has said how many. (A recipe needs a + for it.)
ALL_CPUS = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

# One line for each room that something is compiled in; `make V=1` shows the commands instead, `make -s` nothing.
Q       := $(if $(V),,@)
QUIET    = $(V)$(findstring s,$(firstword -$(MAKEFLAGS)))
ROOM     = $(if $(QUIET)$(SAID_$(<D)),,$(eval SAID_$(<D) := 1)$(info build $(<D)/))
LINK     = $(if $(QUIET),,$(info link $@))

all: $(B)/rlockd $(B)/rlock ## build build/rlockd and build/rlock

$(B)/librlockd.a: $(OBJ)
	@rm -f $@; $(AR) rcs $@ $^

$(B)/rlockd: $(RLOCKD) $(B)/librlockd.a
	$(Q)$(LINK)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/rlock: $(RLOCK) $(RLOCK_SEES)
	$(Q)$(LINK)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lhiredis

# The Lua scripts as C strings.
$(B)/gen/scripts.h: scripts/embed $(wildcard scripts/*.lua)
	@mkdir -p $(@D)
	$(Q)scripts/embed >$@.$$$$ && mv $@.$$$$ $@

$(B)/daemon/backend/call_words.o $(B)/tests/unit/test_backend_memory.o: $(B)/gen/scripts.h

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(ROOM)$(CC) $(WARN) $(WERROR) $(CPPFLAGS) $(PKGCF) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/tests/unit/%.o: tests/unit/%.c
	@mkdir -p $(@D)
	$(Q)$(ROOM)$(CC) $(WARN) $(WERROR) $(CPPFLAGS) $(PKGCF) $(CHECKCF) $(CFLAGS) $(QUICKLY) -MMD -MP -c -o $@ $<

# The invariants of the core, for the tests that include core_check.h; optimised, as it runs after every step of theirs.
$(B)/tests/unit/core_check.o: QUICKLY :=
$(B)/tests/unit/libcheck.a: $(B)/tests/unit/core_check.o
	@rm -f $@; $(AR) rcs $@ $^

$(B)/tests/unit/%: $(B)/tests/unit/%.o $(B)/tests/unit/libcheck.a $(B)/librlockd.a
	$(Q)$(LINK)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) $(CHECKLIBS)

run: ## install what is missing, build, serve with a private Redis until ^C; TOPOLOGY=tls, sentinel, cluster or quorum
	@scripts/setup build
	@$(MAKE) --no-print-directory all
	@scripts/run $(TOPOLOGY)

check: ## install what is missing, build with every warning an error, run every test; ALL=1: what the CI runs
	@scripts/setup test
	@scripts/check $(if $(ALL),all)

tests: all $(UNIT) ## build the daemon and its unit tests in the directory B (B=build)
objects: all $(UNIT:=.o)
.SECONDARY: $(UNIT:=.o)

unit: $(UNIT) ## run the unit tests in B
	@scripts/check-unit $(UNIT)

test: ## build/test: the daemon with a clock that tests can move, the unit tests, and the fuzz targets
	+@$(IN_TEST) tests fuzz-bins

# All that tests run from there.
test-programs:
	+@$(IN_TEST) tests fuzz-bins sim-programs sim-redis-build chaos-programs bench-programs
	+@$(MAKE) --no-print-directory faults-shims

test-unit: test
	+@$(IN_TEST) unit

reorder: test ## the unit tests of the core pass where no promise fixes an order: tests/unit/reorder.py
	@/usr/bin/python3 tests/unit/reorder.py

asan-build:
	+@$(IN_ASAN) tests

asan-programs:
	+@$(IN_ASAN) tests fuzz-bins sim-redis-build

asan-unit: asan-build
	+@$(IN_ASAN) unit

asan: asan-unit ## unit tests and wire scripts under AddressSanitizer and UBSan (build/asan)
	@/usr/bin/python3 tests/wire/run.py --build build/asan

valgrind: test ## unit tests and a short run of the daemon under valgrind
	@scripts/check-valgrind build/test

clang: ## build with clang, warnings are errors
	+@$(IN_CLANG) objects

wire: test ## the wire scripts alone
	@/usr/bin/python3 tests/wire/run.py --build build/test

SHAPES := tcp tls sentinel sentinel+tls sentinel+ipv6 quorum quorum+tls quorum+ipv6 cluster cluster+tls cluster+ipv6

wire-shapes: test ## the wire scripts over all shapes, also with TLS and over IPv6 (SHAPES="quorum cluster+tls")
	@bad=0; for shape in $(SHAPES); do \
	    /usr/bin/python3 tests/wire/run.py --build build/test --shape $$shape || bad=1; \
	done; exit $$bad

redis: test ## the tests on a real Redis alone
	@set -e; for t in tests/redis/test_*.py; do /usr/bin/python3 $$t; done

compat: test ## the wire scripts with Redis 6.2, 7.4, 8.2, Valkey 8.1, 9.1 from PyPI, in all shapes (six minutes)
	@/usr/bin/python3 tests/redis/compat.py $(SERVERS)

interop: ## run real lock libraries and stock clients beside rlockd and in front of it; installs them from registries
	@scripts/setup interop || echo "interop: not all of Debian's packages are here; what needs them is skipped"
	@$(MAKE) --no-print-directory all
	@/usr/bin/python3 tests/interop/run.py

arrows: ## prove that each room uses only what it may, that no line is too long, and that cited commits exist
	@scripts/arrows
	@scripts/columns
	@scripts/commits
	@$(MAKE) -s --no-print-directory $(ALL_CPUS) B=build/arrows TEST_CLOCK=1 CFLAGS=-O0 build/arrows/librlockd.a \
	    $(patsubst $(B)/%,build/arrows/%,$(RLOCKD) $(RLOCK))
	@scripts/floors build/arrows

headers: ## compile each header alone
	@set -e; for h in $(HDR); do \
	    $(CC) $(WARN) -Werror $(CPPFLAGS) $(PKGCF) -fsyntax-only -x c -include $$h /dev/null; \
	done; echo "headers: each of $(words $(HDR)) compiles alone"

install: all ## install below DESTDIR with PREFIX=/usr
	install -d $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(SYSCONF)/rlockd \
	    $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/lib/sysusers.d \
	    $(DESTDIR)$(PREFIX)/lib/tmpfiles.d $(DESTDIR)$(PREFIX)/share/doc/rlockd
	install -m 755 $(B)/rlockd $(DESTDIR)$(PREFIX)/sbin/rlockd
	install -m 755 $(B)/rlock $(DESTDIR)$(PREFIX)/bin/rlock
	if [ -e $(DESTDIR)$(SYSCONF)/rlockd/rlockd.yaml ]; then \
	    install -m 644 conf/rlockd.yaml $(DESTDIR)$(SYSCONF)/rlockd/rlockd.yaml.new; \
	else \
	    install -m 644 conf/rlockd.yaml $(DESTDIR)$(SYSCONF)/rlockd/rlockd.yaml; \
	fi
	for u in rlockd.service rlockd.socket; do \
	    sed 's,/usr/sbin/rlockd,$(PREFIX)/sbin/rlockd,' systemd/$$u >$(DESTDIR)$(PREFIX)/lib/systemd/system/$$u; \
	    chmod 644 $(DESTDIR)$(PREFIX)/lib/systemd/system/$$u; \
	done
	install -m 644 systemd/rlockd.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/rlockd.conf
	install -m 644 systemd/rlockd.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/rlockd.conf
	install -m 644 README.md LICENSE proto/PROTOCOL.md proto/GLOSSARY.md $(DESTDIR)$(PREFIX)/share/doc/rlockd

clean: ## remove build/
	rm -rf $(B)

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*\#\# \(.*\)/\1|\2/p' $(filter %Makefile %.mk,$(MAKEFILE_LIST)) | \
	    awk -F'|' '{ printf "  make %-11s %s\n", $$1, $$2 }'

# Rooms of tests/ that need more than a Check executable bring their own rules.
-include $(wildcard tests/*/rules.mk)

-include $(OBJ:.o=.d) $(RLOCKD:.o=.d) $(RLOCK:.o=.d) $(UNIT:=.d) $(B)/tests/unit/core_check.d
.PHONY: all run check tests objects unit test test-programs test-unit reorder asan-build asan-programs asan-unit asan \
        valgrind clang wire wire-shapes redis compat interop arrows headers install clean help
