"""LogStore: logs are read in whole or in part and followed, from files and from memory."""

import asyncio
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from levelset.errors import ConfigError, NotFound
from levelset.testing import virtual
from levelset_machine import LogOptions, LogStore
from systems.machine.tests.support import read

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LogStore:
    return LogStore(None if request.param == "memory" else tmp_path, now=lambda: NOON)


@pytest.fixture
def files(tmp_path: Path) -> LogStore:
    return LogStore(tmp_path, now=lambda: NOON)


def write(store: LogStore, *chunks: bytes, key: str = "web") -> None:
    sink = store.open(key)
    for chunk in chunks:
        sink.write(chunk)
    sink.close()


async def files_in(folder: Path) -> list[Path]:
    return await asyncio.to_thread(lambda: list(folder.iterdir()))


async def test_what_was_written_is_read_unchanged(store: LogStore) -> None:
    write(store, b"one\ntw", b"o\r\n\n\xff\xfe\x00\nend")
    assert await read(store, "web") == b"one\ntwo\r\n\n\xff\xfe\x00\nend"


async def test_preserved_logs_are_not_removed(tmp_path: Path) -> None:
    store = LogStore(tmp_path, now=lambda: NOON, preserve=True)
    write(store, b"one\n")
    store.remove("web")
    assert await read(LogStore(tmp_path), "web") == b"one\n"


async def test_line_numbers_and_timestamps_are_optional(store: LogStore) -> None:
    write(store, b"one\ntwo\n")
    assert await read(store, "web", line_numbers=True) == b"1 one\n2 two\n"
    stamped = b"1 2026-01-31T12:00:00.000Z one\n2 2026-01-31T12:00:00.000Z two\n"
    assert await read(store, "web", line_numbers=True, timestamps=True) == stamped


async def test_a_line_is_readable_when_it_is_complete(store: LogStore) -> None:
    sink = store.open("web")
    sink.write(b"one\ntw")
    assert await read(store, "web") == b"one\n"
    sink.write(b"o\n")
    assert await read(store, "web") == b"one\ntwo\n"
    sink.close()


async def test_a_log_that_is_opened_again_is_continued(store: LogStore) -> None:
    write(store, b"one\nunfinished")
    write(store, b"three\n")
    assert await read(store, "web", line_numbers=True) == b"1 one\n2 unfinished\n3 three\n"


async def test_two_sinks_of_one_log_do_not_mix_their_lines(store: LogStore) -> None:
    out, err = store.open("web"), store.open("web")
    out.write(b"o1 ")
    err.write(b"e1 ")
    out.write(b"o2\n")
    out.write(b"rest")
    out.close()
    err.write(b"e2\n")
    err.close()
    assert await read(store, "web", line_numbers=True) == b"1 o1 o2\n2 rest\n3 e1 e2\n"


async def test_a_very_long_line_is_split_into_lines(store: LogStore) -> None:
    write(store, b"x" * (1 << 20), b"y", b"\nend\n")
    numbered = await read(store, "web", line_numbers=True)
    assert numbered == b"1 " + b"x" * (1 << 20) + b"\n2 y\n3 end\n"
    write(store, b"next\n")
    assert await read(store, "web", line_numbers=True, tail=1) == b"4 next\n"


@pytest.mark.parametrize("tail", [0, 1, 2, 3, 4, 1000])
@pytest.mark.parametrize("text", [b"", b"one\n", b"one", b"one\ntwo\nthree\n", b"one\r\ntwo\n\nfour", b"\n\n\n"])
async def test_the_tail_is_the_last_lines_however_they_end(store: LogStore, text: bytes, tail: int) -> None:
    write(store, text)
    lines = text.splitlines(keepends=True)
    assert await read(store, "web", tail=tail) == b"".join(lines[len(lines) - min(tail, len(lines)) :])


async def test_the_tail_of_a_log_of_many_blocks_is_found(store: LogStore) -> None:
    write(store, *(b"%06d %s\n" % (number, b"." * 90) for number in range(5000)))
    found = (await read(store, "web", tail=2000, line_numbers=True)).splitlines()
    assert (len(found), found[0][:11], found[-1][:11]) == (2000, b"3001 003000", b"5000 004999")


async def test_skip_limit_and_numbers_combine(store: LogStore) -> None:
    write(store, b"a\nb\nc\nd\ne\n")
    assert await read(store, "web", skip=1, limit_lines=2, line_numbers=True) == b"2 b\n3 c\n"
    assert await read(store, "web", skip=4, tail=3) == b"e\n"
    assert await read(store, "web", skip=5) == b""


async def test_limit_bytes_cuts_through_lines(store: LogStore) -> None:
    write(store, b"hello\nworld\n")
    assert await read(store, "web", limit_bytes=8) == b"hello\nwo"
    assert await read(store, "web", limit_bytes=8, line_numbers=True) == b"1 hello\n"


@virtual
async def test_since_leaves_out_earlier_lines() -> None:
    store = LogStore(None, now=lambda: NOON + timedelta(seconds=asyncio.get_running_loop().time()))
    sink = store.open("web")
    for word in (b"one\n", b"two\n", b"three\n"):
        sink.write(word)
        await asyncio.sleep(10)
    assert await read(store, "web", since=NOON + timedelta(seconds=10)) == b"two\nthree\n"
    assert await read(store, "web", since=NOON + timedelta(seconds=20, milliseconds=1)) == b""


async def test_following_yields_each_line_when_it_is_written_and_ends_with_the_log(store: LogStore) -> None:
    sink = store.open("web")
    sink.write(b"one\n")
    following = aiter(store.read("web", LogOptions(follow=True)))
    assert await anext(following) == b"one\n"
    later = asyncio.get_running_loop().call_soon
    later(sink.write, b"two\n")
    assert await anext(following) == b"two\n"
    later(sink.write, b"last")
    later(sink.close)
    assert [chunk async for chunk in following] == [b"last"]


async def test_following_a_log_without_writers_ends_at_once(store: LogStore) -> None:
    write(store, b"one\n")
    assert await read(store, "web", follow=True) == b"one\n"


async def test_the_tail_is_followed(store: LogStore) -> None:
    sink = store.open("web")
    sink.write(b"one\ntwo\n")
    following = aiter(store.read("web", LogOptions(follow=True, tail=1)))
    assert await anext(following) == b"two\n"
    sink.write(b"three\n")
    sink.close()
    assert [chunk async for chunk in following] == [b"three\n"]


async def test_a_log_that_is_removed_is_followed_to_its_end(store: LogStore) -> None:
    sink = store.open("web")
    sink.write(b"one\n")
    following = aiter(store.read("web", LogOptions(follow=True)))
    assert await anext(following) == b"one\n"
    store.remove("web")
    sink.write(b"two\n")
    sink.close()
    assert [chunk async for chunk in following] == [b"two\n"]
    with pytest.raises(NotFound):
        await read(store, "web")


async def test_a_log_that_is_removed_and_opened_again_is_empty(store: LogStore) -> None:
    old = store.open("web")
    old.write(b"old\n")
    store.remove("web")
    write(store, b"new\n")
    old.write(b"old again\n")
    old.close()
    assert await read(store, "web", line_numbers=True) == b"1 new\n"


async def test_a_follower_that_is_cancelled_leaves_nothing_behind(store: LogStore) -> None:
    sink = store.open("web")
    task = asyncio.create_task(read(store, "web", follow=True))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    sink.write(b"late\n")
    sink.close()


async def test_a_limit_ends_following(store: LogStore) -> None:
    sink = store.open("web")
    sink.write(b"one\ntwo\nthree\n")
    assert await read(store, "web", follow=True, limit_lines=2) == b"one\ntwo\n"
    sink.close()


async def test_writes_after_close_are_ignored(store: LogStore) -> None:
    sink = store.open("web")
    sink.close()
    sink.write(b"late\n")
    sink.close()
    assert (await read(store, "web"), sink.is_closed) == (b"", True)


async def test_a_log_that_does_not_exist_is_not_found(store: LogStore) -> None:
    assert not store.has("web")
    with pytest.raises(NotFound, match="'web'"):
        await read(store, "web", follow=True)
    store.remove("web")


async def test_only_the_owner_may_read_a_log_file(files: LogStore, tmp_path: Path) -> None:
    write(files, b"secret\n")
    [file] = await files_in(tmp_path)
    assert stat.S_IMODE((await asyncio.to_thread(file.stat)).st_mode) == 0o600


@pytest.mark.parametrize("key", ["shop/web-1/app", "..", "a b", "ü\ud800", "x" * 1000, "", "a\0b"])
async def test_any_text_can_be_a_key(files: LogStore, tmp_path: Path, key: str) -> None:
    write(files, b"one\n", key=key)
    assert (files.has(key), await read(files, key)) == (True, b"one\n")
    assert len(await files_in(tmp_path)) == 1
    files.remove(key)
    assert (files.has(key), await files_in(tmp_path)) == (False, [])


async def test_a_log_outlives_the_store_that_wrote_it(tmp_path: Path) -> None:
    write(LogStore(tmp_path), b"one\ntwo\n")
    again = LogStore(tmp_path)
    assert await read(again, "web", follow=True) == b"one\ntwo\n"
    write(again, b"three\n")
    assert await read(again, "web", line_numbers=True, tail=1) == b"3 three\n"


async def test_a_half_written_line_of_a_killed_program_does_not_damage_other_lines(
    files: LogStore, tmp_path: Path
) -> None:
    write(files, b"one\n")
    [file] = await files_in(tmp_path)
    await asyncio.to_thread(file.write_bytes, b"1 2026-01-31T12:00:00.000Z one\n2 2026-01")
    write(files, b"three\n")
    assert await read(files, "web", line_numbers=True) == b"1 one\n2 2 2026-01\n3 three\n"


async def test_a_raw_log_has_line_numbers_and_no_timestamps(files: LogStore) -> None:
    sink = files.open("web")
    assert sink.raw() == sink.raw()
    sink.write(b"one\ntwo\nthr")
    assert await read(files, "web", line_numbers=True, timestamps=True) == b"1 one\n2 two\n3 thr"
    assert await read(files, "web", line_numbers=True, tail=2) == b"2 two\n3 thr"
    assert await read(files, "web", since=NOON, skip=1, limit_lines=1) == b"two\n"
    sink.close()
    write(files, b"ee\n")
    assert await read(files, "web", follow=True, line_numbers=True) == b"1 one\n2 two\n3 three\n"


async def test_a_raw_log_is_followed_while_another_process_writes_to_it(files: LogStore, tmp_path: Path) -> None:
    sink = files.open("web")
    sink.raw()
    following = aiter(files.read("web", LogOptions(follow=True)))
    [file] = await files_in(tmp_path)
    await asyncio.to_thread(file.write_bytes, b"one\n")
    assert await anext(following) == b"one\n"
    sink.close()
    assert [chunk async for chunk in following] == []


async def test_a_raw_log_needs_a_file_without_numbered_lines(files: LogStore) -> None:
    in_memory = LogStore(None).open("web")
    with pytest.raises(ConfigError, match="in memory"):
        in_memory.raw()
    write(files, b"one\n")
    numbered = files.open("web")
    with pytest.raises(ConfigError, match="numbered lines"):
        numbered.raw()
    numbered.close()
