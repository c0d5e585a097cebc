mutants: test ## break the daemon in some 700 ways, and show which test notices (SOME=1: a half, each day another)
	@/usr/bin/python3 tests/mutants/run.py --report build/mutants.txt $(if $(SOME),--some)
.PHONY: mutants
