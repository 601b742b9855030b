# What people type. Every target sets up .venv by itself, and again when pyproject.toml or a lock changes: `make run` and
# `make tour` install what running needs, all others the tools of development on top.
.DEFAULT_GOAL := help
.PHONY: help run tour test test-uvloop test-robustness test-browser test-etcd test-kube test-e2e test-differential test-corpus test-envtest test-peers test-operators test-clients test-cluster lint format bench bench-apiserver bench-etcd bench-cache bench-loop bench-runtimes bench-kube bench-pythons bench-testing soak bench-omnia bench-dcp test-podman test-docker test-redis kinds dashboard docs docs-site images lock packages test-packages test-image sbom audit fuzz clean record-builtin record-corpus
# Bytecode is written even where the environment says no: everything starts twice as fast the second time.
export PYTHONDONTWRITEBYTECODE =
PY := .venv/bin/python

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/run.installed: requirements/run.txt pyproject.toml scripts/venv scripts/environment.py $(wildcard systems/*/pyproject.toml)
	@scripts/venv run

.venv/dev.installed: .venv/run.installed requirements/dev.txt
	@scripts/venv dev

run: .venv/run.installed ## a local API server with the sample controllers, until you stop it
	@.venv/bin/levelset up --dashboard-actions

tour: .venv/run.installed ## a short tour of the library
	@.venv/bin/levelset tour

test: .venv/dev.installed ## the whole default test suite
	@scripts/test

test-uvloop: .venv/dev.installed ## the default test suite on uvloop's event loop
	@LEVELSET_TEST_LOOP=uvloop scripts/test

test-robustness: .venv/dev.installed ## the tests that take minutes: attacks and faults in their long forms
	@scripts/test-robustness

test-etcd: .venv/dev.installed ## the storage in etcd on real clusters of loopback, one and three members (gets etcd)
	@scripts/test-etcd

test-kube: .venv/dev.installed ## everything that must hold on a real kube-apiserver and etcd of loopback (builds them)
	@scripts/test-kube

test-differential: .venv/dev.installed ## generated requests to our server and to kube-apiserver side by side, 2 min (builds it); DIFFERENTIAL="--sequences 500"
	@scripts/test-differential $(DIFFERENTIAL)

test-corpus: .venv/dev.installed ## hundreds of CRDs and thousands of objects of other projects, as kube-apiserver answered them, and their models (gets them with Go); CORPUS="--source kueue"
	@scripts/test-corpus $(CORPUS)

test-envtest: .venv/dev.installed ## Go suites with envtest on our server and on kube-apiserver, with the times of both (builds them); ENVTEST="--on levelset"
	@scripts/test-envtest $(ENVTEST)

test-peers: .venv/dev.installed ## the suites of kopf, the official Python clients, kr8s and kube-rs on our server (installs and builds them); PEERS="--suite kr8s"
	@PYTHONPATH="$(CURDIR)" $(PY) -m scripts.peer_suites $(PEERS)

test-operators: .venv/dev.installed ## operators of other projects, unmodified, on our server with RBAC and a data plane (builds them)
	@code=0; PYTHONPATH="$(CURDIR)" $(PY) -m scripts.operator_binaries > /dev/null || code=$$?; \
	$(PY) -m pytest -m operators tests/operators && exit $$code

test-browser: .venv/dev.installed ## the dashboard in a real browser: its pages, attacks on it, 100,000 objects, logs of Podman (needs Chromium)
	@$(PY) -m pytest -m browser tests/dashboard systems/dcp/tests
	@scripts/test-podman -m browser

test-clients: .venv/dev.installed ## other clients (kubectl, Python, helm, operators in Go and Rust) against our server (installs and builds them)
	@scripts/test-clients

test-cluster: .venv/dev.installed ## client, watch and cache against the cluster of LEVELSET_TEST_KUBECONFIG
	@scripts/test-cluster

test-podman: .venv/dev.installed ## container engines of DCP on a real Podman, unpacked and not installed (Debian, root)
	@scripts/test-podman

test-docker: .venv/dev.installed ## container engines of DCP on a real Docker daemon, unpacked and not installed (Debian, root)
	@scripts/test-docker

test-redis: .venv/dev.installed ## sessions of Omnia's agent in a real Redis, unpacked and not installed (Debian)
	@scripts/test-redis

lint: .venv/dev.installed ## format, lint, types, import contracts
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/pyright
	@.venv/bin/pyright --project tests/project/typing
	@.venv/bin/lint-imports --no-cache

format: .venv/dev.installed ## write the format and the fixes that are safe
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

bench: .venv/dev.installed ## measure, with the peers beside us
	@scripts/bench

bench-apiserver: .venv/dev.installed ## measure the API server
	@$(PY) benchmarks/apiserver.py

bench-etcd: .venv/dev.installed ## the API server on etcd against kube-apiserver on the same etcd (builds both with Go)
	@$(PY) scripts/kube_binaries.py > /dev/null
	@$(PY) benchmarks/etcd.py

bench-cache: .venv/dev.installed ## measure the cache, with the peers beside us (installs them)
	@PYTHONPATH="$(CURDIR)" $(PY) benchmarks/cache.py

bench-loop: .venv/dev.installed ## measure the loop, with kopf beside us (installs it)
	@PYTHONPATH="$(CURDIR)" $(PY) benchmarks/loop.py

bench-runtimes: .venv/dev.installed ## levelset, controller-runtime, kube-rs and clients for Python on the same work (builds and installs them); BENCH=--quick
	@$(PY) benchmarks/peers/runtimes.py $(BENCH)

bench-pythons: .venv/dev.installed ## the same work on every Python that pyenv or PATH has, with and without uvloop (installs what levelset needs)
	@$(PY) benchmarks/peers/pythons.py $(BENCH)

bench-kube: .venv/dev.installed ## the API server, in memory and on SQLite, against kube-apiserver with etcd (builds both with Go); BENCH=--quick
	@$(PY) scripts/kube_binaries.py > /dev/null
	@PYTHONPATH="$(CURDIR):$(CURDIR)/src" $(PY) benchmarks/kube.py $(BENCH)

bench-omnia: .venv/dev.installed ## measure Omnia with 200 agents, each a real process
	@$(PY) benchmarks/omnia.py

bench-dcp: .venv/dev.installed ## measure DCP with 1,000 programs
	@$(PY) benchmarks/dcp.py

soak: .venv/dev.installed ## objects come and go, and memory must not follow; by counts of objects, times SOAK_FACTOR=0.2 (Linux)
	@PYTHONPATH="$(CURDIR)/systems/machine/src:$(CURDIR)/systems/dcp/src" $(PY) benchmarks/soak.py $(SOAK_FACTOR)

bench-testing: .venv/dev.installed ## measure what a test costs, and the explorer
	@PYTHONPATH="$(CURDIR)" $(PY) benchmarks/testing.py

kinds: .venv/dev.installed ## regenerate the classes of the built-in kinds
	@PYTHONPATH="$(CURDIR)" $(PY) -m scripts.generate_kinds

docs: .venv/dev.installed ## run every snippet of README and docs, and check their links
	@$(PY) -m pytest tests/project/test_snippets.py tests/project/test_links.py

record-builtin: .venv/dev.installed ## record kube-apiserver's answers to built-in objects again (builds it); AREAS=jobs for some
	@$(PY) -m scripts.record_builtin $(AREAS)

record-corpus: .venv/dev.installed ## record kube-apiserver's answers to the corpus of test-corpus again (builds it)
	@scripts/test-corpus --record

images: .venv/dev.installed ## record the pictures of the README again
	@$(PY) scripts/record_terminal.py
	@PYTHONPATH=. $(PY) scripts/record_dashboard.py

dashboard: .venv/run.installed ## copy the libraries of the dashboard from its locked npm packages (needs npm)
	@$(PY) scripts/vendor_dashboard.py

docs-site: .venv-docs/installed ## build the documentation with the API reference into build/site/
	@.venv-docs/bin/python scripts/docs_site.py
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet --config-file build/mkdocs.yml
	@.venv-docs/bin/python scripts/docs_site.py --check
	@echo "built; to read it: python3 -m http.server --bind 127.0.0.1 --directory build/site 8000"

.venv-docs/installed: requirements/docs.txt pyproject.toml
	@echo "installing what builds the documentation ..."
	@python3 -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch .venv-docs/installed

packages: .venv-packages/installed ## build the wheels and sdists of all packages into dist/, and check their contents
	@$(IN_PACKAGES) -m scripts.build_packages dist

test-packages: .venv-packages/installed ## build all packages, install them into empty environments of every Python, and try them
	@$(IN_PACKAGES) -m scripts.package_trials $(addprefix --python ,$(PYTHONS))

test-image: .venv/dev.installed ## build the container images from the wheel, and run them (Debian, root, buildah, debootstrap)
	@$(PY) -m scripts.image_trials

sbom: .venv-packages/installed ## write the bill of materials of what running needs, from the lock, into dist/
	@$(IN_PACKAGES) -m scripts.sbom dist/levelset.cdx.json

IN_PACKAGES := PYTHONPATH="$(CURDIR)" .venv-packages/bin/python

.venv-packages/installed: requirements/packages.txt
	@echo "installing what builds and checks the packages ..."
	@python3 -m venv .venv-packages
	@.venv-packages/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/packages.txt
	@touch .venv-packages/installed

audit: .venv-audit/installed ## known vulnerabilities of the locked dependencies (needs the internet), and bandit; STRICT=1 skips nothing
	@.venv-audit/bin/python scripts/audit.py $(if $(STRICT),--strict)

.venv-audit/installed: requirements/audit.txt
	@echo "installing what audits the dependencies and the sources ..."
	@python3 -m venv .venv-audit
	@.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/audit.txt
	@touch .venv-audit/installed

FUZZ_SECONDS ?= 600
FUZZ_TARGETS ?= http json yaml protobuf selectors cel re2 patches

fuzz: .venv-fuzz/installed ## fuzz the parsers and decoders, each FUZZ_SECONDS=600 (Linux); FUZZ_TARGETS= names some of them
	@for target in $(FUZZ_TARGETS); do \
		echo "fuzzing $$target for $(FUZZ_SECONDS) s ..."; \
		PYTHONPATH="$(CURDIR)" .venv-fuzz/bin/python -m tests.fuzz.run $$target $(FUZZ_SECONDS) || exit 1; \
	done

.venv-fuzz/installed: requirements/fuzz.txt pyproject.toml
	@echo "installing the fuzzer ..."
	@python3 -m venv .venv-fuzz
	@.venv-fuzz/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/fuzz.txt
	@.venv-fuzz/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch .venv-fuzz/installed

lock: ## choose the newest versions of all dependencies, and write the lock files (needs uv)
	@scripts/lock

clean: ## remove what the other targets made
	@rm -rf .venv .venv-bench .venv-clients .venv-audit .venv-docs .venv-fuzz .venv-packages .podman build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

test-e2e: .venv/dev.installed ## Kubernetes' own conformance specs against serve and up (builds them); E2E="--target serve --focus Quota"
	@PYTHONPATH="$(CURDIR)" $(PY) -m scripts.e2e_suite $(E2E)
