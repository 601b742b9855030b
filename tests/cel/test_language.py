"""The language itself: literals, operators, macros, and how errors are swallowed."""

import pytest

from levelset.cel.values import Duration, Named, Uint
from tests.cel.evaluation import evaluate, failure

VALUES = [
    # literals
    ("0x1F", 31),
    ("-0xA", -10),
    ("-9223372036854775808", -(2**63)),
    ("12u", Uint(12)),
    ("1e3", 1000.0),
    (".5", 0.5),
    (r"'a\n\x41\u00e9\U0001F600\101'", "a\nAé😀A"),
    (r"r'a\n'", "a\\n"),
    ("'''it's\ntwo lines'''", "it's\ntwo lines"),
    (r"b'\xff\001a'", b"\xff\x01a"),
    ("null", None),
    ("[1, 2,]", [1, 2]),
    ("{'a': 1}", {"a": 1}),
    ("// a comment\n1", 1),
    # arithmetic
    ("7 / -2", -3),
    ("-7 % 3", -1),
    ("2 + 3 * 4", 14),
    ("(2 + 3) * 4", 20),
    ("5u - 3u", Uint(2)),
    ("1.0 / 0.0 > 1e308", True),
    ("'a' + 'b'", "ab"),
    ("[1] + [2]", [1, 2]),
    # comparison
    ("dyn(1) == dyn(1.0)", True),
    ("dyn(1) == dyn(true)", False),
    ("dyn(1u) == dyn(1)", True),
    ("dyn([1, 2]) == dyn([dyn(1.0), dyn(2u)])", True),
    ("dyn({'a': 1}) == dyn({'a': 1.0})", True),
    ("1 < 1.5", True),
    ("2u > 1", True),
    ("'abc' < 'abd'", True),
    ("b'a' < b'b'", True),
    ("false < true", True),
    ("1 in [1, 2]", True),
    ("'a' in {'a': null}", True),
    ("dyn(1) in [dyn(1.0)]", True),
    # selection
    ("self.b.c", "d"),
    ("self['b']['c']", "d"),
    ("has(self.a)", True),
    ("has(self.z)", False),
    ("self.?z.orValue(5)", 5),
    ("self.?b.c.orValue('none')", "d"),
    ("self[?'a'].hasValue()", True),
    ("l[?9].hasValue()", False),
    ("[dyn(1), ?self.?a, ?self.?z]", [1, 1]),
    ("{'k': dyn(1), ?'z': self.?z}", {"k": 1}),
    # errors are swallowed where something else decides
    ("false && 1 / 0 > 0", False),
    ("1 / 0 > 0 && false", False),
    ("true || self.z", True),
    ("self.z || true", True),
    ("[0, 1].exists(i, 1 / i == 1)", True),
    ("[0, 2].all(i, 1 / i == 1)", False),
    ("true ? 1 : 1 / 0", 1),
    ("optional.of(1).orValue(1 / 0)", 1),
    # macros
    ("[1, 2].all(i, i > 0)", True),
    ("[1, 2].exists_one(i, i == 2)", True),
    ("[1, 2, 2].exists_one(i, i == 2)", False),
    ("[1, 2].map(i, i * 2)", [2, 4]),
    ("[1, 2].map(i, i > 1, i * 2)", [4]),
    ("m.filter(k, m[k] > 1)", ["c"]),
    ("m.all(k, v, v > 0 && k != 'z')", True),
    ("[5, 6].exists(i, v, i == 1 && v == 6)", True),
    ("[5, 6].transformList(i, v, i * v)", [0, 6]),
    ("[5, 6].transformList(i, v, i > 0, v)", [6]),
    ("m.transformMap(k, v, v + 1)", {"a": 2, "c": 4}),
    ("m.transformMapEntry(k, v, {string(v): k})", {"1": "a", "3": "c"}),
    ("optional.of(2).optMap(i, i * 2).value()", 4),
    ("optional.none().optMap(i, i).hasValue()", False),
    ("optional.of([1]).optFlatMap(i, i[?0]).value()", 1),
    ("[3, 1].sortBy(i, i)", [1, 3]),
    # types
    ("type(1) == int", True),
    ("type('a')", Named("string")),
    ("type(timestamp('2020-01-01T00:00:00Z')) == google.protobuf.Timestamp", True),
    ("type(self.a) == string ? 'text' : 'number'", "number"),
    ("duration('1m') + duration('1s')", Duration(61 * 10**9)),
]


@pytest.mark.parametrize(("text", "value"), VALUES, ids=[text for text, _ in VALUES])
def test_an_expression_has_its_value(text: str, value: object) -> None:
    found = evaluate(text)
    assert found == value
    assert type(found) is type(value)


FAILURES = [
    ("self.z", "no such key: z"),
    ("m['zz']", "no such key: zz"),
    ("l[5]", "index out of bounds: 5"),
    ("l[-1]", "index out of bounds: -1"),
    ("9223372036854775807 + 1", "integer overflow"),
    ("-9223372036854775808 - 1", "integer overflow"),
    ("x * 9223372036854775807", "integer overflow"),
    ("-(-9223372036854775808)", "integer overflow"),
    ("1u - 2u", "unsigned integer overflow"),
    ("1 / 0", "division by zero"),
    ("1 % 0", "modulus by zero"),
    ("dyn('a') + 1", "no such overload"),
    ("dyn('a') < 1", "no such overload"),
    ("dyn('a') && true", "no such overload"),
    ("1 / 0 > 0 && true", "division by zero"),
    ("[0].exists(i, 1 / i == 1)", "division by zero"),
    ("0.0 / 0.0 < 1.0", "NaN values cannot be ordered"),
    ("optional.none().value()", "optional.none() dereference"),
    ("{'a': 1, 'a': 2}", "Failed with repeated key: a"),
    ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
]


@pytest.mark.parametrize(("text", "message"), FAILURES, ids=[text for text, _ in FAILURES])
def test_an_expression_without_a_value_gives_the_reason(text: str, message: str) -> None:
    assert failure(text) == message


def test_a_wrong_type_behind_a_declared_one_is_an_error_of_the_expression() -> None:
    assert failure("s.startsWith('a')", s=5) == "no such overload"
