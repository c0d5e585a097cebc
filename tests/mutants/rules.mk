mutants: test ## break the daemon in 500 ways, and show which test notices (SOME=1: a quarter of those on a Redis)
	@/usr/bin/python3 tests/mutants/run.py --report build/mutants.txt $(if $(SOME),--some)
.PHONY: mutants
