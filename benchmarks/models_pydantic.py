"""The same kinds for pydantic, made from the levelset classes so that both have the same fields."""

import types
import typing
from typing import Any, Optional, Union, get_args, get_origin, get_type_hints

import msgspec
from pydantic import BaseModel, ConfigDict, create_model

import models_levelset
from levelset.kinds import core_v1
from levelset.objects import ManagedFieldsEntry, ObjectMeta, Quantity

__all__ = ["Pod", "Website"]

_made: dict[type, type[BaseModel]] = {}


def model_of(struct: type[msgspec.Struct]) -> type[BaseModel]:
    """A pydantic model with the wire names and types of a struct; managed fields as plain trees."""
    if struct not in _made:
        hints = get_type_hints(struct)
        fields: dict[str, Any] = {}
        for field in msgspec.structs.fields(struct):
            hint = hints[field.name]
            is_generic = isinstance(hint, typing.TypeVar) or bool(getattr(hint, "__parameters__", ()))
            default = ... if field.required else None
            kind = _translated(field.type if is_generic else hint)
            fields[field.encode_name] = (kind if field.required else Optional[kind], default)
        _made[struct] = create_model(struct.__name__, __config__=ConfigDict(protected_namespaces=()), **fields)
    return _made[struct]


def _translated(kind: Any) -> Any:
    if kind is msgspec.Raw:
        return dict[str, Any]
    if kind is Quantity:
        return str  # a text is less work than what levelset does
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return model_of(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return list[_translated(arguments[0])]
    if origin is dict:
        return dict[_translated(arguments[0]), _translated(arguments[1])]
    if origin in (types.UnionType, Union):
        return Union[tuple(_translated(one) for one in arguments)]
    return kind


model_of(ManagedFieldsEntry)
model_of(ObjectMeta)
Website = model_of(models_levelset.Website)
Pod = model_of(core_v1.Pod)
