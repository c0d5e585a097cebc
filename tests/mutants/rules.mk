mutants: test ## break the daemon in each way of the tables, and show which test notices (SOME=1: another half each day)
	@/usr/bin/python3 tests/mutants/run.py --report build/mutants.txt $(if $(SOME),--some) $(if $(IN_CHECK),--in-check)
.PHONY: mutants
