import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from levelset.errors import BadRequest, NotFound
from levelset_machine import ForeignLogFile, LogOptions

STORED = b"1 2026-01-31T12:00:00.000Z one\n2 2026-01-31T12:00:01.000Z two\n3 2026-01-31T12:00:02.000Z three\n"


async def read(path: Path, **options: Any) -> bytes:
    with await asyncio.to_thread(ForeignLogFile.open, str(path)) as file:
        return b"".join([piece async for piece in file.read(LogOptions(**options), over=asyncio.Event())])


async def written(path: Path, data: bytes) -> Path:
    await asyncio.to_thread(path.write_bytes, data)
    return path


async def test_stored_lines_have_the_numbers_and_times_of_their_writer(tmp_path: Path) -> None:
    path = await written(tmp_path / "log", STORED)
    assert await read(path) == b"one\ntwo\nthree\n"
    assert await read(path, tail=1, line_numbers=True, timestamps=True) == b"3 2026-01-31T12:00:02.000Z three\n"
    assert await read(path, skip=1, limit_lines=1) == b"two\n"


async def test_plain_lines_are_numbered_by_their_position(tmp_path: Path) -> None:
    path = await written(tmp_path / "log", b"one\ntwo\nthree")
    assert await read(path, tail=2, line_numbers=True, timestamps=True) == b"2 two\n3 three"


async def test_a_file_is_followed_until_it_is_over(tmp_path: Path) -> None:
    path, over = await written(tmp_path / "log", b""), asyncio.Event()
    with await asyncio.to_thread(ForeignLogFile.open, str(path)) as file:
        pieces = file.read(LogOptions(follow=True), over=over)
        first = asyncio.ensure_future(anext(pieces))
        await asyncio.to_thread(path.write_bytes, STORED)
        assert await first == b"one\ntwo\nthree\n"
        await asyncio.to_thread(path.write_bytes, STORED + b"4 2026-01-31T12:00:03.000Z late\n")
        over.set()
        assert [piece async for piece in pieces] == [b"late\n"]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device", "relative", "nul"])
def test_only_a_regular_file_is_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    match kind:
        case "link":
            (tmp_path / "secret").write_text("x", encoding="utf-8")
            path.symlink_to(tmp_path / "secret")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            pass
    named = {"device": "/dev/zero", "relative": "log", "nul": "/a\0b"}.get(kind, str(path))
    with pytest.raises(BadRequest):
        ForeignLogFile.open(named)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("x", encoding="utf-8")
    os.chown(tmp_path / "log", 12345, 12345)
    with pytest.raises(BadRequest, match="no regular file of the server's user"):
        ForeignLogFile.open(str(tmp_path / "log"))


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        ForeignLogFile.open(str(tmp_path / "log"))
