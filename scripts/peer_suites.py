"""Runs the suites of other clients and runtimes against levelset: kopf, the official Python clients, kr8s and kube-rs.

    make test-peers                               # all of them
    make test-peers PEERS="--suite kr8s --focus logs"

Their tests come from the sdists and crates that the projects publish, unmodified; `tests/peers/suites.toml`
says which. They run against `levelset serve --rbac`, or against `levelset up` with Pods as processes.
`tests/peers/expectations.toml` names the tests that fail, with reasons; the exit code is 1 if one begins to pass or to
fail, and 2 if a suite cannot be had. What is installed and built stays in `.cache/peer-suites`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from scripts.e2e_suite import Expectations, Outcome, Result
from scripts.kube_binaries import Missing, build
from scripts.levelset_server import ROOT, run_levelset
from scripts.run_summary import run_summary

__all__ = [
    "Suite",
    "main",
    "read_cargo_report",
    "read_expectations",
    "read_pytest_report",
    "read_suites",
    "surprises",
]

HERE: Final = ROOT / "tests" / "peers"
CACHE: Final = ROOT / ".cache" / "peer-suites"
_LOGS: Final = ROOT / "build" / "peers"
_COMMANDS: Final = {
    "serve": ["serve", "--rbac"],
    "up": ["up", "tests.peers.data_plane", "--rbac", "--dashboard", "no"],
}
_LIMIT: Final = 1500
_CARGO_TEST: Final = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED)$", re.MULTILINE)
_CARGO_OUTPUT: Final = re.compile(r"^---- (\S+) stdout ----\n(.*?)(?=^---- |^failures:$)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Suite:
    """A suite of another project: the package that carries it, and what it needs.

    `crates` are those of a suite in Rust, with the features that their tests need, and `restored` the dependencies of
    their tests on each other, with features, which cargo leaves out of what is published.
    """

    name: str
    package: str
    on: str
    files: tuple[str, ...] = ()
    crates: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    restored: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict[str, dict[str, tuple[str, ...]]])
    options: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    objects: str = ""
    stand_ins: dict[str, str] = field(default_factory=dict[str, str])
    environment: dict[str, str] = field(default_factory=dict[str, str])


def read_suites(path: Path = HERE / "suites.toml") -> dict[str, Suite]:
    """The suites by name."""
    tables = tomllib.loads(path.read_text("utf-8"))
    return {name: msgspec.convert({"name": name, **table}, Suite) for name, table in tables.items()}


def read_expectations(path: Path = HERE / "expectations.toml") -> dict[str, Expectations]:
    """The tests that fail, those that may, and those that are not run, each by reason, by suite."""
    tables = tomllib.loads(path.read_text("utf-8"))
    return {
        name: Expectations(
            (".",),
            skip={why: tuple(patterns) for why, patterns in table.get("skip", {}).items()},
            fail={why: tuple(patterns) for why, patterns in table.get("fail", {}).items()},
            varies={why: tuple(patterns) for why, patterns in table.get("varies", {}).items()},
        )
        for name, table in tables.items()
    }


def read_pytest_report(text: str) -> Iterator[Outcome]:
    """The tests of a report of pytest."""
    for case in ET.fromstring(text).iter("testcase"):
        bad = [one for one in case if one.tag in ("failure", "error")]
        skipped = case.findall("skipped")
        result: Result = "failed" if bad else "skipped" if skipped else "passed"
        why = " ".join((one.get("message") or one.text or "") for one in (bad or skipped)[:1])
        why = " ".join(why.split())[:400]
        name = f"{case.get('classname', '')}.{case.get('name', '')}".lstrip(".")
        yield Outcome(name, result, why, float(case.get("time", "0")))


def read_cargo_report(crate: str, text: str) -> Iterator[Outcome]:
    """The tests of a crate in the output of `cargo test`."""
    reasons = {name: " ".join(why.split())[:400] for name, why in _CARGO_OUTPUT.findall(text)}
    for name, result in _CARGO_TEST.findall(text):
        yield Outcome(f"{crate}::{name}", "passed" if result == "ok" else "failed", reasons.get(name, ""))


def surprises(suite: str, expected: Expectations, outcomes: Sequence[Outcome]) -> list[str]:
    """What began to pass or to fail; a suite without tests is one, too."""
    if not any(one.result != "skipped" for one in outcomes):
        return [f"{suite}: no test was run"]
    lines: list[str] = []
    for one in outcomes:
        known = bool(expected.failing(one.spec))
        is_new = known != (one.result == "failed") and not expected.varying(one.spec)
        if one.result != "skipped" and is_new:
            lines.append(f"{suite}: began to {'pass' if known else 'fail'}: {one.spec} {one.why}".rstrip())
    return lines


def prepare_python(suite: Suite) -> tuple[Path, Path]:
    """The interpreter of an environment with the package and what its suite needs, and the unpacked sdist."""
    name, _, version = suite.package.partition("==")
    folder = CACHE / f"{suite.name}-{version}"
    python, source, mark = folder / "venv/bin/python", folder / "source", folder / "installed"
    needed = json.dumps([suite.package, *suite.requirements])
    if not mark.exists() or mark.read_text("utf-8") != needed:
        print(f"installing {suite.package} and what its suite needs ...", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _run([sys.executable, "-m", "venv", str(folder / "venv")], folder)
        pip = [str(python), "-m", "pip"]
        _run([*pip, "install", "--quiet", suite.package, *suite.requirements], folder)
        _run([*pip, "download", "--quiet", "--no-deps", "--no-binary", name, suite.package], folder)
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        archive.with_name(archive.name.removesuffix(".tar.gz")).replace(source)
        mark.write_text(needed, "utf-8")
    for place, ours in suite.stand_ins.items():
        (source / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / ours, source / place)
    return python, source


def run_python(suite: Suite, kubeconfig: Path, kubectl: Path, given: argparse.Namespace, skipped: str) -> list[Outcome]:
    """Runs the files of a suite with pytest."""
    python, source = prepare_python(suite)
    report = _LOGS / f"{suite.name}.xml"
    report.unlink(missing_ok=True)
    beside = source / ".pytest-kind" / "pytest-kind"
    if beside.exists():
        (beside / "kubectl-levelset").unlink(missing_ok=True)
        (beside / "kubectl-levelset").symlink_to(kubectl)
        (beside / "kubeconfig").unlink(missing_ok=True)
    words = " and ".join(one for one in (given.focus, skipped) if one)
    command = [str(python), "-m", "pytest", *suite.files, *suite.options, f"--junitxml={report}", "-q"]
    command += ["-p", "no:cacheprovider", "-p", "no:randomly", *(["-k", words] if words else [])]
    environment = _environment(kubeconfig, kubectl) | suite.environment
    environment["PATH"] = f"{python.parent}{os.pathsep}{environment['PATH']}"
    _log(command, source, environment, _LOGS / f"{suite.name}.log")
    return list(read_pytest_report(report.read_text("utf-8"))) if report.exists() else []


def prepare_crates(suite: Suite) -> Path:
    """A workspace with the sources of the crates, as they were published, whose tests are built."""
    if shutil.which("cargo") is None:
        raise Missing(f"{suite.package} is built with Rust, and cargo is not on PATH")
    version = suite.package.partition("==")[2]
    folder = CACHE / f"{suite.name}-{version}"
    needed = json.dumps([suite.crates, suite.restored], sort_keys=True)
    mark = folder / "built"
    if not mark.exists() or mark.read_text("utf-8") != needed:
        print(f"building the tests of {suite.package} ...", flush=True)
        for name in (*suite.crates, "download"):
            shutil.rmtree(folder / name, ignore_errors=True)
        for crate, source in _download_crates(suite, version, folder / "download").items():
            shutil.copytree(source, folder / crate)
            with (folder / crate / "Cargo.toml").open("a", encoding="utf-8") as manifest:
                for other, features in suite.restored.get(crate, {}).items():
                    place = f'path = "../{other}"\nfeatures = {json.dumps(features)}'
                    manifest.write(f"\n[dev-dependencies.{other}]\n{place}\n")
        members = json.dumps(list(suite.crates))
        (folder / "Cargo.toml").write_text(f'[workspace]\nresolver = "2"\nmembers = {members}\n', "utf-8")
        for crate in suite.crates:
            _run(_cargo_test(suite, crate, "--no-run"), folder)
        mark.write_text(needed, "utf-8")
    return folder


def _download_crates(suite: Suite, version: str, folder: Path) -> dict[str, Path]:
    """The folders in which cargo has unpacked the crates."""
    (folder / "src").mkdir(parents=True)
    (folder / "src/lib.rs").touch()
    lines = ["[package]", 'name = "download"', 'edition = "2021"', "[workspace]", "[dependencies]"]
    lines += [f'{crate} = "={version}"' for crate in suite.crates]
    (folder / "Cargo.toml").write_text("\n".join(lines), "utf-8")
    packages = json.loads(_run(["cargo", "metadata", "--format-version=1"], folder))["packages"]
    found = {one["name"]: Path(one["manifest_path"]).parent for one in packages if one["version"] == version}
    return {crate: found[crate] for crate in suite.crates}


def _cargo_test(suite: Suite, crate: str, *options: str) -> list[str]:
    # By its manifest: the others depend on the published crate of the same name and version.
    chosen = [f"--manifest-path={crate}/Cargo.toml", f"--features={','.join(suite.crates[crate])}"]
    return ["cargo", "test", "--lib", *chosen, *options]


def run_crates(suite: Suite, kubeconfig: Path, kubectl: Path, given: argparse.Namespace) -> list[Outcome]:
    """Runs the tests of crates that need a cluster, which they mark as ignored, one after the other."""
    folder = prepare_crates(suite)
    outcomes: list[Outcome] = []
    for crate in suite.crates:
        command = _cargo_test(suite, crate, "--", "--ignored", "--test-threads=1", *filter(None, [given.focus]))
        log = _LOGS / f"{suite.name}-{crate}.log"
        _log(command, folder, _environment(kubeconfig, kubectl) | suite.environment, log)
        outcomes += read_cargo_report(crate, log.read_text("utf-8", "replace"))
    return outcomes


def _environment(kubeconfig: Path, kubectl: Path) -> dict[str, str]:
    path = f"{kubectl.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path}


def _log(command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path) -> None:
    with log.open("wb") as output:
        try:
            subprocess.run(
                command, cwd=folder, env=environment, stdout=output, stderr=output, timeout=_LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            output.write(f"ended after {_LIMIT} s\n".encode())


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"`{' '.join(command[:4])} ...` failed: {' '.join(done.stderr.split())[-600:]}")
    return done.stdout


def _create(objects: Path, kubeconfig: Path, kubectl: Path) -> None:
    """Creates what a suite expects of every cluster, and waits until its Pods are ready."""
    command = [str(kubectl), f"--kubeconfig={kubeconfig}"]
    _run([*command, "create", "-f", str(objects)], objects.parent)
    _run([*command, "wait", "--for=condition=Ready", "--timeout=120s", "-f", str(objects)], objects.parent)


def _find_kubectl(folder: Path) -> Path:
    """A folder of its own with `kubectl`: the one on PATH, or one that is built."""
    program = shutil.which("kubectl")
    (folder / "kubectl").symlink_to(program or build(["kubectl"])["kubectl"])
    return folder / "kubectl"


def run_suite(suite: Suite, expected: Expectations, given: argparse.Namespace) -> list[Outcome]:
    """Runs a suite on a server of its own."""
    with TemporaryDirectory() as place:
        (Path(place) / "bin").mkdir()
        kubectl = _find_kubectl(Path(place) / "bin")
        with run_levelset(_COMMANDS[suite.on], Path(place)) as kubeconfig:
            try:
                if suite.objects:
                    _create(HERE / suite.objects, kubeconfig, kubectl)
                if suite.crates:
                    return run_crates(suite, kubeconfig, kubectl, given)
                skipped = " and ".join(f"not {one}" for patterns in expected.skip.values() for one in patterns)
                return run_python(suite, kubeconfig, kubectl, given, skipped)
            finally:
                shutil.copy(Path(place) / "server.log", _LOGS / f"{suite.name}-server.log")


def main(arguments: list[str]) -> int:
    """Runs the suites of the command line; returns the exit code."""
    suites, expectations = read_suites(), read_expectations()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=list(suites), help="only this one")
    parser.add_argument("--focus", default="", help="only tests that match this expression of pytest's -k, or text")
    given = parser.parse_args(arguments)
    _LOGS.mkdir(parents=True, exist_ok=True)
    lines, news = [f"\n{'suite':24}{'passed':>8}{'failed':>8}{'skipped':>8}{'s':>8}"], list[str]()
    start, skipped, is_whole = time.monotonic(), list[str](), True
    for name in given.suite or suites:
        expected, began = expectations.get(name, Expectations((".",))), time.monotonic()
        try:
            outcomes = run_suite(suites[name], expected, given)
        except Missing as error:
            skipped.append(f"all of {name}: {error}")
            is_whole = False
            continue
        counts = Counter(one.result for one in outcomes)
        cells = "".join(f"{counts[word]:8}" for word in ("passed", "failed", "skipped"))
        lines.append(f"{suites[name].package:24}{cells}{time.monotonic() - began:8.0f}")
        for one in outcomes:
            if one.result == "failed":
                known = expected.failing(one.spec) or expected.varying(one.spec) or "NEW"
                print(f"failed ({known}): {one.spec}\n    {one.why}", flush=True)
        skipped += [f"of {name}: {one.why}" for one in outcomes if one.result == "skipped"]
        news += surprises(name, expected, outcomes)
    print("\n".join([*lines, *news, f"logs: {_LOGS}", *run_summary(start, skipped)]))
    return 1 if news else 0 if is_whole else 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
