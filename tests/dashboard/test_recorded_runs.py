"""Recordings and reports in the dashboard: step by step, within bounds, and nothing in them is run."""

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from levelset.dashboard import Dashboard, recorded_runs
from levelset.dashboard.recorded_runs import RecordedRuns
from levelset.errors import ConfigError
from levelset.http import read_all
from levelset.runtime.recording import read_recording, reconciles_in, status_of
from levelset.runtime.recording.recording_file import BlockWriter, read_blocks
from tests.dashboard.fixtures import TOKEN, get, send, write_crafted
from tests.testing.replay import operators
from tests.testing.replay.operators import create_and_update, deployment

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run.levelset"
    operators.record(path, deployment(), use=create_and_update)
    return path


def opened(*paths: Path) -> Dashboard:
    return Dashboard(token=TOKEN, runs=RecordedRuns(paths))


async def test_a_recording_is_shown_step_by_step_without_a_server(run: Path) -> None:
    page = await asyncio.to_thread(opened, run)
    files = await get(page, "/api/runs")
    assert files == {"files": [{"number": 0, "name": str(run), "isReport": False}], "isAlone": True}
    found = await get(page, "/api/run?number=0")
    assert found["count"] == len(found["steps"])
    assert found["isWhole"]
    entries = await asyncio.to_thread(read_recording, run)
    number = sum(one["what"] == "reconcile" for one in found["steps"])
    assert number == sum(one["reconciles"] for one in status_of(entries)["controllers"])
    assert [one["at"] for one in found["steps"]] == sorted(one["at"] for one in found["steps"])
    assert found["steps"][-1]["what"] == "end"


async def test_a_step_has_what_why_shows_and_the_state_after_it(run: Path) -> None:
    page = await asyncio.to_thread(opened, run)
    entries = await asyncio.to_thread(read_recording, run)
    steps = (await get(page, "/api/run?number=0"))["steps"]
    places = [one["step"] for one in steps if one["what"] == "reconcile"]
    first, second = [await get(page, f"/api/step?number=0&step={place}") for place in places[:2]]
    kind, _, name = first["object"].partition("/")
    shown = reconciles_in(entries, kind, name.rpartition("/")[2])[0]
    assert {one: first[one] for one in ("at", "result", "reasons", "next", "error")} == {
        one: shown[one] for one in ("at", "result", "reasons", "next", "error")
    }
    began, ended = (datetime.fromisoformat(one["time"]) for one in (first, shown))
    assert ended - began == timedelta(seconds=first["seconds"]) > timedelta(0)  # a step is where it begins
    assert list(shown["requests"]) == first["requests"]
    totals = [sum(one["reconciles"] for one in step["controllers"]) for step in (first, second)]
    assert totals == [1, 2]  # forwards; and backwards it is the state of then again:
    assert await get(page, f"/api/step?number=0&step={places[0]}") == first


async def test_steps_beyond_the_end_and_files_that_were_not_named_are_not_found(run: Path, tmp_path: Path) -> None:
    page = await asyncio.to_thread(opened, run)
    assert (await get(page, "/api/run?number=0&offset=99999"))["steps"] == []
    for path in ("/api/step?number=0&step=99999", "/api/run?number=1", "/report?number=0", "/report?number=1"):
        assert (await send(page, path)).status == 404, path
    for path in ("/api/run?number=../x", "/api/step?number=0&step=-1", "/report?number=/etc/passwd"):
        assert (await send(page, path)).status == 400, path
    with pytest.raises(ConfigError, match="there is no file"):
        await asyncio.to_thread(opened, tmp_path / "none")


async def test_of_a_long_recording_the_beginning_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = await asyncio.to_thread(write_crafted, tmp_path / "long.levelset", "x", blocks=3)
    whole = await get(await asyncio.to_thread(opened, path), "/api/run?number=0")
    (first, *_) = await asyncio.to_thread(lambda: [len(one) for one in read_blocks(path)])
    monkeypatch.setattr(recorded_runs, "MOST_BYTES", first)
    cut = await get(await asyncio.to_thread(opened, path), "/api/run?number=0")
    assert (whole["count"], whole["isWhole"], cut["count"], cut["isWhole"]) == (9, True, 4, False)
    assert cut["steps"] == whole["steps"][:4]


async def test_a_page_has_fifty_steps_and_the_next_failure_is_found_beyond_it(tmp_path: Path) -> None:
    path = await asyncio.to_thread(write_crafted, tmp_path / "long.levelset", "x", blocks=40)
    page = await asyncio.to_thread(opened, path)
    second = await get(page, "/api/run?number=0&offset=50")
    assert (second["count"], [one["step"] for one in second["steps"]]) == (83, list(range(50, 83)))
    step = await get(page, "/api/step?number=0&step=49")
    assert (step["result"], step["nextFailure"]) == ("failed", 51)
    assert (await get(page, "/api/step?number=0&step=82"))["nextFailure"] is None


async def test_a_file_that_is_no_recording_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    other = tmp_path / "other.levelset"
    await asyncio.to_thread(other.write_text, EVIL)
    page = await asyncio.to_thread(opened, other)
    response = await send(page, "/api/run?number=0")
    assert response.status >= 400
    assert b"not a recording of levelset" in await read_all(response)
    assert ("Content-Type", "application/json") in response.headers


async def test_one_recording_is_in_memory_at_a_time(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.levelset"
    await asyncio.to_thread(lambda: other.write_bytes(run.read_bytes()))
    runs = await asyncio.to_thread(RecordedRuns, [run, other])
    await asyncio.gather(*(runs.steps(number, 0) for number in (0, 1, 0, 1)))
    held = [one for one in vars(runs).values() if isinstance(one, recorded_runs._Run)]
    assert len(held) == 1


async def test_a_report_is_a_document_without_rights(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    await asyncio.to_thread(report.write_text, f"<!doctype html><p>{EVIL}</p>")
    page = await asyncio.to_thread(opened, report)
    response = await send(page, "/report?number=0")
    headers = dict(response.headers)
    policy = [one.strip() for one in headers["Content-Security-Policy"].split(";")]
    assert "sandbox" in policy  # alone: no scripts, no forms, and an origin of its own
    assert "default-src 'none'" in policy
    assert not any(one.startswith("script-src") for one in policy)
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert (await send(page, "/report?number=0", Cookie="")).status == 401
    assert (await send(page, "/report?number=0", Sec_Fetch_Site="cross-site")).status == 403


async def test_every_text_of_a_crafted_recording_is_data(tmp_path: Path) -> None:
    path = await asyncio.to_thread(write_crafted, tmp_path / "evil.levelset", EVIL)
    page = await asyncio.to_thread(opened, path)
    steps = (await get(page, "/api/run?number=0"))["steps"]
    assert [one["what"] for one in steps] == ["changes", "failed watch", "reconcile", "reconcile", "end"]
    for place in range(len(steps)):
        response = await send(page, f"/api/step?number=0&step={place}")
        assert response.status == 200
        headers = dict(response.headers)
        assert (headers["Content-Type"], headers["X-Content-Type-Options"]) == ("application/json", "nosniff")
        assert EVIL in json.dumps(json.loads(await read_all(response)), ensure_ascii=False)


async def test_bytes_that_are_no_object_are_an_error_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "damaged.levelset"
    crafted = await asyncio.to_thread(write_crafted, tmp_path / "evil.levelset", "x")
    (payload,) = await asyncio.to_thread(lambda: list(read_blocks(crafted)))
    writer = await asyncio.to_thread(BlockWriter, path)
    await asyncio.to_thread(writer.append, payload.replace(b'{"metadata"', b'["metadata"'), compress=True)
    writer.close()
    response = await send(await asyncio.to_thread(opened, path), "/api/run?number=0")
    assert response.status >= 400
    assert b"the recording is damaged" in await read_all(response)
