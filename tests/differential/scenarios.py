"""Scenarios that the fuzzer has found, with the answers of kube-apiserver: how they are stored, and replayed.

`found/*.json` maps the name of a scenario to its requests, which are steps of the conformance kit, and to the answers
in their normal form.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.differential import intended
from tests.differential.grammar import Step
from tests.differential.normal_form import Known, differences
from tests.differential.servers import Server, run_step

__all__ = ["FOLDER", "OPEN", "load", "name_of", "replay", "save"]

FOLDER = Path(__file__).parent / "found"
_OPEN_FILE = Path(__file__).parent / "open_differences.json"
OPEN: frozenset[str] = frozenset(json.loads(_OPEN_FILE.read_text()))
"""The names of scenarios that still differ; one that does not any more has to be removed from the file."""
SPACE: Step = {"do": "POST /api/v1/namespaces", "body": {"metadata": {"name": "${ns}"}}}


def name_of(steps: list[Step]) -> str:
    """A name of a sequence: what its last request does, and a digest."""
    words = (steps[-1].get("do") or f"WATCH {steps[-1]['watch']}").replace("/namespaces/${ns}", "")
    verb, _, path = words.partition(" ")
    digest = hashlib.sha256(json.dumps(steps, sort_keys=True).encode()).hexdigest()[:8]
    part = path.removeprefix("/apis/").removeprefix("/api/v1/").strip("/")
    return f"{verb} {part} {digest}"


def load() -> dict[str, Any]:
    """All scenarios by name."""
    found: dict[str, Any] = {}
    for path in sorted(FOLDER.glob("*.json")):
        found |= json.loads(path.read_text())
    return found


def save(file: str, scenarios: dict[str, Any]) -> None:
    """Adds scenarios to a file: one line for each, so that a change is a change of a line."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{file}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    rows = [f"{json.dumps(name)}: {json.dumps(one)}" for name, one in sorted((known | scenarios).items())]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


async def replay(name: str, scenario: Any, server: Server) -> list[str]:
    """Runs a scenario; returns what differs from the recorded answers, unless that is intended."""
    known = Known(f"x{hashlib.sha256(name.encode()).hexdigest()[:8]}")
    await run_step(server, 0, SPACE, known)
    problems: list[str] = []
    for number, (step, recorded) in enumerate(zip(scenario["steps"], scenario["answers"], strict=True), 1):
        # As JSON: what was recorded has no integers as keys, and no tuples.
        found = json.loads(json.dumps(await run_step(server, number, step, known)))
        _drop_message(recorded, found)
        problems += [
            f"{number} {one.path}: recorded {json.dumps(one.theirs)[:300]}, ours {json.dumps(one.ours)[:300]}"
            for one in differences(recorded, found)
        ]
        if problems:  # the states are no longer the same
            return [] if intended.reason(step, recorded, found) else problems
    return problems


def _drop_message(recorded: Any, found: Any) -> None:
    """Leaves out the message of an answer to a request without a body, if it was recorded without one."""
    theirs, ours = recorded.get("body"), found.get("body")
    if (
        found["status"] in (400, 406)
        and isinstance(theirs, dict)
        and "message" not in theirs
        and isinstance(ours, dict)
    ):
        ours.pop("message", None)
