"""Builds Kubernetes' own programs from the Go module proxy: kube-apiserver, etcd, kubectl, agnhost and the e2e suite.

Each is stored in .cache/kube and used from there; remove the folder to build them again. A first build of
kube-apiserver takes about ten minutes of a core. Prints a line `NAME=PATH` for each program that is named
(kube-apiserver and etcd without arguments), and on stderr why one cannot be had. The exit code is 1 if one is missing.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

__all__ = ["ETCD_VERSION", "KUBERNETES_VERSION", "Missing", "build", "main", "run_go"]

KUBERNETES_VERSION: Final = "1.36.4"
ETCD_VERSION: Final = "3.6.8"
CACHE: Final = Path(__file__).resolve().parent.parent / ".cache" / "kube"
# Modules that k8s.io/kubernetes replaces by folders of its own, which do not count for a module that depends on it.
# fmt: off
_STAGING: Final = (
    "api", "apiextensions-apiserver", "apimachinery", "apiserver", "cli-runtime", "client-go", "cloud-provider",
    "cluster-bootstrap", "code-generator", "component-base", "component-helpers", "controller-manager", "cri-api",
    "cri-client", "cri-streaming", "csi-translation-lib", "dynamic-resource-allocation", "endpointslice",
    "externaljwt", "kms", "kube-aggregator", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl",
    "kubelet", "metrics", "mount-utils", "pod-security-admission", "sample-apiserver", "sample-cli-plugin",
    "sample-controller", "streaming",
)
# fmt: on


class Missing(Exception):
    """A program cannot be had; the message says why, and what would help."""


class _Program(NamedTuple):
    module: str
    version: str
    package: str
    build: tuple[str, ...] = ("go", "build")


_KUBERNETES: Final = "k8s.io/kubernetes"
_PROGRAMS: Final = {
    "kube-apiserver": _Program(_KUBERNETES, KUBERNETES_VERSION, "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kubectl": _Program(_KUBERNETES, KUBERNETES_VERSION, "k8s.io/kubernetes/cmd/kubectl"),
    "agnhost": _Program(_KUBERNETES, KUBERNETES_VERSION, "k8s.io/kubernetes/test/images/agnhost"),
    "e2e.test": _Program(
        _KUBERNETES, KUBERNETES_VERSION, "k8s.io/kubernetes/test/e2e", ("go", "test", "-c", "-vet=off")
    ),
    "etcd": _Program("go.etcd.io/etcd/server/v3", ETCD_VERSION, "go.etcd.io/etcd/server/v3"),
}


def build(names: Iterable[str] = ("kube-apiserver", "etcd"), cache: Path = CACHE) -> dict[str, Path]:
    """The programs by name, built where they are not cached; raises `Missing`."""
    return {name: _cached(name, cache) for name in names}


def main(names: list[str]) -> int:
    """Prints the programs; returns the exit code."""
    if unknown := set(names) - set(_PROGRAMS):
        sys.stderr.write(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(_PROGRAMS)}\n")
        return 2
    try:
        found = build(names or ("kube-apiserver", "etcd"))
    except Missing as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for name, path in found.items():
        sys.stdout.write(f"{name}={path}\n")
    return 0


def _cached(name: str, cache: Path) -> Path:
    program = _PROGRAMS[name]
    target = cache / f"{name}-{program.version}"
    if not target.exists():
        if shutil.which("go") is None:
            raise Missing(f"{name} is built with Go, which is not on PATH; install it, or put a binary into {target}")
        sys.stderr.write(f"building {name} {program.version} ...\n")
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as work:
            _compile(program, Path(work))
            Path(work, "program").replace(target)
    return target


def _compile(program: _Program, work: Path) -> None:
    (work / "go.mod").write_text("module build\n\ngo 1.26\n", "utf-8")
    (work / "main.go").write_text(f'package build\n\nimport _ "{program.package}"\n', "utf-8")
    if program.module == _KUBERNETES:
        minor = program.version.partition(".")[2]
        replaced = [f"-replace=k8s.io/{name}=k8s.io/{name}@v0.{minor}" for name in _STAGING]
        run_go(["go", "mod", "edit", *replaced], work)
    run_go(["go", "mod", "edit", f"-require={program.module}@v{program.version}"], work)
    version = f"v{program.version}"
    flags = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    linked = " ".join(f"-X {package}.gitVersion={version}" for package in flags)
    run_go([*program.build, "-o", str(work / "program"), "-ldflags", f"-s -w {linked}", program.package], work)


def run_go(command: list[str], folder: Path) -> None:
    """Runs a command of Go in a folder, whose go.mod it may change; raises `Missing` with the end of its output."""
    environment = {**os.environ, "GOFLAGS": "-buildvcs=false -mod=mod", "CGO_ENABLED": "0", "GOGC": "800"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
        raise Missing(f"`{' '.join(command[:4])} ...` failed: {tail}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
