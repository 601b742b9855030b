"""What a new project begins with, besides its first kind."""

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
ignore = ["D203", "D213", "D401"]

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

install: ## what is needed to work on it
\tpython -m pip install -e ".[dev]"

lint: ## style and types
\truff check .
\truff format --check .
\tmypy

test: ## all tests, on a server inside the tests
\tpytest

run: ## on an API server of its own
\tpython -m ${package} --local

dev: ## the same, loaded anew when a file is saved
\tlevelset dev $$(MODULE)

manifests: ## what a cluster needs to run it
\tlevelset generate manifests $$(MODULE) --name ${project}

check: ## what would go wrong
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
# For whoever changes this project, people and programs alike

- `src/${package}/KIND.py` holds a kind: its spec, its status, and the controller that sees to it.
- A reconciler says what should be, again and again; it never asks what happened. It may be stopped between any two
  lines and called again: write nothing down that is not in the cluster, and make nothing that has no name of its own.
- Children get `owner=`; what is outside of the cluster gets a `cleanup=`.
- Never block: no `time.sleep`, no `requests`, no `subprocess.run` in `async def`; `make check` finds most of them.
- Tests use the `cluster` fixture: a real API server inside the test, and time that jumps. No mocks, no sleeps.
- Before you are done: `make lint test manifests check`, and commit what `make manifests` wrote.
- `levelset create kind NAME` and `levelset create webhook KIND` add files, and a line to `src/${package}/operator.py`.
"""

_README: Final = """\
# ${project}

An operator made with levelset.

```
make install   # once
make test      # on a server inside the tests
make dev       # on a server of its own, loaded anew when a file is saved
make manifests # what a cluster needs to run it
```
"""

_IGNORE: Final = """\
__pycache__/
*.egg-info/
.venv/
.mypy_cache/
.pytest_cache/
.ruff_cache/
levelset.kubeconfig
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
