"""Rotation of logs: the disk stays bounded, and readers and followers see every line that is left."""

import asyncio
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.errors import ConfigError
from levelset.testing import run
from levelset_machine import LogOptions, LogRotation, LogStore, Machine
from levelset_machine.logs.lines import MAX_LINE
from systems.machine.tests.support import python, read, wait_until

SMALL = LogRotation(size=1000, files=3)
STORED = len("1 2026-01-31T12:00:00.000Z \n")


@pytest.fixture
def store(tmp_path: Path) -> LogStore:
    return LogStore(tmp_path, rotation=SMALL)


@pytest.fixture(params=["file", "memory"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> LogStore:
    return LogStore(tmp_path if request.param == "file" else None, rotation=SMALL)


def numbers(first: int, last: int) -> bytes:
    return b"".join(b"line %04d\n" % number for number in range(first, last + 1))


def write(store: LogStore, *chunks: bytes) -> None:
    sink = store.open("web")
    for chunk in chunks:
        sink.write(chunk)
    sink.close()


async def files_in(folder: Path) -> dict[str, int]:
    return await asyncio.to_thread(lambda: {one.name: one.stat().st_size for one in sorted(folder.iterdir())})


async def test_a_flood_fills_a_bounded_number_of_files_of_bounded_size(store: LogStore, tmp_path: Path) -> None:
    write(store, *(numbers(first, first + 99) for first in range(1, 5000, 100)))
    found = await files_in(tmp_path)
    assert list(found) == ["web.log", "web.log.1", "web.log.2"]
    assert max(found.values()) <= SMALL.size
    assert sum(found.values()) > SMALL.total - SMALL.size - 100


async def test_by_default_a_log_takes_no_more_than_fifty_mebibytes(tmp_path: Path) -> None:
    store, line = LogStore(tmp_path), b"x" * (1024 * 1024 - 100) + b"\n"
    write(store, *[line] * 70)
    assert 45 * 1024**2 < sum((await files_in(tmp_path)).values()) <= 50 * 1024**2


async def test_the_last_lines_are_left_and_keep_their_numbers(both: LogStore) -> None:
    write(both, *(numbers(first, first + 9) for first in range(1, 1000, 10)))
    lines = (await read(both, "web", line_numbers=True)).splitlines()
    first = int(lines[0].split()[0])
    assert lines == [b"%d line %04d" % (number, number) for number in range(first, 1001)]
    assert 40 < len(lines) < 90


async def test_the_tail_is_found_across_files(both: LogStore) -> None:
    write(both, numbers(1, 500))
    assert await read(both, "web", tail=45) == numbers(456, 500)
    assert await read(both, "web", tail=1) == numbers(500, 500)


async def test_following_continues_through_rotations_without_losing_a_line(both: LogStore) -> None:
    sink = both.open("web")
    sink.write(numbers(1, 1))
    following = aiter(both.read("web", LogOptions(follow=True)))
    found = await anext(following)
    for first in range(2, 1000, 20):
        sink.write(numbers(first, first + 19))
        while not found.endswith(numbers(first + 19, first + 19)):
            found += await anext(following)
    sink.close()
    assert found == numbers(1, 1001)
    assert [chunk async for chunk in following] == []


async def follow_slowly(store: LogStore, options: LogOptions, *, begun: bool = True) -> list[bytes]:
    """The lines of a follower that waits, if `begun` after the first line, while a program writes a thousand more."""
    sink = store.open("web")
    sink.write(numbers(1, 1))
    following = aiter(store.read("web", options))
    first = asyncio.ensure_future(anext(following))
    if begun:
        await first
    else:
        await asyncio.sleep(0)  # it stands at its first offset
    for number in range(2, 1001, 10):
        sink.write(numbers(number, number + 9))
    sink.close()
    found = await first + b"".join([chunk async for chunk in following])
    assert found.endswith(b"\n")
    return found.splitlines()


MARK = re.compile(rb"\[log rotation: (\d+) lines were dropped before they could be read\]")


def split_at_mark(lines: list[bytes]) -> tuple[list[bytes], int, list[bytes]]:
    """The lines before the mark, how many it says were dropped, and the lines after it."""
    [(place, found)] = [(place, found) for place, line in enumerate(lines) if (found := MARK.search(line))]
    return lines[:place], int(found[1]), lines[place + 1 :]


async def test_a_follower_that_is_too_slow_continues_with_the_oldest_line_that_is_left(both: LogStore) -> None:
    before, _, after = split_at_mark(await follow_slowly(both, LogOptions(follow=True)))
    places = [int(line.split()[1]) for line in before + after]
    assert (places == sorted(set(places)), places[-1]) == (True, 1001)
    assert before + after == [b"line %04d" % place for place in places]


async def test_a_mark_says_how_many_lines_a_slow_follower_has_missed_and_where(both: LogStore) -> None:
    before, count, after = split_at_mark(await follow_slowly(both, LogOptions(follow=True)))
    assert int(after[0].split()[1]) - int(before[-1].split()[1]) - 1 == count > 0


async def test_the_mark_has_the_columns_of_a_line_and_the_number_of_the_last_line_that_was_dropped(
    both: LogStore,
) -> None:
    lines = await follow_slowly(both, LogOptions(follow=True, line_numbers=True, timestamps=True))
    _, count, after = split_at_mark(lines)
    mark = next(line for line in lines if MARK.search(line))
    number, time, text = mark.split(b" ", 2)
    assert (int(number), time) == (int(after[0].split()[0]) - 1, after[0].split()[1])
    assert text == b"[log rotation: %d lines were dropped before they could be read]" % count
    assert [int(line.split()[0]) for line in lines] == sorted({int(line.split()[0]) for line in lines})


async def test_there_is_no_mark_for_lines_that_were_not_wanted(both: LogStore) -> None:
    lines = await follow_slowly(both, LogOptions(follow=True, skip=990), begun=False)
    assert lines == numbers(991, 1001).splitlines()


async def test_a_follower_that_has_read_no_line_learns_how_many_bytes_were_dropped() -> None:
    lines = await follow_slowly(LogStore(rotation=SMALL), LogOptions(follow=True, tail=0), begun=False)
    assert re.fullmatch(rb"\[log rotation: \d+ bytes were dropped before they could be read\]", lines[0])
    assert [MARK.search(line) for line in lines[1:]] == [None] * len(lines[1:])


async def wait_until_trimmed(store: LogStore) -> None:
    """Waits until a new reader of a raw log no longer begins at its first line."""
    async with asyncio.timeout(120):
        while await read(store, "web", line_numbers=True, limit_bytes=2) == b"1 ":  # noqa: ASYNC110  (trimmed by a thread)
            await asyncio.sleep(0.01)


async def test_the_mark_never_continues_a_line_of_which_a_part_was_read(tmp_path: Path) -> None:
    # The long line alone is not trimmed, so that its first part is read however late the reader begins.
    store = LogStore(tmp_path, rotation=LogRotation(size=MAX_LINE, files=2))
    sink = store.open("web")
    file = sink.raw()
    following = aiter(store.read("web", LogOptions(follow=True)))
    await asyncio.to_thread(os.write, file, b"x" * (MAX_LINE + 10))
    found = await anext(following)
    await asyncio.to_thread(os.write, file, b"end\n" + numbers(2, 200_000))
    await wait_until_trimmed(store)
    sink.close()
    found += b"".join([chunk async for chunk in following])
    before, _, after = split_at_mark(found.splitlines())
    assert (before, after[-1]) == ([b"x" * MAX_LINE], b"line 200000")


async def test_a_follower_of_the_raw_log_of_a_program_gets_the_mark_too(tmp_path: Path) -> None:
    store = LogStore(tmp_path, rotation=SMALL)
    sink = store.open("web")
    file = sink.raw()
    await asyncio.to_thread(os.write, file, numbers(1, 5))
    following = aiter(store.read("web", LogOptions(follow=True, line_numbers=True)))
    found = await anext(following)
    await asyncio.to_thread(os.write, file, numbers(6, 900))
    await wait_until_trimmed(store)
    sink.close()
    found += b"".join([chunk async for chunk in following])
    before, count, after = split_at_mark(found.splitlines())
    assert before == [b"%d line %04d" % (number, number) for number in range(1, 6)]
    assert after == [b"%d line %04d" % (number, number) for number in range(6 + count, 901)]


async def test_a_reader_finishes_with_the_files_that_it_began_with(store: LogStore) -> None:
    sink = store.open("web")
    sink.write(numbers(1, 70))
    reading = aiter(store.read("web", LogOptions()))
    found = await anext(reading)
    for first in range(71, 1000, 10):
        sink.write(numbers(first, first + 9))
    sink.close()
    found += b"".join([chunk async for chunk in reading])
    assert found[: len(numbers(1, 70))] == numbers(1, 70)


async def test_a_rotated_log_is_continued_by_a_later_store(store: LogStore, tmp_path: Path) -> None:
    write(store, numbers(1, 500))
    later = LogStore(tmp_path, rotation=SMALL)
    before = await read(later, "web")
    write(later, numbers(501, 501))
    assert await read(later, "web") == before + numbers(501, 501)
    assert await read(later, "web", tail=1, line_numbers=True) == b"501 line 0501\n"


async def test_the_number_of_the_last_line_is_found_if_the_current_file_is_empty(
    store: LogStore, tmp_path: Path
) -> None:
    write(store, numbers(1, 500))
    await asyncio.to_thread((tmp_path / "web.log.1").unlink)
    await asyncio.to_thread(lambda: (tmp_path / "web.log").rename(tmp_path / "web.log.1"))
    write(store, numbers(501, 501))
    assert await read(store, "web", tail=1, line_numbers=True) == b"501 line 0501\n"


async def test_removing_a_log_removes_all_its_files(store: LogStore, tmp_path: Path) -> None:
    write(store, numbers(1, 500))
    store.remove("web")
    assert await files_in(tmp_path) == {}


async def test_a_log_that_was_removed_makes_no_new_files(store: LogStore, tmp_path: Path) -> None:
    sink = store.open("web")
    sink.write(numbers(1, 10))
    store.remove("web")
    write(store, b"another\n")
    sink.write(numbers(11, 500))
    sink.close()
    assert list(await files_in(tmp_path)) == ["web.log"]
    assert await read(store, "web") == b"another\n"


async def test_a_line_that_is_longer_than_a_file_has_a_file_of_its_own(store: LogStore, tmp_path: Path) -> None:
    write(store, b"short\n", b"x" * 5000, b"\nend\n")
    assert await read(store, "web") == b"short\n" + b"x" * 5000 + b"\nend\n"
    assert await files_in(tmp_path) == {"web.log": STORED + 3, "web.log.1": STORED + 5000, "web.log.2": STORED + 5}


async def test_with_one_file_the_log_begins_again(tmp_path: Path) -> None:
    store = LogStore(tmp_path, rotation=LogRotation(size=1000, files=1))
    write(store, numbers(1, 500))
    assert (await read(store, "web")).endswith(numbers(495, 500))
    found = await files_in(tmp_path)
    assert (list(found), found["web.log"] <= 1000) == (["web.log"], True)


async def test_a_smaller_number_of_files_removes_the_others_at_the_next_rotation(
    store: LogStore, tmp_path: Path
) -> None:
    write(store, numbers(1, 500))
    write(LogStore(tmp_path, rotation=LogRotation(size=1000, files=2)), numbers(501, 600))
    assert list(await files_in(tmp_path)) == ["web.log", "web.log.1"]


async def test_a_rotation_that_fails_loses_no_line(
    store: LogStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread((tmp_path / "web.log.new").mkdir)
    write(store, numbers(1, 100))
    assert await read(store, "web") == numbers(1, 100)
    assert "log was not rotated" in {one.message for one in caplog.records}


def test_a_rotation_without_size_or_files_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        LogRotation(size=0)
    with pytest.raises(ConfigError, match="at least 1"):
        LogRotation(files=0)


CHUNKS = st.lists(st.lists(st.sampled_from([b"a", b"bcd" * 9, b"\n", b"\n"]), max_size=8).map(b"".join), max_size=30)


@settings(max_examples=60)
@given(CHUNKS, st.integers(1, 200), st.integers(1, 4), st.none() | st.integers(0, 8))
def test_what_is_left_is_a_suffix_of_what_was_written(
    chunks: list[bytes], size: int, files: int, tail: int | None
) -> None:
    lines = b"".join(chunks).splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        store = LogStore(folder, rotation=LogRotation(size=size, files=files))
        write(store, *chunks)
        found = run(read(store, "web", tail=tail)).splitlines(keepends=True)
        sizes = [one.stat().st_size for one in Path(folder).iterdir()]
    assert found == lines[len(lines) - len(found) :]
    assert len(sizes) <= files
    assert all(one <= max(size, STORED + 200) for one in sizes)
    assert len(found) == len(lines) if tail is None and stored_size(lines) <= size else True
    assert bool(found) == (bool(lines) and tail != 0)


def stored_size(lines: Iterable[bytes]) -> int:
    return sum(len(line) + STORED + 1 for line in lines)


FLOOD = """
import sys
for number in range(1, 40_001):
    sys.stdout.write(f"line {number:06d} {'x' * 80}\\n")
sys.stdout.flush()
sys.stdin.close()
import time; time.sleep(600)
"""
"""Some 3.7 MB."""


async def disk_usage(folder: Path) -> int:
    return await asyncio.to_thread(lambda: sum(one.stat().st_blocks * 512 for one in folder.iterdir()))


async def test_the_flood_of_a_program_keeps_the_disk_bounded(tmp_path: Path) -> None:
    store = LogStore(tmp_path, rotation=LogRotation(size=100_000, files=3))
    async with Machine(guard=False, grace=0.0) as machine:
        machine.start(python(FLOOD), out=store.open("web"))
        async with asyncio.timeout(120):
            async for chunk in store.read("web", LogOptions(follow=True)):
                if b"line 040000" in chunk:
                    break
        assert await disk_usage(tmp_path) <= 320_000
    lines = (await read(store, "web", line_numbers=True)).splitlines()
    first = int(lines[0].split()[0])
    assert [line[:18].rstrip(b"x ") for line in lines] == [b"%d line %06d" % (n, n) for n in range(first, 40_001)]


async def test_the_log_of_a_persistent_program_is_rotated_without_losing_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levelset_machine.logs.store._TRIM", 0.01)
    store = LogStore(tmp_path, rotation=LogRotation(size=100_000, files=3))
    async with Machine(guard=False) as machine:
        process = machine.start(python(FLOOD), out=store.open("web"), persistent=True)
        async with asyncio.timeout(120):
            async for chunk in store.read("web", LogOptions(follow=True)):
                assert b"\0" not in chunk
                if b"line 040000" in chunk:
                    break
        async with asyncio.timeout(120):
            while await disk_usage(tmp_path) > 330_000:  # noqa: ASYNC110  (a thread of the store has no event)
                await asyncio.sleep(0.01)
        await machine.stop(process, grace=0.0)
    for one in (store, LogStore(tmp_path)):
        lines = (await read(one, "web", line_numbers=True)).splitlines()
        first = int(lines[0].split()[0])
        assert [line[:18].rstrip(b"x ") for line in lines] == [b"%d line %06d" % (n, n) for n in range(first, 40_001)]
        assert (await read(one, "web", tail=1, line_numbers=True))[:17] == b"40000 line 040000"
    store.remove("web")
    assert await files_in(tmp_path) == {}


async def test_where_holes_cannot_be_punched_a_warning_says_that_the_log_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unsupported(descriptor: int, size: int) -> None:
        raise OSError("not supported")

    monkeypatch.setattr("levelset_machine.logs.raw_content._punch", unsupported)
    store = LogStore(tmp_path, rotation=SMALL)
    sink = store.open("web")
    await asyncio.to_thread(os.write, sink.raw(), numbers(1, 500))
    sink.close()
    await wait_until(lambda: any("cannot be rotated" in one.message for one in caplog.records))
    assert await read(store, "web") == numbers(1, 500)
