.PHONY: help .venv demo test test-long test-deps test-container test-kubernetes test-strangers test-node soak-links soak-limits images release release-node docs check bench bench-relay bench-gm bench-node bench-shards bench-pool nemesis nemesis-gm nemesis-pool nemesis-shards nemesis-vip drill-shards explore mutants lock lock-images clean
# Another interpreter than python3: make PYTHON=python3.12 demo
PYTHON ?= python3
export PYTHON

help: ## what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

# The stamp in it says whether it is up to date; the demo has a lock file of its own.
.venv:
	@tools/scripts/bootstrap

demo: ## three pods, an edge node, and what happens to them; CONTAINERS=1, CLUSTER=kube, ARGS=--help
	@tools/scripts/demo $(if $(CLUSTER),--cluster $(CLUSTER)) $(if $(filter-out 0,$(CONTAINERS)),--containers) $(ARGS)

test: .venv ## before a push: what a change can break, against real servers; ARGS go to pytest
	@tools/scripts/test short $(ARGS)

test-long: .venv ## the rest: containers, demos, nodes, random faults, floods, mutants, an older Kubernetes
	@tools/scripts/test long $(ARGS)

test-deps: ## installs the programs that some of these tests need (Debian; as root or by sudo)
	@tools/scripts/test-deps

images: ## the image of each component, and its size; ARGS=--help
	@tools/scripts/bootstrap release
	@.venv/bin/python -m tools.images $(ARGS)

release: ## in dist/: every overlay as YAML and as a Helm chart, wheel, sdist, archives of the images with SBOMs and of the node's relay, SHA256SUMS; ARGS="--registry registry.example.com/edge"
	@tools/scripts/bootstrap release
	@.venv/bin/python -m tools.release $(ARGS)

docs: ## the documentation as a site in build/site; a link that leads nowhere fails
	@tools/scripts/bootstrap docs
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict $(ARGS)

release-node: ## the relay with all it needs for nodes without a package index; ARGS="--python 3.13 --machine aarch64"
	@tools/scripts/bootstrap release
	@.venv/bin/python -m tools.release.node $(ARGS)

test-container: .venv ## the images as containers, with real faults; needs a Docker engine or dockerd
	@.venv/bin/python -m pytest tests/container $(ARGS)

test-kubernetes: .venv ## a small set before the kube-apiserver of another release: KUBERNETES=v1.34.4
	@tools/scripts/test-kubernetes "$(KUBERNETES)" $(ARGS)

test-strangers: .venv ## floods of strangers at each listener of each component: memory, descriptors, the main's requests
	@.venv/bin/python -m pytest tests/strangers -m "manual or not manual" $(ARGS)

soak-limits: .venv ## a year of a node's requests, a sixteenth of it in a sixteenth of the memory: bounded, and a reboot while cut finds all; SOAK_RUNS=2000
	@SOAK_RUNS=$(or $(SOAK_RUNS),32850) .venv/bin/python -m pytest tests/integration/relay/node/test_year.py -s $(ARGS)

soak-links: .venv ## half an hour of lists and watches over each of three thin links: up all the time, no 503; SOAK_MINUTES=10
	@SOAK_MINUTES=$(or $(SOAK_MINUTES),30) .venv/bin/python -m pytest tests/integration/relay/link/test_soak.py -m manual $(ARGS)

test-node: .venv ## real kubelets, containerd, kube-proxy, CoreDNS and flannel behind relays, rebooted while cut
	@.venv/bin/python -m tools.harness.nodes.programs >/dev/null
	@.venv/bin/python -m pytest tests/node $(ARGS)

check: .venv ## format, lint, layers, types, unit tests; ONLY=relay (elector, gm, lc, lib, pool, tools): of one package
	@ONLY=$(ONLY) tools/scripts/check $(ARGS)

bench: .venv ## side by side with client-go; prints a table, writes JSON
	@.venv/bin/python -m tools.bench elector $(ARGS)

bench-relay: .venv ## side by side with kube-apiserver itself; ARGS=--help
	@.venv/bin/python -m tools.bench relay $(ARGS)

bench-gm: .venv ## GM and LC beside what the contract says of Sedna; ARGS=--help
	@.venv/bin/python -m tools.bench gm $(ARGS)

bench-shards: .venv ## electors with 64 shards beside one without; ARGS=--help
	@.venv/bin/python -m tools.bench shards $(ARGS)

bench-pool: .venv ## members of a pool and their controller; ARGS=--help
	@.venv/bin/python -m tools.bench pool $(ARGS)

bench-node: .venv ## nodes behind relays, rebooted while cut, and at rest beside one without; ARGS=--help
	@.venv/bin/python -m tools.harness.nodes.programs >/dev/null
	@.venv/bin/python -m tools.bench node $(ARGS)

nemesis: .venv ## random faults for half an hour; ARGS=--help
	@.venv/bin/python -m tools.nemesis.elector $(ARGS)

drill-shards: .venv ## client-go candidates beside electors with shards for ten minutes, and etcd restored from a backup of ten minutes ago
	@.venv/bin/python -m pytest tests/integration/elector/shards/test_drills.py -m manual -s $(ARGS)

explore: .venv ## all schedules of a few faults upon the pure cores of the elector; ARGS=--deep: more of them, for an hour
	@.venv/bin/python -m tools.explore $(ARGS)

mutants: .venv ## faults of the product, each found by the tests that are recorded with it; ARGS="--processes 4 Age"
	@.venv/bin/python -m tools.mutants $(ARGS)

nemesis-gm: .venv ## the same of GM and LC; ARGS="--minutes 10 --seed 1 --mode relay"
	@.venv/bin/python -m tools.nemesis.gm $(ARGS)

nemesis-shards: .venv ## the same of electors with shards; ARGS="--minutes 10 --members 5 --shards 256"
	@.venv/bin/python -m tools.nemesis.shards $(ARGS)

nemesis-pool: .venv ## the same of nodes of a pool, in network namespaces; ARGS="--minutes 30 --seed 1"
	@.venv/bin/python -m tools.nemesis.pool $(ARGS)

nemesis-vip: .venv ## the same of keepalived's address; ARGS="--faults 100 --seed 1 --on containers"
	@.venv/bin/python -m tools.nemesis.vip $(ARGS)

lock: .venv ## resolve pyproject.toml into tools/requirements/*.txt
	@tools/scripts/lock

lock-images: ## take Debian's newest packages for the images: tools/release/images/*.debs
	@tools/scripts/bootstrap release
	@.venv/bin/python -m tools.release.images $(ARGS)

clean: ## remove .venv, caches and results
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist tools/bench/results
