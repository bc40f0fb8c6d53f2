# The commands of the project: `make help`. CMake does the building (CMakePresets.json).

SHELL := /bin/bash -euo pipefail
PYTHON ?= python3
JOBS ?= $(shell nproc)
BIN := build/release/bin
PEERS := .venv/peers
# A second clone finds what the first one compiled.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

.PHONY: help install build test demo bench test-peers format tidy clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

install:
	@.ci/install build

build: install ## Install what is missing (apt), and build build/release/bin/ebb
	@if [ ! -f build/release/build.ninja ]; then cmake --preset release; fi
	cmake --build --preset release -j $(JOBS)

test: build ## Build, and run all tests
	ctest --preset release -j $(JOBS)

demo: build ## Train a GPT on a device that is too small for it (under three minutes)
	@examples/demo/run $(BIN)/ebb build/demo

bench: build $(PEERS)/ready ## Kernels, pool, and a whole step against PyTorch: ratios
	@bench/run $(BIN) $(PEERS)/bin/python

# PyTorch, in a virtual environment of its own.
$(PEERS)/ready: tests/peers/requirements.txt
	@.ci/install peers
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet -r tests/peers/requirements.txt
	@touch $@

test-peers: build $(PEERS)/ready ## Compare loss, gradients and AdamW with PyTorch's
	$(PEERS)/bin/python tests/peers/compare_gpt2.py --dump $(BIN)/dump_gpt2

FILES = $(shell git ls-files '*.h' '*.cpp' '*.c')
# What differs from main's last landing, or `make tidy TIDY_FILES="$$(git ls-files '*.cpp')"`.
BASE ?= $(shell git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD)
TIDY_FILES ?= $(shell git diff --name-only --diff-filter=d $(BASE) -- '*.cpp')

format: ## clang-format on every source
	@.ci/install check
	clang-format -i $(FILES)

tidy: ## clang-tidy on the sources that changed since BASE (default: origin/main, or HEAD)
	@.ci/install check
	@cmake --preset dev >/dev/null
	@if [ -z "$(TIDY_FILES)" ]; then echo "nothing changed since $(BASE)"; \
	else printf '%s\n' $(TIDY_FILES) | xargs -n 1 -P $(JOBS) clang-tidy --quiet -p build/dev; fi

clean: ## Remove what was built (not .venv/)
	rm -rf build
