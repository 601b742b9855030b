"""The files of a new project, without its first kind."""

from typing import Final

__all__ = ["FILES"]

_PYPROJECT: Final = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "${project}"
version = "0.1.0"
description = "An operator made with levelset."
requires-python = ">=3.11"
dependencies = ["levelset[tls]"]

[project.optional-dependencies]
dev = ["levelset[cli]", "mypy", "pytest", "ruff"]

[tool.hatch.build.targets.wheel]
packages = ["src/${package}"]

[tool.levelset]
up = ["${package}.operator"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["src"]

[tool.ruff]
line-length = 120
src = ["src", "tests"]

[tool.ruff.lint]
select = ["A", "ASYNC", "B", "C4", "D", "E", "F", "I", "N", "PT", "RUF", "SIM", "UP", "W"]
ignore = ["D107", "D203", "D213", "D401"]

[tool.ruff.lint.per-file-ignores]
"tests/*" = ["D103"]

[tool.mypy]
strict = true
mypy_path = "src"
files = ["src", "tests"]
"""

_INIT: Final = '''\
"""${project}: an operator made with levelset."""
'''

_OPERATOR: Final = '''\
"""Everything that this operator runs; `levelset create` adds a line for each new kind or webhook."""

from typing import Any

from levelset import Controller
from levelset.runtime.webhook import Webhook

controllers: list[Controller[Any]] = [
    # levelset: controllers
]

webhooks: list[Webhook] = [
    # levelset: webhooks
]
'''

_MAIN: Final = '''\
"""Runs the operator: `python -m ${package} --local`, or against the cluster of a kubeconfig."""

from levelset import run

from ${package}.operator import controllers, webhooks

if __name__ == "__main__":
    run(*controllers, webhooks=webhooks)
'''

_MAKEFILE: Final = """\
.PHONY: install lint test run dev manifests check
MODULE := ${package}.operator
export PYTHONPATH := src

install: ## install the development dependencies
\tpython -m pip install -e ".[dev]"

lint: ## check style and types
\truff check .
\truff format --check .
\tmypy

test: ## run all tests on an in-process API server
\tpytest

run: ## run the operator on a local API server
\tpython -m ${package} --local

dev: ## the same, and reload when a file is saved
\tlevelset dev $$(MODULE)

manifests: ## generate the manifests of the operator
\tlevelset generate manifests $$(MODULE) --name ${project}

check: ## check CRDs, RBAC and blocking calls
\tlevelset check $$(MODULE) --manifests manifests
"""

_WORKFLOW: Final = """\
name: ci
on: [push, pull_request]
jobs:
  test:
    runs-on: ubuntu-latest
    strategy:
      matrix:
        python: ["3.11", "3.12", "3.13"]
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: $${{ matrix.python }}
      - run: make install lint test
"""

_AGENTS: Final = """\
# Instructions for contributors and coding agents

- `src/${package}/KIND.py` holds a kind: its spec, its status, and its controller.
- A reconciler applies the desired state and does not depend on which event triggered it. It may be interrupted
  between any two lines and called again: keep no state outside of the cluster, and give every child a fixed name.
- Children get `owner=`; what is outside of the cluster gets a `cleanup=`.
- Never block: no `time.sleep`, no `requests`, no `subprocess.run` in `async def`; `make check` finds most of them.
- Tests use the `cluster` fixture: an in-process API server and virtual time. No mocks, no sleeps.
- Before you are done: `make lint test manifests check`, and commit what `make manifests` wrote.
- `levelset create kind NAME` and `levelset create webhook KIND` add files, and a line to `src/${package}/operator.py`.
"""

_README: Final = """\
# ${project}

An operator made with levelset.

```
make install   # once
make test      # on an in-process API server
make dev       # on a local API server, reloads when a file is saved
make manifests # generate the manifests of the operator
```
"""

_IGNORE: Final = """\
__pycache__/
*.egg-info/
.venv/
.mypy_cache/
.pytest_cache/
.ruff_cache/
# The data of a local API server, with its secrets (.token, .authority), and what gives access to it.
*.db
*.db-*
*.db.*
*.kubeconfig
*.key
"""

FILES: Final = {
    "pyproject.toml": _PYPROJECT,
    "README.md": _README,
    "AGENTS.md": _AGENTS,
    "Makefile": _MAKEFILE,
    ".gitignore": _IGNORE,
    ".github/workflows/ci.yaml": _WORKFLOW,
    "src/${package}/__init__.py": _INIT,
    "src/${package}/operator.py": _OPERATOR,
    "src/${package}/__main__.py": _MAIN,
    "src/${package}/py.typed": "",
}
"""The files by their paths; both are templates."""
