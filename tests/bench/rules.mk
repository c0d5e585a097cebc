# Benchmarks: the load generator, the floor, and what runs them; see tests/bench/README.md.
BENCH_LOAD := $(patsubst %.c,$(B)/%.o,$(wildcard tests/bench/load*.c))
BENCH := $(addprefix $(B)/tests/,bench/load bench/floor chaos/proxy)

$(B)/tests/bench/%.o: tests/bench/%.c
	@mkdir -p $(@D)
	$(CC) $(WARN) $(WERROR) $(CPPFLAGS) $(PKGCF) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/tests/bench/load: $(BENCH_LOAD)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^

$(B)/tests/bench/floor: $(B)/tests/bench/floor.o
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

bench-programs: $(BENCH)

# QUICK=1: one short round of the core rows. ROWS=pattern: those rows alone.
bench: ## measure rlockd beside Redis, the floor and other services: build/bench/report.md (QUICK=1, ROWS=hot-64)
	@scripts/setup bench || echo "bench: not all of Debian's packages are here; what needs them is skipped"
	@$(MAKE) --no-print-directory all bench-programs
	@/usr/bin/python3 tests/bench/run.py $(if $(QUICK),--quick) $(if $(ROWS),--rows '$(ROWS)')

# The machinery of it, in B.
bench-test: all bench-programs
	@RLOCKD_BUILD=$(abspath $(B)) /usr/bin/python3 tests/bench/test_bench.py

test-bench:
	+@$(IN_TEST) bench-test

-include $(wildcard $(B)/tests/bench/*.d)
.PHONY: bench-programs bench bench-test test-bench
