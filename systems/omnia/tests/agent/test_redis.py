"""Sessions in a real Redis: shared by the Pods of an agent, expiring, and reported when the server is gone."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from levelset import Ref, open_local
from levelset.http import Request
from levelset_local import Options as LocalOptions
from levelset_local import local_system
from levelset_omnia import AgentRuntime, Options, omnia_system
from levelset_omnia.agent import Agent, Facade, Settings
from levelset_omnia.agent.settings import SessionSettings
from levelset_omnia.images import IMAGES

__all__: list[str] = []

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("file_access")]

API = "omnia.altairalabs.ai/v1alpha1"
REAL = 120  # seconds for real processes


@pytest.fixture
def port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@asynccontextmanager
async def redis_server(port: int, folder: Path) -> AsyncGenerator[None]:
    """A Redis on loopback with the password `s3cret`, without files."""
    program = os.environ["LEVELSET_TEST_REDIS"]
    options = [
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(folder),
        "--requirepass",
        "s3cret",
    ]
    process = await asyncio.create_subprocess_exec(program, *options, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(30):
        while b"Ready to accept connections" not in await process.stdout.readline():
            pass
    try:
        yield
    finally:
        process.kill()
        await process.communicate()


def agent_at(port: int, folder: Path, *, ttl: float = 3600.0) -> Agent:
    session = SessionSettings(type="redis", url=f"redis://:s3cret@127.0.0.1:{port}/0", ttl=ttl)
    return Agent(
        Settings(name="helper", namespace="shop", session=session, prompts=folder / "prompts", tools=folder / "tools")
    )


async def test_the_pods_of_an_agent_share_a_session_that_outlives_them(port: int, tmp_path: Path) -> None:
    async with redis_server(port, tmp_path):
        first, second = agent_at(port, tmp_path), agent_at(port, tmp_path)
        turns = [(await one.answer("hello", "s")).turn for one in (first, second, first)]
        await asyncio.gather(*(one.answer("at once", "s") for one in (first, second) for _ in range(10)))
        await first.close()
        await second.close()
        third = agent_at(port, tmp_path)
        assert turns == [1, 2, 3]
        assert (await third.answer("hello", "s")).turn == 24
        assert (await third.answer("hello", "other")).turn == 1
        await third.close()


async def test_messages_are_stored_in_order_and_expire(port: int, tmp_path: Path) -> None:
    async with redis_server(port, tmp_path), Redis(port=port, password="s3cret") as redis:
        agent = agent_at(port, tmp_path, ttl=120.0)
        await agent.answer("one", "s")
        await agent.answer("two", "s")
        await agent.close()
        found = [json.loads(one) for one in await redis.lrange("omnia:shop:helper:s", 0, -1)]
        assert [(one["role"], one["content"]) for one in found] == [
            ("user", "one"), ("assistant", "one"), ("user", "two"), ("assistant", "two"),
        ]  # fmt: skip
        for key in ("omnia:shop:helper:s", "omnia:shop:helper:s:turns"):
            assert 100 < await redis.ttl(key) <= 120
        await redis.delete("omnia:shop:helper:s", "omnia:shop:helper:s:turns")  # as if they had expired
        agent = agent_at(port, tmp_path)
        assert (await agent.answer("one", "s")).turn == 1
        await agent.close()


async def test_an_agent_is_ready_while_its_redis_answers(port: int, tmp_path: Path) -> None:
    agent = agent_at(port, tmp_path)
    facade = Facade(agent)
    missing = await facade.handle(Request("GET", "/readyz"))
    assert missing.status == 503
    assert f"session store redis at 127.0.0.1:{port}: " in str(missing.body)
    assert "s3cret" not in str(missing.body)
    assert (await facade.handle(Request("POST", "/v1/messages", body=b'{"message": "a"}'))).status == 502
    async with redis_server(port, tmp_path):
        assert (await facade.handle(Request("GET", "/readyz"))).status == 200
    assert (await facade.handle(Request("GET", "/readyz"))).status == 503
    async with redis_server(port, tmp_path):
        assert (await facade.handle(Request("GET", "/readyz"))).status == 200
    await agent.close()


async def test_a_wrong_password_is_reported_as_such(port: int, tmp_path: Path) -> None:
    settings = SessionSettings(type="redis", url=f"redis://:wrong@127.0.0.1:{port}/0")
    agent = Agent(Settings(name="helper", namespace="shop", session=settings))
    async with redis_server(port, tmp_path):
        (problem,) = await agent.problems()
    await agent.close()
    assert "invalid username-password pair" in problem.message


async def test_the_status_says_that_redis_is_missing_and_the_agent_runs_when_it_comes(
    port: int, tmp_path: Path
) -> None:
    session = {"type": "redis", "storeRef": {"name": "store"}, "ttl": "1h"}
    spec = {"promptPackRef": {"name": "pack"}, "providerSecretRef": {"name": "key"}, "session": session}
    source = {"type": "configmap", "configMapRef": {"name": "prompts"}}
    url = f"redis://:s3cret@127.0.0.1:{port}/0"
    objects: list[dict[str, object]] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prompts"}, "data": {"system": "Be kind."}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"api-key": "x"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "store"}, "stringData": {"url": url}},
        {
            "apiVersion": API,
            "kind": "PromptPack",
            "metadata": {"name": "pack"},
            "spec": {"version": "1.0.0", "source": source},
        },
        {"apiVersion": API, "kind": "AgentRuntime", "metadata": {"name": "helper"}, "spec": spec},
    ]
    helper = Ref(AgentRuntime, "helper", "default")
    quick = Options(readiness_delay=0, readiness_period=1, report_seconds=0.5)
    async with open_local(local_system(LocalOptions(images=IMAGES)), omnia_system(quick)) as local:
        for one in objects:
            one["metadata"] = {**one["metadata"], "namespace": "default"}  # type: ignore[dict-item]
            await local.client.create(one)
        waiting = await local.client.wait(helper, lambda it: "redis at" in message_of(it), within=REAL)
        assert f"session store redis at 127.0.0.1:{port}" in message_of(waiting)
        assert waiting.status is not None
        assert waiting.status.phase == "Pending"
        async with redis_server(port, tmp_path):
            running = await local.client.wait(helper, is_running, within=REAL)
            assert "reach the redis store" in message_of(running)


def message_of(agent: AgentRuntime) -> str:
    found = () if agent.status is None else agent.status.conditions
    return next((one.message for one in found if one.type == "SessionStoreReady"), "")


def is_running(agent: AgentRuntime) -> bool:
    return agent.status is not None and agent.status.phase == "Running"
