"""Recordings of 10,000 reconciles replay to the byte, again and again, in new processes and on other Pythons.

`LEVELSET_REPLAY_PYTHONS=PATH:PATH pytest -m robustness -k long_runs -s` also records and replays with these Pythons, in
which levelset is installed, and prints what each run was.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.testing.replay import long_run

WEBSITES = 1500
REPLAYS = 20
OTHERS = [one for one in os.environ.get("LEVELSET_REPLAY_PYTHONS", "").split(os.pathsep) if one]
ROOT = Path(__file__).parents[3]


def act(python: str, *arguments: str) -> dict[str, Any]:
    """Records or replays in a process of its own, whose sets and dicts have a hash seed of their own."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [python, "-m", long_run.__name__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    print(done.stdout, end="", flush=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.robustness
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("recorder", [sys.executable, *OTHERS], ids=lambda path: str(path).rpartition("/")[2])
def test_ten_thousand_reconciles_replay_to_the_byte_in_twenty_processes_and_on_other_pythons(
    recorder: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "run")
    recorded = act(recorder, "record", path, str(WEBSITES))
    assert recorded["reconciles"] >= 10_000
    assert set(recorded["outcomes"]) >= {"done", "requeued", "retry", "failed", "gave_up", "gone"}
    again = REPLAYS if recorder == sys.executable else 3
    replayed = [act(recorder, "replay", path) for _ in range(again)]
    replayed += [act(one, "replay", path) for one in (sys.executable, *OTHERS) if one != recorder for _ in range(3)]
    expected = {"reconciles": recorded["reconciles"], "requests": recorded["requests"], "is_complete": True}
    assert all(one["difference"] is None and expected.items() <= one.items() for one in replayed)
    assert len({one["digest"] for one in replayed}) == 1
