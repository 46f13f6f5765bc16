# Everything a contributor or CI runs. Needs Python >= 3.11, and Go unless a recent `pulumi` is on PATH.
# What is downloaded or built is kept in $(CACHE), outside the checkout.

.DEFAULT_GOAL := help
.PHONY: help setup demo clean-demo test unit bench bench-router simulate mutants probes lint engine runtimes browser fuzz

CACHE := $(or $(INFERCRANE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/pulumi-infercrane)
OWN_UV := $(CACHE)/uv/bin/uv
UV := $(or $(shell command -v uv),$(OWN_UV))
UV_VERSION := 0.13.9
RUN := .venv/bin/
export UV_PYTHON_DOWNLOADS := never

# Prints the first interpreter that is new enough, or stops with a message.
FIND_PYTHON = for python in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11); do \
    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo "$$python"; exit; fi; \
  done; \
  echo "Python 3.11 or newer is needed, here is $$($(or $(PYTHON),python3) --version 2>&1)." >&2; \
  echo "Install one, or say where it is: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; \
  exit 1

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(UV) ## install the package and its tools into .venv
	@python=$$($(FIND_PYTHON)) && $(UV) sync --quiet --locked --compile-bytecode --python "$$python"

$(OWN_UV):
	@python=$$($(FIND_PYTHON)) && echo "setup: installing uv $(UV_VERSION) into $(CACHE)/uv" && \
	  "$$python" -m venv --clear "$(CACHE)/uv" && \
	  "$(CACHE)/uv/bin/python" -m pip --quiet --disable-pip-version-check install uv==$(UV_VERSION)

demo: setup ## release four candidates on real servers under load; KEEP=1 leaves it running
	@$(RUN)python -m examples.demo.run $(if $(KEEP),--keep)

clean-demo: setup ## stop and remove everything a demo left
	@$(RUN)python -m examples.demo.clean

# The fast tests share the processors; those on real parts need them for themselves.
FAST := not engine and not runtime and not packaging and not browser and not proxies and not processes and not fuzz and not demo

test: setup engine ## run all tests, also those on the real engine and real model servers; ARGS go to pytest
ifdef ARGS
	@$(RUN)pytest -m "not demo" $(ARGS)
else
	@$(RUN)pytest -n auto --dist loadfile -m "$(FAST)"
	@$(RUN)pytest -m "not demo and not ($(FAST))"
endif

unit: setup ## run the fast tests only
	@$(RUN)pytest -n auto --dist loadfile -m "$(FAST)" $(ARGS)

bench: setup engine ## measure the router, the provider process, the command line and the guard, as ratios
	@$(RUN)python benchmarks/run.py

bench-router: setup ## measure the router beside eight peers (about 18 minutes); rewrites docs/performance.md
	@$(RUN)python -m benchmarks.router --page

simulate: setup ## judge drawn evidence whose truth is known (about 4 minutes); rewrites docs/simulation.md
	@$(RUN)python -m benchmarks.simulate

fuzz: setup ## look for files a reader cannot bear; MINUTES=10 for each target, READER=vllm-bench for one
	@nice -n 10 $(RUN)python -m tests.fuzz.run --minutes $(or $(MINUTES),10) $(if $(READER),--target $(READER))

mutants: setup ## change what decides, one place at a time, and see whether a test fails (about 30 minutes); rewrites docs/testing.md
	@$(RUN)python -m tests.mutation $(MODULES)

probes: setup ## ask our router and its peers what they lose (about 6 minutes); rewrites docs/probes.md; PEERS="nginx envoy"
	@$(RUN)python -m benchmarks.probes $(PEERS)

lint: setup ## check style and types
	@$(RUN)ruff check
	@$(RUN)ruff format --check
	@$(RUN)mypy
	@$(RUN)mypy stacks/__main__.py tests/browser tests/engine tests/fuzz tests/packaging

engine: setup ## find a recent pulumi or build one (once, about 5 minutes)
	@$(RUN)python tests/engine/engine.py >/dev/null

runtimes: setup ## fetch the model server and the small models of tests and demo
	@$(RUN)python tests/runtimes/prepare.py

browser: setup ## find a Chromium for the tests of pages, or install Debian's as root
	@$(RUN)python tests/browser/chromium.py >/dev/null
