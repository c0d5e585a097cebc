# tests/sim -- the simulated Redis (redis.h), and the proof of it: differ, against a real redis-server.
LUACF      = $(eval LUACF := $$(shell pkg-config --cflags lua5.1))$(LUACF)
# Static: half of a script call is spent in the library, and calls into a shared library cost more.
LUALIBS    := -Wl,-Bstatic -llua5.1 -Wl,-Bdynamic -lm -ldl
SIM_REDIS  := $(patsubst %,$(B)/tests/sim/%.o,redis commands strings lists sets data out lua scripts slots)
SIM_DIFFER := $(patsubst %,$(B)/tests/sim/%.o,differ differ_words differ_raw differ_lua differ_server)
SIM_OBJ    := $(SIM_REDIS) $(SIM_DIFFER) $(B)/tests/sim/bench.o $(B)/tests/sim/test_redis.o
SIM_SEED   ?= 1
SIM_N      ?= 100000

$(SIM_OBJ): $(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(WARN) $(WERROR) $(CPPFLAGS) $(PKGCF) $(LUACF) $(CHECKCF) $(CFLAGS) -MMD -MP -c -o $@ $<

# Preloaded into redis-server: without our CFLAGS, as it is no place for sanitizers.
$(B)/tests/sim/clock.so: tests/sim/clock.c
	@mkdir -p $(@D)
	$(CC) $(WARN) $(WERROR) -O2 -g -shared -fPIC -o $@ $<

$(B)/tests/sim/differ: $(SIM_DIFFER) $(SIM_REDIS) $(B)/librlockd.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) $(LUALIBS)

$(B)/tests/sim/bench: $(B)/tests/sim/bench.o $(SIM_REDIS) $(B)/librlockd.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) $(LUALIBS)

$(B)/tests/sim/test_redis: $(B)/tests/sim/test_redis.o $(SIM_REDIS) $(B)/librlockd.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) $(LUALIBS) $(CHECKLIBS)

sim-redis-build: $(B)/tests/sim/test_redis $(B)/tests/sim/differ $(B)/tests/sim/clock.so

# In B: the unit test, the proof that differ can fail, and a short run.
sim-redis-here: sim-redis-build
	@scripts/check-unit $(B)/tests/sim/test_redis
	@$(B)/tests/sim/differ $(B)/tests/sim/clock.so prove
	@$(B)/tests/sim/differ $(B)/tests/sim/clock.so $(SIM_SEED) $(SIM_N)

sim-redis: ## test the simulated Redis: its unit test, and a short comparison with a real one
	+@$(IN_TEST) SIM_N=40000 sim-redis-here

sim-redis-asan:
	+@$(IN_ASAN) SIM_N=20000 sim-redis-here

sim-differ: ## compare the simulated Redis with a real one: SIM_N commands from SIM_SEED
	+@$(IN_TEST) sim-redis-here

sim-bench: ## script calls of the simulated Redis in a second
	@$(MAKE) $(B)/tests/sim/bench
	@$(B)/tests/sim/bench

-include $(SIM_OBJ:.o=.d)
.PHONY: sim-redis-build sim-redis-here sim-redis sim-redis-asan sim-differ sim-bench
include tests/sim/world.mk
