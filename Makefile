.PHONY: demo test check bench nemesis lock clean
.venv: requirements/dev.txt pyproject.toml
	@scripts/bootstrap
	@touch .venv

demo: .venv ## three pods with an elector each, on a real control plane
	@scripts/demo

test: .venv ## everything, against real servers
	@scripts/test

check: .venv ## format, lint, layers, types, unit tests
	@scripts/check

bench: .venv ## side by side with client-go; prints a table, writes JSON
	@.venv/bin/python -m bench.elector

nemesis: .venv ## random faults for MINUTES (30), mixed with client-go if CLIENT_GO=0.36
	@.venv/bin/python -m tests.nemesis --minutes $(or $(MINUTES),30) $(if $(SEED),--seed $(SEED)) $(if $(CLIENT_GO),--client-go $(CLIENT_GO))

lock: .venv ## resolve pyproject.toml into requirements/*.txt
	@scripts/lock

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist bench/results
