import asyncio
import json
import logging
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.audit_log import AuditLog
from levelset.apiserver.authn.users import Caller
from levelset.errors import ConfigError
from levelset.http import Failure, Headers, Request, Response, to_status
from levelset.storage import SqliteStorage
from tests.apiserver.roles import open_town, rule

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
NOW = datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def written(path: Path) -> list[Any]:
    return await asyncio.to_thread(lines, path)


def observe(audit: AuditLog, request: Request, caller: Caller | None = None, status: int = 200) -> None:
    audit.observe(request, caller, "id", NOW, Response(status))


async def test_every_request_is_a_line_with_who_what_when_and_the_outcome(tmp_path: Path) -> None:
    async with open_town(audit=AuditLog(tmp_path / "log"), now=lambda: NOW) as town:
        await town.allow("jane", rule("list", "configmaps"))
        headers = {"User-Agent": "kubectl/v1"}
        await town.ask("jane", "GET", MAPS, groups=["team"], headers=headers, limit="1")
        response = await town.answer(Request("GET", "/healthz"))
    first, last = (await written(tmp_path / "log"))[-2:]
    assert first == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": first["auditID"],
        "stage": "ResponseComplete",
        "requestURI": MAPS,
        "verb": "list",
        "objectRef": {"resource": "configmaps", "namespace": "default", "apiVersion": "v1"},
        "user": {"username": "jane", "groups": ["team", "system:authenticated"]},
        "userAgent": "kubectl/v1",
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2026-01-02T03:04:05.000600Z",
        "stageTimestamp": "2026-01-02T03:04:05.000600Z",
    }
    assert last["auditID"] == dict(response.headers)["Audit-Id"]
    assert (last["verb"], last["user"]["username"], "objectRef" in last) == ("get", "system:anonymous", False)


async def test_refusals_are_written_down_with_who_it_was(tmp_path: Path) -> None:
    async with open_town(audit=AuditLog(tmp_path / "log")) as town:
        await town.ask("jane", "DELETE", MAPS)
        await town.ask(None, "GET", MAPS, headers={"Authorization": "Bearer guess"})
        await town.ask("jane", "GET", MAPS, headers={"Impersonate-User": "root"})
        await town.ask("root", "GET", MAPS, groups=["system:masters"], headers={"Impersonate-User": "bob"})
    found = (await written(tmp_path / "log"))[-4:]
    assert [one["responseStatus"]["code"] for one in found] == [403, 401, 403, 403]
    assert [one["user"].get("username") for one in found] == ["jane", None, "jane", "root"]
    assert found[3]["impersonatedUser"]["username"] == "bob"
    assert all(one["annotations"] == {"authorization.k8s.io/decision": "forbid"} for one in found)


@pytest.mark.parametrize("is_kept", [False, True])
async def test_neither_bodies_nor_credentials_nor_queries_are_in_the_log(tmp_path: Path, is_kept: bool) -> None:
    storage = await SqliteStorage.open(tmp_path / "data.db") if is_kept else None
    async with open_town(audit=AuditLog(tmp_path / "log"), storage=storage, token="t0ken") as town:
        tree = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "hidden"}}
        headers = {"Authorization": "Bearer t0ken", "Cookie": "hidden"}
        status, _ = await town.ask(None, "POST", SECRETS, tree, headers=headers, fieldManager="hidden")
        assert status == 201
        await town.ask(None, "GET", f"{SECRETS}/s", headers={"Authorization": "Bearer hidden"}, access_token="hidden")
    if storage is not None:
        await storage.close()
    found = await written(tmp_path / "log")
    assert "hidden" not in json.dumps(found)
    assert "t0ken" not in json.dumps(found)
    assert found[-2]["objectRef"]["resource"] == "secrets"


async def test_a_watch_is_a_line_when_it_begins(tmp_path: Path) -> None:
    async with open_town(audit=AuditLog(tmp_path / "log")) as town:
        await town.own("GET", MAPS, watch="true")
    last = (await written(tmp_path / "log"))[-1]
    assert (last["stage"], last["verb"], last["responseStatus"]["code"]) == ("ResponseStarted", "watch", 200)


async def test_a_request_that_is_cut_is_a_line_too(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "log")
    await asyncio.to_thread(audit.open)

    async def never() -> Response:
        await asyncio.Event().wait()
        return Response(200)

    made = audit.observe(Request("POST", MAPS), None, "id", NOW, never())
    assert not isinstance(made, Response)
    task = asyncio.ensure_future(made)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.to_thread(audit.close)
    assert (await written(tmp_path / "log"))[0]["responseStatus"]["code"] == 499


def test_what_never_was_a_request_is_written_down(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "log")
    audit.open()
    failure = Failure(431, "too many headers")
    assert audit.refuse(failure, to_status(failure)).status == 431
    audit.close()
    (line,) = lines(tmp_path / "log")
    assert (line["responseStatus"]["code"], line["user"]) == (431, {})


def test_nobody_waits_for_the_log_and_what_was_dropped_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    audit = AuditLog(tmp_path / "log", most_waiting=3)
    for _ in range(10):  # nobody writes yet
        observe(audit, Request("GET", "/api"))
    assert audit.dropped == 7
    with caplog.at_level(logging.WARNING):
        audit.open()
        audit.close()
    found = lines(tmp_path / "log")
    assert [one["kind"] for one in found] == ["Event"] * 3 + ["Dropped"]
    assert found[-1]["count"] == 7
    assert "dropped" in caplog.text


@pytest.mark.parametrize(
    "request_",
    [
        Request("GET", "/api/v1/\udcff/x\udcff"),
        Request("GET", "/api/v1/namespaces/%2e%2e/pods"),
        Request("GET", "/x" * 50_000, "y" * 100_000),
        Request("NONSENSE\n", "", headers=Headers({"user-agent": "a\udcffb\n{}" * 1000})),
    ],
    ids=range(4),
)
def test_any_request_whatever_is_one_line(tmp_path: Path, request_: Request) -> None:
    audit = AuditLog(tmp_path / "log")
    audit.open()
    observe(audit, request_, Caller("\udcff\n"), 400)
    observe(audit, Request("GET", "/api"))
    audit.close()
    assert len(lines(tmp_path / "log")) == 2
    assert (tmp_path / "log").stat().st_size < 20_000


def test_after_a_move_the_log_goes_on_in_a_new_file(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "log")
    audit.open()
    observe(audit, Request("GET", "/one"))
    wait_for(tmp_path / "log")
    (tmp_path / "log").rename(tmp_path / "moved")
    audit.reopen()
    observe(audit, Request("GET", "/two"))
    audit.close()
    assert [lines(tmp_path / name)[0]["requestURI"] for name in ("moved", "log")] == ["/one", "/two"]


def wait_for(path: Path) -> None:
    while not path.read_bytes().endswith(b"\n"):
        pass


def test_a_place_that_is_gone_costs_lines_and_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    audit = AuditLog(folder / "log", max_bytes=1)
    audit.open()
    observe(audit, Request("GET", "/one"))
    wait_for(folder / "log")
    shutil.rmtree(folder)
    with caplog.at_level(logging.WARNING):
        observe(audit, Request("GET", "/two"))
        audit.close()
    assert audit.dropped == 1
    assert "cannot be written" in caplog.text


def test_a_file_that_cannot_be_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="audit log"):
        AuditLog(tmp_path / "no" / "log").open()


def test_a_dash_is_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    audit = AuditLog("-")
    audit.open()
    observe(audit, Request("GET", "/one"))
    audit.close()
    assert json.loads(capfdbinary.readouterr().out)["requestURI"] == "/one"
