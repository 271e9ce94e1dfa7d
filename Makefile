# Everything a developer runs. `make help` lists it. Steps leave stamps, so a second `make` is quick.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build
MAKEFLAGS += --no-print-directory

BUILD := build
VENV := .venv
VENV_OLDER := .venv-jax-0.9.2
PY := $(VENV)/bin/python

# One compiler cache serves every checkout: paths below the checkout count as relative.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

# Set-up, each stamped by a file newer than what it was made from.
DEBIAN := .cache/setup/debian
LOCKED := $(VENV)/.locked
LOCKED_BENCH := $(VENV)/.locked-bench
LOCKED_OLDER := $(VENV_OLDER)/.locked

# `make demo STEPS=20` is a short one; `make test ARGS='-k psum'` hands ARGS to pytest.
STEPS ?=
ARGS ?=

.PHONY: help
help: ## list the targets
	@echo "usage: make [TARGET] [STEPS=n] [ARGS='...']"
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

.PHONY: demo
demo: build ## train a Transformer on two islands, then on JAX's CPU backend, and compare
	@$(PY) scripts/demo.py $(if $(STEPS),--steps $(STEPS))

.PHONY: test
test: build older ## every test: C++ (ctest), then Python (pytest)
	@scripts/test.sh $(BUILD) $(VENV) $(ARGS)

.PHONY: test-cc
test-cc: build ## the C++ tests alone
	@scripts/test.sh --cc $(BUILD)

.PHONY: test-py
test-py: build older ## the Python tests alone (ARGS='-k name -x')
	@scripts/test.sh --py $(VENV) $(ARGS)

.PHONY: lint
lint: setup ## formats, warnings, types, the include graph, licences (changes nothing)
	@scripts/lint.sh $(BUILD) $(VENV)

.PHONY: format
format: setup ## rewrite the sources the way lint wants them
	@scripts/format.sh $(VENV)

.PHONY: bench
bench: build bench-setup ## dispatch rates beside the peers'; the figure goes to bench/results/
	@$(PY) bench/dispatch.py --figure bench/results/dispatch.png --out bench/results/dispatch.json $(ARGS)

.PHONY: bench-partitioner
bench-partitioner: build ## bytes, collectives, memory and compile speed beside XLA's partitioner
	@$(PY) bench/partitioner.py --losses $(ARGS)

.PHONY: bench-steps
bench-steps: build ## training steps on 8 devices beside multi-controller JAX
	@$(PY) bench/step_time.py $(ARGS)

.PHONY: bench-cc
bench-cc: setup ## the microbenchmarks of the hot inner parts
	@scripts/build.sh $(BUILD)-bench -DSHARDWAY_BENCH=ON -DSHARDWAY_TESTS=OFF
	@for b in $$(find $(BUILD)-bench -type f -executable -name 'bench_*'); do timeout 600 $$b; done

.PHONY: asan
asan: setup ## the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/test.sh --sanitize address,undefined $(BUILD)-asan

.PHONY: tsan
tsan: setup ## comm, worker and controller tests under ThreadSanitizer
	@scripts/test.sh --sanitize thread $(BUILD)-tsan

.PHONY: build
build: setup ## build, and install the package into .venv
	@scripts/build.sh $(BUILD)
	@scripts/install_package.sh $(BUILD) $(VENV)

.PHONY: older
older: build $(LOCKED_OLDER) ## .venv-jax-0.9.2, for the tests with the older JAX
	@scripts/install_package.sh $(BUILD) $(VENV) $(VENV_OLDER)

.PHONY: setup bench-setup
setup: $(DEBIAN) $(LOCKED) ## install what is missing: Debian packages, .venv
bench-setup: $(LOCKED_BENCH)

$(DEBIAN): scripts/debian-packages.txt
	@scripts/setup_debian.sh
	@mkdir -p $(@D) && touch $@

$(LOCKED): requirements/main.txt | $(DEBIAN)
	@scripts/setup_venv.sh $(VENV) $<
	@touch $@

$(LOCKED_BENCH): requirements/bench.txt | $(LOCKED)
	@scripts/setup_venv.sh $(VENV) $<
	@touch $@

$(LOCKED_OLDER): requirements/jax-0.9.2.txt | $(DEBIAN)
	@scripts/setup_venv.sh $(VENV_OLDER) $<
	@touch $@

.PHONY: lock
lock: ## lock requirements/*.in again: newest versions allowed there, with hashes
	@scripts/lock.sh

.PHONY: clean
clean: ## remove what was built (not the Python environments)
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-bench .mypy_cache .ruff_cache .pytest_cache

.PHONY: distclean
distclean: clean ## remove the Python environments too
	rm -rf .cache $(VENV) $(VENV_OLDER)
