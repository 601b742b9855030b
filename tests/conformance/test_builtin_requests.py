"""Single requests: the answers of kube-apiserver 1.36.4 are recorded, and ours are the same."""

import json
from typing import Any

import pytest

from levelset.apiserver.server import ApiServer
from levelset.http import Headers, Request, Response, read_all
from tests.apiserver.support.in_process_server import InProcessServer, open_server
from tests.conformance.builtin import recorded_requests
from tests.conformance.builtin.expected_differences import REQUEST_DIFFERENCES
from tests.conformance.builtin.recorded_requests import Reply

for _topic in recorded_requests.TOPICS:  # read before an event loop runs
    recorded_requests.load(_topic)
    recorded_requests.answers(_topic)


@pytest.mark.parametrize("topic", recorded_requests.TOPICS)
async def test_a_request_is_answered_as_recorded(topic: str):
    async with open_server() as server:
        for path, tree in recorded_requests.setup(topic):
            await server.create(path, tree)
        found = {
            one.key: recorded_requests.answer(one, await _reply(server, one)) for one in recorded_requests.load(topic)
        }
    recorded = recorded_requests.answers(topic)
    problems = [
        f"{key}\n    recorded {json.dumps(recorded.get(key))}\n    ours     {json.dumps(answer)}"
        for key, answer in found.items()
        if (answer != recorded.get(key)) != (key in REQUEST_DIFFERENCES)
    ]
    assert not problems, f"{len(problems)} of {len(found)} answers differ:\n" + "\n".join(problems)
    assert found.keys() == recorded.keys()


async def _reply(server: InProcessServer, request: recorded_requests.Request) -> Reply:
    path, _, query = request.path.partition("?")
    sent: dict[str, Any] = {"accept": request.accept, "content-type": None if request.body is None else request.media}
    headers = Headers({name: value for name, value in sent.items() if value is not None})
    body = b"" if request.body is None else json.dumps(request.body).encode()
    made = server.server.handle(Request(request.method, path, query, headers, body, ApiServer.owner))
    response = made if isinstance(made, Response) else await made
    media = next((value for name, value in response.headers if name == "Content-Type"), None)
    is_open = request.is_watch and response.status == 200
    return Reply(response.status, media, b"" if is_open else await read_all(response))
