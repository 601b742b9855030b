"""On a storage that accepts a write at once and tells of its landing, a write needs no task."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from levelset.http import Deferred, Headers, Request, Response
from levelset.storage import SqliteStorage
from tests.apiserver.box import CONFIGMAPS, Box, configmap, open_box


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    async with await SqliteStorage.open(tmp_path / "data.db") as storage, open_box(storage) as box:
        # Not alone: who is may find the write over when the call returns, and its answer there.
        await asyncio.gather(*(storage.put(f"/other/{number}", b"", expected=0) for number in range(2)))
        yield box


def begin(box: Box, method: str, path: str, body: Any = None, *, query: str = "", **headers: str) -> Any:
    named = Headers({name.replace("_", "-"): value for name, value in headers.items()})
    data = b"" if body is None else json.dumps(body).encode()
    return box.server.handle(Request(method, path, query, named, data, box.server.owner))


async def test_writes_of_one_object_make_no_task(box: Box) -> None:
    before = asyncio.all_tasks()
    merge = {"content_type": "application/merge-patch+json"}
    for method, path, body, headers, status in (
        ("POST", CONFIGMAPS, configmap("a"), {}, 201),
        ("PUT", f"{CONFIGMAPS}/a", configmap("a", labels={"k": "2"}), {}, 200),
        ("PATCH", f"{CONFIGMAPS}/a", {"data": {"k": "3"}}, merge, 200),
        ("DELETE", f"{CONFIGMAPS}/a", None, {}, 200),
    ):
        made = begin(box, method, path, body, **headers)
        assert isinstance(made, Deferred)
        assert asyncio.all_tasks() == before
        assert (await made).status == status


async def test_a_write_that_changes_nothing_is_answered_at_once(box: Box) -> None:
    await box.make(CONFIGMAPS, configmap("a"))
    made = begin(box, "PATCH", f"{CONFIGMAPS}/a", {}, content_type="application/merge-patch+json")
    assert isinstance(made, Response)
    assert made.status == 200


async def test_what_is_refused_after_the_landing_of_another_is_told(box: Box) -> None:
    answers = [begin(box, "POST", CONFIGMAPS, configmap("a")) for _ in range(3)]
    assert sorted([(await one).status for one in answers]) == [201, 409, 409]


async def test_what_is_wrong_is_told_at_once(box: Box) -> None:
    made = begin(box, "POST", CONFIGMAPS, configmap("A!"))
    assert isinstance(made, Response)
    assert made.status == 422


async def test_a_request_with_a_timeout_still_has_one(box: Box) -> None:
    made = begin(box, "POST", CONFIGMAPS, configmap("a"), query="timeout=30s")
    assert not isinstance(made, Deferred)
    assert (await made).status == 201


async def test_a_write_that_is_on_its_way_cannot_be_called_back(box: Box) -> None:
    heard: list[Any] = []
    box.server.world.listeners.append(lambda _, __, after: heard.append(after and after["metadata"]["name"]))
    made = begin(box, "POST", CONFIGMAPS, configmap("a"))
    assert not made.cancel()
    assert ((await made).status, heard) == (201, ["a"])
