"""The sample agent: health, messages over HTTP and WebSocket, prompts that change, sessions, and tools."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from levelset.errors import ConfigError
from levelset.http import Request, Response, Server
from levelset_omnia.agent import Agent, Facade, Settings, read_settings
from levelset_omnia.agent.settings import SessionSettings, parse_duration

ENVIRONMENT = {"OMNIA_AGENT_NAME": "helper", "OMNIA_NAMESPACE": "shop"}
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="


def settings_in(folder: Path, **more: Any) -> Settings:
    return Settings(name="helper", namespace="shop", prompts=folder / "prompts", tools=folder / "tools", **more)


async def exchange(port: int, *lines: str, body: bytes = b"") -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        "\r\n".join([*lines, "Host: a", f"Content-Length: {len(body)}", "Connection: close", "", ""]).encode() + body
    )
    head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), rest


async def post(port: int, message: Any) -> tuple[int, Any]:
    status, body = await exchange(port, "POST /v1/messages HTTP/1.1", body=json.dumps(message).encode())
    return status, json.loads(body)


@pytest.fixture
def kind(tmp_path: Path) -> Settings:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/system").write_text("Be kind.\nAlways.")
    return settings_in(tmp_path, version="1.0.0")


async def test_it_answers_with_its_prompt_and_counts_the_turns(kind: Settings) -> None:
    agent = Agent(kind)
    async with Server(Facade(agent).handle) as server:
        status, first = await post(server.port, {"message": "hello"})
        assert (status, first["text"], first["turn"], first["version"]) == (200, "[Be kind.] hello", 1, "1.0.0")
        assert (await post(server.port, {"message": "again"}))[1]["turn"] == 2
        assert (await post(server.port, {"message": "hello", "session": "other"}))[1]["turn"] == 1


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """A folder as a kubelet mounts a ConfigMap, with the next content prepared."""
    folder = tmp_path / "prompts"
    for number, text in enumerate(("Be kind.", "Be brief.")):
        (folder / f"..{number}").mkdir(parents=True)
        (folder / f"..{number}/system").write_text(text)
    (folder / "..data").symlink_to("..0")
    (folder / "system").symlink_to("..data/system")
    return folder


def swap(folder: Path) -> None:
    (folder / "..data").unlink()
    (folder / "..data").symlink_to("..1")


async def test_prompts_are_read_again_when_their_folder_is_swapped(mounted: Path) -> None:
    agent = Agent(settings_in(mounted.parent))
    first = await agent.answer("a")
    await asyncio.to_thread(swap, mounted)
    second = await agent.answer("a")
    assert (first.text, second.text) == ("[Be kind.] a", "[Be brief.] a")
    assert first.prompts != second.prompts


async def test_it_serves_health_and_readiness(tmp_path: Path) -> None:
    is_ready = [True]
    facade = Facade(Agent(settings_in(tmp_path)), is_ready=lambda: is_ready[0])
    async with Server(facade.handle) as server:
        assert (await exchange(server.port, "GET /healthz HTTP/1.1"))[0] == 200
        assert (await exchange(server.port, "GET /readyz HTTP/1.1"))[0] == 200
        is_ready[0] = False
        assert (await exchange(server.port, "GET /readyz HTTP/1.1"))[0] == 503
        assert (await exchange(server.port, "GET /other HTTP/1.1"))[0] == 404


@pytest.mark.parametrize("message", [{"text": "a"}, [], {"message": 1}, {"message": "a", "session": None}])
async def test_an_invalid_message_is_rejected_with_the_expected_format(message: Any, tmp_path: Path) -> None:
    async with Server(Facade(Agent(settings_in(tmp_path))).handle) as server:
        status, answer = await post(server.port, message)
    assert status == 400
    assert "message: a text is expected" in answer["error"]


async def test_a_conversation_over_websocket_keeps_its_order(tmp_path: Path) -> None:
    facade = Facade(Agent(settings_in(tmp_path)))
    async with Server(facade.handle) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        lines = [
            "GET /ws HTTP/1.1",
            "Host: a",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
        ]
        writer.write("\r\n".join([*lines, KEY, "", ""]).encode())
        await reader.readuntil(b"\r\n\r\n")
        for text in ('{"message": "one"}', "odd", '{"message": "two"}'):
            writer.write(bytes([0x81, 0x80 | len(text)]) + bytes(4) + text.encode())
        answers = [json.loads(await frame(reader)) for _ in range(3)]
        assert [one.get("text") for one in answers] == ["one", None, "two"]
        assert "this is not JSON" in answers[1]["error"]
        writer.close()
        await facade.close()


async def frame(reader: asyncio.StreamReader) -> bytes:
    _, size = await reader.readexactly(2)
    length = int.from_bytes(await reader.readexactly(2), "big") if size == 126 else size
    return await reader.readexactly(length)


async def test_an_expired_session_starts_again(tmp_path: Path) -> None:
    now = [0.0]
    agent = Agent(settings_in(tmp_path, session=SessionSettings(ttl=60.0)), clock=lambda: now[0])
    assert [(await agent.answer("a", "s")).turn, (await agent.answer("a", "s")).turn] == [1, 2]
    now[0] = 61.0
    assert (await agent.answer("a", "s")).turn == 1


def write_tools(folder: Path, *tools: dict[str, Any]) -> None:
    (folder / "tools").mkdir()
    (folder / "tools/tools.json").write_text(json.dumps({"tools": list(tools)}))


async def test_a_tool_is_called_and_its_response_returned(tmp_path: Path) -> None:
    async def double(request: Request) -> Response:
        value = json.loads(request.body)["value"]
        return Response(body=json.dumps({"double": 2 * value}).encode())

    async with Server(double) as server:
        await asyncio.to_thread(
            write_tools, tmp_path, {"name": "double", "endpoint": server.url}, {"name": "lost", "endpoint": ""}
        )
        agent = Agent(settings_in(tmp_path))
        assert (await agent.answer('/tool double {"value": 21}')).text == '{"double": 42}'
        assert sorted(await agent.tools.known()) == ["double"]
        assert (await agent.answer("/tool lost")).text == "tool lost is not known; GET /tools lists the tools"
        assert "is not JSON" in (await agent.answer("/tool double {")).text


async def test_a_failing_tool_is_retried_as_configured(tmp_path: Path) -> None:
    paths: list[str] = []

    def fail(request: Request) -> Response:
        paths.append(request.path)
        return Response(500 if len(paths) < 2 else 200, body=b"plain words")

    async with Server(fail) as server:
        await asyncio.to_thread(
            write_tools, tmp_path, {"name": "shaky", "endpoint": f"{server.url}/x", "retries": 1, "timeout": "5s"}
        )
        assert (await Agent(settings_in(tmp_path)).answer("/tool shaky")).text == "plain words"
    assert paths == ["/x", "/x"]


async def test_a_tool_that_rejects_its_argument_is_not_retried_and_its_reason_is_passed_on(tmp_path: Path) -> None:
    paths: list[str] = []

    def reject(request: Request) -> Response:
        paths.append(request.path)
        return Response(400, body=b"numbers: a list is expected")

    async with Server(reject) as server:
        tool = {"name": "add", "endpoint": f"{server.url}/add", "retries": 3}
        await asyncio.to_thread(write_tools, tmp_path, tool)
        text = (await Agent(settings_in(tmp_path)).answer("/tool add {}")).text
    assert text == f"tool add at {server.url}/add answers 400: numbers: a list is expected"
    assert paths == ["/add"]


@pytest.mark.parametrize("status", [429, 503])
async def test_a_tool_that_is_busy_is_retried(status: int, tmp_path: Path) -> None:
    statuses = [status, 200]
    async with Server(lambda _: Response(statuses.pop(0), body=b"words")) as server:
        tool = {"name": "busy", "endpoint": server.url, "retries": 1}
        await asyncio.to_thread(write_tools, tmp_path, tool)
        assert (await Agent(settings_in(tmp_path)).answer("/tool busy")).text == "words"


async def test_a_proxy_of_the_environment_is_not_used_for_services_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setattr("urllib.request._opener", None)  # it has the proxies of an earlier test
    monkeypatch.delenv("no_proxy", raising=False)

    def answer(request: Request) -> Response:
        is_query = request.path == "/resolve"
        return Response(body=b'{"address": "127.0.0.1"}' if is_query else b'"found"')

    async with Server(answer) as server:
        tool = {"name": "calc", "endpoint": f"http://calc.shop.svc.cluster.local:{server.port}/add"}
        await asyncio.to_thread(write_tools, tmp_path, tool)
        agent = Agent(settings_in(tmp_path, resolver=f"{server.url}/resolve"))
        assert (await agent.answer("/tool calc")).text == "found"


async def test_all_series_are_there_before_the_first_request(tmp_path: Path) -> None:
    text = Agent(settings_in(tmp_path)).metrics.registry.render()
    labels = 'agent="helper",namespace="shop",version=""'
    for status in ("success", "error"):
        assert f'omnia_agent_requests_total{{{labels},status="{status}"}} 0' in text
    assert f"omnia_agent_requests_inflight{{{labels}}} 0" in text
    assert f"omnia_agent_connections_active{{{labels}}} 0" in text
    assert f"omnia_agent_request_duration_seconds_count{{{labels}}} 0" in text


async def test_a_service_name_is_resolved_by_the_resolver(tmp_path: Path) -> None:
    def answer(request: Request) -> Response:
        if request.path == "/resolve":
            assert request.parameter("name") == "calc.shop.svc.cluster.local"
            return Response(body=b'{"address": "127.0.0.1"}')
        return Response(body=b'"found"')

    async with Server(answer) as server:
        endpoint = f"http://calc.shop.svc.cluster.local:{server.port}/add"
        await asyncio.to_thread(write_tools, tmp_path, {"name": "calc", "endpoint": endpoint})
        agent = Agent(settings_in(tmp_path, resolver=f"{server.url}/resolve"))
        assert (await agent.answer("/tool calc")).text == "found"


def test_settings_are_read_from_the_environment() -> None:
    read = read_settings(
        {
            **ENVIRONMENT,
            "POD_IP": "127.96.128.1",
            "OMNIA_FACADE_PORT": "9000",
            "OMNIA_SESSION_TTL": "1h30m",
            "LEVELSET_MOUNT_ROOT": "/pods/1",
            "OMNIA_PROVIDER_API_KEY": "secret",
        }
    )
    assert (read.host, read.port, read.session.ttl) == ("127.96.128.1", 9000, 5400.0)
    assert read.prompts == Path("/pods/1/etc/omnia/prompts")
    assert "secret" not in repr(read) + repr(read.provider) + repr(read.session)
    assert read_settings(ENVIRONMENT).host == "127.0.0.1"
    assert read_settings({**ENVIRONMENT, "KUBERNETES_SERVICE_HOST": "10.0.0.1"}).host == "0.0.0.0"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"OMNIA_AGENT_NAME": ""}, "OMNIA_AGENT_NAME: not set"),
        ({"OMNIA_FACADE_PORT": "70000"}, "OMNIA_FACADE_PORT '70000': a port is a number"),
        ({"OMNIA_SESSION_TTL": "soon"}, "OMNIA_SESSION_TTL 'soon': write a duration"),
        ({"OMNIA_PROVIDER_TEMPERATURE": "hot"}, "OMNIA_PROVIDER_TEMPERATURE 'hot': a number is expected"),
    ],
)
def test_an_invalid_environment_variable_is_named(given: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        read_settings({**ENVIRONMENT, **given})


@pytest.mark.parametrize(
    ("given", "part", "message"),
    [
        ({"OMNIA_FACADE_TYPE": "grpc"}, "facade", "serves websocket only"),
        ({"OMNIA_SESSION_TYPE": "postgres"}, "session", "session store postgres: this agent stores sessions in"),
        ({"OMNIA_SESSION_TYPE": "redis"}, "session", "there is no URL; put it into the Secret of storeRef"),
        ({"OMNIA_PROVIDER_TYPE": "claude"}, "provider", "provider claude: this agent speaks OpenAI's protocol"),
        ({"OMNIA_PROVIDER_TYPE": "openai"}, "provider", "no key; put it into the Secret of secretRef"),
    ],
)
async def test_what_is_not_supported_is_reported_instead_of_a_crash(
    given: dict[str, str], part: str, message: str
) -> None:
    agent = Agent(read_settings({**ENVIRONMENT, **given}))
    async with Server(Facade(agent).handle) as server:
        assert (await exchange(server.port, "GET /healthz HTTP/1.1"))[0] == 200
        status, text = await exchange(server.port, "GET /readyz HTTP/1.1")
        report = json.loads((await exchange(server.port, "GET /report HTTP/1.1"))[1])
    assert status == 503
    assert message in text.decode()
    assert [one["part"] for one in report["problems"]] == [part]


@pytest.mark.parametrize(
    ("given", "provider"),
    [
        ({}, "mock"),
        ({"OMNIA_PROVIDER_API_KEY": "k"}, "mock"),
        ({"OMNIA_PROVIDER_BASE_URL": "http://127.0.0.1:1/v1"}, "openai"),
        ({"OPENAI_API_KEY": "k"}, "openai"),
        ({"OMNIA_PROVIDER_TYPE": "mock", "OPENAI_API_KEY": "k"}, "mock"),
    ],
)
def test_without_an_endpoint_or_its_key_the_provider_is_the_mock(given: dict[str, str], provider: str) -> None:
    assert read_settings({**ENVIRONMENT, **given}).provider.type == provider


@pytest.mark.parametrize("text", ["", "5", "s", "1h5", "1.s.", "-1s"])
def test_a_malformed_duration_is_rejected_with_its_field(text: str) -> None:
    with pytest.raises(ConfigError, match="timeout"):
        parse_duration("timeout", text)


async def test_the_program_serves_until_sigterm(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        **ENVIRONMENT,
        "OMNIA_FACADE_PORT": str(free_port()),
        "LEVELSET_MOUNT_ROOT": str(tmp_path),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "levelset_omnia.agent", env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    assert line.startswith("agent shop/helper serves at 127.0.0.1:")
    assert (await post(int(line.rpartition(":")[2]), {"message": "hi"}))[1]["text"] == "hi"
    process.terminate()
    assert await process.wait() == 0


def free_port() -> int:
    import socket  # noqa: PLC0415

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
