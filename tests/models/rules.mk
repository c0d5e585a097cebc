models: ## rules of a cluster and of a quorum as models: spin searches every order of events
	@scripts/setup models
	@/usr/bin/python3 tests/models/run.py

.PHONY: models
