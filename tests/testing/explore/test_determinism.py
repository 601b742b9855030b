"""The same seed gives the same run, byte for byte: in another process, and in another version of Python."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from levelset.testing.explore import Plan
from levelset.testing.explore.search import Explorer
from tests.testing.explore.mistakes import MISTAKES

ROOT = Path(__file__).parents[3]
PLAN = "crash-after:create.ConfigMap/test/first-~#1+hold:Order:3:4"
UNDISTURBED = "9521e30892dfe91e"
DISTURBED = "b92211ee5cfe4125"
"""Digests of the traces on every machine: they change only if what controllers see or do changes."""

SCRIPT = f"""
from levelset.testing.explore import Plan
from levelset.testing.explore.search import Explorer
from tests.testing.explore.mistakes import MISTAKES
explorer = Explorer(MISTAKES["crash after"][0])
print(explorer.reference.run.trace.digest, explorer.play(Plan.parse({PLAN!r})).trace.digest)
"""


def test_the_digests_are_the_recorded_ones() -> None:
    explorer = Explorer(MISTAKES["crash after"][0])
    assert explorer.reference.run.trace.digest == UNDISTURBED, explorer.reference.run.trace.text()
    played = explorer.play(Plan.parse(PLAN))
    assert played.trace.digest == DISTURBED, played.trace.text()


@pytest.mark.slow
def test_a_hundred_runs_are_identical() -> None:
    explorer = Explorer(MISTAKES["crash after"][0])
    plan = Plan.parse("hold:Order:3:4")  # it reaches the end state, so it is short
    texts = {explorer.play(plan).trace.text() for _ in range(100)}
    assert len(texts) == 1


@pytest.mark.parametrize("name", ["leadership", "inside an await", "order of events"])
def test_all_kinds_of_runs_are_repeatable(name: str) -> None:
    exploration, plan, _ = MISTAKES[name]
    explorer = Explorer(exploration)
    texts = {explorer.play(Plan.parse(plan)).trace.text() for _ in range(2)}
    assert len(texts) == 1


def test_another_seed_gives_another_run() -> None:
    exploration, plan, _ = MISTAKES["crash after"]
    one, other = (Explorer(exploration, seed).play(Plan.parse(plan)) for seed in (1, 2))
    assert one.trace.text() != other.trace.text()
    assert [it.rule for it in one.findings] == [it.rule for it in other.findings]


def test_another_process_with_another_hash_seed_gives_the_same_run() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    output = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert output.stdout.split() == [UNDISTURBED, DISTURBED]
