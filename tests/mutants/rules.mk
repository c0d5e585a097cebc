mutants: test ## break the daemon on purpose, in 500 ways, and show which test notices (SOME=1: not all on a real Redis)
	@/usr/bin/python3 tests/mutants/run.py --report build/mutants.txt $(if $(SOME),--some)
.PHONY: mutants
