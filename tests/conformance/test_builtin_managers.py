"""Writes of many field managers: the managedFields of kube-apiserver 1.36.4 are recorded, and ours are the same."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.apiserver.support.in_process_server import InProcessServer, open_server
from tests.conformance.builtin import recorded_managers
from tests.conformance.builtin.expected_differences import MANAGER_DIFFERENCES
from tests.conformance.builtin.recorded_managers import History

_HISTORIES = {one.name: one for one in recorded_managers.load()}
recorded_managers.answers()  # read before an event loop runs
_BEGIN = datetime(2026, 1, 31, 12, 0, 0, 5, UTC)


class Clock:
    """The time of the server, which is that of the request in hand."""

    def __init__(self) -> None:
        self.second = 0

    def __call__(self) -> datetime:
        return _BEGIN + timedelta(seconds=self.second)


@pytest.mark.parametrize("name", _HISTORIES)
async def test_the_entries_after_each_write_are_those_that_kubernetes_leaves(name: str):
    clock = Clock()
    async with open_server(now=clock) as server:
        await server.create("/api/v1/namespaces", {"metadata": {"name": recorded_managers.NAMESPACE}})
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await server.create(definitions, recorded_managers.DEFINITION)
        found = await _answers(_HISTORIES[name], server, clock)
    recorded = recorded_managers.answers()[name]
    problems = [
        f"{write}\n    recorded {json.dumps(recorded.get(write))}\n    ours     {json.dumps(answer)}"
        for write, answer in found.items()
        if (answer != recorded.get(write)) != ((name, write) in MANAGER_DIFFERENCES)
    ]
    assert not problems, "\n".join(problems)
    assert found.keys() == recorded.keys()


async def _answers(history: History, server: InProcessServer, clock: Clock) -> dict[str, Any]:
    exchange = recorded_managers.run(history)
    try:
        request = next(exchange)
        while True:
            clock.second = request.second
            request = exchange.send(await _send(request, server))
    except StopIteration as end:
        found: dict[str, Any] = end.value
        return found


async def _send(request: recorded_managers.Request, server: InProcessServer) -> tuple[int, Any]:
    query = {"fieldManager": request.manager}
    return await server.request(request.method, request.path, request.body, kind=request.media, **query)
