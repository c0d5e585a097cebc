# tests/fuzz -- one target per fuzz_*.c, built thrice: with clang and libFuzzer (build/fuzz), with gcc and replay.c
# (build/asan, with the other things under ASan and UBSan there), and so with `make test`, which shows that it compiles.
FUZZ       := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BIN   := $(FUZZ:%=$(B)/tests/fuzz/fuzz_%)
FUZZ_SAN   := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
IN_FUZZ     = $(MAKE) --no-print-directory $(ALL_CPUS) B=build/fuzz CC=clang TEST_CLOCK=1 FUZZ_MAIN= \
              FUZZ_LINK=-fsanitize=fuzzer CFLAGS="$(FUZZ_SAN) -fsanitize=fuzzer-no-link"
FUZZ_QUICK := $(if $(findstring sanitize,$(CFLAGS)),,-O0 -U_FORTIFY_SOURCE)
FUZZ_MAIN  ?= $(B)/tests/fuzz/replay.o
SECONDS    ?= 30

$(B)/tests/fuzz/%.o: tests/fuzz/%.c
	@mkdir -p $(@D)
	$(Q)$(ROOM)$(CC) $(WARN) $(WERROR) $(CPPFLAGS) -Itests/fuzz/shim $(PKGCF) $(CFLAGS) $(FUZZ_QUICK) -MMD -MP -c -o $@ $<

# rlock's reader of replies is in no room's library.
$(B)/tests/fuzz/fuzz_rlock: $(B)/daemon/rlock_client.o

$(FUZZ_BIN): $(B)/tests/fuzz/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(FUZZ_MAIN) $(B)/tests/unit/libcheck.a $(B)/librlockd.a
	$(Q)$(LINK)$(CC) $(CFLAGS) $(FUZZ_LINK) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

.SECONDARY: $(FUZZ_BIN:=.o)
fuzz-bins: $(FUZZ_BIN)

fuzz-build:
	+@$(IN_FUZZ) WERROR=-Werror fuzz-bins

fuzz: fuzz-build ## fuzz every target for SECONDS=30 with clang; build/fuzz/report.txt (T="reader conf" for some)
	@tests/fuzz/run fuzz $(SECONDS) $(or $(T),$(FUZZ))

fuzz-merge: fuzz-build
	@tests/fuzz/run merge $(or $(T),$(FUZZ))

fuzz-replay-build:
	+@$(IN_ASAN) WERROR=-Werror fuzz-bins

fuzz-replay: fuzz-replay-build
	@tests/fuzz/run replay $(or $(T),$(FUZZ))

-include $(FUZZ_BIN:=.d) $(B)/tests/fuzz/replay.d
.PHONY: fuzz fuzz-bins fuzz-build fuzz-merge fuzz-replay fuzz-replay-build
