# The simulator: worlds of daemons, clients and servers, from a seed.
SIM_WORLD := $(patsubst %,$(B)/tests/sim/%.o,rng world loop net known server calls watched masters cluster nodes moves \
             broken state daemon client cancel pipeline replies rush fleet nature check promises turns left ours main)
# Functions that broken.c replaces; where calls are inlined across files the linker has none to replace.
COMMA     := ,
SIM_WRAP  := -fno-lto $(addprefix -Wl$(COMMA)--wrap=,generations_slot_state generations_node_answered \
             generations_slot_opened generation_marks_take cluster_slots_fresh shard_accepted link_retarget)
SIM_JOBS  ?= 2
SEED      ?=
SEEDS     ?= 100000
SIM_SEEDS ?= 4000
SIM_CLUSTER_SEEDS ?= $(shell echo $$((($(SIM_SEEDS) + 19) / 20)))

$(SIM_WORLD): $(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(WARN) $(WERROR) $(CPPFLAGS) $(PKGCF) $(CFLAGS) -MMD -MP -c -o $@ $<

# loop.c, which replaces libevent, comes before the library, so the linker takes none of its functions from there.
$(B)/tests/sim/rlsim: $(SIM_WORLD) $(SIM_REDIS) $(B)/tests/unit/libcheck.a $(B)/librlockd.a
	$(CC) $(CFLAGS) $(LDFLAGS) $(SIM_WRAP) -o $@ $^ -lhiredis -lssl -lcrypto $(LUALIBS) -lm

sim-programs: $(B)/tests/sim/rlsim

sim-build: test
	+@$(IN_TEST) sim-programs

ifneq ($(SEED),)
sim: $(B)/tests/sim/rlsim ## simulate SIM_SEEDS worlds and the controls; SEED=n runs one world, TRACE=1 prints each step
	@$< --seed $(SEED) $(if $(TRACE),--trace)
else
sim: $(B)/tests/sim/rlsim
	@$< --seeds $(SIM_SEEDS) --jobs $(SIM_JOBS)
	@$< --seeds $(SIM_CLUSTER_SEEDS) --jobs $(SIM_JOBS) --shape cluster
	@$< --seeds 100 --twice
	@$< --seeds 4 --twice --shape cluster
	@$< --seeds 4000 --jobs $(SIM_JOBS) --controls
	@$< --fleet --daemons 100
	@$< --fleet --daemons 100 --shape cluster
endif

test-sim:
	+@$(IN_TEST) sim

sim-fleet: $(B)/tests/sim/rlsim ## measure fleets of 10, 100 and 1,000 daemons: a beat, a grace period, a start of all
	@$< --fleet
	@$< --fleet --shape cluster

sim-long: $(B)/tests/sim/rlsim ## simulate SEEDS=n worlds, beginning at a seed made of the date; report in build/sim.txt
	@$< --seed $$(($$(date +%j) * 100000000)) --seeds $(SEEDS) --jobs $(SIM_JOBS) >build/sim.txt; \
	    status=$$?; cat build/sim.txt; exit $$status

-include $(SIM_WORLD:.o=.d)
.PHONY: sim sim-fleet sim-programs sim-build test-sim sim-long
