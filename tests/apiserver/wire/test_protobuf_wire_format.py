import pytest

from levelset.apiserver.wire.protobuf import BYTES, VARINT, read_fields, signed, write_bytes, write_varint
from levelset.errors import BadObject


def test_fields_are_read_in_order_with_their_values() -> None:
    data = write_varint(1 << 3) + write_varint(300) + write_bytes(2, b"abc") + b"\x19" + b"\x01" * 8 + b"\x25abcd"
    found = list(read_fields(data))
    assert found == [(1, VARINT, 300), (2, BYTES, b"abc"), (3, 1, b"\x01" * 8), (4, 5, b"abcd")]


@pytest.mark.parametrize("number", [0, 1, -1, 127, 128, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
def test_64_bit_integers_are_preserved(number: int) -> None:
    ((_, _, value),) = read_fields(b"\x08" + write_varint(number))
    assert isinstance(value, int)
    assert signed(value, 64) == number


def test_bits_above_32_are_truncated() -> None:
    assert signed(2**32 + 5, 32) == 5
    assert signed(2**64 - 1, 32) == -1


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x0e", id="no such way of writing"),
        pytest.param(b"\x08", id="the number is missing"),
        pytest.param(b"\x08" + b"\xff" * 11, id="a number without end"),
        pytest.param(b"\x12\x05abc", id="fewer bytes than said"),
        pytest.param(b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", id="a length beyond all bounds"),
        pytest.param(b"\x00\x00", id="field zero"),
        pytest.param(b"\x09abc", id="eight bytes break off"),
    ],
)
def test_malformed_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(BadObject):
        list(read_fields(data))
