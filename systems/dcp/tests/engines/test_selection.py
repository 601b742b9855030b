"""The selection of the container engine."""

import asyncio
from pathlib import Path

import pytest

from levelset.errors import ConfigError
from levelset_dcp.engines import (
    EngineStatus,
    InMemoryEngine,
    choose_engine,
    known_engines,
    open_engine,
)
from systems.dcp.tests.engines.cli.fake_bench import FakeBench


class Named(InMemoryEngine):
    def __init__(self, name: str, status: str) -> None:
        super().__init__()
        self._called = name
        self._status = status

    @property
    def name(self) -> str:
        return self._called

    async def check_status(self, *, cached: bool = False) -> EngineStatus:
        return EngineStatus(is_installed=self._status != "missing", is_running=self._status == "running")


@pytest.mark.parametrize(
    ("docker", "podman", "chosen"),
    [
        ("running", "running", "docker"),
        ("installed", "running", "podman"),
        ("missing", "installed", "podman"),
        ("installed", "installed", "docker"),
        ("missing", "missing", "docker"),
    ],
)
async def test_a_running_engine_is_preferred_to_an_installed_one(docker: str, podman: str, chosen: str) -> None:
    engines = (Named("docker", docker), Named("podman", podman))
    assert (await choose_engine(engines)).name == chosen


async def test_a_named_engine_is_selected_in_any_state() -> None:
    engines = (Named("docker", "running"), Named("podman", "missing"))
    assert (await choose_engine(engines, wanted="podman")).name == "podman"
    with pytest.raises(ConfigError, match="'lxc'; choose one of: docker, podman"):
        await choose_engine(engines, wanted="lxc")


async def test_tools_on_the_path_are_detected(tmp_path: Path) -> None:
    bench = await asyncio.to_thread(FakeBench, tmp_path, "podman")
    env = {"PATH": str(Path(bench.tool).parent) + ":/nowhere"}
    statuses = {one.name: (await one.check_status()).is_installed for one in known_engines(env=env)}
    assert statuses == {"docker": False, "podman": True}
    async with open_engine(env=env) as engine:
        assert engine.name == "podman"


def write_tool(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    tool = folder / name
    tool.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    tool.chmod(0o755)


async def test_the_only_installed_engine_is_opened_without_waiting_for_its_status(tmp_path: Path) -> None:
    await asyncio.to_thread(write_tool, tmp_path / "bin", "docker", "exec /bin/sleep 60")
    async with asyncio.timeout(30), open_engine(env={"PATH": str(tmp_path / "bin")}) as engine:
        assert (engine.name, await asyncio.to_thread(engine.is_installed)) == ("docker", True)
    async with open_engine(env={"PATH": str(tmp_path / "none")}) as engine:
        assert (engine.name, await asyncio.to_thread(engine.is_installed)) == ("docker", False)


async def test_of_two_installed_engines_the_running_one_is_opened(tmp_path: Path) -> None:
    await asyncio.to_thread(write_tool, tmp_path, "docker", "exit 1")
    await asyncio.to_thread(write_tool, tmp_path, "podman", "echo podman version 5.0.0")
    async with open_engine(env={"PATH": str(tmp_path)}) as engine:
        assert engine.name == "podman"
