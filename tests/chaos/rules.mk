# Chaos with real processes: the fault proxy, the clients, the resource under lock; see tests/chaos/README.md.
CHAOS := $(addprefix $(B)/tests/chaos/,proxy resource client clock.so)

$(B)/tests/chaos/%.o: tests/chaos/%.c
	@mkdir -p $(@D)
	$(CC) $(WARN) $(WERROR) $(CPPFLAGS) $(PKGCF) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/tests/chaos/proxy: $(B)/tests/chaos/proxy.o $(B)/tests/chaos/proxy_conn.o
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/tests/chaos/resource: $(B)/tests/chaos/resource.o
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/tests/chaos/client: $(addprefix $(B)/tests/chaos/,client.o client_fifo.o session.o)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^

$(B)/tests/chaos/clock.so: tests/chaos/clock.c
	@mkdir -p $(@D)
	$(CC) $(WARN) $(WERROR) -O2 -fPIC -shared -o $@ $<

chaos-build: test
	@$(IN_TEST) chaos-programs

chaos-programs: $(CHAOS)

-include $(wildcard $(B)/tests/chaos/*.d)
.PHONY: chaos-build chaos-programs
