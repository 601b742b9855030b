"""The conformance checks on real engines; run by `make test-podman` and `make test-docker`, not by default."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from levelset_dcp.engines import DockerEngine, ImageBuild, Mount, NewContainer, NewExec, RuntimeNotHealthy
from systems.dcp.tests.engines.bench import FAILS, Bench, Lines
from systems.dcp.tests.engines.conformance import CHECKS, NETWORK_CHECKS, Check, archive_of
from systems.dcp.tests.engines.real_engine import import_image, open_real_engine

pytestmark = pytest.mark.timeout(40)


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench(open_real_engine())
    await import_image(made.image)
    yield made
    await made.clean()


@pytest.mark.parametrize("check", [*CHECKS, *NETWORK_CHECKS], ids=lambda one: one.__name__)
async def test_the_engine_conforms(check: Check, bench: Bench) -> None:
    await check(bench)


async def test_the_engine_builds_an_image_that_runs(bench: Bench, tmp_path: Path) -> None:
    text = f"FROM {bench.image}\nARG WORD\nENV SAID=$WORD\nCOPY hello.txt /hello.txt\nCMD cat /hello.txt\n"
    await asyncio.to_thread((tmp_path / "Dockerfile").write_text, text)
    await asyncio.to_thread((tmp_path / "hello.txt").write_text, "built\n")
    out = Lines()
    tag = f"localhost/{bench.prefix}:1"
    what = ImageBuild(context=str(tmp_path), tags=(tag,), args={"WORD": "yes"}, labels={"role": "test"})
    built = await bench.engine.build(what, out=out, err=out)
    assert built.tags == (tag,)
    assert (built.labels["role"], built.env["SAID"]) == ("test", "yes")
    assert b"COPY hello.txt" in out.data
    made = await bench.engine.create_container(NewContainer(image=tag, name=bench.name("built"), pull_policy="never"))
    await bench.engine.start_container(made)
    assert b"".join([chunk async for chunk in bench.engine.logs(made, follow=True)]) == b"built\n"


async def test_the_engine_preserves_owners_of_copied_files_and_reports_volume_mounts(bench: Bench) -> None:
    await bench.engine.create_volume(bench.name("data"))
    mount = Mount(type="volume", source=bench.name("data"), target="/data", read_only=True)
    made = await bench.started("reader", mounts=(mount,))
    await bench.reach(made, "running")
    await bench.engine.copy_in(made, "/tmp", archive_of("mine", b"x", owner=1234))
    out = Lines()
    assert await bench.engine.exec(made, NewExec(command=("stat", "-c", "%u", "/tmp/mine")), out=out, err=out) == 0
    assert out.data == b"1234\n"
    assert (await bench.engine.inspect_container(made)).mounts == (mount,)


async def test_the_engine_applies_the_restart_policy(bench: Bench) -> None:
    async with bench.recording_events() as recorder:
        made = await bench.started("again", FAILS, restart_policy="always")
        await bench.wait_for_events(recorder, lambda _: recorder.actions(made).count("start") >= 2)


async def test_docker_without_a_running_engine_is_not_healthy() -> None:
    if await asyncio.to_thread(shutil.which, "docker") is None:
        pytest.skip("docker is not installed")
    engine = DockerEngine(env={**os.environ, "DOCKER_HOST": "unix:///nonexistent/docker.sock"})
    status = await engine.check_status()
    assert (status.is_installed, status.is_running) == (True, False)
    assert "docker" in status.message
    with pytest.raises(RuntimeNotHealthy, match="docker"):
        await engine.list_containers()
