hostile: test ## clients that try to stall all the others: PING and lock of a bystander; S="Scene ..." for some
	@/usr/bin/python3 tests/hostile/run.py $(S)
.PHONY: hostile
