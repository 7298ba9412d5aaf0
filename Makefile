# `make help` lists the targets; deploy/setup.sh says which variables `make setup` reads.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long check grafana-smoke lock clean

RUN := . .deps/env && .venv/bin
PIP := .venv/bin/python -m pip -qq --require-virtualenv
FREEZE := $(PIP) freeze --all --exclude pip --exclude torch --exclude-editable
LOCK := requirements/lock.txt
QUICK := not long and not hardware
LONG := long and not hardware
# Farms get the machine to themselves; the rest is tested in as many processes as it has cores, four at
# most, each of one thread: a second would wait for a core that another process has. A module's or a
# class's tests stay in one process, which makes what they share.
AT_ONCE := export OMP_NUM_THREADS=1 && $(RUN)/pytest --numprocesses auto --maxprocesses 4 \
	--dist loadscope --no-loadscope-reorder
ALONE := $(RUN)/pytest tests/integration

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv ready (quick when nothing has changed)
	@bash deploy/setup.sh

demo: setup ## run a small sweep on this machine, from submission to report
	@$(RUN)/benchfarm demo

test: ## run the tests that take no minutes and need no device
	@bash deploy/setup.sh --for-tests
	@$(AT_ONCE) -m "$(QUICK) and not alone"
	@$(ALONE) -m "$(QUICK) and alone"

test-long: ## run those that take minutes
	@bash deploy/setup.sh --for-tests
	@$(AT_ONCE) -m "$(LONG) and not alone"
	@$(ALONE) -m "$(LONG) and alone"

check: setup ## lint, formatting, types
	@$(RUN)/ruff check .
	@$(RUN)/ruff format --check .
	@$(RUN)/mypy

grafana-smoke: setup ## check the dashboards with a Grafana of yours: GRAFANA_URL=…
	@test -n "$(GRAFANA_URL)" || { echo "say where Grafana is: GRAFANA_URL=http://…" >&2; exit 2; }
	@$(RUN)/pytest -m hardware tests/integration/test_grafana_smoke.py

# Runs in the .venv that `make setup` has made, which must hold a CPU build of torch: a CUDA build
# brings packages of its own. Needs no valid lock, so it also mends one that pip refuses.
lock: ## pin the newest packages that pyproject.toml allows
	@$(FREEZE) | xargs -r $(PIP) uninstall --yes
	@$(PIP) install --editable '.[torch,dev]'
	@{ echo "# Made by 'make lock' with $$(.venv/bin/python -V) on $$(uname -sm); torch is installed before."; \
		$(FREEZE); } >$(LOCK).new && mv $(LOCK).new $(LOCK)
	@$(MAKE) --no-print-directory setup

clean: ## remove all that was made here: .venv, .deps, caches, builds
	@rm -rf .venv .deps .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info kernels/*.so
	@find . -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
