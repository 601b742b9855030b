from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.storage.grpc import http2_frames as http2
from levelset.storage.grpc.http2_frames import Frame, FrameReader, ProtocolFailed

frames = st.lists(
    st.builds(Frame, st.integers(0, 9), st.integers(0, 255), st.integers(0, 2**31 - 1), st.binary(max_size=300)),
    max_size=8,
)


@given(sent=frames, cuts=st.lists(st.integers(0, 3000), max_size=10))
def test_frames_are_the_same_however_their_bytes_are_cut(sent: list[Frame], cuts: list[int]):
    data = b"".join(http2.frame(*one) for one in sent)
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    reader, found = FrameReader(), list[Frame]()
    for start, end in pairwise(borders):
        found += reader.feed(data[start:end])
    assert found == sent


def test_a_frame_may_have_16384_bytes_and_not_one_more():
    content = bytes(16_384)
    assert list(FrameReader().feed(http2.frame(http2.DATA, 0, 1, content))) == [Frame(http2.DATA, 0, 1, content)]
    with pytest.raises(ProtocolFailed, match="a frame of 16385 bytes is too long"):
        list(FrameReader().feed(http2.frame(http2.DATA, 0, 1, content + b"x")[:9]))


def test_the_reserved_bit_of_a_stream_is_not_part_of_its_number():
    assert next(FrameReader().feed(http2.frame(http2.DATA, 0, 2**31 + 5, b""))).stream == 5


@pytest.mark.parametrize(
    ("kind", "flags", "payload", "content"),
    [
        (http2.DATA, 0, b"\x02abcd", b"\x02abcd"),
        (http2.DATA, 0x8, b"\x02abcd", b"ab"),
        (http2.DATA, 0x8, b"\x04abcd", b""),
        (http2.DATA, 0x20, b"abcdef", b"abcdef"),
        (http2.HEADERS, 0x20, b"12345abc", b"abc"),
        (http2.HEADERS, 0x28, b"\x01" + b"12345abc", b"ab"),
    ],
)
def test_padding_and_priorities_are_not_content(kind: int, flags: int, payload: bytes, content: bytes):
    assert http2.payload_without_padding(Frame(kind, flags, 1, payload)) == content


@pytest.mark.parametrize(
    ("kind", "flags", "payload"), [(http2.DATA, 0x8, b""), (http2.DATA, 0x8, b"\x05abcd"), (http2.HEADERS, 0x20, b"1")]
)
def test_padding_that_is_longer_than_its_frame_is_refused(kind: int, flags: int, payload: bytes):
    with pytest.raises(ProtocolFailed):
        http2.payload_without_padding(Frame(kind, flags, 1, payload))


@given(block=st.binary(min_size=1, max_size=100), longest=st.integers(1, 40))
def test_a_long_block_is_continued_and_only_its_last_frame_ends_it(block: bytes, longest: int):
    sent = list(FrameReader().feed(http2.header_frames(7, block, longest=longest)))
    assert b"".join(one.payload for one in sent) == block
    assert all(len(one.payload) <= longest and one.stream == 7 for one in sent)
    assert [one.kind for one in sent] == [http2.HEADERS, *[http2.CONTINUATION] * (len(sent) - 1)]
    assert [one.flags for one in sent] == [*[0] * (len(sent) - 1), http2.END_HEADERS]


def test_settings_are_pairs_of_numbers():
    (one,) = FrameReader().feed(http2.settings([(1, 0), (4, 2**31 - 1)]))
    assert (one.kind, one.stream, http2.read_settings(one.payload)) == (http2.SETTINGS, 0, [(1, 0), (4, 2**31 - 1)])
    with pytest.raises(ProtocolFailed, match="odd length"):
        http2.read_settings(one.payload[:-1])
