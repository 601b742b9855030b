"""Model test of LogStore: for any chunks and any LogOptions it returns what a simple model on lists returns."""

import asyncio
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from levelset.testing import run
from levelset_machine import LogOptions, LogStore

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
Chunks = Sequence[bytes]

TEXTS = st.lists(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\n", b"\r\n", b"\xff"]), max_size=6).map(b"".join))
COUNTS = st.none() | st.integers(0, 6)
OPTIONS = st.builds(
    LogOptions,
    follow=st.booleans(),
    tail=COUNTS,
    skip=COUNTS,
    limit_lines=st.none() | st.integers(1, 6),
    limit_bytes=st.none() | st.integers(1, 60),
    timestamps=st.booleans(),
    line_numbers=st.booleans(),
    since=st.none() | st.integers(0, 6).map(lambda seconds: NOON + timedelta(seconds=seconds)),
)


def model(before: Chunks, after: Chunks, options: LogOptions) -> bytes:
    """The expected output, with one chunk a second.

    A follower begins to read between `before` and `after`, any other reader at the end.
    """
    lines = list[tuple[int, datetime, bytes]]()
    held = b""
    there = 0
    for second, chunk in enumerate([*before, *after]):
        *whole, held = (held + chunk).split(b"\n")
        for text in whole:
            lines.append((len(lines) + 1, NOON + timedelta(seconds=second), text + b"\n"))
        there = len(lines) if second < len(before) else there
    if held:
        lines.append((len(lines) + 1, NOON + timedelta(seconds=len(before) + len(after)), held))
    if options.tail is not None:
        lines = lines[max(0, (there if options.follow else len(lines)) - options.tail) :]
    lines = [line for line in lines if line[0] > (options.skip or 0)]
    lines = [line for line in lines if options.since is None or line[1] >= options.since]
    answer = b"".join(written(line, options) for line in lines[: options.limit_lines])
    return answer[: options.limit_bytes]


def written(line: tuple[int, datetime, bytes], options: LogOptions) -> bytes:
    number, time, text = line
    prefix = b"%d " % number if options.line_numbers else b""
    return prefix + (time.strftime("%Y-%m-%dT%H:%M:%S.000Z ").encode() if options.timestamps else b"") + text


async def read_store(folder: str | None, before: Chunks, after: Chunks, options: LogOptions) -> bytes:
    """The output of a LogStore for the same reader."""
    second = [0]
    store = LogStore(folder, now=lambda: NOON + timedelta(seconds=second[0]))
    sink = store.open("web")
    for chunk in before:
        sink.write(chunk)
        second[0] += 1
    following = asyncio.create_task(output(store, options)) if options.follow else None
    await asyncio.sleep(1)
    for chunk in after:
        sink.write(chunk)
        second[0] += 1
        await asyncio.sleep(0)
    sink.close()
    return await (following or output(store, options))


async def output(store: LogStore, options: LogOptions) -> bytes:
    return b"".join([chunk async for chunk in store.read("web", options)])


@given(TEXTS, TEXTS, OPTIONS)
@example([b"a\nb"], [b"c\n"], LogOptions(follow=True, tail=0))
def test_a_log_in_memory_reads_as_the_model(before: Chunks, after: Chunks, options: LogOptions) -> None:
    assert run(read_store(None, before, after, options)) == model(before, after, options)


@settings(max_examples=25)
@given(TEXTS, TEXTS, OPTIONS)
def test_a_log_in_a_file_reads_as_the_model(before: Chunks, after: Chunks, options: LogOptions) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert run(read_store(folder, before, after, options)) == model(before, after, options)
