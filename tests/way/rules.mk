# The way of one LOCK through the files of the daemon; see tests/way/way.py.
IN_WAY = $(MAKE) $(ALL_CPUS) B=build/way LDFLAGS=-no-pie CFLAGS="-O0 -g -no-pie -falign-functions=16 \
         -finstrument-functions -finstrument-functions-exclude-file-list=.h"

$(B)/tests/way/way.so: tests/way/way.c
	@mkdir -p $(@D)
	$(CC) $(WARN) $(WERROR) -O2 -fPIC -shared -o $@ $<

way-build: all $(B)/tests/way/way.so

way: ## the way of one LOCK from file to file, at most 70 moves
	+@$(IN_WAY) -s way-build
	@/usr/bin/python3 tests/way/way.py --most 70

.PHONY: way way-build
