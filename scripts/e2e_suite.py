"""Runs Kubernetes' own e2e suite, the specs marked [Conformance], against `levelset serve --rbac` and `levelset up`.

    make test-e2e                                  # both targets
    make test-e2e E2E="--target serve --focus Quota"

Builds e2e.test, kubectl and agnhost on first use (`kube_binaries.py`). Each spec is a process of its own with a time
limit, a few run at once, and those marked [Serial] alone. `tests/e2e/expectations.toml` says which specs need more than
an API server and processes, and which fail for a known reason; the exit code is 1 if one begins to pass or to fail.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from scripts.kube_binaries import Missing, build
from scripts.levelset_server import ROOT, run_levelset
from scripts.run_summary import run_summary

__all__ = ["Expectations", "Outcome", "main", "outcome_of", "read_expectations"]

EXPECTATIONS: Final = ROOT / "tests" / "e2e" / "expectations.toml"
_TARGETS: Final = {
    # A spec waits until a continue token has expired, which would take longer than a spec may with the default period.
    "serve": ["serve", "--rbac", "--compaction", "60"],
    "up": ["up", "tests.e2e.data_plane", "--dashboard", "no"],
}
# Scripts of specs are for the shell of busybox, which has [[; where /bin/sh has not, bash is in its place,
# in a mount namespace of its own.
_WITH_BASH: Final = ("unshare", "--mount", "/bin/bash", "-c", 'mount --bind /bin/bash /bin/sh && exec "$@"', "bash")
_RAN: Final = re.compile(r"(\d+) Passed \| (\d+) Failed \| \d+ Pending")
_WHY: Final = re.compile(
    r"^  \[(?:FAILED|TIMEDOUT|INTERRUPTED|PANICKED)\] (?!in \[)(.*?)\n  In \[", re.MULTILINE | re.DOTALL
)

_BY_ITSELF: Final = "the suite skips it by itself"

Result = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True)
class Outcome:
    """What became of a spec; `why` is the reason of a failure, or why it was not run."""

    spec: str
    result: Result
    why: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Expectations:
    """The specs of a target: those that are run, and by reason others that are skipped, and those that fail.

    Those that vary may pass or fail on any server.
    """

    select: tuple[str, ...] = ()
    otherwise: str = "not selected"
    skip: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    fail: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    varies: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def skipped(self, spec: str) -> str:
        """Why the spec is not run; empty if it is."""
        is_selected = any(re.search(one, spec) for one in self.select)
        return _reason(self.skip, spec) or ("" if is_selected else self.otherwise)

    def failing(self, spec: str) -> str:
        """Why the spec is known to fail; empty if it must pass."""
        return _reason(self.fail, spec)

    def varying(self, spec: str) -> str:
        """Why the spec may pass or fail; empty if it must do one of them."""
        return _reason(self.varies, spec)


def _reason(table: dict[str, tuple[str, ...]], spec: str) -> str:
    return next((why for why, patterns in table.items() if any(re.search(one, spec) for one in patterns)), "")


def read_expectations(path: Path = EXPECTATIONS) -> dict[str, Expectations]:
    """The expectations by target."""
    tables = tomllib.loads(path.read_text("utf-8"))
    return {
        target: Expectations(
            tuple(table["select"]),
            table["otherwise"],
            {why: tuple(patterns) for why, patterns in table.get("skip", {}).items()},
            {why: tuple(patterns) for why, patterns in table.get("fail", {}).items()},
        )
        for target, table in tables.items()
    }


def outcome_of(spec: str, output: str, seconds: float, *, limit: float | None = None) -> Outcome:
    """The outcome that the output of the suite tells; with `limit` it was ended after so many seconds."""
    found = _RAN.search(output)
    passed, failed = (int(found[1]), int(found[2])) if found else (0, 0)
    if passed and not failed and limit is None:
        return Outcome(spec, "passed", "", seconds)
    if found and not failed and limit is None:
        return Outcome(spec, "skipped", _BY_ITSELF, seconds)
    reason = _WHY.search(output)
    text = " ".join(reason[1].split()) if reason else " ".join(output.split())[-300:]
    if limit is not None:
        text = f"not done after {limit:g} s: {text}"
    return Outcome(spec, "failed", text[:400], seconds)


class Suite:
    """Runs specs of e2e.test against one server."""

    def __init__(self, programs: dict[str, Path], kubeconfig: Path, logs: Path, limit: float) -> None:
        self._programs = programs
        self._kubeconfig = kubeconfig
        self._logs = logs
        self._limit = limit

    def run(self, spec: str) -> Outcome:
        """Runs one spec; its output is kept in a file of its own."""
        began = time.monotonic()
        command = [
            str(self._programs["e2e.test"]),
            f"--kubeconfig={self._kubeconfig}",
            f"--kubectl-path={self._programs['kubectl']}",
            "--provider=skeleton",
            "--num-nodes=1",
            "--allowed-not-ready-nodes=-1",
            "--minStartupPods=0",
            "--disable-log-dump",
            "--ginkgo.no-color",
            "--ginkgo.silence-skips",
            f"--ginkgo.focus={re.escape(spec)}",
        ]
        process = subprocess.Popen(
            command, cwd=self._logs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0
        )
        limit = None
        try:
            output, _ = process.communicate(timeout=self._limit)
        except subprocess.TimeoutExpired:
            limit = self._limit
            output = _end(process)
        output = re.sub(r"[S•]{20,}", "", output)
        (self._logs / f"{re.sub(r'[^A-Za-z0-9]+', '-', spec).strip('-')[:180]}.log").write_text(output, "utf-8")
        return outcome_of(spec, output, time.monotonic() - began, limit=limit)


def _end(process: "subprocess.Popen[str]") -> str:
    """Ends a spec, and its kubectl: politely, so that it says where it was and deletes its namespace, then by force."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        return process.communicate(timeout=40)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


@contextmanager
def run_server(target: str, folder: Path, agnhost: Path, kubectl: Path) -> Generator[Path]:
    """Runs the command of a target; yields its kubeconfig when it is ready."""
    through = _WITH_BASH if target == "up" and os.geteuid() == 0 else ()
    with run_levelset(_TARGETS[target], folder, {"LEVELSET_AGNHOST": str(agnhost)}, through=through) as kubeconfig:
        if target == "serve":
            _create_node(kubectl, kubeconfig)
        yield kubeconfig


def _create_node(kubectl: Path, kubeconfig: Path) -> None:
    """Creates a Node that is ready: specs that only name one need no more, and a server alone has none."""
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "an object, and no machine"}
    status = {"conditions": [condition], "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "e2e"}, "status": status}
    command = [str(kubectl), f"--kubeconfig={kubeconfig}", "create", "-f", "-"]
    subprocess.run(command, input=json.dumps(node), text=True, check=True, capture_output=True)
    patch = ["patch", "node", "e2e", "--type=merge", "-p"]
    for part in (["--subresource=status", json.dumps({"status": status})], [json.dumps({"spec": {"taints": None}})]):
        subprocess.run([*command[:2], *patch, part[-1], *part[:-1]], check=True, capture_output=True)


def run_target(target: str, expected: Expectations, specs: Sequence[str], given: argparse.Namespace) -> list[Outcome]:
    """Runs the specs of a target; prints each as it ends."""
    programs = build(("e2e.test", "kubectl", "agnhost"))
    folder = ROOT / "build" / "e2e" / target
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.log"):
        old.unlink()
    outcomes = [Outcome(spec, "skipped", why) for spec in specs if (why := expected.skipped(spec))]
    chosen = [spec for spec in specs if not expected.skipped(spec)]
    with (
        TemporaryDirectory() as place,
        run_server(target, Path(place), programs["agnhost"], programs["kubectl"]) as kubeconfig,
    ):
        suite = Suite(programs, kubeconfig, folder, given.limit)
        # Processes share the ports of this machine: a webhook server of one spec is in the way of another one's.
        is_alone = [("[Serial]" in spec or (target == "up" and "Webhook" in spec)) for spec in chosen]
        together = [spec for spec, alone in zip(chosen, is_alone, strict=True) if not alone]
        alone = [spec for spec, alone in zip(chosen, is_alone, strict=True) if alone]
        for jobs, group in ((given.jobs, together), (1, alone)):
            with ThreadPoolExecutor(jobs) as pool:
                for outcome in pool.map(suite.run, group):
                    print(f"{outcome.result:8}{outcome.seconds:5.0f} s  {outcome.spec}", flush=True)
                    outcomes.append(outcome)
    return outcomes


def report(target: str, expected: Expectations, outcomes: Sequence[Outcome]) -> list[str]:
    """Prints the table of a target; returns the specs that began to pass or to fail."""
    groups: dict[str, Counter[str]] = {}
    for one in outcomes:
        found = re.search(r"\[sig-[a-z-]+\]", one.spec)
        groups.setdefault(found[0] if found else "", Counter())[one.result] += 1
    print(f"\n{target:24}{'passed':>8}{'failed':>8}{'skipped':>8}")
    for name, counts in sorted(groups.items()):
        print(f"{name:24}{counts['passed']:8}{counts['failed']:8}{counts['skipped']:8}")
    total = Counter(one.result for one in outcomes)
    print(f"{'all':24}{total['passed']:8}{total['failed']:8}{total['skipped']:8}")
    surprises: list[str] = []
    for one in outcomes:
        known = expected.failing(one.spec)
        if one.result == "failed":
            print(f"failed ({known or 'NEW'}): {one.spec}\n    {one.why}")
        if (one.result == "failed" and not known) or (one.result == "passed" and known):
            surprises.append(f"{target}: began to {'fail' if one.result == 'failed' else 'pass'}: {one.spec}")
        if one.result == "skipped" and one.why == _BY_ITSELF:
            surprises.append(f"{target}: is skipped by the suite, and selected: {one.spec}")
    return surprises


def conformance_specs(program: Path) -> list[str]:
    """The names of all specs marked [Conformance]."""
    listed = subprocess.run([str(program), "--list-tests"], capture_output=True, text=True, check=True).stdout
    lines = [line.strip().partition(": ")[2] for line in listed.splitlines() if line.startswith("    ")]
    return sorted({line for line in lines if "[Conformance]" in line})


def main(arguments: list[str]) -> int:
    """Runs the targets of the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=[*_TARGETS, "all"], default="all")
    parser.add_argument("--focus", default="", help="only specs that match this regular expression")
    parser.add_argument("--jobs", type=int, default=3, help="how many specs run at once")
    parser.add_argument("--limit", type=float, default=480.0, help="seconds for each spec; one waits for five minutes")
    given = parser.parse_args(arguments)
    began, skipped = time.monotonic(), list[str]()
    try:
        specs = conformance_specs(build(["e2e.test"])["e2e.test"])
        surprises: list[str] = []
        for target, expected in read_expectations().items():
            if given.target in (target, "all"):
                chosen = [spec for spec in specs if re.search(given.focus, spec)]
                outcomes = run_target(target, expected, chosen, given)
                surprises += report(target, expected, outcomes)
                skipped += [f"on {target}: {one.why}" for one in outcomes if one.result == "skipped"]
    except Missing as error:
        sys.stderr.write(f"{error}\n")
        return 2
    print("\n".join([*surprises, *run_summary(began, skipped)]))
    return 1 if surprises else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
