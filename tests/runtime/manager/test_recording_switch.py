"""A running manager is recorded on request: by signal, by its admin API and by `start_recording`, within limits."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from levelset import Context, Controller, Manager
from levelset.client import Client
from levelset.errors import ConfigError
from levelset.runtime.manager.crd_install import install_crds, kinds_of
from levelset.runtime.manager.process_records import FOLDER_VARIABLE
from levelset.runtime.manager.run import Arguments, _handle_signals, _recording, read_arguments
from levelset.runtime.recording import Recording, RecordingLimits, parse_size, parse_time, read_recording
from levelset.runtime.recording.entries import Begin, Start, Stop
from levelset.testing.replay import assert_replays
from tests.runtime.manager.recording import open_server
from tests.testing.replay.operators import Website, WebsiteStatus, site

Use = Callable[[Client, Manager], Awaitable[None]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "runtime"))
    return tmp_path / "runtime"


async def reconcile(found: Website, ctx: Context) -> None:
    await ctx.set_status(found, WebsiteStatus(ready=1))


def websites() -> Controller[Website]:
    return Controller(Website, reconcile)


async def _run_manager(use: Use, record: Recording | None = None) -> None:
    async with open_server() as server, await Client.connect(server) as client:
        await install_crds(client, kinds_of([websites()]))
        async with Manager(client, record=record) as manager:
            manager.add(websites())
            await manager.wait_elected()
            await use(client, manager)


@pytest.fixture(autouse=True)
def default_signals() -> Iterator[None]:
    """A loop of uvloop leaves its handlers behind when it is closed, and the next test could not set its own."""
    yield
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)


def run_manager(use: Use, record: Recording | None = None) -> None:
    asyncio.run(_run_manager(use, record))


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 -- there is no notification
            await asyncio.sleep(0.005)


async def create(client: Client, manager: Manager, name: str) -> None:
    await client.create(site(name))
    await manager.wait_idle()


def is_off(manager: Manager) -> bool:
    return manager.recorder is not None and manager.recorder.end_reason is not None


def test_a_signal_begins_a_recording_in_a_private_folder_and_another_one_ends_it(folder: Path) -> None:
    async def use(client: Client, manager: Manager) -> None:
        _handle_signals(manager)
        await create(client, manager, "early")
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: manager.recorder is not None)
        await create(client, manager, "late")
        os.kill(os.getpid(), signal.SIGUSR2)
        await until(lambda: is_off(manager))

    run_manager(use)
    [path] = folder.glob("*.levelset")
    assert path.stat().st_mode & 0o777 == 0o600
    entries = read_recording(path)
    assert isinstance(entries[0], Start)
    assert entries[0].is_partial
    assert entries[-1] == Stop(entries[-1].at, "it was switched off")
    assert "default/late" in {one.key for one in entries if isinstance(one, Begin)}
    assert assert_replays(path, websites()).is_complete


def test_each_signal_begins_a_file_of_its_own_beside_that_of_the_program(tmp_path: Path) -> None:
    options = Recording(tmp_path / "shop.levelset", redact=["Website.spec.token"], from_start=False)

    async def use(client: Client, manager: Manager) -> None:
        assert manager.recorder is None
        await manager.start_recording()
        await client.create(site("one", token="tok-4711-planted"))
        await manager.wait_idle()
        await manager.stop_recording()

    run_manager(use, options)
    [path] = tmp_path.glob("shop-*.levelset")
    assert read_recording(path)[0].redacted == ["Secret", "Website.spec.token"]  # type: ignore[attr-defined]
    assert b"tok-4711-planted" not in path.read_bytes()


def test_signals_that_change_nothing_are_logged_and_harmless(caplog: pytest.LogCaptureFixture) -> None:
    async def use(_: Client, manager: Manager) -> None:
        _handle_signals(manager)
        os.kill(os.getpid(), signal.SIGUSR2)
        await until(lambda: "there is no recording to end" in caplog.text)
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: manager.recorder is not None)
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: "this manager is recorded already" in caplog.text)
        assert not manager.is_stopping

    with caplog.at_level("INFO", "levelset"):
        run_manager(use)


def test_a_program_keeps_its_own_handler_of_the_signal() -> None:
    async def use(_: Client, manager: Manager) -> None:
        loop, seen = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, seen.set)
        _handle_signals(manager)
        os.kill(os.getpid(), signal.SIGUSR1)
        async with asyncio.timeout(120):
            await seen.wait()
        assert manager.recorder is None

    run_manager(use)


def test_at_its_limit_of_time_a_recording_is_complete_while_the_process_goes_on(tmp_path: Path) -> None:
    async def use(client: Client, manager: Manager) -> None:
        recording = await manager._recording_of(tmp_path / "run")
        await manager.start_recording(RecordingLimits(time="0.2s").applied_to(recording))
        await create(client, manager, "one")
        await until(lambda: is_off(manager))
        assert manager.recorder is not None
        await manager.recorder.aclose()
        entries = await asyncio.to_thread(read_recording, tmp_path / "run")
        assert entries[-1].reason == "0.2 seconds have passed"  # type: ignore[attr-defined]
        await create(client, manager, "two")
        await manager.start_recording(tmp_path / "again")

    run_manager(use)
    assert isinstance(read_recording(tmp_path / "again")[-1], Stop)


def test_at_its_limit_of_size_a_recording_is_complete_and_says_why_it_ended(tmp_path: Path) -> None:
    async def use(client: Client, manager: Manager) -> None:
        await manager.start_recording(Recording(tmp_path / "run", max_bytes=1))
        await create(client, manager, "one")
        await until(lambda: is_off(manager))

    run_manager(use)
    assert read_recording(tmp_path / "run")[-1].reason == "it has reached 1 bytes"  # type: ignore[attr-defined]
    assert_replays(tmp_path / "run", websites())


def test_the_options_of_a_program_limit_its_recordings_also_those_that_begin_later(folder: Path) -> None:
    parsed = read_arguments(["--record-size=64Mi", "--record-time", "10m"])
    later = _recording(None, parsed)
    assert later is not None
    assert (later.max_bytes, later.max_seconds, later.from_start) == (64 * 2**20, 600.0, False)
    assert Path(later.path).parent == folder
    whole = _recording(Recording("x", redact=["A.b"], from_start=False), Arguments(record="y"))
    assert whole == Recording("y", redact=["A.b"])
    assert _recording(None, Arguments()) is None


@pytest.mark.parametrize("text", ["", "ten", "10", "-1s", "infs", "nans", "5d"])
def test_a_time_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no time of a recording: expected 90s, 10m or 1h"):
        parse_time(text)


@pytest.mark.parametrize("text", ["", "many", "0", "-1Mi"])
def test_a_size_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no size of a recording: expected bytes, such as 64Mi"):
        parse_size(text)
