"""Recordings of 10,000 reconciles replay to the byte, again and again, in new processes and on other Pythons.

`LEVELSET_REPLAY_PYTHONS=PATH:PATH pytest -m robustness -k long_runs -s` also records and replays with these Pythons, in
which levelset is installed, and prints what each run was. A replay takes some 15 seconds.
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


def name_of(path: object) -> str:
    """The last two folders of a Python, such as 3.12-bin, or the number of a replay."""
    return str(path) if isinstance(path, int) else "-".join(Path(str(path)).parts[-3:-1])


def act(python: str, *arguments: str) -> dict[str, Any]:
    """Records or replays in a process of its own, whose sets and dicts have a hash seed of their own."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [python, "-m", long_run.__name__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    print(done.stdout, end="", flush=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Recorded:
    """A recording by one Python, what it is, and the digest of its first replay."""

    def __init__(self, python: str, folder: Path) -> None:
        self.path = str(folder / "run")
        self.found = act(python, "record", self.path, str(WEBSITES))
        self.digest = ""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    """The recordings by the Python that has made them; each is made when it is first replayed."""

    class Recordings(dict[str, Recorded]):
        def __missing__(self, python: str) -> Recorded:
            self[python] = Recorded(python, tmp_path_factory.mktemp("recorded"))
            return self[python]

    return Recordings()


def check_replay(recorded: Recorded, player: str) -> None:
    """A whole replay with the same requests and outcomes, and the digest of all replays of this recording."""
    assert recorded.found["reconciles"] >= 10_000
    assert set(recorded.found["outcomes"]) >= {"done", "requeued", "retry", "failed", "gave_up", "gone"}
    replayed = act(player, "replay", recorded.path)
    expected = {one: recorded.found[one] for one in ("reconciles", "requests")}
    assert (replayed["difference"], replayed["is_complete"]) == (None, True)
    assert {one: replayed[one] for one in expected} == expected
    recorded.digest = recorded.digest or replayed["digest"]
    assert replayed["digest"] == recorded.digest


@pytest.mark.robustness
@pytest.mark.parametrize("number", range(REPLAYS))
def test_ten_thousand_reconciles_replay_to_the_byte_in_twenty_processes(
    recordings: dict[str, Recorded], number: int
) -> None:
    check_replay(recordings[sys.executable], sys.executable)


@pytest.mark.robustness
@pytest.mark.skipif(not OTHERS, reason="LEVELSET_REPLAY_PYTHONS names no other Python")
@pytest.mark.parametrize("player", [sys.executable, *OTHERS], ids=name_of)
@pytest.mark.parametrize("recorder", [sys.executable, *OTHERS], ids=name_of)
@pytest.mark.parametrize("number", range(3))
def test_ten_thousand_reconciles_replay_to_the_byte_on_other_pythons(
    recordings: dict[str, Recorded], recorder: str, player: str, number: int
) -> None:
    check_replay(recordings[recorder], player)
