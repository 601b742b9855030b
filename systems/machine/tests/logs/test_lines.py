"""Stored log lines: any text is decoded as it was encoded, wherever the chunks are cut."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from levelset_machine.logs.lines import Line, LineSplitter, decode_line, encode_line, stamp

NOON = datetime(2026, 1, 31, 12, 0, 0, 123999, tzinfo=UTC)


def test_a_stored_line_begins_with_its_number_and_its_time_to_the_millisecond() -> None:
    assert encode_line(7, stamp(NOON), b"hello") == b"7 2026-01-31T12:00:00.123Z hello\n"


def test_times_of_other_zones_are_stored_in_utc() -> None:
    assert stamp(NOON.astimezone(timezone(timedelta(hours=5)))) == b"2026-01-31T12:00:00.123Z"


@given(st.binary().filter(lambda text: b"\n" not in text), st.integers(1, 10**17), st.booleans())
def test_any_line_is_decoded_as_it_was_encoded(text: bytes, number: int, is_open: bool) -> None:
    stored = encode_line(number, stamp(NOON), text, is_open=is_open)
    [piece] = [*(splitter := LineSplitter()).add(stored), *splitter.end()]
    assert decode_line(piece, 0) == Line(text, number, b"2026-01-31T12:00:00.123Z", is_open=is_open)


def test_a_damaged_line_becomes_text_with_the_next_number() -> None:
    assert decode_line(Line(b"12 2026-"), 13) == Line(b"12 2026-", 13)


@given(st.lists(st.binary()), st.integers(1, 5))
def test_the_pieces_are_the_whole_text_and_never_exceed_the_limit(chunks: list[bytes], longest: int) -> None:
    splitter = LineSplitter(longest)
    found = [piece for chunk in chunks for piece in splitter.add(chunk)] + list(splitter.end())
    assert b"".join(one.text + (b"" if one.is_open else b"\n") for one in found) == b"".join(chunks)
    assert all(len(one.text) <= longest for one in found)


@given(st.lists(st.binary()), st.integers(1, 5))
def test_each_line_has_exactly_one_first_piece(chunks: list[bytes], longest: int) -> None:
    splitter = LineSplitter(longest)
    found = [piece for chunk in chunks for piece in splitter.add(chunk)] + list(splitter.end())
    whole, rest = (text := b"".join(chunks)).count(b"\n"), not text.endswith(b"\n") and text != b""
    assert sum(not one.is_rest for one in found) == whole + rest
