# gnu11: in c11 gcov does not see an exec, and loses what a child counted before it.
IN_COVERAGE = $(MAKE) $(ALL_CPUS) B=build/coverage TEST_CLOCK=1 CFLAGS="-std=gnu11 -O0 -g --coverage" LDFLAGS=--coverage

coverage: ## lines and branches that the tests reach, by gcov (build/coverage.txt)
	@scripts/setup test
	@rm -rf build/coverage
	+@$(IN_COVERAGE) --no-print-directory tests fuzz-bins build/faults/shim.so
	@/usr/bin/python3 tests/coverage/report.py --run build/coverage --report build/coverage.txt
.PHONY: coverage
