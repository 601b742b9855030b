"""Schemas with many members: compiled part by part, with the same results, and charged to the step budget."""

import copy
from random import Random
from typing import Any

import pytest

from levelset.apiserver.schema import Compiled, compile_schema
from levelset.apiserver.schema.schema_nodes import read_schema
from levelset.apiserver.schema.validation import Definitions
from levelset.apiserver.schema.validator_code import CodeGenerator
from levelset.re2.step_budget import StepsExceeded, within

PATTERNS = {f"p{at}": {"type": "string", "pattern": f"^a{at}[0-9]+$"} for at in range(150)}
MEMBERS: list[dict[str, Any]] = [
    {"type": "string", "maxLength": 3},
    {"type": "integer", "default": 7},
    {"type": "array", "items": {"type": "integer", "maximum": 5}},
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "boolean", "default": True}}},
    {"type": "string", "nullable": True},
]


def wide(count: int, **keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{at}": MEMBERS[at % 5] for at in range(count)}, **keywords}


def compiled(schema: dict[str, Any], *, is_quick: bool = True) -> Compiled:
    made = Compiled(read_schema(schema), Definitions(), resource=False)
    if not is_quick:
        made._admits = made._checks = lambda _: False
    return made


def some_object(random: Random, count: int) -> dict[str, Any]:
    values = ["x", "long text", 1, None, [1], [9], {"a": "x"}, {"c": 1}, True]
    fitting: list[Any] = ["x", 3, [1, 2], {"a": "x"}, None]
    names = random.sample(range(count + (random.random() < 0.3)), random.randint(0, count))
    is_valid = random.random() < 0.6
    return {f"p{at}": copy.deepcopy(fitting[at % 5] if is_valid else random.choice(values)) for at in names}


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"required": ["p0", "p150"]},
        {"required": [f"q{at}" for at in range(100)]},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"anyOf": [{"required": [f"p{at}"]} for at in range(100)]},
    ],
    ids=lambda keywords: next(iter(keywords), "plain"),
)
def test_a_schema_of_many_members_agrees_with_the_thorough_code(keywords: dict[str, Any]) -> None:
    schema, random = wide(300, **keywords), Random(1)
    quick, thorough = compiled(schema), compiled(schema, is_quick=False)
    for _ in range(15):
        one = some_object(random, 300)
        other = copy.deepcopy(one)
        assert quick.validate(one) == thorough.validate(other)
        assert quick.admit(one) == thorough.admit(other)
        assert one == other


def test_a_valid_object_of_many_members_needs_no_thorough_code() -> None:
    quick = compiled(wide(300, required=["p0"]))
    assert quick.accepts({"p0": "x", "p299": None})
    assert not quick.accepts({"p0": "x", "other": 1})
    assert not quick.accepts({})


def test_compiling_is_charged_and_continues_where_it_ended() -> None:
    schema, tree = compiled(wide(1_000)), {f"p{at}": "x" for at in range(0, 1_000, 5)}
    attempts = 0
    while attempts < 200:
        attempts += 1
        try:
            assert within(100_000, lambda: schema.accepts(copy.deepcopy(tree)))
            break
        except StepsExceeded:
            continue
    assert 2 < attempts < 60


def test_reading_stored_objects_compiles_a_little_at_a_time() -> None:
    schema = compiled(wide(2_000))
    for _ in range(3):
        tree = {"p0": "x", "other": 1}
        schema.load(tree)
        assert tree["p1"] == 7
        assert "other" not in tree


@pytest.mark.parametrize(
    ("schema", "tree"),
    [
        ({"type": "object", "properties": PATTERNS}, {f"p{at}": f"a{at}1" for at in range(150)}),
        (wide(2_000), {f"p{at}": "x" for at in range(0, 2_000, 5)}),
    ],
    ids=["patterns", "wide"],
)
def test_attempts_that_have_too_few_steps_leave_nothing_behind(schema: dict[str, Any], tree: dict[str, Any]) -> None:
    made = compiled(schema)
    made.load(dict(tree))
    names = len(made._definitions.generator._space)
    for _ in range(20):
        made.load(dict(tree))
    assert len(made._definitions.generator._space) <= names


def test_an_attempt_with_no_more_steps_than_a_failed_one_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    made, text = compiled({"type": "object", "properties": PATTERNS}), {"p1": "a11"}
    written = list[object]()
    write = CodeGenerator._written

    def count(generator: CodeGenerator, one: Any) -> list[str]:
        written.append(one)
        return write(generator, one)

    monkeypatch.setattr(CodeGenerator, "_written", count)
    for steps, attempts in ((20_000, 1), (20_000, 1), (10_000, 1), (30_000, 2)):
        with pytest.raises(StepsExceeded):
            within(steps, lambda: made.accepts(dict(text)))
        assert len(written) == attempts
    assert within(2_000_000, lambda: made.accepts(dict(text)))


def test_a_definition_that_a_failed_attempt_refers_to_stays() -> None:
    schemas = {"a.B": {"type": "object", "properties": {"x": {"type": "string"}}}}
    definitions = Definitions(schemas)
    wide_one = {"type": "object", "properties": {f"p{at}": {"$ref": "#/components/schemas/a.B"} for at in range(150)}}
    one = compile_schema(wide_one, definitions=definitions)
    with pytest.raises(StepsExceeded):
        within(1_000, lambda: one.accepts({"p1": {"x": "y"}}))
    other = compile_schema({"type": "object", "properties": {"p": {"$ref": "a.B"}}}, definitions=definitions)
    assert other.accepts({"p": {"x": "y"}})
    assert one.accepts({"p1": {"x": "y"}})
