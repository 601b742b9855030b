"""Log lines as they are kept: what goes in comes out, whatever it is, and wherever it is cut."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from levelset_machine.loglines import Line, Pieces, keep_line, kept_line, stamp

NOON = datetime(2026, 1, 31, 12, 0, 0, 123999, tzinfo=UTC)


def test_a_kept_line_begins_with_its_number_and_its_time_to_the_millisecond() -> None:
    assert keep_line(7, stamp(NOON), b"hello") == b"7 2026-01-31T12:00:00.123Z hello\n"


def test_times_of_other_zones_are_kept_in_utc() -> None:
    assert stamp(NOON.astimezone(timezone(timedelta(hours=5)))) == b"2026-01-31T12:00:00.123Z"


@given(st.binary().filter(lambda text: b"\n" not in text), st.integers(1, 10**17), st.booleans())
def test_whatever_is_kept_is_found_again(text: bytes, number: int, is_open: bool) -> None:
    kept = keep_line(number, stamp(NOON), text, is_open=is_open)
    [piece] = [*(pieces := Pieces()).add(kept), *pieces.end()]
    assert kept_line(piece, 0) == Line(text, number, b"2026-01-31T12:00:00.123Z", is_open=is_open)


def test_a_damaged_line_is_a_text_with_the_next_number() -> None:
    assert kept_line(Line(b"12 2026-"), 13) == Line(b"12 2026-", 13)


@given(st.lists(st.binary()), st.integers(1, 5))
def test_pieces_say_everything_once_and_are_never_too_long(chunks: list[bytes], longest: int) -> None:
    pieces = Pieces(longest)
    found = [piece for chunk in chunks for piece in pieces.add(chunk)] + list(pieces.end())
    assert b"".join(one.text + (b"" if one.is_open else b"\n") for one in found) == b"".join(chunks)
    assert all(len(one.text) <= longest for one in found)


@given(st.lists(st.binary()), st.integers(1, 5))
def test_each_line_has_exactly_one_piece_that_is_no_rest(chunks: list[bytes], longest: int) -> None:
    pieces = Pieces(longest)
    found = [piece for chunk in chunks for piece in pieces.add(chunk)] + list(pieces.end())
    whole, rest = (text := b"".join(chunks)).count(b"\n"), not text.endswith(b"\n") and text != b""
    assert sum(not one.is_rest for one in found) == whole + rest
