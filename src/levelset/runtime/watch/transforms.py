"""Transforms: change the JSON of objects before they are cached, for example to drop fields.

A transform takes the JSON of an object and returns other JSON. It is applied once to each object of a list or watch,
before anything is cached, so dropped fields take no memory. It must be deterministic and must not change the name,
namespace, uid and resourceVersion.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from levelset.client.lists import Transform
from levelset.client.object_types import Kind, view_of
from levelset.errors import BadObject, ConfigError
from levelset.objects import codec
from levelset.objects.cached_object import decode_head
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.unstructured import Unstructured

__all__ = ["compose_transforms", "guard_transform", "typed_transform", "without_fields"]

K = TypeVar("K")

_NEEDED: Final = frozenset({"name", "namespace", "uid", "resourceVersion"})


def without_fields(*paths: str) -> Transform:
    """A transform that drops fields: `without_fields("metadata.managedFields", "data")`.

    A path goes through lists into each of their elements (`spec.containers.env`); missing fields are ignored.
    ConfigError for fields that a cache needs.
    """
    split = [path.split(".") for path in paths]
    for path in split:
        if path in (["metadata"], ["apiVersion"], ["kind"]) or (path[0] == "metadata" and path[1:2][0] in _NEEDED):
            raise ConfigError(f"{'.'.join(path)} cannot be dropped: a cache needs it to identify an object")
    names = [f'"{path[-1]}"'.encode() for path in split]

    def transform(raw: bytes) -> bytes:
        if not any(name in raw for name in names):
            return raw
        tree = codec.decode_tree(raw)
        for path in split:
            _drop(tree, path)
        return codec.encode_tree(tree)

    return transform


def typed_transform(kind: Kind[K], function: Callable[[K], K]) -> Transform:
    """A transform from a function on typed objects; fields that their class does not know stay as they are."""
    view = view_of(kind)

    def transform(raw: bytes) -> bytes:
        made: Any = function(view.read(raw))
        return codec.encode_tree(made.tree) if isinstance(made, Unstructured) else codec.encode(made)

    return transform


def compose_transforms(transforms: Sequence[Transform]) -> Transform | None:
    """One transform that applies all of them in order; None if there are none."""
    if len(transforms) < 2:
        return transforms[0] if transforms else None

    def transform(raw: bytes) -> bytes:
        for one in transforms:
            raw = one(raw)
        return raw

    return transform


def guard_transform(transform: Transform, report: Callable[[Exception], None]) -> Transform:
    """A transform that does not raise: if it fails for an object, the object stays unchanged and `report` is called.

    Dropping the object instead would make the cache wrong, which is worse than too large.
    """

    def safe(raw: bytes) -> bytes:
        try:
            return _same(raw, transform(raw))
        except Exception as error:  # noqa: BLE001 -- whatever a user's function raises
            problem = BadObject(f"the transform failed, so the object is cached unchanged: {error!r}")
            problem.__cause__ = error
            report(problem)
            return raw

    return safe


def _same(raw: bytes, made: bytes) -> bytes:
    """The transformed JSON; BadObject if it is not JSON of the same object."""
    if made is raw:
        return raw
    if not isinstance(made, bytes):  # a forgotten return
        raise BadObject(f"it returned {type(made).__name__} instead of bytes")
    if _identity(made) != _identity(raw):
        raise BadObject("it changed the name, namespace, uid or resourceVersion")
    return made


def _identity(raw: bytes) -> tuple[object, ...]:
    head = decode_head(raw)
    return head.name, head.namespace, head.uid, head.resource_version


def _drop(tree: Any, path: Sequence[str]) -> None:
    if is_list(tree):
        for element in tree:
            _drop(element, path)
    elif is_map(tree):
        if len(path) == 1:
            tree.pop(path[0], None)
        elif path[0] in tree:
            _drop(tree[path[0]], path[1:])
