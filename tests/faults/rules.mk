# Failure loops: the shim that makes calls fail, for a plain daemon and for one under AddressSanitizer.
FAULTS_CC = $(CC) -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Wstrict-prototypes -O1 -g -fno-optimize-sibling-calls \
            -fPIC -shared -I.

build/faults/shim.so: tests/faults/shim.c tests/faults/shim.h
	@mkdir -p $(@D)
	$(FAULTS_CC) -o $@ tests/faults/shim.c

build/faults/shim-asan.so: tests/faults/shim.c tests/faults/shim.h
	@mkdir -p $(@D)
	$(FAULTS_CC) -DSHIM_UNDER_ASAN -o $@ tests/faults/shim.c

faults-shims: build/faults/shim.so build/faults/shim-asan.so

faults-build: test asan-build faults-shims

faults: faults-build ## every allocation and system call fails in turn: loops over clients, starts, ends
	@rm -f build/faults/report.txt
	@/usr/bin/python3 tests/faults/run.py --report build/faults/report.txt
	@/usr/bin/python3 tests/faults/run.py --asan --what memory --report build/faults/report.txt

# In `make check`: each caller of malloc once, and a stride through the rest.
faults-short: faults-build
	@rm -f build/faults/short.txt
	@/usr/bin/python3 tests/faults/run.py --asan --short --report build/faults/short.txt

.PHONY: faults faults-shims faults-build faults-short
