"""Requests that depend on each other: the answers of kube-apiserver 1.36.4 are recorded, and ours are the same."""

import json
from typing import Any

import pytest

from tests.apiserver.support.in_process_server import InProcessServer, open_server
from tests.conformance.builtin import recorded_sequences
from tests.conformance.builtin.expected_differences import SEQUENCE_DIFFERENCES
from tests.conformance.builtin.recorded_sequences import Sequence

_SEQUENCES = {one.name: (topic, one) for topic in recorded_sequences.TOPICS for one in recorded_sequences.load(topic)}
for _topic in recorded_sequences.TOPICS:  # read before an event loop runs
    recorded_sequences.answers(_topic)


@pytest.mark.parametrize("name", _SEQUENCES)
async def test_a_sequence_of_requests_is_answered_as_recorded(name: str):
    topic, sequence = _SEQUENCES[name]
    async with open_server(service_addresses=recorded_sequences.service_ranges(topic)) as server:
        await server.create("/api/v1/namespaces", {"metadata": {"name": recorded_sequences.NAMESPACE}})
        found = await _answers(sequence, server)
    recorded = recorded_sequences.answers(topic)[name]
    problems = [
        f"{request}\n    recorded {json.dumps(recorded.get(request))}\n    ours     {json.dumps(answer)}"
        for request, answer in found.items()
        if (answer != recorded.get(request)) != ((name, request) in SEQUENCE_DIFFERENCES)
    ]
    assert not problems, "\n".join(problems)
    assert found.keys() == recorded.keys()


async def _answers(sequence: Sequence, server: InProcessServer) -> dict[str, Any]:
    exchange = recorded_sequences.run(sequence)
    try:
        request = next(exchange)
        while True:
            path, _, query = request.path.partition("?")
            parameters = dict(one.split("=", 1) for one in query.split("&") if one)
            sent = {"kind": None if request.body is None else request.media, "accept": request.accept}
            request = exchange.send(await server.request(request.method, path, request.body, **sent, **parameters))
    except StopIteration as end:
        found: dict[str, Any] = end.value
        return found
