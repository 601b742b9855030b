import os
import stat
from pathlib import Path

import pytest

from levelset.http.private_files import write_private


def test_a_private_file_is_readable_by_its_owner_only(tmp_path: Path):
    before = os.umask(0)
    try:
        write_private(tmp_path / "key", b"secret")
    finally:
        os.umask(before)
    assert (tmp_path / "key").read_bytes() == b"secret"
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_a_file_that_others_could_read_becomes_private_when_it_is_replaced(tmp_path: Path):
    (tmp_path / "key").write_bytes(b"old")
    (tmp_path / "key").chmod(0o644)
    write_private(tmp_path / "key", b"new")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(tmp_path: Path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "inside").write_bytes(b"x")
    with pytest.raises(OSError, match="taken"):
        write_private(tmp_path / "taken", b"new")
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path):
    (tmp_path / "target").write_bytes(b"theirs")
    (tmp_path / "key").symlink_to(tmp_path / "target")
    write_private(tmp_path / "key", b"mine")
    assert (tmp_path / "target").read_bytes() == b"theirs"
    assert not (tmp_path / "key").is_symlink()
