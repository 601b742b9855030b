"""Unions of classes that a tag tells apart, as far as a structural schema can say them."""

from collections.abc import Sequence
from typing import Any

from levelset.codegen.hints import Place, Schema

__all__ = ["variants_schema"]


def variants_schema(models: Sequence[type[Any]], schemas: Sequence[Schema], place: Place) -> Schema:
    """One object with the members of all variants; which of them must be there depends on the tag.

    A structural schema names every member once, outside of the alternatives: variants that give one name to two
    different things have none.
    """
    tags = {model.__struct_config__.tag_field for model in models}
    if len(tags) != 1 or None in tags:
        names = " | ".join(model.__name__ for model in models)
        raise place.refuse(f"{names} cannot be told apart; give each a tag: class A(Model, tag=True, tag_field='type')")
    (tag,) = tags
    values = [model.__struct_config__.tag for model in models]
    merged: Schema = {tag: {"type": "string", "enum": values}}
    for model, schema in zip(models, schemas, strict=True):
        _refuse_rules(model, schema, place)
        for name, child in schema["properties"].items():
            if name != tag and merged.setdefault(name, _shared(name, child, schemas)) != _shared(name, child, schemas):
                raise place.refuse(f"{name} of {model.__name__} has another schema than in another variant; rename one")
    branches = [
        {"properties": {tag: {"enum": [value]}}, "required": list(schema.get("required", ()))}
        for value, schema in zip(values, schemas, strict=True)
    ]
    return {"type": "object", "required": [tag], "properties": merged, "oneOf": branches}


def _shared(name: str, child: Schema, schemas: Sequence[Schema]) -> Schema:
    """A member as all variants have it: the default of one variant would be filled in for the others too."""
    if all(name in one["properties"] for one in schemas):
        return child
    return {keyword: value for keyword, value in child.items() if keyword != "default"}


def _refuse_rules(model: type[Any], schema: Schema, place: Place) -> None:
    """A rule of one variant would be asked of all of them."""
    if "x-kubernetes-validations" in schema:
        raise place.refuse(
            f"the rules of {model.__name__} would hold for every variant; put them where the union stands"
        )
