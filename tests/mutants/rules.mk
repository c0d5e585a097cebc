mutants: test ## break the daemon on purpose, in a hundred ways, and show which test notices
	@/usr/bin/python3 tests/mutants/run.py --report build/mutants.txt
.PHONY: mutants
