hazards: ## check that every test that the table of hazards in tests/README.md names exists
	@/usr/bin/python3 tests/hazards/check.py
.PHONY: hazards
