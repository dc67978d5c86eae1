# Everything runs in .venv, made from nothing on a machine with Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PY     := $(BIN)/python
FLOWER := .venv-federation
FAST   := $(shell test -w /dev/shm && echo /dev/shm)
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help packages demo demo-service test test-long worlds planted which-tests lint docs bench delay estimates classification streams audit mutants machines reproduce constraints clean service-load service-start service-kill service-upgrade service-soak service-learn service-history service-many service-paused service-crowd

help:            ## what each target does
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

$(VENV)/.lab: pyproject.toml constraints/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit("fairveil needs Python 3.11 or newer, found " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "installing fairveil and its pinned dependencies into $(VENV) (once, one to three minutes)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -c constraints/dev.txt -e '.[lab,service]'
	@touch $@

$(VENV)/.dev: $(VENV)/.lab
	@$(PY) -m pip install --quiet --disable-pip-version-check -c constraints/dev.txt -e '.[lab,ray,service,postgres,dev]'
	@touch $@

demo: $(VENV)/.lab   ## a guided tour in about two minutes after installing; writes out/demo/index.html
	@$(BIN)/fairveil demo --out out/demo

demo-service: $(VENV)/.dev ## the service with a trial, a queue and a recommender, in two minutes; --keep: make demo-service KEEP=--keep
	@$(PY) examples/demo_service.py --out out/demo-service $(KEEP)

test: $(VENV)/.dev   ## the suite, its files in memory where there is /dev/shm; FAIRVEIL_REQUIRE=browser,postgres,ray turns skips into failures
	@TMPDIR=$(or $(TMPDIR),$(FAST)) $(PY) -m pytest -n auto --dist worksteal -q -m "not long" --doctest-modules src/fairveil tests

test-long: $(VENV)/.dev ## what make test leaves out: sweeps over seeds, papers, audits, kills and browsers (tests/long.txt)
	@TMPDIR=$(or $(TMPDIR),$(FAST)) $(PY) -m pytest -n auto --dist worksteal -q -m long --doctest-modules src/fairveil tests

worlds: $(VENV)/.dev ## two worlds byte for byte: 500 scripts of requests on each database, 100 runs of commands
	@FAIRVEIL_WORLDS=500 $(PY) -m pytest -n auto --dist worksteal -q tests/service/test_two_worlds.py tests/cli/test_commands_in_two_worlds.py

planted: $(VENV)/.dev ## every planted mistake at three seeds against whoever is said to notice it; about half an hour
	@FAIRVEIL_REQUIRE=postgres $(PY) tests/planted/run.py

which-tests: $(VENV)/.dev ## docs/tests.md: every module with the tests to read first
	@$(PY) tests/support/which_tests.py --page

$(FLOWER)/.made: pyproject.toml constraints/federation.txt
	@test -x $(FLOWER)/bin/python || $(PYTHON) -m venv $(FLOWER)
	@echo "installing fairveil and Flower into $(FLOWER) (once; Flower's pins do not go with the others)"
	@$(FLOWER)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints/federation.txt -e '.[federation]' pytest hypothesis
	@$(FLOWER)/bin/python -m compileall -q $(FLOWER)/lib >/dev/null || true
	@touch $@

.PHONY: federation federation-test federation-kill federation-full
federation: $(FLOWER)/.made ## Flower in an environment of its own; then .venv-federation/bin/fairveil federate --help

federation-test: $(FLOWER)/.made ## a federation on Flower: three parties, a killed SuperNode, a hostile coordinator
	@FAIRVEIL_REQUIRE=flower $(FLOWER)/bin/python -m pytest -q -p no:cacheprovider tests/federated/test_flower.py tests/federated/test_flower_parts.py

federation-kill: $(FLOWER)/.made ## parties and coordinator killed at random moments of real runs; about an hour
	@$(FLOWER)/bin/python bench/federation_kill.py

federation-full: $(FLOWER)/.made ## five parties on Flower from beginning to end: bandits of 20,000 rounds, Adult; about half an hour
	@$(FLOWER)/bin/python -c 'import pandas' 2>/dev/null || $(FLOWER)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints/federation.txt pandas
	@$(FLOWER)/bin/python bench/federation_full.py

lint: $(VENV)/.dev   ## ruff, types, import rules
	@$(BIN)/ruff check src tests bench
	@$(BIN)/ruff format --check --quiet src tests bench
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: $(VENV)/.dev   ## build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.dev  ## benchmarks against peers and limits, as ratios
	@for file in $$(ls bench/[a-z]*.py | grep -v -e federation -e machines -e walk -e waiting -e consensus_error -e consensus_optimum -e streams_quality -e streams_audits -e estimates); do echo "== $$file"; $(PY) $$file || exit 1; done

classification: $(VENV)/.dev ## private and fair classification against its floors; about ten minutes
	@$(PY) bench/sweeps/classification.py

delay: $(VENV)/.dev  ## what late rewards cost private-nash, against what everybody must pay
	@$(PY) bench/delay.py

waiting: $(VENV)/.dev ## what windows and missing answers cost, every figure with its limit; about ten minutes
	@$(PY) bench/waiting.py

estimates: $(VENV)/.dev ## coverage of the intervals that policies publish, and of rank tables; about half an hour
	@$(PY) bench/estimates.py

service-load: $(VENV)/.dev ## durable pairs a second beside a no-op route (needs wrk)
	@$(PY) bench/service/load.py $(if $(BEFORE),--before $(BEFORE))

service-start: $(VENV)/.dev ## CPU until a new process is ready, one loop of each family
	@$(PY) bench/service/start.py

service-kill: $(VENV)/.dev ## the whole service killed under load, on both databases
	@$(PY) bench/service/kill.py

service-upgrade: $(VENV)/.dev ## a store of 0.1.0 with a million events upgraded in 10 s; two processes restarted over 200,000 events
	@$(PY) bench/service/upgrade.py
	@$(PY) bench/service/kill.py --which rolling --times 4

service-soak: $(VENV)/.dev ## a million events, memory, restart, a block of 100,000 rounds
	@$(PY) bench/service/soak.py

service-history: $(VENV)/.dev ## what clients saw through kills, pauses and restarts, checked (4 cases, bounded)
	@$(PY) bench/service/history.py

service-paused: $(VENV)/.dev ## a store that stands still under 32 clients, on both databases
	@$(PY) bench/service/paused.py

service-crowd: $(VENV)/.dev ## a client beside 2,000 idle connections, slow and huge headers, half-sent bodies
	@$(PY) bench/service/crowd.py

service-many: $(VENV)/.dev ## ten thousand loops in one process: start, idling, descriptors, connections, lists, pairs
	@$(PY) bench/service/many_loops.py

service-learn: $(VENV)/.dev ## regret through HTTP against simulation and against what a delay must cost
	@$(PY) bench/service/learn.py

packages: ## wheels and sdist, installed in fresh environments without the repository, and used there; about five minutes
	@$(PYTHON) tests/support/installed.py

audit: $(VENV)/.dev  ## audit secure noise on OS entropy; fails only at confidence 1 - 1e-6
	@$(BIN)/fairveil audit all --deep

mutants: $(VENV)/.dev  ## break the served code of everything private on purpose; each mistake must be caught
	@$(BIN)/fairveil audit all

machines: $(VENV)/.dev ## numerical tests under other BLAS kernels, SIMD levels and compiler targets
	@$(PY) bench/machines.py

streams: $(VENV)/.dev ## private streams against their limits: theory, errors, coverage, audits, speed; about ten minutes
	@for file in bench/streams_quality.py bench/streams_audits.py bench/streams.py; do $(PY) $$file || exit 1; done

consensus: $(VENV)/.dev ## gaps, errors and speed of private consensus on Adult and ACS; about 30 minutes
	@for file in bench/consensus_optimum.py bench/consensus_error.py bench/consensus_speed.py; do $(PY) $$file || exit 1; done

reproduce: $(VENV)/.lab ## every figure and table of the papers at quick scale
	@$(BIN)/fairveil reproduce all --scale quick --out out/reproduce

constraints:     ## pin again (needs uv)
	@uv pip compile --quiet --python-version 3.11 --no-header --no-annotate --no-emit-index-url --upgrade --extra lab --extra ray --extra service --extra postgres --extra dev pyproject.toml -o constraints/dev.txt
	@uv pip compile --quiet --python-version 3.11 --no-header --no-annotate --no-emit-index-url -c constraints/dev.txt pyproject.toml -o constraints/core.txt
	@printf 'pytest\nhypothesis\npandas\n' | uv pip compile --quiet --python-version 3.11 --no-header --no-annotate --no-emit-index-url --upgrade --extra federation pyproject.toml - -o constraints/federation.txt

clean:           ## remove what was made
	@rm -rf $(VENV) $(FLOWER) out site .pytest_cache .mypy_cache .ruff_cache .hypothesis
