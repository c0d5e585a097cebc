# Chaos with real processes: the fault proxy, the clients, their resource; see tests/chaos/README.md.
CHAOS := $(addprefix $(B)/tests/chaos/,proxy resource client clock.so)
ROUNDS ?= 200
DURATION ?= 600

$(B)/tests/chaos/%.o: tests/chaos/%.c
	@mkdir -p $(@D)
	$(CC) $(WARN) $(WERROR) $(CPPFLAGS) $(PKGCF) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/tests/chaos/proxy: $(addprefix $(B)/tests/chaos/,proxy.o proxy_conn.o)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/tests/chaos/resource: $(B)/tests/chaos/resource.o
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/tests/chaos/client: $(addprefix $(B)/tests/chaos/,client.o client_fifo.o session.o)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^

$(B)/tests/chaos/clock.so: tests/chaos/clock.c
	@mkdir -p $(@D)
	$(CC) $(WARN) $(WERROR) -O2 -fPIC -shared -o $@ $<

chaos-programs: $(CHAOS)

chaos-build: test
	+@$(IN_TEST) chaos-programs

chaos: chaos-build asan-build ## processes harmed in 57 ways for DURATION s, ROUNDS failovers: build/chaos/report.txt
	@tests/chaos/chaos long $(DURATION) $(ROUNDS)

chaos-short: chaos-build
	@tests/chaos/chaos short

chaos-shapes: chaos-build ## a cluster, sentinels (with TLS, too), a quorum, harmed for DURATION s each, or longer (60)
	@/usr/bin/python3 tests/chaos/nodes.py --duration $(if $(filter file,$(origin DURATION)),60,$(DURATION))

failover: chaos-build ## failovers with lost writes, ROUNDS times, compared with the plain SET NX PX
	@/usr/bin/python3 tests/chaos/failover.py $(ROUNDS)

switches: test ## switches of the master by real sentinels with lost writes, ROUNDS times, while clients count
	@/usr/bin/python3 tests/chaos/switches.py $(ROUNDS)

takeovers: test ## failovers in a cluster with lost writes, ROUNDS times, while slots move and clients count
	@/usr/bin/python3 tests/chaos/takeovers.py $(ROUNDS)

emptied: test ## nodes of a quorum that lose their data, ROUNDS times, while clients count
	@/usr/bin/python3 tests/chaos/emptied.py $(ROUNDS)

-include $(wildcard $(B)/tests/chaos/*.d)
.PHONY: chaos-programs chaos-build chaos chaos-short chaos-shapes failover switches takeovers emptied
