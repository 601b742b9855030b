"""The admin API of a manager requires its token, and stale records of processes are removed."""

import os
from pathlib import Path

import pytest

from levelset.errors import ConfigError
from levelset.http import Request, Response
from levelset.http.messages import Headers
from levelset.runtime.manager.admin import AdminServer, ManagerView
from levelset.runtime.manager.process_records import (
    FOLDER_VARIABLE,
    ProcessRecord,
    find_records,
    records_folder,
    write_record,
)
from tests.runtime.manager.http_fetch import announce_body


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "runtime"))
    return tmp_path / "runtime"


def send(admin: AdminServer, method: str, path: str, token: str | None) -> int:
    headers = Headers({} if token is None else {"Authorization": f"Bearer {token}"})
    path, _, query = path.partition("?")
    response = admin.handle(Request(method=method, path=path, query=query, headers=headers))
    assert isinstance(response, Response)
    return response.status


@pytest.fixture
def admin() -> AdminServer:
    return AdminServer(ManagerView(controllers=dict, watches=list, is_leader=lambda: True))


@pytest.mark.parametrize("token", [None, "", "wrong", "ünicode"])
@pytest.mark.parametrize("path", ["/status", "/why?kind=a&name=b", "/nothing"])
def test_requests_without_the_token_are_unauthorized(admin: AdminServer, path: str, token: str | None) -> None:
    assert send(admin, "GET", path, token) == 401


async def test_no_body_is_received_by_the_admin_api(admin: AdminServer) -> None:
    await admin.start()
    try:
        assert await announce_body(admin.url, "/trigger", 1_000_000) == 413
    finally:
        await admin.stop()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/status", 200),
        ("POST", "/status", 404),
        ("GET", "/trigger?kind=a&name=b", 404),
        ("POST", "/trigger", 400),
        ("GET", "/why?kind=a", 400),
        ("GET", "/why?kind=a&name=b", 404),
    ],
)
def test_the_admin_api_rejects_unknown_paths_and_missing_parameters(
    admin: AdminServer, method: str, path: str, status: int
) -> None:
    assert send(admin, method, path, admin.token) == status


def test_records_of_dead_processes_and_broken_ones_are_removed(folder: Path) -> None:
    write_record(ProcessRecord(pid=2**22 + 1, url="http://127.0.0.1:1", token="t"))
    (folder / "broken.json").write_text("{")
    alive = ProcessRecord(pid=os.getpid(), url="http://127.0.0.1:2", token="t")
    path = write_record(alive)
    assert find_records() == [alive]
    assert list(folder.iterdir()) == [path]


def test_a_folder_that_is_not_private_is_neither_written_nor_read(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    with pytest.raises(ConfigError, match="is not a private folder"):
        write_record(ProcessRecord(pid=os.getpid(), url="http://127.0.0.1:2", token="t"))
    (folder / "1.json").write_text("{}")
    assert find_records() == ()


def test_the_token_is_not_in_the_repr_of_a_record() -> None:
    assert "secret" not in repr(ProcessRecord(pid=1, url="http://127.0.0.1:2", token="secret"))


def test_the_default_folder_is_in_the_runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert records_folder() == tmp_path / "levelset"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert records_folder().name == f"levelset-{os.getuid()}"
