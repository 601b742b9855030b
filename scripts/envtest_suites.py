"""Runs Go suites that use envtest on `levelset envtest` and on kube-apiserver with etcd, and shows the times of both.

    make test-envtest                                       # all suites on both
    make test-envtest ENVTEST="--on levelset --suite client"

The suites are that of the operator in `tests/clients/go-operator` and controller-runtime's own, from the Go module
proxy. Each is built with the Go packages of the server's version, and run alone, by root in a network of its own.
`tests/envtest/expectations.toml` names the specs that fail, with reasons; the exit code is 1 if one begins to pass or
to fail. The first run takes some ten minutes of compilation, and as long again for kube-apiserver (`kube_binaries.py`).
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from scripts.e2e_suite import Expectations, Outcome, Result
from scripts.kube_binaries import KUBERNETES_VERSION, Missing, build
from scripts.run_summary import run_summary

from levelset.apiserver.envtest import write_assets

__all__ = [
    "Run",
    "check_port",
    "main",
    "own_network",
    "read_expectations",
    "read_go_output",
    "read_junit",
    "surprises",
    "table",
]

ROOT: Final = Path(__file__).resolve().parent.parent
EXPECTATIONS: Final = ROOT / "tests" / "envtest" / "expectations.toml"
CONTROLLER_RUNTIME: Final = "sigs.k8s.io/controller-runtime@v0.24.1"
_PLACE: Final = ROOT / "build" / "envtest"
_OPERATOR: Final = "go-operator"
_PACKAGES: Final = (
    *("envtest", "client", "builder", "cache", "manager", "webhook", "controller", "cluster", "source", "handler"),
    *("metrics/filters", "controller/controllerutil", "internal/recorder", "internal/controller"),
)
_TARGETS: Final = ("levelset", "kube")
_STAGING: Final = ("api", "apiextensions-apiserver", "apimachinery", "apiserver", "client-go", "component-base")
_LIMIT: Final = 900
_METRICS_PORT: Final = 8080
# kube-apiserver does not start without a default route, and an address for it that is not one of loopback.
_NETWORK: Final = "ip link set lo up && ip address add 192.0.2.1/32 dev lo && ip route add default dev lo"
_OWN_NETWORK: Final = ("unshare", "--net", "sh", "-c", f'{_NETWORK} && exec "$@"', "sh")
_GO_LINE: Final = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)$", re.MULTILINE)
_WORDS: Final[dict[str, Result]] = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


class Run(NamedTuple):
    """A suite on a target: its specs, and the seconds that it took."""

    suite: str
    target: str
    outcomes: tuple[Outcome, ...]
    seconds: float

    def count(self, result: Result) -> int:
        """How many specs had this result."""
        return Counter(one.result for one in self.outcomes)[result]


def read_expectations(path: Path = EXPECTATIONS) -> dict[str, Expectations]:
    """The specs that fail, and why, by target."""
    tables = tomllib.loads(path.read_text("utf-8"))
    return {
        target: Expectations(fail={why: tuple(patterns) for why, patterns in tables.get(target, {}).items()})
        for target in _TARGETS
    }


def read_junit(suite: str, text: str) -> Iterator[Outcome]:
    """The specs of a report of ginkgo, each with the name of its suite in front."""
    for case in ET.fromstring(text).iter("testcase"):
        bad = [one for one in case if one.tag in ("failure", "error")]
        name = case.get("name", "")
        if name.startswith("[It]") or bad:
            skipped = case.findall("skipped")
            result: Result = "failed" if bad else "skipped" if skipped else "passed"
            why = " ".join((one.get("message") or one.text or "") for one in (bad or skipped)[:1])
            why = " ".join(why.split())[:400]
            yield Outcome(f"{suite}: {name.removeprefix('[It] ')}", result, why, float(case.get("time", "0")))


def read_go_output(suite: str, text: str) -> Iterator[Outcome]:
    """The tests in the output of `go test -v`."""
    for word, name, seconds in _GO_LINE.findall(text):
        yield Outcome(f"{suite}: {name}", _WORDS[word], "see its log" if word == "FAIL" else "", float(seconds))


def table(runs: Sequence[Run]) -> list[str]:
    """A line for each suite: specs and seconds on both targets, and how many times faster the first one is."""
    lines = [f"{'suite':28}{'levelset':>22}{'s':>8}{'kube-apiserver':>22}{'s':>8}{'times':>7}"]
    names = list(dict.fromkeys(one.suite for one in runs))
    total: dict[str, float] = dict.fromkeys(_TARGETS, 0.0)
    both = [name for name in names if len([one for one in runs if one.suite == name]) == len(_TARGETS)]
    for name in names:
        found = {one.target: one for one in runs if one.suite == name}
        for target, one in found.items():
            total[target] += one.seconds if name in both or not both else 0.0
        lines.append(f"{name:28}{_cells(found)}")
    seconds = {target: Run("", target, (), total[target]) for target in _TARGETS if total[target]}
    return [*lines, f"{'all':28}{_cells(seconds)}"]


def _cells(found: dict[str, Run]) -> str:
    text = ""
    for target in _TARGETS:
        one = found.get(target)
        counts = "" if one is None else f"{one.count('passed')} ok, {one.count('failed')} failed"
        text += f"{counts if one and one.outcomes else '':>22}{'' if one is None else format(one.seconds, '.1f'):>8}"
    fast, slow = (found.get(target) for target in _TARGETS)
    return text + (f"{slow.seconds / fast.seconds:7.1f}" if fast and slow and fast.seconds else "")


def surprises(expected: dict[str, Expectations], runs: Sequence[Run]) -> list[str]:
    """What began to pass or to fail, and suites that said nothing."""
    lines = [f"{one.target}: {one.suite}: no spec was run" for one in runs if not one.outcomes]
    for one in runs:
        for outcome in one.outcomes:
            known = bool(expected[one.target].failing(outcome.spec))
            if outcome.result != "skipped" and known != (outcome.result == "failed"):
                word = "pass" if known else "fail"
                lines.append(f"{one.target}: began to {word}: {outcome.spec} {outcome.why}".rstrip())
    return lines


def prepare_sources(suite: str) -> Path:
    """A copy of the sources of a suite, with the Go packages of the server's version; returns its folder."""
    is_ours = suite == _OPERATOR
    place = _PLACE / (_OPERATOR if is_ours else CONTROLLER_RUNTIME.rpartition("/")[2])
    mark = place / "ready"
    if is_ours or not mark.exists():
        shown = "" if is_ours else _go(["mod", "download", "-json", CONTROLLER_RUNTIME], ROOT)
        _copy(ROOT / "tests" / "clients" / _OPERATOR if is_ours else Path(json.loads(shown)["Dir"]), place)
        version = f"v0.{KUBERNETES_VERSION.partition('.')[2]}"
        needed = [f"k8s.io/{name}@{version}" for name in _STAGING] + ([CONTROLLER_RUNTIME] if is_ours else [])
        _go(["mod", "edit", *(f"-require={one}" for one in needed)], place)
        _go(["mod", "tidy"], place)
        mark.touch()
    return place if is_ours else place / "pkg" / suite


def _copy(source: Path, place: Path) -> None:
    """Copies a folder without its modes: those of Go's module cache are read-only."""
    shutil.copytree(source, place, dirs_exist_ok=True, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(place):
        Path(folder).chmod(0o755)


def compile_suite(suite: str) -> tuple[Path, Path]:
    """The program of a suite, and the folder that it has to run in."""
    source = prepare_sources(suite)
    program = _PLACE / f"{suite.replace('/', '-')}.test"
    _go(["test", "-c", "-vet=off", "-p", "2", "-o", str(program), "."], source)
    return program, source


def _go(arguments: list[str], folder: Path) -> str:
    if shutil.which("go") is None:
        raise Missing("the suites are built with Go, which is not on PATH")
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -mod=mod"}
    nice = ["nice", "-n", "10"] if shutil.which("nice") else []
    done = subprocess.run(
        [*nice, "go", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Missing(f"`go {' '.join(arguments[:3])} ...` failed: {' '.join(done.stderr.split())[-600:]}")
    return done.stdout


def assets_of(target: str) -> Path:
    """The folder for KUBEBUILDER_ASSETS."""
    folder = _PLACE / f"assets-{target}"
    if target == "levelset":
        write_assets(folder)
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, program in build(["kube-apiserver", "etcd", "kubectl"]).items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(program)
    return folder


def run_suite(suite: str, target: str, program: Path, source: Path, focus: str, through: tuple[str, ...] = ()) -> Run:
    """Runs the program of a suite on a target, `through` a command; its output stays in a file."""
    log, report = (_PLACE / f"{suite.replace('/', '-')}-{target}.{end}" for end in ("log", "xml"))
    report.unlink(missing_ok=True)
    options = ["-test.v", f"-test.run={focus}"]
    if suite != _OPERATOR:
        options = [f"--ginkgo.junit-report={report}", "--ginkgo.no-color", f"--ginkgo.focus={focus}"]
    environment = {**os.environ, "KUBEBUILDER_ASSETS": str(assets_of(target))}
    # On a busy machine kube-apiserver needs more than the 20 s that it has by default.
    environment |= {f"KUBEBUILDER_CONTROLPLANE_{word}_TIMEOUT": "180s" for word in ("START", "STOP")}
    began = time.monotonic()
    with log.open("wb") as output:
        try:
            subprocess.run(
                [*through, str(program), *options],
                cwd=source,
                env=environment,
                stdout=output,
                stderr=output,
                timeout=_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            output.write(f"ended after {_LIMIT} s\n".encode())
    seconds = time.monotonic() - began
    if suite == _OPERATOR:
        found = tuple(read_go_output(suite, log.read_text("utf-8", "replace")))
    else:
        found = tuple(read_junit(suite, report.read_text("utf-8"))) if report.exists() else ()
    return Run(suite, target, found, seconds)


def own_network() -> tuple[str, ...]:
    """The beginning of a command that runs in a network of its own, where all ports are free; empty without root."""
    try:
        subprocess.run([*_OWN_NETWORK, "true"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    return _OWN_NETWORK


def check_port(port: int = _METRICS_PORT) -> None:
    """Raises Missing if the port of controller-runtime's metrics is in use: specs with a manager wait for ever then."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise Missing(f"controller-runtime's suites listen on port {port}, which is in use: {error}") from error


def main(arguments: list[str]) -> int:
    """Runs the suites of the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", choices=[*_TARGETS, "both"], default="both")
    parser.add_argument("--suite", action="append", choices=[_OPERATOR, *_PACKAGES], help="only this one")
    parser.add_argument("--focus", default="", help="only specs that match this regular expression")
    given = parser.parse_args(arguments)
    _PLACE.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    runs: list[Run] = []
    try:
        through = own_network()
        if not through:
            check_port()
        for suite in given.suite or [_OPERATOR, *_PACKAGES]:
            program, source = compile_suite(suite)
            for target in _TARGETS if given.on == "both" else [given.on]:
                one = run_suite(suite, target, program, source, given.focus, through)
                print(f"{suite} on {target}: {one.count('passed')} passed, {one.count('failed')} failed,"
                      f" {one.count('skipped')} skipped, {one.seconds:.1f} s", flush=True)  # fmt: skip
                runs.append(one)
    except Missing as error:
        sys.stderr.write(f"{error}\n")
        return 2
    found = surprises(read_expectations(), runs)
    skipped = [
        f"{one.target}, {each.spec}: {each.why}" for one in runs for each in one.outcomes if each.result == "skipped"
    ]
    print("\n".join(["", *table(runs), *found, f"logs: {_PLACE}", *run_summary(began, skipped)]))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
