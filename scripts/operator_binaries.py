"""Builds operators of other projects from the Go module proxy, unmodified, for `make test-operators`.

Each is stored in .cache/operators and used from there; remove the folder to build them again. A first build takes some
minutes of a core for each. Prints a line `NAME=PATH` for each operator that is named (all without arguments), and on
stderr why one cannot be had. The exit code is 1 if one is missing.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from scripts.kube_binaries import Missing

__all__ = ["CACHE", "OPERATORS", "Operator", "build", "main", "source_of"]

CACHE: Final = Path(__file__).resolve().parent.parent / ".cache" / "operators"


class Operator(NamedTuple):
    """A program of a Go module; `nested` are modules within its folder, which the module's own zip lacks."""

    module: str
    version: str
    package: str = "."
    nested: tuple[str, ...] = ()


OPERATORS: Final = {
    "jobset": Operator("sigs.k8s.io/jobset", "v0.10.1"),
    "lws": Operator("sigs.k8s.io/lws", "v0.8.0", "./cmd"),
    "cloudnative-pg": Operator("github.com/cloudnative-pg/cloudnative-pg", "v1.27.1", "./cmd/manager"),
    "kueue": Operator("sigs.k8s.io/kueue", "v0.10.0", "./cmd/kueue"),
    "helm": Operator("helm.sh/helm/v4", "v4.3.1", "./cmd/helm"),
    "kro": Operator("github.com/kubernetes-sigs/kro", "v0.9.4", "./cmd/controller"),
    "prometheus-operator": Operator(
        "github.com/prometheus-operator/prometheus-operator",
        "v0.85.0",
        "./cmd/operator",
        ("pkg/apis/monitoring", "pkg/client"),
    ),
}
"""The operators, and helm, which renders the charts of some of them."""


def source_of(name: str) -> Path:
    """The folder with the sources and the manifests of an operator; raises `Missing`."""
    one = OPERATORS[name]
    return _download(f"{one.module}@{one.version}")


def build(name: str, cache: Path = CACHE) -> Path:
    """The program of an operator, built if it is not cached; raises `Missing`."""
    one = OPERATORS[name]
    target = cache / f"{name}-{one.version}"
    if not target.exists():
        source = source_of(name)
        sys.stderr.write(f"building {name} {one.version} ...\n")
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as work:
            options = ["-trimpath", "-ldflags", "-s -w", "-o", str(Path(work, "program"))]
            if one.nested:
                options.append(f"-modfile={_write_go_mod(one, source, Path(work))}")
            _go(["build", *options, one.package], source)
            Path(work, "program").replace(target)
    return target


def _write_go_mod(one: Operator, source: Path, work: Path) -> Path:
    """A copy of go.mod in which nested modules are those that the project has published, as its folder has none."""
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(source / name, work / name)
    for nested in one.nested:
        module = f"{one.module}/{nested}"
        _go(["mod", "edit", f"-dropreplace={module}", f"-require={module}@{one.version}", str(work / "go.mod")], work)
    return work / "go.mod"


def _download(module: str) -> Path:
    found = json.loads(_go(["mod", "download", "-json", module], CACHE.parent))
    return Path(found["Dir"])


def _go(arguments: list[str], folder: Path) -> str:
    if shutil.which("go") is None:
        raise Missing("operators are built with Go, which is not on PATH")
    folder.mkdir(parents=True, exist_ok=True)
    # A module's zip may have an empty vendor folder: without a mode, Go would look there and nowhere else.
    mode = "mod" if any(one.startswith("-modfile") for one in arguments) else "readonly"
    flags = f"-buildvcs=false -mod={mode}"
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": flags, "GOTOOLCHAIN": "local"}
    command = ["go", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
        raise Missing(f"`{' '.join(command[:4])} ...` failed: {tail}")
    return done.stdout


def main(names: list[str]) -> int:
    """Prints the programs; returns the exit code."""
    if unknown := set(names) - set(OPERATORS):
        sys.stderr.write(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(OPERATORS)}\n")
        return 2
    code = 0
    for name in names or OPERATORS:
        try:
            sys.stdout.write(f"{name}={build(name)}\n")
        except Missing as error:
            sys.stderr.write(f"{name}: {error}\n")
            code = 1
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
