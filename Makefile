# `make help` lists the targets; deploy/setup.sh says which variables `make setup` reads.
.DEFAULT_GOAL := help
# .deps/env is bash's: dash can't read how it quotes a path with other letters than ASCII's.
SHELL := /bin/bash
.PHONY: help setup demo test test-long bench kill-matrix audit dist check grafana-smoke grafana-panels profiles-under-load lock new-lock clean

RUN := . .deps/env && .venv/bin
PIP := .venv/bin/python -P -m pip -qq --require-virtualenv
FREEZE := $(PIP) freeze --all --exclude pip --exclude torch --exclude-editable
LOCK := requirements/lock.txt
QUICK := not long and not hardware
LONG := long and not hardware
TEST := . .deps/env && exec .venv/bin/python -P tests/support/parts.py

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv ready (quick when nothing has changed)
	@bash deploy/setup.sh

demo: setup ## run a small sweep on this machine, from submission to report
	@$(RUN)/benchfarm demo

test: ## run the tests that take no minutes and need no device
	@bash deploy/setup.sh --for-tests
	@$(TEST) "$(QUICK)"

test-long: ## run those that take minutes
	@bash deploy/setup.sh --for-tests
	@$(TEST) "$(LONG)"

bench: ## print the figures of speed and memory that the docs promise (half an hour)
	@bash deploy/setup.sh --for-tests
	@$(RUN)/pytest --figures -m "figures and not hardware"

kill-matrix: ## kill each kind of process at each moment of a sweep; needs root (an hour; MATRIX="--kinds raylet --times 2")
	@bash deploy/setup.sh --for-tests
	@$(RUN)/python -P -m tests.support.kill_matrix $(MATRIX)

check: setup ## lint, formatting, types
	@$(RUN)/ruff check .
	@$(RUN)/ruff format --check .
	@$(RUN)/mypy

audit: setup ## check what is pinned against known vulnerabilities, offline: OSV=FOLDER or ZIP
	@test -n "$(OSV)" || { echo "say where PyPI's records in the OSV format are: OSV=…/all.zip" >&2; exit 2; }
	@$(RUN)/python -P -m deploy.supply.audit "$(OSV)"

dist: setup ## build the wheel into dist/, with a bill of materials (CycloneDX)
	@rm -rf dist && $(PIP) wheel --no-deps --wheel-dir dist .
	@$(RUN)/python -P -m deploy.supply.bill dist && ls dist

grafana-smoke: setup ## check the dashboards with a Grafana of yours: GRAFANA_URL=…
	@test -n "$(GRAFANA_URL)" || { echo "say where Grafana is: GRAFANA_URL=http://…" >&2; exit 2; }
	@$(RUN)/pytest -m hardware tests/integration/test_grafana_smoke.py

grafana-panels: ## draw every table, stat and bar gauge by Grafana's own components, from npm (some minutes)
	@bash deploy/setup.sh --for-tests
	@$(RUN)/pytest -m hardware tests/integration/test_grafana_panels.py

profiles-under-load: ## profile beside planted load, on a machine that nobody else uses (two hours)
	@bash deploy/setup.sh --for-tests
	@$(RUN)/pytest -m hardware --figures tests/integration/test_profiles_under_load.py

# Runs in the .venv that `make setup` has made, which must hold a CPU build of torch: a CUDA build
# brings packages of its own. Needs no valid lock, so it also mends one that pip refuses.
lock: ## pin the newest packages that pyproject.toml allows
	@mkdir -p .deps && flock .deps/setup.lock $(MAKE) --no-print-directory new-lock
	@$(MAKE) --no-print-directory setup

# Without its stamp, a .venv that this leaves half empty is made anew.
new-lock:
	@rm -f .venv/.setup-stamp
	@$(FREEZE) | xargs -r $(PIP) uninstall --yes
	@$(PIP) install --editable '.[torch,dev]'
	@{ echo "# Made by 'make lock' with $$(.venv/bin/python -V) on $$(uname -sm); torch is installed before."; \
		$(FREEZE); } >$(LOCK).new && mv $(LOCK).new $(LOCK)

clean: ## remove all that was made here: .venv, .deps, caches, builds
	@rm -rf .venv .deps .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info kernels/*.so
	@find . -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
