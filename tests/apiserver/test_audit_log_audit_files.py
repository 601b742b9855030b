import os
import stat
from pathlib import Path

import pytest

from levelset.apiserver.audit_log import LineFile


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def opened(path: Path, *, max_bytes: int = 0, backups: int = 2) -> LineFile:
    file = LineFile(path, max_bytes=max_bytes, backups=backups)
    file.open()
    return file


def test_a_file_is_its_owners_alone_and_what_was_in_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old\n")
    path.chmod(0o644)
    file = opened(path)
    file.write(b"new\n")
    file.close()
    assert (path.read_bytes(), mode(path)) == (b"old\nnew\n", 0o600)


def test_a_file_that_grows_too_large_gives_way_to_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = opened(path, max_bytes=10)
    for line in (b"aaaaaa\n", b"bbbbbb\n", b"cccccc\n", b"dddddd\n"):
        file.write(line)
    file.close()
    assert [one.read_bytes()[:1] for one in (path, tmp_path / "log.1", tmp_path / "log.2")] == [b"d", b"c", b"b"]
    assert [mode(one) for one in sorted(tmp_path.iterdir())] == [0o600] * 3


def test_without_backups_the_old_lines_go(tmp_path: Path) -> None:
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


def test_a_file_that_was_moved_away_is_left_alone_after_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = opened(path)
    file.write(b"one\n")
    path.rename(tmp_path / "moved")
    file.open()
    file.write(b"two\n")
    file.close()
    assert [(tmp_path / "moved").read_bytes(), path.read_bytes()] == [b"one\n", b"two\n"]


def test_nothing_is_written_through_a_link_or_into_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "no/log", "."):
        with pytest.raises(OSError):  # noqa: PT011 - each for a reason of its own
            opened(tmp_path / name)
    assert (tmp_path / "target").read_bytes() == b""
