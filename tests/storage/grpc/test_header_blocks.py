from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.storage.grpc.header_blocks import decode_block, encode_block, encode_timeout
from levelset.storage.grpc.http2_frames import ProtocolFailed

hpack: Any = import_module("hpack")
HEADERS = [(":method", "POST"), (":path", "/etcdserverpb.KV/Txn"), ("te", "trailers"), ("token", "s3cr3t")]
names = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20)
values = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)


@given(headers=st.lists(st.tuples(names, values), max_size=8))
def test_a_request_block_is_read_in_the_same_way_again_and_again(headers: list[tuple[str, str]]):
    block, server = encode_block(headers), hpack.Decoder()
    for _ in range(2):
        assert server.decode(block) == headers
    assert server.header_table.dynamic_entries == type(server.header_table.dynamic_entries)()


@given(seconds=st.floats(0, 1e9))
def test_the_timeout_of_a_call_is_at_least_a_millisecond_and_has_at_most_eight_digits(seconds: float):
    ((name, value),) = hpack.Decoder().decode(encode_timeout(seconds))
    assert name == "grpc-timeout"
    assert value == f"{min(max(int(seconds * 1000), 1), 99_999_999)}m"


@given(headers=st.dictionaries(names, values, max_size=8), huffman=st.booleans())
def test_a_response_block_of_an_encoder_without_a_table_is_read(headers: dict[str, str], huffman: bool):
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    for _ in range(2):  # the first one says that the table has no bytes
        block = encoder.encode(headers.items(), huffman=huffman)
        assert decode_block(block) == {name.encode(): value.encode() for name, value in headers.items()}


def test_a_block_that_needs_a_table_is_refused():
    encoder = hpack.Encoder()
    encoder.encode([("grpc-status", "0")])
    with pytest.raises(ProtocolFailed, match="a header block cannot be read"):
        decode_block(encoder.encode([("grpc-status", "0")]))


@given(block=st.binary(max_size=200))
def test_bytes_that_are_no_block_are_refused_and_nothing_else_happens(block: bytes):
    try:
        decode_block(block)
    except ProtocolFailed as failure:
        assert failure.code == 0x9


def test_a_bomb_of_headers_is_refused():
    with pytest.raises(ProtocolFailed):
        decode_block(encode_block([("a", "")] * 2_100))  # each counts 32 bytes more
