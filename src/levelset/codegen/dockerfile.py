"""Generates the Dockerfile of an operator: multi-stage build, non-root user, minimal image."""

import json
from collections.abc import Mapping, Sequence

from levelset.errors import ConfigError

__all__ = ["docker_files"]

_FILE = """\
FROM python:{python}-slim AS build
WORKDIR /build
RUN python -m venv /venv
COPY . .
# Wheels in the folder wheels/ are used before those of the index, such as a levelset that is not published.
RUN /venv/bin/pip install --no-cache-dir --find-links wheels . && /venv/bin/pip uninstall --yes pip

FROM python:{python}-slim
ENV PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /venv /venv
USER 65532:65532
EXPOSE {ports}
ENTRYPOINT {command}
"""

_IGNORED = """\
.git
.venv
__pycache__
*.db
*.db-*
*.db.*
*.kubeconfig
build
dist
manifests
tests
"""


def docker_files(command: Sequence[str], *, python: str = "3.12", ports: Sequence[int] = (8081,)) -> Mapping[str, str]:
    """The `Dockerfile` of a project with a pyproject.toml, and its `.dockerignore`.

    `command` is the entry point: `["python", "-m", "website"]`.
    """
    if isinstance(command, str) or not command:
        raise ConfigError(
            f"docker_files({command!r}): the command is a list of words, such as ['python', '-m', 'shop']"
        )
    shown = " ".join(map(str, ports))
    return {
        ".dockerignore": _IGNORED,
        "Dockerfile": _FILE.format(python=python, ports=shown, command=json.dumps(list(command))),
    }
