"""The file of a recording: private, append only, bounded, and readable up to a torn end."""

import stat
import struct
import tracemalloc
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from levelset.errors import BadObject, ConfigError
from levelset.runtime.recording import recording_file
from levelset.runtime.recording.entries import (
    Answer,
    Batch,
    BatchEvent,
    Begin,
    End,
    Entry,
    More,
    Request,
    Resume,
    Start,
    Stop,
    Value,
)
from levelset.runtime.recording.recording_file import MAGIC, Part, RecordingWriter, read_blocks, read_recording

START = Start(0, 1, "0.1", "3.11", "2026-01-01T00:00:00+00:00", "default", None)


def write(path: Path, entries: int = 100, **options) -> RecordingWriter:
    writer = RecordingWriter(path, **options)
    written = [START, *(Stop(number, f"number {number} " * 100) for number in range(entries))]
    for first in range(0, len(written), 128):
        writer.put(written[first : first + 128], [])
    writer.close()
    return writer


def test_a_file_has_all_entries_in_order_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    write(tmp_path / "run")
    found = read_recording(tmp_path / "run")
    assert [one.at for one in found] == [0, *range(100)]
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o600


def test_a_torn_file_is_readable_up_to_its_last_whole_block(tmp_path: Path) -> None:
    write(tmp_path / "run", 1000)
    whole = (tmp_path / "run").read_bytes()
    counts = set()
    for size in range(len(MAGIC) + 1, len(whole), 997):
        (tmp_path / "torn").write_bytes(whole[:size])
        counts.add(len(list(read_blocks(tmp_path / "torn"))))
    assert counts == set(range(max(counts) + 1))
    (tmp_path / "torn").write_bytes(whole[:-40] + b"\0" * 40)
    assert 0 < len(read_recording(tmp_path / "torn")) < 1001


def test_a_file_that_is_no_recording_or_newer_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(BadObject, match="levelset run --record"):
        read_recording(tmp_path / "text")
    (tmp_path / "newer").write_bytes(MAGIC + b"\x63")
    with pytest.raises(BadObject, match="format 99"):
        read_recording(tmp_path / "newer")
    (tmp_path / "empty").write_bytes(MAGIC + b"\x01")
    with pytest.raises(BadObject, match="empty"):
        read_recording(tmp_path / "empty")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_recording(tmp_path / "missing")


def block(payload: bytes, *, encoding: int, length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return MAGIC + b"\x01" + struct.pack(">IIB", size, zlib.crc32(payload), encoding) + payload


def test_a_crafted_block_takes_no_more_memory_than_a_recording_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_file, "_MAX_PAYLOAD", 1 << 20)
    (tmp_path / "bomb").write_bytes(block(zlib.compress(b"\x00" * (16 << 20), 1), encoding=1))
    (tmp_path / "long").write_bytes(block(b"x", encoding=0, length=(1 << 30) - 1))
    tracemalloc.start()
    try:
        with pytest.raises(BadObject, match="a block of more than 1,048,576 bytes"):
            read_recording(tmp_path / "bomb")
        with pytest.raises(BadObject, match="empty"):
            read_recording(tmp_path / "long")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "content",
    [
        block(b"no zlib", encoding=1),
        block(zlib.compress(b"\x90" * 100)[:-8], encoding=1),
        block(b"\x90", encoding=7),
        block(b"\x91\x95\x0a\x00\x01\xa1a" + b"\x91" * 100_000, encoding=0),
    ],
    ids=["not compressed", "cut off inside", "an unknown encoding", "nested too deeply"],
)
def test_a_crafted_block_is_refused_as_no_recording(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "run").write_bytes(content)
    with pytest.raises(BadObject, match="not a recording that this levelset can read"):
        read_recording(tmp_path / "run")


def test_a_recording_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"precious")
    (tmp_path / "run").symlink_to(tmp_path / "theirs")
    with pytest.raises(ConfigError, match="cannot be written"):
        RecordingWriter(tmp_path / "run")
    assert (tmp_path / "theirs").read_bytes() == b"precious"


def test_a_file_ends_at_its_limit_and_says_why(tmp_path: Path) -> None:
    writer = write(tmp_path / "run", 2000, max_bytes=2000)
    assert writer.end_reason == "it has reached 2,000 bytes"
    assert writer.written < 200_000
    assert len(read_recording(tmp_path / "run")) > 1


def test_a_path_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        RecordingWriter(tmp_path / "missing" / "run")


def test_quiet_files_are_compressed(tmp_path: Path) -> None:
    write(tmp_path / "run")
    assert (tmp_path / "run").stat().st_size < 10_000
    assert isinstance(read_recording(tmp_path / "run")[-1], Stop)


FLAT_ROWS: list[Any] = [
    *(2, 7.5, 0, "1", [3, b"{}", 4, b"{1}"]),
    *(5, 7.5, 1, "websites", "default/blog", [], 0, 0),
    *(7, 7.5, 1, 1, "GET", "/api/v1/pods", "", "", b""),
    *(8, 7.5, 1, 200, {}, b"{}"),
    *(6, 7.5, 1, False, True),
    *(12, 8.0, 1, "done", None, None, 0.5, 0.0),
]


def flat_entries(at: Any, end: Any) -> list[Entry]:
    return [
        Batch(at, 0, "1", [BatchEvent(3, b"{}"), BatchEvent(4, b"{1}")]),
        Begin(at, 1, "websites", "default/blog", [], 0, 0),
        Request(at, 1, 1, "GET", "/api/v1/pods", "", "", b""),
        Answer(at, 1, 200, {}, b"{}"),
        Resume(at, 1, False, True),
        End(end, 1, "done", None, None, 0.5, 0.0),
    ]


def written(path: Path, values: list[Any]) -> Path:
    writer = RecordingWriter(path)
    writer.put(values, [])
    writer.close()
    return path


def test_flat_rows_are_read_as_their_entries_with_the_time_since_the_start(tmp_path: Path) -> None:
    start = msgspec.structs.replace(START, clock=7.25)
    found = read_recording(written(tmp_path / "run", [start, Stop(3, "between"), *FLAT_ROWS, Stop(9, "end")]))
    assert found == [start, Stop(3, "between"), *flat_entries(250_000, 750_000), Stop(9, "end")]


def test_flat_rows_are_entries_before_they_are_written_too() -> None:
    part = Part()
    part.add([START, *FLAT_ROWS], [], bytearray())
    assert part.entries() == [START, *flat_entries(7_500_000, 8_000_000)]


@pytest.mark.parametrize("count", [1, 15, 16, 17, 200, 70_000])
def test_parts_of_any_size_are_one_array_in_the_file(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_file, "_BLOCK_SIZE", 1 << 30)
    writer = RecordingWriter(tmp_path / "run")
    writer.put([START], [])
    for first in (0, count):
        writer.put([More(first + number, 0) for number in range(count)], [])
    writer.close()
    assert len([*read_blocks(tmp_path / "run")]) == 1
    assert [one.at for one in read_recording(tmp_path / "run")[1:]] == [*range(2 * count)]


class Seen:
    """A cleaner that changes nothing: the paths and times that it has seen, by block."""

    def __init__(self) -> None:
        self.paths: list[list[str]] = []
        self.times: list[list[int]] = []

    def learn(self, parts: Sequence[Part]) -> None:
        self.paths += [list(one.paths) for one in parts]
        self.times += [[entry.at for entry in one.entries()] for one in parts]

    def clean(self, payload: memoryview) -> bytes | memoryview:
        return payload

    def finish(self, path: Path) -> None: ...


def test_memory_that_is_used_again_has_nothing_of_what_was_written_before(tmp_path: Path) -> None:
    seen = Seen()
    writer = RecordingWriter(tmp_path / "run", cleaner=seen)
    writer.put([START], ["/start"])
    expected = [[0]]
    for number, size in enumerate([3, 700, 20, 1, 90_000, 5, 400_000, 2, 30], 1):
        writer.seal()
        writer.write_pending()
        writer.put([Stop(number, "x" * size)], [f"/{number}"])
        writer.put([Stop(number + 100, "y")], [])
        expected.append([number, number + 100])
    writer.close()
    assert [one.at for one in read_recording(tmp_path / "run")] == [at for block in expected for at in block]
    assert [at for block in seen.times for at in block] == [at for block in expected for at in block]
    assert [path for block in seen.paths for path in block] == ["/start", *(f"/{number}" for number in range(1, 10))]


def test_entries_that_are_put_while_others_are_written_follow_them(tmp_path: Path) -> None:
    class Puts(Seen):
        def clean(self, payload: memoryview) -> bytes | memoryview:
            if len(self.times) < 20:
                writer.put([Stop(len(self.times), "meanwhile")], [])
                writer.seal()
            return payload

    writer = RecordingWriter(tmp_path / "run", cleaner=Puts())
    writer.put([START], [])
    writer.seal()
    writer.write_pending()
    writer.close()
    assert [one.at for one in read_recording(tmp_path / "run")] == [*range(20)]


def test_what_cannot_be_encoded_ends_the_recording_and_what_was_before_it_is_kept(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "run")
    writer.put([START], [])
    writer.seal()
    writer.write_pending()
    writer.put([Value(1, 1, "now", object())], [])
    assert writer.end_reason is not None
    assert "could not be written" in writer.end_reason
    writer.close(Stop(2, writer.end_reason))
    assert [type(one) for one in read_recording(tmp_path / "run")] == [Start, Stop]


@pytest.mark.parametrize(
    "values",
    [
        [*FLAT_ROWS[:-1]],
        [99, 1.0],
        [True],
        [2, 7.5, 0, "1", 5],
        [2, 7.5, 0, "1", [3]],
        [12, float("nan"), 1, "done", None, None, 0.5, 0.0],
        [12, float("inf"), 1, "done", None, None, 0.5, 0.0],
        [12, 1e300, 1, "done", None, None, 0.5, 0.0],
        [12, 1.0, "x", "done", None, None, 0.5, 0.0],
    ],
)
def test_a_crafted_row_is_refused_as_no_recording(values: list[Any], tmp_path: Path) -> None:
    with pytest.raises(BadObject, match="not a recording that this levelset can read"):
        read_recording(written(tmp_path / "run", [START, *values]))
