# What people type. Every target sets up .venv by itself; it is rebuilt when pyproject.toml changes.
.DEFAULT_GOAL := help
.PHONY: help run tour test test-uvloop test-clients test-cluster lint format bench bench-apiserver bench-cache bench-loop bench-testing bench-omnia bench-dcp test-podman kinds docs clean
# Bytecode is written even where the environment says no: everything starts twice as fast the second time.
export PYTHONDONTWRITEBYTECODE =
PY := .venv/bin/python

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/pyproject.installed: pyproject.toml scripts/venv $(wildcard systems/*/pyproject.toml)
	@scripts/venv

run: .venv/pyproject.installed ## a local API server with the sample controllers, until you stop it
	@.venv/bin/levelset up

tour: .venv/pyproject.installed ## a short tour of the library
	@.venv/bin/levelset tour

test: .venv/pyproject.installed ## the whole default test suite
	@scripts/test

test-uvloop: .venv/pyproject.installed ## the default test suite on uvloop's event loop
	@LEVELSET_TEST_LOOP=uvloop scripts/test

test-clients: .venv/pyproject.installed ## other clients (kubectl, Python, helm, operators in Go and Rust) against our server (installs and builds them)
	@scripts/test-clients

test-cluster: .venv/pyproject.installed ## client, watch and cache against the cluster of LEVELSET_TEST_KUBECONFIG
	@scripts/test-cluster

test-podman: .venv/pyproject.installed ## container engines of DCP on a real Podman, unpacked and not installed (Debian, root)
	@scripts/test-podman

lint: .venv/pyproject.installed ## format, lint, types, import contracts
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/pyright
	@.venv/bin/lint-imports --no-cache

format: .venv/pyproject.installed ## write the format and the fixes that are safe
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

bench: .venv/pyproject.installed ## measure, with the peers beside us
	@scripts/bench

bench-apiserver: .venv/pyproject.installed ## measure the API server
	@$(PY) benchmarks/apiserver.py

bench-cache: .venv/pyproject.installed ## measure the cache, with the peers beside us (installs them)
	@PYTHONPATH="$(CURDIR)" $(PY) benchmarks/cache.py

bench-loop: .venv/pyproject.installed ## measure the loop, with kopf beside us (installs it)
	@PYTHONPATH="$(CURDIR)" $(PY) benchmarks/loop.py

bench-omnia: .venv/pyproject.installed ## measure Omnia with 200 agents, each a real process
	@$(PY) benchmarks/omnia.py

bench-dcp: .venv/pyproject.installed ## measure DCP with 1,000 programs
	@$(PY) benchmarks/dcp.py

bench-testing: .venv/pyproject.installed ## measure what a test costs, and the explorer
	@PYTHONPATH="$(CURDIR)" $(PY) benchmarks/testing.py

kinds: .venv/pyproject.installed ## regenerate the classes of the built-in kinds
	@PYTHONPATH="$(CURDIR)" $(PY) -m scripts.generate_kinds

docs: .venv/pyproject.installed ## run every snippet of README and docs, and check their links
	@$(PY) -m pytest tests/project/test_snippets.py tests/project/test_links.py

clean: ## remove what the other targets made
	@rm -rf .venv .venv-bench .venv-clients .podman build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
