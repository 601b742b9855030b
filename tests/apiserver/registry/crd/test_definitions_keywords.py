from typing import Any

from levelset.apiserver.registry.crd.definitions import drop_unknown_keywords


def test_unknown_keywords_are_dropped_below_items_and_additional_properties() -> None:
    inner = {"type": "string", "Odd": 1}
    schema: dict[str, Any] = {
        "properties": {"list": {"items": {"properties": {"a": dict(inner)}, "Odd": 1}}, "Odd": {"type": "string"}},
        "anyOf": [{"additionalProperties": dict(inner)}],
        "not": {"items": [dict(inner)]},
    }
    drop_unknown_keywords(schema)
    assert schema == {
        "properties": {"list": {"items": {"properties": {"a": {"type": "string"}}}}, "Odd": {"type": "string"}},
        "anyOf": [{"additionalProperties": {"type": "string"}}],
        "not": {"items": [{"type": "string"}]},
    }


def test_unknown_keywords_of_other_schemas_are_not_touched_here() -> None:
    schema = {"properties": {"a": {"type": "string", "Odd": 1}}, "additionalProperties": True}
    drop_unknown_keywords(schema)
    assert schema == {"properties": {"a": {"type": "string", "Odd": 1}}, "additionalProperties": True}
