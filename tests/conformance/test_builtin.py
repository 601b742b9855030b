"""Objects of built-in kinds, good and bad: the answers of kube-apiserver 1.36.4 are recorded, and ours are the same."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.registry.builtin.strategies import RULE_TABLES, kind_rules
from levelset.storage import MemoryStorage, SqliteStorage, Storage
from tests.apiserver.support.in_process_server import InProcessServer, open_server
from tests.conformance.builtin import recorded_objects
from tests.conformance.builtin.expected_differences import DIFFERENCES

for _area in recorded_objects.AREAS:  # read before an event loop runs
    recorded_objects.load(_area)
    recorded_objects.answers(_area)


@pytest.mark.parametrize("area", recorded_objects.AREAS)
async def test_objects_are_answered_as_recorded_in_memory(area: str):
    await _replay(area, MemoryStorage())


@pytest.mark.parametrize("area", recorded_objects.AREAS)
async def test_objects_are_answered_as_recorded_in_sqlite(area: str, tmp_path: Path):
    storage = await asyncio.to_thread(SqliteStorage, tmp_path / "data.db")
    await _replay(area, storage)
    await storage.close()


def test_every_rule_table_of_a_kind_is_there_and_every_base_is_accepted():
    for key in RULE_TABLES:
        assert kind_rules(*key).rules.lines, key
    refused = [
        (area, base, answer)
        for area in recorded_objects.AREAS
        for base, answers in recorded_objects.answers(area).items()
        for answer in (answers.get("", {"code": 201}),)
        if answer["code"] != 201
    ]
    assert not refused


async def _replay(area: str, storage: Storage) -> None:
    async with open_server(storage) as server:
        await server.create("/api/v1/namespaces", {"metadata": {"name": recorded_objects.NAMESPACE}})
        found = {base.name: await _answers(base, server) for base in recorded_objects.load(area)}
    problems = _differences(area, found)
    assert not problems, f"{len(problems)} answers differ:\n" + "\n".join(problems)


async def _answers(base: recorded_objects.Base, server: InProcessServer) -> dict[str, Any]:
    exchange = recorded_objects.run(base)
    try:
        request = next(exchange)
        while True:
            method, path, body = request
            path, _, query = path.partition("?")
            response = await server.send_raw(method, path, query, body)
            assert isinstance(response.body, bytes)
            request = exchange.send((response.status, _decoded(response.body)))
    except StopIteration as end:
        found: dict[str, Any] = end.value
        return found


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


def _differences(area: str, found: dict[str, dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for base, answers in recorded_objects.answers(area).items():
        for name, answer in answers.items():
            ours = found.get(base, {}).get(name)
            reason = DIFFERENCES.get((area, base, name))
            if _is_same(ours, answer) == (reason is not None):
                shown = f"    recorded {json.dumps(answer)}\n    ours     {json.dumps(ours)}"
                lines.append(
                    f"{area}: {base}: {name}\n{shown}" + (f"\n    expected to differ: {reason}" if reason else "")
                )
    return lines


def _is_same(ours: Any, recorded: Any) -> bool:
    """Whether two answers are the same, but for optional values that are empty: ours are stored as they are sent."""
    if ours == recorded or not ours or "differs" not in ours or "differs" not in recorded:
        return bool(ours == recorded)
    dropped = {path for path, value in recorded["differs"].items() if value is None}
    stored = {path for path, value in ours["differs"].items() if value in ("", 0, [], {})}
    return bool(ours["code"] == recorded["code"]) and bool(
        _without(ours, stored & dropped) == _without(recorded, stored & dropped)
    )


def _without(answer: Any, paths: set[str]) -> Any:
    return {path: value for path, value in answer["differs"].items() if path not in paths}
