"""Formats of texts."""

import pytest

from levelset.apiserver.schema.formats import is_quantity, text_format

FITTING = {
    "date-time": ["2020-01-02T03:04:05Z", "2020-01-02t03:04:05.123456z", "2020-01-02T03:04:05+02:00"],
    "date": ["2020-02-29"],
    "duration": ["1h30m", "5s", "22 ns", "1.5h", "0"],
    "ipv4": ["1.2.3.4"],
    "ipv6": ["::1", "fe80::1"],
    "cidr": ["10.0.0.0/8", "10.1.2.3/8", "::/0"],
    "uuid": ["7c0ff9a1-0000-4000-8000-000000000001", "7C0FF9A1000040008000000000000001"],
    "uuid4": ["7c0ff9a1-0000-4000-8000-000000000001"],
    "byte": ["aGk="],
    "bytes": ["aGk=", ""],
    "uri": ["https://example.com/a?b#c", "/path"],
    "email": ["a@example.com", "A <a@example.com>"],
    "hostname": ["example.com", "a"],
    "mac": ["00:11:22:33:44:55", "00-11-22-33-44-55", "0011.2233.4455"],
    "isbn10": ["0321751043"],
    "isbn13": ["978-0321751041"],
    "isbn": ["0321751043"],
    "creditcard": ["4111 1111 1111 1111"],
    "ssn": ["111-11-1111"],
    "hexcolor": ["#fff", "00FF00"],
    "rgbcolor": ["rgb(1, 2, 255)"],
    "bsonobjectid": ["507f1f77bcf86cd799439011"],
    "k8s-short-name": ["a-b"],
    "k8s-long-name": ["a-b.c"],
}
OTHERS = {
    "date-time": ["yesterday", "2020-01-02", "2020-01-02T25:00:00Z", "2020-13-02T03:04:05Z", "2020-01-02T03:04:05"],
    "date": ["2020-13-45", "2021-02-29", "20200102", "2020-1-2"],
    "duration": ["soon", "", "5"],
    "ipv4": ["1.2.3", "::1", "1.2.3.400"],
    "ipv6": ["1.2.3.4", ":::"],
    "cidr": ["10.0.0.0", "10.0.0.0/33"],
    "uuid": ["nope"],
    "uuid4": ["7c0ff9a1-0000-3000-8000-000000000001"],
    "byte": ["a", "a b=", "äää=", ""],
    "bytes": ["a", "a b=", "äää="],
    "uri": ["no uri", "%zz", ""],
    "email": ["nobody"],
    "hostname": ["-a", "a..b", "a b"],
    "mac": ["00:11"],
    "isbn10": ["0321751044"],
    "isbn13": ["978-0321751042"],
    "isbn": ["1"],
    "creditcard": ["4111 1111 1111 1112", "1"],
    "ssn": ["1-1-1"],
    "hexcolor": ["#ggg"],
    "rgbcolor": ["rgb(1,2,256)", "red"],
    "bsonobjectid": ["x"],
    "k8s-short-name": ["A", "a.b", "-"],
    "k8s-long-name": ["a..b", "A"],
}


@pytest.mark.parametrize("name", FITTING)
def test_texts_that_have_a_format_pass(name: str) -> None:
    check = text_format(name)
    assert check is not None
    assert [text for text in FITTING[name] if not check(text)] == []


@pytest.mark.parametrize("name", OTHERS)
def test_texts_that_lack_a_format_fail(name: str) -> None:
    check = text_format(name)
    assert check is not None
    assert [text for text in OTHERS[name] if check(text)] == []


@pytest.mark.parametrize("name", ["my-format", "password", "", "int32"])
def test_an_unknown_format_accepts_everything(name: str) -> None:
    assert text_format(name) is None


def test_quantities_have_a_number_and_a_suffix() -> None:
    assert all(is_quantity(text) for text in ("1", "500m", "1.5Gi", "1e3", "-1", ".5", "1E", "+2k"))
    assert not any(is_quantity(text) for text in ("", "one", "1GiB", "1 Gi", "1mm", "."))
