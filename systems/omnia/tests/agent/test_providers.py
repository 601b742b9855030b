"""The agent with a model that speaks OpenAI's protocol over HTTP: streaming, tools, failures and metrics."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from levelset.http import Request, Response, Server
from levelset.runtime.manager import install_command
from levelset_omnia.agent import Agent, AgentFailed, Facade, Settings
from levelset_omnia.agent.calculator import handle as calculate
from levelset_omnia.agent.settings import ProviderSettings
from systems.omnia.tests.agent.model_server import ModelServer
from systems.omnia.tests.agent.websocket_client import WebSocketClient


@pytest.fixture
def model() -> ModelServer:
    return ModelServer()


@pytest.fixture
async def agent(model: ModelServer, tmp_path: Path) -> AsyncIterator[Agent]:
    """An agent with that model and a tool that adds numbers."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/system").write_text("Be kind.")
    async with Server(model.handle) as provider, Server(calculate) as calculator:
        schema = {"type": "object", "properties": {"numbers": {"type": "array"}}}
        tool = {"name": "add", "endpoint": f"{calculator.url}/add", "input": json.dumps(schema), "description": "Adds."}
        (tmp_path / "tools").mkdir()
        (tmp_path / "tools/tools.json").write_text(json.dumps({"tools": [tool]}))
        made = Agent(settings_with(f"{provider.url}/v1", tmp_path))
        yield made
        await made.close()


def settings_with(url: str, folder: Path, **more: Any) -> Settings:
    provider = ProviderSettings(type="openai", model="small", base_url=url, key="k-1", temperature=0.5, **more)
    return Settings(
        name="helper",
        namespace="shop",
        version="2.0.0",
        provider=provider,
        prompts=folder / "prompts",
        tools=folder / "tools",
    )


@pytest.mark.usefixtures("file_access")
async def test_a_model_gets_prompt_conversation_tools_and_key(agent: Agent, model: ModelServer) -> None:
    assert (await agent.answer("hello", "s")).text == "You said hello"
    assert (await agent.answer("again", "s")).turn == 2
    first, second = model.requests
    assert (first["model"], first["temperature"], first["stream"]) == ("small", 0.5, True)
    assert first["messages"] == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello"}]
    assert [one["content"] for one in second["messages"]] == ["Be kind.", "hello", "You said hello", "again"]
    assert first["tools"][0]["function"]["parameters"]["properties"] == {"numbers": {"type": "array"}}
    assert model.keys == ["Bearer k-1", "Bearer k-1"]


@pytest.mark.usefixtures("file_access")
async def test_a_tool_that_the_model_calls_is_called_and_its_result_sent_back(agent: Agent, model: ModelServer) -> None:
    reply = await agent.answer("add 40 2")
    assert (reply.text, reply.tool) == ('You said {"sum": 42}', "add")
    assert model.requests[1]["messages"][-1] == {"role": "tool", "tool_call_id": "call_7", "content": '{"sum": 42}'}
    assert (
        'omnia_agent_tool_calls_total{agent="helper",namespace="shop",version="2.0.0",tool="add",status="success"} 1'
        in (agent.metrics.registry.render())
    )


@pytest.mark.usefixtures("file_access")
async def test_a_conversation_whose_beginning_is_dropped_still_begins_with_a_user(
    agent: Agent, model: ModelServer
) -> None:
    # A turn with a tool has four messages, one without has two: the last 200 begin in the middle of a turn.
    for number in range(50):
        await agent.answer(f"add {number} 1", "long")
    await agent.answer("hello", "long")
    await agent.answer("again", "long")
    assert [one["content"] for one in model.requests[-1]["messages"][:2]] == ["Be kind.", "add 1 1"]


@pytest.mark.usefixtures("file_access")
async def test_without_httpx_the_command_that_installs_it_is_reported(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    (problem,) = await agent.problems()
    command = install_command("'levelset-omnia[openai]'")
    assert problem.message == f"provider openai: httpx is not installed; {command}"


@pytest.mark.usefixtures("file_access")
async def test_text_is_streamed_over_websocket_while_the_model_still_answers(agent: Agent, model: ModelServer) -> None:
    facade = Facade(agent)
    model.gate.clear()
    async with Server(facade.handle) as server, WebSocketClient(server.port, "/ws") as client:
        await client.send({"message": "a b", "stream": True})
        assert await client.receive() == {"delta": "You"}  # while the model waits at its gate
        model.gate.set()
        assert [(await client.receive())["delta"] for _ in range(3)] == [" said", " a", " b"]
        assert (await client.receive())["text"] == "You said a b"
        await facade.close()


@pytest.mark.usefixtures("file_access")
async def test_a_client_that_does_not_wait_for_answers_is_disconnected(agent: Agent, model: ModelServer) -> None:
    facade = Facade(agent)
    model.gate.clear()
    async with Server(facade.handle) as server, WebSocketClient(server.port, "/ws") as client:
        for _ in range(102):  # one is being answered, a hundred wait
            await client.send({"message": "a"})
        assert await client.closed() == 1008
        model.gate.set()
        await facade.close()


@pytest.mark.usefixtures("file_access")
async def test_a_failing_model_is_an_error_of_the_request_and_counted(
    agent: Agent, model: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "prompts/system").write_text("Fail, please.")
    with pytest.raises(AgentFailed, match="answers 500: .*overloaded") as raised:
        await agent.answer("hello")
    assert "k-1" not in str(raised.value)
    (tmp_path / "prompts/system").write_text("Recover.")
    assert (await agent.answer("hello")).turn == 1  # a turn that failed is not part of the conversation
    assert (agent.metrics.requests, agent.metrics.errors) == (2, 1)
    assert 'version="2.0.0",status="error"} 1' in agent.metrics.registry.render()


@pytest.mark.usefixtures("file_access")
async def test_a_message_over_http_reports_a_failing_model_as_bad_gateway(tmp_path: Path) -> None:
    agent = Agent(settings_with("http://127.0.0.1:1/v1", tmp_path))
    request = Request("POST", "/v1/messages", body=b'{"message": "hello"}')
    response = await Facade(agent).handle(request)
    await agent.close()
    assert response.status == 502
    assert b"the model at http://127.0.0.1:1/v1/chat/completions does not answer" in bytes(response.body)  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [b"data: {}\n\n", b"data: odd\n\n", b"<html>", b""])
async def test_an_answer_of_another_protocol_is_reported(body: bytes, tmp_path: Path) -> None:
    async with Server(lambda _: Response(body=body)) as server:
        agent = Agent(settings_with(server.url, tmp_path))
        with pytest.raises(AgentFailed, match="does not speak OpenAI's protocol"):
            await agent.answer("hello")
        await agent.close()


async def test_a_model_that_only_calls_tools_is_stopped(tmp_path: Path) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "lost", "arguments": "{}"}}
    body = f"data: {json.dumps({'choices': [{'delta': {'tool_calls': [call]}}]})}\n\ndata: [DONE]\n\n".encode()
    async with Server(lambda _: Response(body=body)) as server:
        agent = Agent(settings_with(server.url, tmp_path))
        with pytest.raises(AgentFailed, match="called tools 8 times without an answer"):
            await agent.answer("hello")
        await agent.close()


@pytest.mark.usefixtures("file_access")
async def test_a_slow_tool_ends_at_its_timeout_and_is_tried_again(tmp_path: Path) -> None:
    calls: list[str] = []
    answered = asyncio.Event()

    async def slow(request: Request) -> Response:
        calls.append(request.path)
        await answered.wait()
        return Response(body=b"late")

    async with Server(slow) as server:
        (tmp_path / "tools").mkdir()
        tool = {"name": "slow", "endpoint": server.url, "timeout": "0.2s", "retries": 1}
        (tmp_path / "tools/tools.json").write_text(json.dumps({"tools": [tool]}))
        agent = Agent(Settings(name="helper", namespace="shop", prompts=tmp_path / "prompts", tools=tmp_path / "tools"))
        text = (await agent.answer("/tool slow")).text
        answered.set()
    assert "tool slow at" in text
    assert "does not answer" in text
    assert len(calls) == 2
