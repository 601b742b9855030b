from pathlib import Path

import pytest

from levelset.storage import SqliteStorage, warn_if_exposed


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o666])
def test_a_file_that_others_can_open_is_named_with_the_command_that_mends_it(
    mode: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "my file"
    path.touch()
    path.chmod(mode)
    warn_if_exposed("tokens", path, tmp_path / "missing")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (f"{path} can be opened by other users, and holds tokens: run chmod 600 '{path}'")


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440, 0o660])
def test_a_file_of_its_owner_or_of_a_group_is_not_mentioned(
    mode: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "file"
    path.touch()
    path.chmod(mode)
    warn_if_exposed("tokens", path)
    assert not caplog.records


async def test_a_data_file_that_others_can_open_is_named_with_its_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "data.db"
    async with await SqliteStorage.open(path) as storage:
        await storage.put("/a", b"", expected=0)
    assert not caplog.records
    path.chmod(0o644)
    async with await SqliteStorage.open(path):
        pass
    (record,) = caplog.records
    assert f"run chmod 600 {path} {path}-wal" in record.getMessage()
