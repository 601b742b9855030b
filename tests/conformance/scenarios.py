"""Runs single scenarios of the conformance kit, faster than its command line, without changing the kit.

The kit is a folder of plain scripts that import each other by bare names. It is loaded once, with its folder on the
path for that moment only.
"""

import importlib
import json
import sys
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "is_forgetful", "load", "run"]

FOLDER = Path(__file__).parent / "kit"
_SETTLE = 0.05  # seconds to wait for unexpected events; our server sends events within a millisecond
_POLL = 0.005
_PAUSE = 0.1  # to show that something does not happen; what does happen takes our server milliseconds
_PATIENCE = 8.0  # until a state is reached that our server reaches in milliseconds: a failure must not take minutes
_SCRIPTS = ("client", "documents", "replay", "runner")


@cache
def load() -> tuple[Any, ...]:
    """All scenarios of the kit, in the order of its files."""
    return tuple(_kit("runner").load(FOLDER))


def run(scenario: Any, url: str, token: str) -> list[str]:
    """Runs a scenario against the server at `url`; returns the differences from the recording."""
    runner = _kit("runner")
    options = runner.Options(_kit("client").Target(url, token), FOLDER, None, 1, None)
    attempt = _quick(runner)(scenario, options)
    error = None
    try:
        attempt.execute()
    except Exception as problem:  # noqa: BLE001 - whatever went wrong is a difference, as in the kit itself
        error = f"{type(problem).__name__}: {problem}"
    found = _kit("replay").differences(attempt.results, error, _golden(scenario.area).get(scenario.name))
    return [str(line) for line in found]


def is_forgetful(scenario: Any) -> bool:
    """Whether the scenario makes the server forget its history, which would disturb others that run meanwhile."""
    return '"compact"' in json.dumps(scenario.steps)


def compact(url: str, token: str) -> None:
    """Makes the server at `url` forget its history up to now."""
    request = urllib.request.Request(f"{url}/levelset/compact", method="POST")
    request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()


@cache
def _quick(runner: Any) -> Any:
    class QuickRun(runner.ScenarioRun):  # type: ignore[misc]  # the kit is untyped
        """A run that neither pauses nor waits for long, and that compacts without a shell."""

        def _step(self, step: dict[str, Any], label: str, client: Any) -> None:
            if "compact" in step:
                compact(self.options.target.url, self.options.target.token)
            elif "pause" in step:
                super()._step({"pause": min(step["pause"], _PAUSE)}, label, client)
            else:
                super()._step(step | {"timeout": min(step.get("timeout", _PATIENCE), _PATIENCE)}, label, client)

    return QuickRun


@cache
def _kit(name: str) -> Any:
    sys.path.insert(0, str(FOLDER))
    try:
        scripts = {script: importlib.import_module(script) for script in _SCRIPTS}
    finally:
        sys.path.remove(str(FOLDER))
    runner: Any = scripts["runner"]
    runner.SETTLE, runner.POLL = _SETTLE, _POLL
    client: Any = scripts["client"]
    client.REQUEST_TIMEOUT = 2 * _PATIENCE
    return scripts[name]


@cache
def _golden(area: str) -> dict[str, Any]:
    recorded: dict[str, Any] = _kit("runner").load_golden(FOLDER, area)
    return recorded
