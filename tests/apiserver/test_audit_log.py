import asyncio
import json
import logging
import os
import shutil
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver import audit_log
from levelset.apiserver.audit_log import AuditLog, RotatingFile
from levelset.apiserver.authn.users import User
from levelset.errors import ConfigError
from levelset.http import Failure, Headers, Request, Response, to_status
from levelset.storage import SqliteStorage
from tests.apiserver.support.rbac_server import open_rbac_server, rule

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
NOW = datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def written(path: Path) -> list[Any]:
    return await asyncio.to_thread(lines, path)


def observe(audit: AuditLog, request: Request, user: User | None = None, status: int = 200) -> None:
    audit.observe(request, user, "id", NOW, Response(status))


async def test_every_request_is_a_line_with_user_verb_object_time_and_status(tmp_path: Path) -> None:
    async with open_rbac_server(audit_log=AuditLog(tmp_path / "log"), now=lambda: NOW) as api:
        await api.grant("jane", rule("list", "configmaps"))
        headers = {"User-Agent": "kubectl/v1"}
        await api.request("jane", "GET", MAPS, groups=["team"], headers=headers, limit="1")
        response = await api.send(Request("GET", "/healthz"))
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


async def test_rejected_requests_are_logged_with_their_user(tmp_path: Path) -> None:
    async with open_rbac_server(audit_log=AuditLog(tmp_path / "log")) as api:
        await api.request("jane", "DELETE", MAPS)
        await api.request(None, "GET", MAPS, headers={"Authorization": "Bearer guess"})
        await api.request("jane", "GET", MAPS, headers={"Impersonate-User": "root"})
        await api.request("root", "GET", MAPS, groups=["system:masters"], headers={"Impersonate-User": "bob"})
    found = (await written(tmp_path / "log"))[-4:]
    assert [one["responseStatus"]["code"] for one in found] == [403, 401, 403, 403]
    assert [one["user"].get("username") for one in found] == ["jane", None, "jane", "root"]
    assert found[3]["impersonatedUser"]["username"] == "bob"
    assert all(one["annotations"] == {"authorization.k8s.io/decision": "forbid"} for one in found)


@pytest.mark.parametrize("is_durable", [False, True])
async def test_neither_bodies_nor_credentials_nor_queries_are_in_the_log(tmp_path: Path, is_durable: bool) -> None:
    storage = await SqliteStorage.open(tmp_path / "data.db") if is_durable else None
    async with open_rbac_server(audit_log=AuditLog(tmp_path / "log"), storage=storage, token="t0ken") as api:
        tree = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "hidden"}}
        headers = {"Authorization": "Bearer t0ken", "Cookie": "hidden"}
        status, _ = await api.request(None, "POST", SECRETS, tree, headers=headers, fieldManager="hidden")
        assert status == 201
        await api.request(
            None, "GET", f"{SECRETS}/s", headers={"Authorization": "Bearer hidden"}, access_token="hidden"
        )
    if storage is not None:
        await storage.close()
    found = await written(tmp_path / "log")
    assert "hidden" not in json.dumps(found)
    assert "t0ken" not in json.dumps(found)
    assert found[-2]["objectRef"]["resource"] == "secrets"


async def test_a_watch_is_logged_when_it_starts(tmp_path: Path) -> None:
    async with open_rbac_server(audit_log=AuditLog(tmp_path / "log")) as api:
        await api.request_as_owner("GET", MAPS, watch="true")
    last = (await written(tmp_path / "log"))[-1]
    assert (last["stage"], last["verb"], last["responseStatus"]["code"]) == ("ResponseStarted", "watch", 200)


async def test_a_cancelled_request_is_logged(tmp_path: Path) -> None:
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


def test_invalid_http_input_is_logged(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "log")
    audit.open()
    failure = Failure(431, "too many headers")
    assert audit.observe_rejected(failure, to_status(failure)).status == 431
    audit.close()
    (line,) = lines(tmp_path / "log")
    assert (line["responseStatus"]["code"], line["user"]) == (431, {})


def test_requests_never_wait_for_the_log_and_dropped_lines_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    audit = AuditLog(tmp_path / "log", max_queued=3)
    for _ in range(10):  # the writer thread is not running yet
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
def test_any_request_is_exactly_one_line(tmp_path: Path, request_: Request) -> None:
    audit = AuditLog(tmp_path / "log")
    audit.open()
    observe(audit, request_, User("\udcff\n"), 400)
    observe(audit, Request("GET", "/api"))
    audit.close()
    assert len(lines(tmp_path / "log")) == 2
    assert (tmp_path / "log").stat().st_size < 20_000


def test_after_reopen_the_log_continues_in_a_new_file(tmp_path: Path) -> None:
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


def test_a_removed_directory_loses_lines_but_no_requests(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_file_that_cannot_be_opened_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="audit log"):
        AuditLog(tmp_path / "no" / "log").open()


def test_a_dash_means_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    audit = AuditLog("-")
    audit.open()
    observe(audit, Request("GET", "/one"))
    audit.close()
    assert json.loads(capfdbinary.readouterr().out)["requestURI"] == "/one"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def opened(path: Path, *, max_bytes: int = 0, backups: int = 2) -> RotatingFile:
    file = RotatingFile(path, max_bytes=max_bytes, backups=backups)
    file.open()
    return file


def test_a_file_is_private_and_its_content_is_retained(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old\n")
    path.chmod(0o644)
    file = opened(path)
    file.write(b"new\n")
    file.close()
    assert (path.read_bytes(), mode(path)) == (b"old\nnew\n", 0o600)


def test_a_file_is_rotated_at_its_maximum_size(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = opened(path, max_bytes=10)
    for line in (b"aaaaaa\n", b"bbbbbb\n", b"cccccc\n", b"dddddd\n"):
        file.write(line)
    file.close()
    assert [one.read_bytes()[:1] for one in (path, tmp_path / "log.1", tmp_path / "log.2")] == [b"d", b"c", b"b"]
    assert [mode(one) for one in sorted(tmp_path.iterdir())] == [0o600] * 3


def test_without_backups_rotation_discards_the_old_lines(tmp_path: Path) -> None:
    file = opened(tmp_path / "log", max_bytes=4, backups=0)
    file.write(b"aaa\n")
    file.write(b"bbb\n")
    file.close()
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [b"bbb\n"]


def test_a_line_that_is_larger_than_a_file_is_written_whole(tmp_path: Path) -> None:
    file = opened(tmp_path / "log", max_bytes=4)
    file.write(b"a" * 100)
    file.close()
    assert (tmp_path / "log").stat().st_size == 100


def test_after_reopen_the_moved_file_is_no_longer_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = opened(path)
    file.write(b"one\n")
    path.rename(tmp_path / "moved")
    file.open()
    file.write(b"two\n")
    file.close()
    assert [(tmp_path / "moved").read_bytes(), path.read_bytes()] == [b"one\n", b"two\n"]


def test_symbolic_links_and_pipes_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "no/log", "."):
        with pytest.raises(OSError):  # noqa: PT011 - each with another errno
            opened(tmp_path / name)
    assert (tmp_path / "target").read_bytes() == b""


def test_annotations_beyond_their_number_and_size_are_cut() -> None:
    bounded = audit_log._bounded({f"key-{number}": "x" * 20_000 for number in range(100)})
    assert bounded is not None
    assert len(bounded) == 64
    assert {len(value) for value in bounded.values()} == {10 * 1024}
