# rlockd -- build, test, run, install. Rooms are listed in the order of their arrows.
CC      ?= gcc
B       ?= build
CFLAGS  ?= -O2 -g
PKGS    := libevent_core libevent_extra hiredis yaml-0.1 libsystemd
WARN    := -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
           -Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef -Wvla -Wformat=2 -Wimplicit-fallthrough
CPPFLAGS += -I. -I$(B)
PKGCF   := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LIBS    := $(shell pkg-config --libs $(PKGS) 2>/dev/null)

ROOMS   := daemon/base proto conf daemon/core daemon/backend daemon/serve
SRC     := $(foreach r,$(ROOMS),$(wildcard $(r)/*.c))
OBJ     := $(SRC:%.c=$(B)/%.o)
UNIT    := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(wildcard tests/unit/test_*.c))

all: $(B)/rlockd $(B)/rlock

$(B)/librlockd.a: $(OBJ)
	@rm -f $@; $(AR) rcs $@ $^

$(B)/rlockd: $(B)/daemon/rlockd.o $(B)/librlockd.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/rlock: $(B)/daemon/rlock.o $(B)/librlockd.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(WARN) $(WERROR) $(CPPFLAGS) $(PKGCF) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/tests/unit/%: tests/unit/%.c $(B)/librlockd.a
	@mkdir -p $(@D)
	$(CC) $(WARN) $(WERROR) $(CPPFLAGS) $(PKGCF) $(CFLAGS) -MMD -MP -o $@ $< $(B)/librlockd.a $(LIBS) $$(pkg-config --cflags --libs check)

unit: $(UNIT)
	@for t in $(UNIT); do $$t || exit 1; done

clean:
	rm -rf $(B)

-include $(OBJ:.o=.d)
.PHONY: all unit clean
