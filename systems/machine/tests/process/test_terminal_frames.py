import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset_machine.process.terminal_frames import (
    MAX_PAYLOAD,
    BadFrame,
    FrameReader,
    FrameType,
    encode_frame,
    exit_frame,
    hello_frame,
    parse_size,
)


def test_frames_have_the_bytes_of_the_protocol() -> None:
    assert encode_frame(FrameType.OUTPUT, b"hi") == b"\x03\x02\x00\x00\x00hi"
    assert hello_frame(80, 24) == b'\x01\x29\x00\x00\x00{"version": 1, "width": 80, "height": 24}'
    assert exit_frame(-1) == b"\x06\x04\x00\x00\x00\xff\xff\xff\xff"


@given(st.lists(st.tuples(st.sampled_from(FrameType), st.binary(max_size=50))), st.integers(1, 20))
def test_frames_are_read_however_their_bytes_are_cut(frames: list[tuple[FrameType, bytes]], size: int) -> None:
    data, reader = b"".join(encode_frame(*one) for one in frames), FrameReader()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert [one for piece in pieces for one in reader.add(piece)] == frames


def test_a_frame_that_is_too_large_is_refused_by_its_head() -> None:
    with pytest.raises(BadFrame):
        list(FrameReader().add(b"\x04" + (MAX_PAYLOAD + 1).to_bytes(4, "little")))


@pytest.mark.parametrize("payload", [b"", b"\x01\x00\x00\x00", bytes(8), b"\x01\x00\x00\x00\x00\x00\x01\x00", bytes(9)])
def test_what_is_no_size_is_ignored(payload: bytes) -> None:
    assert parse_size(payload) is None


def test_a_size_is_columns_and_rows() -> None:
    assert parse_size(b"\x78\x00\x00\x00\x28\x00\x00\x00") == (120, 40)
