# tests/sim -- the simulated Redis (redis.h), and what proves it.
LUACF    = $(eval LUACF := $$(shell pkg-config --cflags lua5.1))$(LUACF)
LUALIBS  = $(eval LUALIBS := $$(shell pkg-config --libs lua5.1))$(LUALIBS)
SIM_REDIS := $(patsubst %,$(B)/tests/sim/%.o,redis commands strings collections data out lua)
SIM_OBJ   := $(SIM_REDIS) $(patsubst %,$(B)/tests/sim/%.o,differ differ_words differ_server bench)
SIM_SEED  ?= 1
SIM_N     ?= 100000

$(SIM_OBJ): $(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(WARN) $(WERROR) $(CPPFLAGS) $(PKGCF) $(LUACF) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/tests/sim/bench: $(B)/tests/sim/bench.o $(SIM_REDIS) $(B)/librlockd.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) $(LUALIBS) -lm

-include $(SIM_OBJ:.o=.d)
